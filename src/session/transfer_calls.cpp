//! Exports and imports of files as the calls that an async_store runs on its threads.
#include <waymark/detail/session_calls.hpp>
#include <waymark/transfer.hpp>

namespace waymark::detail {

call<transfer_result> export_file_call(std::filesystem::path file, export_options options)
{
    return {job::kind::read, {}, [file = std::move(file), options = std::move(options)](store& from) {
                return export_lines(from, file, options);
            }};
}

call<transfer_result> import_file_call(std::filesystem::path file, import_options options)
{
    return {job::kind::read, {}, [file = std::move(file), options = std::move(options)](store& into) {
                return import_lines(into, file, options);
            }};
}

} // namespace waymark::detail
