//! Export and import of checkpoints and steps, between stores of any kind.
#pragma once

#include <waymark/store.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

namespace waymark {

//! How much an export or import has done so far, or in all.
class transfer_result {
public:
    transfer_result() = default;
    transfer_result(std::uint64_t checkpoints, std::uint64_t steps, std::uint64_t skipped) noexcept
        : checkpoints_(checkpoints), steps_(steps), skipped_(skipped)
    {
    }

    //! Checkpoints that were exported, or that are new or changed in the store.
    std::uint64_t checkpoints() const noexcept { return checkpoints_; }
    //! Steps, likewise.
    std::uint64_t steps() const noexcept { return steps_; }
    //! Checkpoints and steps that an import left as they are in the store.
    std::uint64_t skipped() const noexcept { return skipped_; }

    friend bool operator==(const transfer_result&, const transfer_result&) = default;

private:
    std::uint64_t checkpoints_ = 0;
    std::uint64_t steps_ = 0;
    std::uint64_t skipped_ = 0;
};

//! Called on the thread that exports or imports, from time to time and once at the end. It must not call the
//! store. In a coroutine, name a lambda that captures by value first: see upkeep_control.
using transfer_callback = std::function<void(const transfer_result&)>;

//! Options of the exports.
class export_options {
public:
    export_options() = default;

    //! Exports only this agent. Default: all agents.
    //! @throws waymark::error `invalid_argument` if the id is not valid.
    export_options& of_agent(std::string agent_id);
    export_options& with_progress(transfer_callback progress)
    {
        progress_ = std::move(progress);
        return *this;
    }

    //! Ends the export between two pages, with `std::errc::operation_canceled` (async:
    //! `asio::error::operation_aborted`). No file is left.
    export_options& stop_with(std::stop_token token)
    {
        control_.stop_with(std::move(token));
        return *this;
    }
    //! Adds the tokens of a control.
    export_options& stop_with(const upkeep_control& other)
    {
        control_.stop_with(other);
        return *this;
    }

    const std::optional<std::string>& agent() const noexcept { return agent_; }
    const transfer_callback& progress() const noexcept { return progress_; }
    const upkeep_control& control() const noexcept { return control_; }

private:
    std::optional<std::string> agent_;
    transfer_callback progress_;
    upkeep_control control_;
};

//! What an import does with a checkpoint or step that the store has with other content. One with the same
//! content is left as it is in any case. A pin of the input is set on both; with `replace`, a pin that the
//! input does not have is taken away.
enum class existing { skip, replace, fail };

//! Options of the imports.
class import_options {
public:
    import_options() = default;

    // clang-format off
    //! Default: `existing::skip`.
    import_options& when_exists(existing what) noexcept { existing_ = what; return *this; }
    //! Imports everything as this agent's; an input with several agents is refused. Default: keeps the agents
    //! of the input.
    //! @throws waymark::error `invalid_argument` if the id is not valid.
    import_options& as_agent(std::string agent_id);
    import_options& with_progress(transfer_callback progress)
    { progress_ = std::move(progress); return *this; }
    //! Ends the import between two batches, with `std::errc::operation_canceled` (async:
    //! `asio::error::operation_aborted`). What was imported until then stays; importing again does the rest.
    import_options& stop_with(std::stop_token token) { control_.stop_with(std::move(token)); return *this; }
    //! Adds the tokens of a control.
    import_options& stop_with(const upkeep_control& other) { control_.stop_with(other); return *this; }
    // clang-format on

    existing when_exists() const noexcept { return existing_; }
    const std::optional<std::string>& agent() const noexcept { return agent_; }
    const transfer_callback& progress() const noexcept { return progress_; }
    const upkeep_control& control() const noexcept { return control_; }

private:
    existing existing_ = existing::skip;
    std::optional<std::string> agent_;
    transfer_callback progress_;
    upkeep_control control_;
};

//! Writes checkpoints, pins and steps as JSON Lines: one line for each, and a last line that tells a whole
//! export from one that was cut. A line has the messages that the line before it does not have, so that an
//! export takes space, and time, in proportion to what is new (`file_store`: to its files, which are whole).
//! In memory are about 64 MB of checkpoints (or one, if that is larger; what they share counts once), the
//! last one of each scope, and the steps of one agent. docs/format.md describes the lines.
//!
//! Others can change the store meanwhile: what is there all the time is exported, and of what is replaced,
//! the newest.
//! @throws waymark::error that of the store, `not_found` if there is nothing of the agent that the options
//! name, `io` if the stream fails, or `busy` if an agent changes faster than it can be exported.
transfer_result export_lines(store& from, std::ostream& to, const export_options& options = {});

//! Writes JSON Lines to a file that only its owner can read. It is written under another name, synced and
//! then renamed: `file` holds either what it held before or the whole export.
//! @throws waymark::error as for a stream; `io` if the file cannot be written.
transfer_result export_lines(store& from, const std::filesystem::path& file,
                             const export_options& options = {});

//! Reads what `export_lines` wrote. Everything is checked before anything is written: bad input changes
//! nothing, and the error names the line. Ids, parents, names, times, order, pins and steps are kept;
//! sequences are the store's. Importing twice is the same as once, and takes about as long: what the store
//! has is read in pages, and compared from where the page before ended. Other writers of the store get their
//! turn between batches, of 128 checkpoints or about 500 kB of what is new. In memory are a batch, up to 16
//! MB of what the store has, the last checkpoint of each scope from both, the steps of one agent, and all
//! ids.
//!
//! New checkpoints come after those that the agent has in the store, and the newest becomes the head. To
//! restore a backup of an agent that exists, erase the agent first, or give it another name with `as_agent`.
//! @pre the stream can be read twice (`seekg`)
//! @throws waymark::error `invalid_argument`, `unsupported_format`, `conflict` (with `existing::fail`), or
//! that of the store.
transfer_result import_lines(store& into, std::istream& from, const import_options& options = {});

//! Reads JSON Lines from a file.
//! @throws waymark::error as for a stream; `io` if the file cannot be opened.
transfer_result import_lines(store& into, const std::filesystem::path& file,
                             const import_options& options = {});

//! Writes everything as one JSON document in which each checkpoint is whole: for other programs, and for
//! short histories.
//! @throws waymark::error as `export_lines` does.
std::string export_json(store& from, const export_options& options = {});

//! Reads what `export_json` wrote, or an export of Breakpilot (an array), which needs `as_agent`.
//! @throws waymark::error as `import_lines` does; it names the entry.
transfer_result import_json(store& into, std::string_view json, const import_options& options = {});

} // namespace waymark
