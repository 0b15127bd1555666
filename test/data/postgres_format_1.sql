CREATE SCHEMA format_1;
CREATE TABLE format_1.agents (
    agent_id text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    last_sequence bigint NOT NULL,
    next_message bigint NOT NULL,
    next_object bigint NOT NULL,
    scopes bigint NOT NULL,
    sweeps bigint NOT NULL,
    changes bigint NOT NULL,
    has_garbage boolean NOT NULL,
    checksum bytea NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE format_1.checkpoints (
    agent_id text NOT NULL COLLATE pg_catalog."C",
    agent bigint NOT NULL,
    sequence bigint NOT NULL,
    scope text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    iteration bigint NOT NULL,
    created_at bigint NOT NULL,
    messages bigint NOT NULL,
    metadata bytea NOT NULL,
    chain bytea NOT NULL,
    body bytea NOT NULL,
    pinned boolean NOT NULL,
    stored_bytes bigint NOT NULL,
    content_bytes bigint NOT NULL,
    checksum bytea NOT NULL
);
CREATE TABLE format_1.erased_agents (
    agent_id text NOT NULL COLLATE pg_catalog."C",
    agent bigint NOT NULL
);
CREATE TABLE format_1.format (
    version bigint NOT NULL
);
CREATE TABLE format_1.messages (
    agent_id text NOT NULL COLLATE pg_catalog."C",
    agent bigint NOT NULL,
    first bigint NOT NULL,
    count bigint NOT NULL,
    bytes bigint NOT NULL,
    digests bytea NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE ONLY format_1.messages ALTER COLUMN agent_id SET STORAGE PLAIN;
ALTER TABLE ONLY format_1.messages ALTER COLUMN digests SET STORAGE PLAIN;
ALTER TABLE ONLY format_1.messages ALTER COLUMN body SET STORAGE MAIN;
CREATE TABLE format_1.objects (
    agent_id text NOT NULL COLLATE pg_catalog."C",
    agent bigint NOT NULL,
    number bigint NOT NULL,
    bytes bigint NOT NULL,
    hash bytea NOT NULL,
    body bytea NOT NULL
);
CREATE TABLE format_1.scopes (
    agent_id text NOT NULL COLLATE pg_catalog."C",
    agent bigint NOT NULL,
    scope text NOT NULL COLLATE pg_catalog."C",
    checkpoints bigint NOT NULL,
    head bigint NOT NULL,
    steps bigint NOT NULL,
    checksum bytea NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE format_1.steps (
    agent_id text NOT NULL COLLATE pg_catalog."C",
    agent bigint NOT NULL,
    scope text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    checkpoint text COLLATE pg_catalog."C",
    made_on bigint NOT NULL,
    started_at bigint NOT NULL,
    result bytea,
    checksum bytea NOT NULL
);
INSERT INTO format_1.agents VALUES ('planner', 197437160590493833, 2, 3, 1, 1, 0, 0, false, '\x87bf06bbc8b253f1aa951149643135c6');
INSERT INTO format_1.checkpoints VALUES ('planner', 197437160590493833, 1, '', 'c1', NULL, '', 1, 1440000000000000, 1, '\x', '\x67a026df235628fcc73484ad7134179d5231439cee3e519cd301e7ee4ae85545', '\x000365010100', false, 241, 27, '\x0896eaa5f7ae8dcd374afd024bd49dc4');
INSERT INTO format_1.checkpoints VALUES ('planner', 197437160590493833, 2, '', 'c2', 'c1', '', 2, 1440003600000000, 2, '\x', '\xeb9dd59e5ea40d516c653dae5aa5ec9971ec5197fdc67fb217fc15140981d3b2', '\x000365010200', false, 236, 42, '\x01b7b2412161d6b78e6593ff689a1bdf');
INSERT INTO format_1.format VALUES (1);
INSERT INTO format_1.messages VALUES ('planner', 197437160590493833, 1, 1, 137, '\xe76906bf18092bde08ce9058ef4f005073ce952f599205c8aaa67b6328bbc6f1ea0b88c7e1928583', '\x7b226964223a226d31222c22726f6c65223a2275736572222c22636f6e74656e74223a2257686174206973207468652074696d653f222c2274696d657374616d70223a22323032362d31312d31385430323a31333a35372e3734333639345a227d');
INSERT INTO format_1.messages VALUES ('planner', 197437160590493833, 2, 1, 130, '\x4dcb4c712e09648fccfc4ce443cad61576b8ec55239dd3f12cbcdb2c27b2dbe5f8049692d83549ff', '\x7b226964223a226d32222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a224e6f6f6e2e222c2274696d657374616d70223a22323032362d31312d31385430323a31333a35372e3734383334345a227d');
INSERT INTO format_1.scopes VALUES ('planner', 197437160590493833, '', 2, 2, 2, '\xc9b1be95978d86f5bf3efab5ccc830a6');
INSERT INTO format_1.steps VALUES ('planner', 197437160590493833, '', 'pending', 'c1', 1, 1440000000000000, NULL, '\x2b9692f153971f2c633dba6cb19e2d82');
INSERT INTO format_1.steps VALUES ('planner', 197437160590493833, '', 'done', 'c2', 2, 1440003600000000, '\x2279657322', '\x30c084fc2c53dee9ef408920365c36e0');
ALTER TABLE ONLY format_1.agents
    ADD CONSTRAINT agents_pkey PRIMARY KEY (agent_id);
ALTER TABLE ONLY format_1.checkpoints
    ADD CONSTRAINT checkpoints_pkey PRIMARY KEY (agent_id, agent, sequence);
ALTER TABLE ONLY format_1.erased_agents
    ADD CONSTRAINT erased_agents_pkey PRIMARY KEY (agent_id, agent);
ALTER TABLE ONLY format_1.format
    ADD CONSTRAINT format_pkey PRIMARY KEY (version);
ALTER TABLE ONLY format_1.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (agent_id, agent, first);
ALTER TABLE ONLY format_1.objects
    ADD CONSTRAINT objects_pkey PRIMARY KEY (agent_id, agent, number);
ALTER TABLE ONLY format_1.scopes
    ADD CONSTRAINT scopes_pkey PRIMARY KEY (agent_id, agent, scope);
ALTER TABLE ONLY format_1.steps
    ADD CONSTRAINT steps_pkey PRIMARY KEY (agent_id, agent, scope, key);
CREATE INDEX agents_with_garbage ON format_1.agents USING btree (agent_id) WHERE has_garbage;
CREATE INDEX checkpoint_ids ON format_1.checkpoints USING btree (id);
CREATE UNIQUE INDEX checkpoint_keys ON format_1.checkpoints USING btree (agent_id, agent, id, scope);
CREATE INDEX object_hashes ON format_1.objects USING btree (agent_id, agent, hash, number);
