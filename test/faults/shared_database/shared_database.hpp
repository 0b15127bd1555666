//! A database that several store objects use at once, and whose backups come back while they do.
#pragma once

#include "tables/database.hpp"

#include <waymark/store.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace waymark::faults {

class shared_database {
public:
    //! What stands between a store object and the rows of its database.
    using layer = std::function<std::unique_ptr<tables::database>(std::unique_ptr<tables::database>)>;

    shared_database() = default;
    shared_database(const shared_database&) = delete;
    shared_database& operator=(const shared_database&) = delete;
    virtual ~shared_database() = default;

    //! "SQLite", for messages.
    virtual std::string name() const = 0;
    //! Whether all but one object can only read.
    virtual bool has_one_writer() const noexcept { return false; }
    //! Whether there are rows, so that a layer can stand before them.
    virtual bool has_rows() const noexcept { return true; }

    //! Another object on it.
    virtual std::shared_ptr<store> open() = 0;
    virtual std::shared_ptr<store> open_reader() { return open(); }
    //! @pre it has rows
    virtual std::shared_ptr<store> open_behind(const layer& between) = 0;

    //! Copies everything that is committed, under this number.
    virtual void back_up(std::size_t number) = 0;
    //! Brings a copy back, under the objects that are open. With one writer, that has to be closed.
    virtual void restore(std::size_t number) = 0;
};

enum class database_kind { sqlite, files, postgres };

//! An empty one. None if there is no server for it.
std::unique_ptr<shared_database> make_shared_database(database_kind kind);

} // namespace waymark::faults
