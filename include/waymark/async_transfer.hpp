//! Export and import of whole stores for programs that run on Asio.
#pragma once

#include <waymark/async_store.hpp>
#include <waymark/transfer.hpp>

#include <filesystem>
#include <utility>

namespace waymark {

//! Writes one agent or all to a file of JSON Lines, in bounded memory (see `export_lines`). The file appears
//! when it is whole. Runs beside everything else.
//! @par Handler signature
//! `void(std::error_code, transfer_result)`
//! @par Errors
//! `errc::not_found` if there is nothing of the agent that the options name; `errc::io` if the file cannot be
//! written; those of the store
template <detail::token_for<transfer_result> Token = default_token>
auto async_export_lines(async_store& from, std::filesystem::path file, export_options options,
                        Token&& token = Token{})
{
    return detail::start_upkeep(
        from, detail::request::schedule::survey, store_operation::export_lines, std::forward<Token>(token),
        [file = std::move(file), options = std::move(options)](store& backend, const upkeep_control& reins) {
            return export_lines(backend, file, export_options(options).stop_with(reins));
        });
}

//! Writes all agents. Handler signature: `void(std::error_code, transfer_result)`
template <detail::token_for<transfer_result> Token = default_token>
auto async_export_lines(async_store& from, std::filesystem::path file, Token&& token = Token{})
{
    return async_export_lines(from, std::move(file), export_options(), std::forward<Token>(token));
}

//! Reads a file of JSON Lines, in bounded memory (see `import_lines`). Bad input changes nothing. Saves of
//! the agents that it brings should not be made at the same time; all others go on beside it.
//! @par Handler signature
//! `void(std::error_code, transfer_result)`
//! @par Errors
//! `errc::invalid_argument` that names the line, `errc::unsupported_format`, `errc::conflict` (with
//! `existing::fail`), `errc::io` if the file cannot be read, those of the store
template <detail::token_for<transfer_result> Token = default_token>
auto async_import_lines(async_store& into, std::filesystem::path file, import_options options,
                        Token&& token = Token{})
{
    return detail::start_upkeep(
        into, detail::request::schedule::background, store_operation::import_lines,
        std::forward<Token>(token),
        [file = std::move(file), options = std::move(options)](store& backend, const upkeep_control& reins) {
            return import_lines(backend, file, import_options(options).stop_with(reins));
        });
}

//! The same without options. Handler signature: `void(std::error_code, transfer_result)`
template <detail::token_for<transfer_result> Token = default_token>
auto async_import_lines(async_store& into, std::filesystem::path file, Token&& token = Token{})
{
    return async_import_lines(into, std::move(file), import_options(), std::forward<Token>(token));
}

} // namespace waymark
