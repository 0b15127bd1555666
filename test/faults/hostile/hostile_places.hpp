//! Stores among folders and tables that are none of their business, and what has become of those.
#pragma once

#include "temporary_folder.hpp"

#include <waymark/store.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace waymark::faults {

//! Folders within folders, with files that must stay as they are; the stores are far below, and the current
//! folder is next to them, so that a path that leads out of a store ends up within sight. Files that are made
//! without care are open to everybody here.
class guarded_ground {
public:
    guarded_ground();
    guarded_ground(const guarded_ground&) = delete;
    guarded_ground& operator=(const guarded_ground&) = delete;
    ~guarded_ground();

    //! For paths in hostile strings: nothing may appear there.
    std::string outside() const { return (folder_.path() / "outside").native(); }
    //! Where stores may write, in folders of their own.
    std::filesystem::path place_of(const std::string& store) const { return stores_ / store; }
    bool contains(const std::filesystem::path& path) const;

    //! What is there, what has changed, or what others may read that should not.
    std::vector<std::string> complaints() const;

private:
    using listing = std::map<std::string, std::string>;
    listing guarded() const;
    void look_into_stores(std::vector<std::string>& complaints) const;

    test::temporary_folder folder_;
    std::filesystem::path stores_;
    std::filesystem::path here_before_;
    ::mode_t mask_before_;
    listing at_first_;
};

//! A store under attack.
struct hostile_target {
    using reopener = std::function<std::shared_ptr<store>(std::shared_ptr<store>)>;

    std::string name;
    std::shared_ptr<store> backend;
    reopener reopen; // none: lasts as long as the object
    //! What only a schema change may change: tables, files.
    std::function<std::vector<std::string>()> structure;
};

hostile_target memory_target();
hostile_target file_target(const guarded_ground& ground);
hostile_target sqlite_target(const guarded_ground& ground);
//! In this schema, which is empty. Needs WAYMARK_WITH_POSTGRES.
hostile_target postgres_target(const std::string& conninfo, const std::string& schema);

} // namespace waymark::faults
