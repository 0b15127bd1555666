//! Statements with their parameters, and what they return; all values in binary.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct pg_result;

namespace waymark::postgres {

//! A statement with its parameters. The text is a literal and names tables as `waymark.agents`; the schema is
//! put in their place.
class statement {
public:
    explicit statement(const char* sql) noexcept : sql_(sql) {}

    statement& add(std::int64_t number);
    statement& add_flag(bool flag);
    statement& add(std::string_view text);
    statement& add(const std::string& text) { return add(std::string_view(text)); }
    statement& add(const std::optional<std::string>& text);
    statement& add_bytes(std::string_view bytes);
    statement& add_bytes(const std::string& bytes) { return add_bytes(std::string_view(bytes)); }
    statement& add_bytes(const std::optional<std::string>& bytes);
    statement& add_list(std::span<const std::int64_t> numbers);

    const char* sql() const noexcept { return sql_; }
    std::size_t bytes() const noexcept { return buffer_.size(); }

private:
    friend class connection;

    struct parameter {
        unsigned type;
        std::size_t begin;
        int length; // -1: null
    };
    statement& append(unsigned type, std::string_view bytes);

    const char* sql_;
    std::string buffer_;
    std::vector<parameter> parameters_;
};

//! What a statement returned.
class rows {
public:
    explicit rows(pg_result* result) noexcept : result_(result) {}

    int size() const noexcept;
    std::int64_t number(int row, int column) const;
    bool flag(int row, int column) const;
    std::string text(int row, int column) const;
    std::optional<std::string> optional_text(int row, int column) const;
    //! How many rows were changed.
    std::int64_t changes() const;
    //! What was done: "COMMIT".
    std::string_view tag() const;
    const pg_result* get() const noexcept { return result_.get(); }

private:
    struct clear {
        void operator()(pg_result* result) const noexcept;
    };
    std::unique_ptr<pg_result, clear> result_;
};

} // namespace waymark::postgres
