//! What the folders hold: agents, their files, and what the files say.
#pragma once

#include "agent_files.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace waymark::file {

//! Reads folders when they are first needed. Others may change them meanwhile: what was listed and is gone
//! when it is read makes it list again, so that what replaced it is found.
//!
//! Functions that read throw waymark::error `busy` if a folder changes faster than it can be read, or `io`.
class catalog {
public:
    //! A catalog for writing also finishes erasures that were interrupted.
    catalog(std::filesystem::path root, bool for_writing) : root_(std::move(root)), for_writing_(for_writing)
    {
    }

    //! Null if there is no such agent.
    agent_files* find(std::string_view agent_id);
    //! An agent without folders if there is none yet.
    agent_files& find_or_add(std::string_view agent_id);
    //! All that have a folder, by id.
    std::vector<std::string> agents();

    void forget(std::string_view agent_id);
    void remove(std::string_view agent_id);
    //! Looks at all folders again; files that did not change are not read again.
    void look_again();

private:
    struct known_agent {
        agent_files files;
        bool is_read = false;
    };
    void list_agents();
    std::optional<std::string> agent_of(const std::filesystem::path& folder) const;
    void read(known_agent& agent, const std::string& agent_id) const;
    void read_record(agent_files& agent, const std::string& agent_id) const;

    std::filesystem::path root_;
    bool for_writing_;
    bool is_listed_ = false;
    std::map<std::string, known_agent, std::less<>> agents_;
};

//! Whether a folder holds nothing that is not ours.
bool holds_only_ours(const std::filesystem::path& folder);
//! The files in a folder that may be checkpoints or steps. @throws files::vanished
std::vector<std::filesystem::path> documents_in(const std::filesystem::path& folder);

//! None if it is not there. @throws waymark::error `io`
std::optional<file_stamp> stamp_of(const std::filesystem::path& path);

} // namespace waymark::file
