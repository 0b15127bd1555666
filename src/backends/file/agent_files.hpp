//! What is known of the files of an agent: checkpoints and steps, by scope, and where they belong.
#pragma once

#include "documents.hpp"

#include <waymark/checkpoint.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace waymark::file {

//! Our own things in a folder. No id is spelled like this.
inline constexpr const char* reserved_folder = ".waymark";
inline constexpr const char* suffix = ".json";

//! Tells whether a file is still the one that was read.
struct file_stamp {
    std::uint64_t inode = 0;
    std::uint64_t bytes = 0;
    std::int64_t changed_at = 0; // nanoseconds

    //! False for a file that was too young when it was looked at: on file systems with a coarse clock, one
    //! that replaces it later may have the same stamp.
    bool is_telling = false;

    friend bool operator==(const file_stamp& a, const file_stamp& b) noexcept
    {
        return a.inode == b.inode && a.bytes == b.bytes && a.changed_at == b.changed_at;
    }
};

struct checkpoint_file {
    std::filesystem::path path;
    file_stamp stamp;
    checkpoint_header header; // with damage() if the file cannot be read
    //! False for a damaged file: the sequence of its header is a guess, for lists only. Whatever is decided
    //! by the order (the head, what a step was made on, what may go) must not rely on it.
    bool has_sequence = true;
    bool is_newer = false; // of a version that we do not know: not to be touched
};

struct step_file {
    std::filesystem::path path;
    file_stamp stamp;
    step_document content;
    std::optional<std::string> damage;
};

class scope_files {
public:
    std::map<std::string, step_file, std::less<>> steps; // by key

    bool empty() const noexcept { return checkpoints_.empty() && steps.empty(); }
    const std::map<std::string, checkpoint_file, std::less<>>& checkpoints() const noexcept
    {
        return checkpoints_;
    }
    //! Also finds a damaged file whose shortened name stands for the id, under that name.
    checkpoint_file* find(std::string_view id);
    step_file* find_step(std::string_view key);
    void put(checkpoint_file added);
    void remove(std::string_view id);
    void number(std::string_view id, std::int64_t sequence);
    //! The highest sequence that is known. Null if there is none.
    const checkpoint_file* head() const;
    //! A damaged file: nobody knows its place in the order, and it may be the head. Null if there is none.
    const checkpoint_file* without_sequence() const;
    //! Oldest first, without those whose place is not known.
    std::vector<const checkpoint_file*> in_order() const;

private:
    std::map<std::string, checkpoint_file, std::less<>> checkpoints_; // by id
    std::set<std::pair<std::int64_t, std::string>> order_;            // those with a sequence
    std::set<std::string, std::less<>> without_sequence_;             // and those without
};

struct agent_files {
    //! The first is the one to write to; another may be there in the spelling of another program.
    std::vector<std::filesystem::path> folders;
    agent_document record;
    bool has_record = false;
    std::optional<std::string> record_damage;
    std::map<std::string, scope_files, std::less<>> scopes;

    bool empty() const noexcept;
    std::uint64_t count() const noexcept;
    scope_files* find_scope(std::string_view scope);
    checkpoint_file* find(std::string_view scope, std::string_view id);
    std::int64_t last_sequence() const noexcept;
    //! Whether no file hides the sequence that it used.
    bool all_sequences_are_known() const noexcept;
    //! No file has a higher one, those that cannot be read either.
    std::int64_t last_possible_sequence() const noexcept;
    //! Higher than all that were used, by files that cannot be read, too: numbers may be left out.
    //! @throws waymark::error `corrupt` if there are none left.
    std::int64_t next_sequence() const;

    std::filesystem::path reserved() const { return folders.front() / reserved_folder; }
    std::filesystem::path record_path() const { return reserved() / "agent.json"; }
    std::filesystem::path folder_of(std::string_view scope) const;
    std::filesystem::path path_of(std::string_view scope, std::string_view id) const;
    std::filesystem::path path_of_step(std::string_view scope, std::string_view key) const;
};

} // namespace waymark::file
