#include "../../values/text.hpp"
#include "postgres_database.hpp"
#include "schema.hpp"

#include <waymark/postgres_store.hpp>

#include <algorithm>

namespace waymark {

namespace {

constexpr std::chrono::milliseconds longest_time = std::chrono::hours(24);

} // namespace

postgres_options& postgres_options::with_schema(std::string name)
{
    if (name.empty() || name.size() > 63 || name.find('\0') != std::string::npos)
        throw error(errc::invalid_argument,
                    "the name of a schema has 1 to 63 bytes and no NUL; this is " + detail::quoted(name));
    schema_ = std::move(name);
    return *this;
}

postgres_options& postgres_options::with_write_lanes(std::size_t count)
{
    if (count == 0)
        throw error(errc::invalid_argument, "a store needs one write lane at least");
    write_lanes_ = count;
    return *this;
}

postgres_options& postgres_options::with_connect_timeout(std::chrono::milliseconds timeout) noexcept
{
    connect_timeout_ = std::clamp(timeout, std::chrono::milliseconds(0), longest_time);
    return *this;
}

postgres_options& postgres_options::with_statement_timeout(std::chrono::milliseconds timeout)
{
    if (timeout.count() <= 0 || timeout > longest_time)
        throw error(errc::invalid_argument, "the statement time-out has to be above 0 and at most a day; a "
                                            "server that never answers would hold the store for ever");
    statement_timeout_ = timeout;
    return *this;
}

postgres_options& postgres_options::with_retry_for(std::chrono::milliseconds time) noexcept
{
    retry_for_ = std::clamp(time, std::chrono::milliseconds(0), longest_time);
    return *this;
}

postgres_store::postgres_store(const std::string& conninfo, const postgres_options& options)
    : table_store(std::make_unique<postgres::postgres_database>(conninfo, options), options.limits())
{
}

postgres_store::~postgres_store() = default;

std::string postgres_store::ddl(const postgres_options& options)
{
    return postgres::ddl(options);
}

std::string postgres_store::upgrade_ddl(std::int64_t from, const postgres_options& options)
{
    return postgres::upgrade_ddl(from, options);
}

} // namespace waymark
