#include "sqlite_database.hpp"

#include <waymark/sqlite_store.hpp>

namespace waymark {

namespace {

std::unique_ptr<tables::database> open_file(const std::filesystem::path& path, const sqlite_options& options)
{
    if (path.empty())
        throw error(errc::invalid_argument, "the path of a database is empty; name a file");
    return std::make_unique<sqlite::sqlite_database>(path, options);
}

} // namespace

sqlite_store::sqlite_store(const std::filesystem::path& path, const sqlite_options& options)
    : sqlite_store(open_file(path, options), options.limits())
{
}

sqlite_store::sqlite_store(std::unique_ptr<tables::database> database, const waymark::limits& bounds)
    : table_store(std::move(database), bounds)
{
}

sqlite_store::~sqlite_store() = default;

std::shared_ptr<sqlite_store> sqlite_store::in_memory(const sqlite_options& options)
{
    return std::shared_ptr<sqlite_store>(new sqlite_store(
        std::make_unique<sqlite::sqlite_database>(std::filesystem::path(), options), options.limits()));
}

} // namespace waymark
