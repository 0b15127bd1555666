//! One line of an export, as text and as a value. A line holds what the last one of its scope does not.
#pragma once

#include "entry.hpp"

#include <waymark/limits.hpp>

#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>

namespace waymark::transfer {

//! The checkpoint before, of each scope of the agent whose lines these are.
class last_checkpoints {
public:
    //! Null if the scope is new. Those of another agent are forgotten.
    const checkpoint* find(const std::string& agent_id, const std::string& scope);
    void put(const checkpoint& value);

private:
    std::string agent_id_;
    std::map<std::string, checkpoint> last_; // by scope
};

class line_writer {
public:
    static std::string first_line();
    std::string line_of(const checkpoint& value, bool pinned);
    static std::string line_of(const step& value);
    static std::string last_line(std::uint64_t checkpoints, std::uint64_t steps);

private:
    last_checkpoints last_;
};

class line_reader {
public:
    line_reader(std::istream& from, limits bounds) : from_(from), bounds_(bounds) {}

    //! The next entry, or none after the last one.
    //! @throws waymark::error `invalid_argument` or `unsupported_format` that names the line.
    std::optional<entry> next();

private:
    bool read_line();
    entry read_entry(const boost::json::value& line);
    void read_first_line();
    void read_end(const boost::json::value& end);

    std::istream& from_;
    limits bounds_;
    std::string line_;
    std::uint64_t number_ = 0;
    std::uint64_t checkpoints_ = 0;
    std::uint64_t steps_ = 0;
    last_checkpoints last_;
};

} // namespace waymark::transfer
