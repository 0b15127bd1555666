//! Checkpoints as JSON files: for people who want to read, grep and copy them.
#pragma once

#include <waymark/store.hpp>

#include <filesystem>
#include <memory>

namespace waymark {

//! Options of file_store.
class file_options {
public:
    file_options() = default;

    // clang-format off
    //! Opens a folder that another process may be writing to; a read sees every save that returned before it.
    //! Writing fails with `errc::invalid_argument`. Reading fails with `errc::busy` if the folder changes
    //! faster than it can be read. Default: opens it for writing.
    file_options& read_only(bool only = true) noexcept { read_only_ = only; return *this; }
    file_options& with_limits(waymark::limits bounds) noexcept { limits_ = bounds; return *this; }
    // clang-format on

    bool is_read_only() const noexcept { return read_only_; }
    const waymark::limits& limits() const noexcept { return limits_; }

private:
    bool read_only_ = false;
    waymark::limits limits_;
};

//! A store that keeps each checkpoint, whole, in a file of its own: `dir/<agent>/<id>.json`. What is not safe
//! as a file name is escaped; docs/format.md shows how. Reads the folders of smooth-operator as they are.
//!
//! A save rewrites the whole conversation: take `sqlite_store` for long ones. It is as durable as
//! `durability::full`: files and folders are synced. One process writes at a time; a second one is refused
//! with `errc::busy`. The files of an agent are looked at when it is first used; after that, a store that
//! writes expects nobody else to change them (what is gone when it is read makes it look again).
//!
//! A file that cannot be read makes its checkpoint `errc::corrupt`; lists show it with `damage()`, at the
//! place that it claims. Nobody knows whether it is the head, so that `load_latest` and `expect_head` are
//! `errc::corrupt` in its scope, and no step of the scope is removed, until it is saved again (it is the
//! newest then) or erased. A file that was removed by hand is a checkpoint that is not there.
//!
//! Thread safety: all functions may be called concurrently.
class file_store final : public store {
public:
    //! Opens the folder; makes it if it is not there (for the owner alone), unless read-only. Links in the
    //! path are followed once, as the system does it; one that leads nowhere stands for the folder it names.
    //! @throws waymark::error `busy` (another process writes there), `unsupported_format`, `io`.
    explicit file_store(const std::filesystem::path& folder, file_options options = {});
    ~file_store() override;

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override;
    std::optional<checkpoint> load(std::string_view agent_id, std::string_view scope,
                                   std::string_view id) override;
    std::optional<checkpoint> load(std::string_view id) override;
    std::optional<checkpoint> load_latest(std::string_view agent_id, std::string_view scope = {}) override;
    std::vector<checkpoint_header> list(const query& query) override;
    std::vector<checkpoint> load_all(const query& query) override;
    std::vector<load_outcome> load_some(std::span<const checkpoint_key> keys,
                                        std::span<const checkpoint> earlier,
                                        std::size_t about_bytes) override;
    std::uint64_t count(const query& query) override;
    std::vector<std::string> list_agents(std::string_view after = {}, std::size_t limit = 1000) override;
    bool erase(std::string_view agent_id, std::string_view scope, std::string_view id) override;
    std::uint64_t erase_scope(std::string_view agent_id, std::string_view scope,
                              const upkeep_control& control = {}) override;
    std::uint64_t erase_agent(std::string_view agent_id) override;
    std::uint64_t copy_agent(std::string_view from, std::string_view to,
                             const upkeep_control& control = {}) override;
    prune_result prune(std::string_view agent_id, const retention& policies, dry_run dry,
                       const upkeep_control& control = {}) override;
    bool pin(std::string_view agent_id, std::string_view scope, std::string_view id, bool pinned) override;
    std::vector<step_outcome> put_steps(std::span<const step_request> batch) override;
    std::vector<step> load_steps(const step_query& query) override;
    bool erase_step(std::string_view agent_id, std::string_view scope, std::string_view key,
                    const std::optional<std::string>& attempt = std::nullopt) override;
    verify_report verify(const upkeep_control& control = {}) override;
    std::uint64_t compact(const upkeep_control& control = {}) override;
    store_stats stats() override;
    store_stats stats(std::string_view agent_id) override;
    std::size_t write_lanes() const noexcept override;
    const waymark::limits& accepted_limits() const noexcept override;

private:
    class impl;
    std::unique_ptr<impl> impl_;
};

} // namespace waymark
