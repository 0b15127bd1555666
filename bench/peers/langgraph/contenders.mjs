// Who is measured: LangGraph's savers, driven as LangGraph's own loop drives them.
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import {
  BinaryOperatorAggregate,
  DeltaChannel,
  channelsFromCheckpoint,
  createCheckpoint,
  deltaChannelsToSnapshot,
  empty,
} from "@langchain/langgraph/channels";
import { MemorySaver, emptyCheckpoint } from "@langchain/langgraph-checkpoint";

// What was asked for cannot be had on this machine.
const missing = (message) => Object.assign(new Error(message), { exitCode: 77 });

// A backend has open({ fresh }), which returns a saver; bytes(), what is on the disk; and close(). Imports and checks
// are done before it is returned, so that a workload that times the opening times nothing else.

async function sqlite({ folder, durability }) {
  const { SqliteSaver } = await import("@langchain/langgraph-checkpoint-sqlite");
  const { default: Database } = await import("better-sqlite3");
  try {
    new Database(":memory:").close();
  } catch {
    throw missing("better-sqlite3 is not built for this Node: run 'npm rebuild better-sqlite3' where it is installed");
  }
  const file = join(folder, "langgraph.db");
  let saver;
  return {
    async open({ fresh }) {
      if (!fresh && !existsSync(file)) throw new Error(`there is no '${file}' of an earlier run`);
      mkdirSync(folder, { recursive: true });
      if (fresh) for (const end of ["", "-wal", "-shm"]) rmSync(file + end, { force: true });
      saver = SqliteSaver.fromConnString(file);
      saver.setup(); // sets WAL, for which better-sqlite3 is built with synchronous=NORMAL
      if (durability === "full") saver.db.pragma("synchronous=FULL");
      return saver;
    },
    async bytes() {
      saver.db.pragma("wal_checkpoint(TRUNCATE)");
      return statSync(file).size;
    },
    async close() {
      saver.db.close();
    },
  };
}

async function postgres({ postgres: uri, durability }) {
  const { PostgresSaver } = await import("@langchain/langgraph-checkpoint-postgres");
  const { default: pg } = await import("pg");
  if (!uri) throw missing("no PostgreSQL: name one with --postgres, or run scripts/with-postgres");
  const admin = new pg.Client({ connectionString: uri });
  await admin.connect().catch((error) => {
    throw missing(`no PostgreSQL: ${error.message || error.code}`);
  });
  // Figures of a server that does not sync are worth nothing.
  for (const setting of ["fsync", "synchronous_commit", "full_page_writes"]) {
    const { rows } = await admin.query(`SHOW ${setting}`);
    if (rows[0][setting] !== "on") throw missing(`the server has ${setting} off; measure another`);
  }
  const schema = "langgraph_bench";
  const options = durability === "relaxed" ? { options: "-c synchronous_commit=off" } : {};
  let saver;
  return {
    async open({ fresh }) {
      if (fresh) await admin.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
      const pool = new pg.Pool({ connectionString: uri, max: 10, ...options });
      saver = new PostgresSaver(pool, undefined, { schema });
      if (fresh) await saver.setup();
      return saver;
    },
    async bytes() {
      const { rows } = await admin.query(
        `SELECT sum(pg_total_relation_size(oid)) AS bytes FROM pg_class
         WHERE relkind = 'r' AND relnamespace = $1::regnamespace`,
        [schema],
      );
      return Number(rows[0].bytes);
    },
    async close() {
      await saver.end();
      await admin.end();
    },
  };
}

async function memory() {
  return {
    async open({ fresh }) {
      if (!fresh) throw missing("langgraph-memory ends with its process: there is nothing to load");
      return new MemorySaver();
    },
    async bytes() {
      return null;
    },
    async close() {},
  };
}

// A reducer takes the state and a list of writes, as a DeltaChannel calls it.
const reducers = {
  messages: { reduce: (state, writes) => state.concat(...writes), initial: () => [] },
  files: { reduce: (state, writes) => Object.assign({}, state, ...writes), initial: () => ({}) },
};

function channel({ reduce, initial }, isDelta) {
  if (isDelta) return new DeltaChannel(reduce, { initialValueFactory: initial });
  return new BinaryOperatorAggregate((state, write) => reduce(state, [write]), initial);
}

// One conversation. A turn is add(), which is the graph's work, and save().
class Thread {
  #contender;
  #channels;
  #config;
  #checkpoint = emptyCheckpoint();
  #version;
  #step = -1;
  #counters = {};

  constructor(contender, id) {
    this.#contender = contender;
    this.#channels = empty(contender.specs, this.#checkpoint);
    this.#config = { configurable: { thread_id: id, checkpoint_ns: "" } };
  }

  // Writes hang on a checkpoint, so a delta channel needs one before its first write: LangGraph's is that of the input.
  async begin() {
    if (this.#contender.isDelta) await this.#put("input", []);
    else this.#step += 1;
  }

  add(values) {
    for (const [name, value] of Object.entries(values)) this.#channels[name].update([value]);
  }

  // Saves what was added. As in LangGraph's loop the put does not wait for the writes, and the end of the step waits
  // for both.
  async save(values) {
    const { saver, isDelta } = this.#contender;
    const writes = isDelta ? saver.putWrites(this.#config, Object.entries(values), randomUUID()) : undefined;
    await Promise.all([writes, this.#put("loop", Object.keys(values))]);
  }

  async #put(source, updated) {
    const { saver, isDelta, specs } = this.#contender;
    const counters = {};
    for (const name of isDelta ? Object.keys(specs) : []) {
      const [updates, supersteps] = this.#counters[name] ?? [0, 0];
      counters[name] = [updates + (updated.includes(name) ? 1 : 0), supersteps + 1];
    }
    const channelsToSnapshot = deltaChannelsToSnapshot(this.#channels, counters);

    const newVersions = {};
    if (updated.length > 0) this.#version = saver.getNextVersion(this.#version);
    for (const name of updated) newVersions[name] = this.#version;
    const previous = this.#checkpoint;
    const from = { ...previous, channel_versions: { ...previous.channel_versions, ...newVersions } };
    this.#checkpoint = createCheckpoint(from, this.#channels, this.#step, { channelsToSnapshot });

    for (const name of channelsToSnapshot) delete counters[name];
    this.#counters = counters;
    const metadata = { source, step: this.#step, parents: {} };
    if (Object.keys(counters).length > 0) metadata.counters_since_delta_snapshot = counters;

    const config = this.#config;
    this.#config = { configurable: { ...config.configurable, checkpoint_id: this.#checkpoint.id } };
    this.#step += 1;
    await saver.put(config, this.#checkpoint, metadata, newVersions);
  }
}

class Contender {
  #backend;

  constructor(backend, isDelta, channelNames) {
    this.#backend = backend;
    this.isDelta = isDelta;
    this.specs = Object.fromEntries(channelNames.map((name) => [name, channel(reducers[name], isDelta)]));
  }

  async open({ fresh }) {
    this.saver = await this.#backend.open({ fresh });
  }

  async thread(id) {
    const thread = new Thread(this, id);
    await thread.begin();
    return thread;
  }

  // The state of the latest checkpoint; delta channels are put together from the writes of its ancestors.
  async load(id) {
    const tuple = await this.saver.getTuple({ configurable: { thread_id: id, checkpoint_ns: "" } });
    if (tuple === undefined) throw new Error(`'${id}' has no checkpoint`);
    const { saver, specs } = this;
    const channels = await channelsFromCheckpoint(specs, tuple.checkpoint, { saver, config: tuple.config });
    return Object.fromEntries(Object.keys(specs).map((name) => [name, channels[name].get()]));
  }

  bytes() {
    return this.#backend.bytes();
  }

  close() {
    return this.#backend.close();
  }
}

const backends = { sqlite, postgres, memory };

export async function makeContender(storage, isDelta, channelNames, options) {
  return new Contender(await backends[storage](options), isDelta, channelNames);
}
