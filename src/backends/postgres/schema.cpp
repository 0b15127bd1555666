#include "schema.hpp"

#include "../../values/text.hpp"
#include "postgres_tables.hpp"

#include <array>
#include <string_view>

namespace waymark::postgres {

namespace {

struct table {
    const char* name;
    const char* columns;
    // Rows that are updated at every save stay on their page, if that has room.
    const char* storage = "";
};

// The key of every table begins with agent_id, by which all of them can be partitioned or distributed.
// `agent` is the number of the agent's present life: one that is erased and made again shares no rows with
// the old one. Texts are compared by their bytes. `bytes` and `count` are there to be summed up without
// reading bodies.
constexpr std::array tables = {
    table{"agents",
          "    agent_id text COLLATE \"C\" NOT NULL,\n"
          "    number int8 NOT NULL,\n"
          "    last_sequence int8 NOT NULL,\n"
          "    next_message int8 NOT NULL,\n"
          "    next_object int8 NOT NULL,\n"
          "    scopes int8 NOT NULL,\n"
          "    sweeps int8 NOT NULL,\n"
          "    changes int8 NOT NULL,\n"
          "    stamp int8 NOT NULL,\n"
          "    has_garbage bool NOT NULL,\n"
          "    checksum bytea NOT NULL,\n"
          "    PRIMARY KEY (agent_id)",
          "fillfactor = 50"},
    table{"erased_agents", "    agent_id text COLLATE \"C\" NOT NULL,\n"
                           "    agent int8 NOT NULL,\n"
                           "    copied_at int8,\n"
                           "    PRIMARY KEY (agent_id, agent)"},
    table{"scopes",
          "    agent_id text COLLATE \"C\" NOT NULL,\n"
          "    agent int8 NOT NULL,\n"
          "    scope text COLLATE \"C\" NOT NULL,\n"
          "    checkpoints int8 NOT NULL,\n"
          "    head int8 NOT NULL,\n"
          "    steps int8 NOT NULL,\n"
          "    checksum bytea NOT NULL,\n"
          "    PRIMARY KEY (agent_id, agent, scope)",
          "fillfactor = 50"},
    table{"checkpoints", "    agent_id text COLLATE \"C\" NOT NULL,\n"
                         "    agent int8 NOT NULL,\n"
                         "    sequence int8 NOT NULL,\n"
                         "    scope text COLLATE \"C\" NOT NULL,\n"
                         "    id text COLLATE \"C\" NOT NULL,\n"
                         "    parent text COLLATE \"C\",\n"
                         "    name text COLLATE \"C\" NOT NULL,\n"
                         "    iteration int8 NOT NULL,\n"
                         "    created_at int8 NOT NULL,\n"
                         "    messages int8 NOT NULL,\n"
                         "    metadata bytea NOT NULL,\n"
                         "    chain bytea NOT NULL,\n"
                         "    body bytea NOT NULL,\n"
                         "    pinned bool NOT NULL,\n"
                         "    stored_bytes int8 NOT NULL,\n"
                         "    content_bytes int8 NOT NULL,\n"
                         "    checksum bytea NOT NULL,\n"
                         "    PRIMARY KEY (agent_id, agent, sequence)"},
    table{"messages", "    agent_id text COLLATE \"C\" NOT NULL,\n"
                      "    agent int8 NOT NULL,\n"
                      "    first int8 NOT NULL,\n"
                      "    count int8 NOT NULL,\n"
                      "    bytes int8 NOT NULL,\n"
                      "    digests bytea NOT NULL,\n"
                      "    body bytea NOT NULL,\n"
                      "    stamp int8 NOT NULL,\n"
                      "    parts bytea,\n"
                      "    PRIMARY KEY (agent_id, agent, first)"},
    table{"objects", "    agent_id text COLLATE \"C\" NOT NULL,\n"
                     "    agent int8 NOT NULL,\n"
                     "    number int8 NOT NULL,\n"
                     "    bytes int8 NOT NULL,\n"
                     "    hash bytea NOT NULL,\n"
                     "    body bytea NOT NULL,\n"
                     "    PRIMARY KEY (agent_id, agent, number)"},
    table{"steps", "    agent_id text COLLATE \"C\" NOT NULL,\n"
                   "    agent int8 NOT NULL,\n"
                   "    scope text COLLATE \"C\" NOT NULL,\n"
                   "    key text COLLATE \"C\" NOT NULL,\n"
                   "    checkpoint text COLLATE \"C\",\n"
                   "    made_on int8 NOT NULL,\n"
                   "    started_at int8 NOT NULL,\n"
                   "    result bytea,\n"
                   "    attempt text COLLATE \"C\" NOT NULL,\n"
                   "    failure bytea,\n"
                   "    checksum bytea NOT NULL,\n"
                   "    PRIMARY KEY (agent_id, agent, scope, key)"},
};

// checkpoint_ids is for load(id) alone, which looks through all agents.
constexpr std::array indices = {
    "UNIQUE INDEX checkpoint_keys ON waymark.checkpoints (agent_id, agent, id, scope)",
    "INDEX checkpoint_ids ON waymark.checkpoints (id)",
    "INDEX object_hashes ON waymark.objects (agent_id, agent, hash, number)",
    "INDEX agents_with_garbage ON waymark.agents (agent_id) WHERE has_garbage",
    "INDEX pending_steps ON waymark.steps (agent_id, agent, scope) WHERE result IS NULL",
    "INDEX message_parts ON waymark.messages (agent_id, agent, first) WHERE parts IS NOT NULL",
};

// Each entry takes the format of its index, plus one, to the next one. Entries are never changed once
// released.
constexpr std::array<const char*, format_version - 1> upgrades = {
    "ALTER TABLE waymark.agents ADD COLUMN stamp int8 NOT NULL DEFAULT 0;\n"
    "ALTER TABLE waymark.messages ADD COLUMN stamp int8 NOT NULL DEFAULT 0;\n"
    "ALTER TABLE waymark.steps ADD COLUMN attempt text COLLATE \"C\" NOT NULL DEFAULT '';\n"
    "CREATE INDEX pending_steps ON waymark.steps (agent_id, agent, scope) WHERE result IS NULL;\n",
    "ALTER TABLE waymark.steps ADD COLUMN failure bytea;\n"
    "ALTER TABLE waymark.erased_agents ADD COLUMN copied_at int8;\n",
    "ALTER TABLE waymark.messages ADD COLUMN parts bytea;\n"
    "CREATE INDEX message_parts ON waymark.messages (agent_id, agent, first) WHERE parts IS NOT NULL;\n",
};

//! The present format, all but the schema.
std::string tables_ddl(const postgres_options& options)
{
    std::string sql = "CREATE TABLE waymark.format (version int8 NOT NULL PRIMARY KEY);\n";
    for (const auto& next : tables) {
        const std::string name = std::string("waymark.") + next.name;
        const std::string storage = *next.storage == '\0' ? "" : std::string(" WITH (") + next.storage + ")";
        sql += "CREATE TABLE " + name + " (\n" + next.columns + ")";
        if (options.partitions() == 0) {
            sql += storage + ";\n";
            continue;
        }
        sql += " PARTITION BY HASH (agent_id);\n";
        const auto modulus = std::to_string(options.partitions());
        for (std::size_t i = 0; i < options.partitions(); ++i) {
            const auto number = std::to_string(i);
            sql.append("CREATE TABLE ").append(name).append("_").append(number);
            sql.append(" PARTITION OF ").append(name).append(" FOR VALUES WITH (MODULUS ").append(modulus);
            sql.append(", REMAINDER ").append(number).append(")").append(storage).append(";\n");
        }
    }
    for (const auto* next : indices)
        sql += std::string("CREATE ") + next + ";\n";
    // All of it in its row, the body compressed if that helps, as long as a page has room: a part elsewhere
    // costs an index entry more, and a look-up at each load.
    sql += "ALTER TABLE waymark.messages ALTER COLUMN agent_id SET STORAGE PLAIN, "
           "ALTER COLUMN digests SET STORAGE PLAIN, ALTER COLUMN body SET STORAGE MAIN;\n";
    sql += "INSERT INTO waymark.format (version) VALUES (" + std::to_string(format_version) + ");\n";
    return in_schema(std::move(sql), options.schema());
}

} // namespace

std::string ddl(const postgres_options& options)
{
    return "CREATE SCHEMA IF NOT EXISTS " + quoted_name(options.schema()) + ";\n" + tables_ddl(options);
}

std::string upgrade_ddl(std::int64_t from, const postgres_options& options)
{
    if (from < 1 || from > format_version)
        throw error(errc::invalid_argument, "there is no format " + std::to_string(from) +
                                                " of the tables; the formats are 1 to " +
                                                std::to_string(format_version));
    std::string sql;
    for (auto version = from; version < format_version; ++version)
        sql += upgrades[static_cast<std::size_t>(version - 1)];
    if (from < format_version)
        sql += "UPDATE waymark.format SET version = " + std::to_string(format_version) + ";\n";
    return in_schema(std::move(sql), options.schema());
}

namespace {

//! None if the tables are not there.
std::optional<std::int64_t> read_version(connection& db, const postgres_options& options)
{
    // Not to_regclass, which answers from a cache: that may be from before another process made the tables.
    const auto found =
        db.run(statement("SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
                         "ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'format'")
                   .add(options.schema()));
    if (found.number(0, 0) == 0)
        return std::nullopt;
    const auto versions = db.run(statement("SELECT max(version) FROM waymark.format"));
    return versions.optional_text(0, 0) ? std::optional(versions.number(0, 0)) : std::nullopt;
}

void require_known(std::int64_t version, const postgres_options& options)
{
    if (version > format_version)
        throw error(errc::unsupported_format, "the tables in schema " + detail::quoted(options.schema()) +
                                                  " have format " + std::to_string(version) +
                                                  ", and this version of Waymark knows " +
                                                  std::to_string(format_version));
    if (version < 1)
        throw error(errc::corrupt, "the tables in schema " + detail::quoted(options.schema()) +
                                       " have format " + std::to_string(version) + ", which never was");
}

//! Makes the tables, or takes them to the present format.
void bring_up_to_date(connection& db, const postgres_options& options, std::optional<std::int64_t> version)
{
    if (version)
        require_known(*version, options);
    if (options.migration() == migration::never)
        throw error(errc::invalid_argument,
                    (version ? "the tables in schema " + detail::quoted(options.schema()) + " have format " +
                                   std::to_string(*version) + ", which is older"
                             : "there are no tables in schema " + detail::quoted(options.schema())) +
                        ", and migration is off; run the SQL of postgres_store::" +
                        (version ? "upgrade_ddl(" + std::to_string(*version) : std::string("ddl(")) +
                        ") as a role that may");

    // Any number, as long as it is always the same.
    constexpr std::int64_t lock = 0x5761796d61726b;
    try {
        db.run(statement("SELECT pg_advisory_xact_lock($1)").add(lock));
        version = read_version(db, options);
        if (version)
            require_known(*version, options);
        if (!version) { // IF NOT EXISTS asks for the right to make schemas, whether or not it exists
            const auto schemas =
                db.run(statement("SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = $1")
                           .add(options.schema()));
            db.run_script(schemas.number(0, 0) == 0 ? ddl(options) : tables_ddl(options));
        } else if (*version < format_version) {
            db.run_script(upgrade_ddl(*version, options));
        }
    } catch (const database_error& failure) {
        if (failure.sqlstate() == "42P07")
            throw error(errc::invalid_argument,
                        "schema " + detail::quoted(options.schema()) +
                            " has tables that are not Waymark's; name another one with "
                            "postgres_options::with_schema");
        if (failure.sqlstate() == "42501")
            throw error(errc::invalid_argument,
                        "the role may not make or change tables (" + failure.details().message() +
                            "); run the SQL of postgres_store::" +
                            (version ? "upgrade_ddl(" + std::to_string(*version) : std::string("ddl(")) +
                            ") as a role that may, and turn migration off");
        throw;
    }
}

//! How many partitions the tables have, whoever has made them.
std::size_t count_partitions(connection& db, const postgres_options& options)
{
    const auto found = db.run(
        statement("SELECT CAST(coalesce(max(partitions), 0) AS int8) FROM (SELECT count(*) AS partitions "
                  "FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhparent "
                  "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
                  "WHERE n.nspname = $1 AND c.relkind = 'p' GROUP BY i.inhparent) counted")
            .add(options.schema()));
    return static_cast<std::size_t>(found.number(0, 0));
}

} // namespace

std::size_t prepare_schema(connection& db, const postgres_options& options)
{
    const auto encoding = db.parameter("server_encoding");
    if (encoding != "UTF8" && !encoding.empty())
        throw error(errc::invalid_argument, "the database has the encoding " + detail::quoted(encoding) +
                                                "; create it with ENCODING 'UTF8'");
    // All of it in one transaction, with settings of its own.
    add_begin(db, "BEGIN ISOLATION LEVEL READ COMMITTED",
              {options.statement_timeout(), "on", "force_custom_plan"});
    auto version = read_version(db, options);
    if (!version || *version != format_version)
        bring_up_to_date(db, options, version);
    const auto partitions = count_partitions(db, options);
    db.run(statement("COMMIT"));
    return partitions;
}

} // namespace waymark::postgres
