#include "statement.hpp"

#include <waymark/error.hpp>

#include <libpq-fe.h>
#include <limits>

namespace waymark::postgres {

namespace {

// Types of parameters, as every server of this protocol numbers them.
constexpr unsigned bool_type = 16, bytea_type = 17, int8_type = 20, text_type = 25, int8_list_type = 1016;

} // namespace

statement& statement::append(unsigned type, std::string_view bytes)
{
    if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
        throw error(errc::invalid_argument, "a value is too long for the database");
    parameters_.push_back({type, buffer_.size(), static_cast<int>(bytes.size())});
    buffer_ += bytes;
    return *this;
}

namespace {

//! In the order of the network.
template <class Number>
std::string bytes_of(Number number)
{
    std::string bytes(sizeof number, '\0');
    auto left = static_cast<std::uint64_t>(number);
    for (auto at = bytes.rbegin(); at != bytes.rend(); ++at, left >>= 8)
        *at = static_cast<char>(left & 0xff);
    return bytes;
}

} // namespace

statement& statement::add(std::int64_t number)
{
    return append(int8_type, bytes_of(number));
}

statement& statement::add_list(std::span<const std::int64_t> numbers)
{
    // One dimension, no nulls, the type, how many, counted from 1.
    auto list = bytes_of(std::int32_t{1}) + bytes_of(std::int32_t{0}) + bytes_of(std::int32_t{int8_type}) +
                bytes_of(static_cast<std::int32_t>(numbers.size())) + bytes_of(std::int32_t{1});
    for (const auto number : numbers)
        list += bytes_of(std::int32_t{8}) + bytes_of(number);
    return append(int8_list_type, list);
}

statement& statement::add_flag(bool flag)
{
    return append(bool_type, std::string_view(flag ? "\1" : "\0", 1));
}

statement& statement::add(std::string_view text)
{
    return append(text_type, text);
}

statement& statement::add(const std::optional<std::string>& text)
{
    if (text)
        return add(*text);
    parameters_.push_back({text_type, 0, -1});
    return *this;
}

statement& statement::add_bytes(std::string_view bytes)
{
    return append(bytea_type, bytes);
}

statement& statement::add_bytes(const std::optional<std::string>& bytes)
{
    if (bytes)
        return add_bytes(std::string_view(*bytes));
    parameters_.push_back({bytea_type, 0, -1});
    return *this;
}

// Results

void rows::clear::operator()(pg_result* result) const noexcept
{
    PQclear(result);
}

int rows::size() const noexcept
{
    return PQntuples(result_.get());
}

std::int64_t rows::number(int row, int column) const
{
    const auto* bytes = reinterpret_cast<const unsigned char*>(PQgetvalue(result_.get(), row, column));
    if (PQgetlength(result_.get(), row, column) != 8)
        throw error(errc::corrupt, "a column of the database has another type than it should have");
    std::uint64_t result = 0;
    for (int i = 0; i < 8; ++i)
        result = result << 8 | bytes[i];
    return static_cast<std::int64_t>(result);
}

bool rows::flag(int row, int column) const
{
    return PQgetlength(result_.get(), row, column) == 1 && *PQgetvalue(result_.get(), row, column) != 0;
}

std::string rows::text(int row, int column) const
{
    return {PQgetvalue(result_.get(), row, column),
            static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}

std::optional<std::string> rows::optional_text(int row, int column) const
{
    return PQgetisnull(result_.get(), row, column) != 0 ? std::nullopt : std::optional(text(row, column));
}

std::int64_t rows::changes() const
{
    const std::string count = PQcmdTuples(result_.get());
    return count.empty() ? 0 : std::stoll(count);
}

std::string_view rows::tag() const
{
    return PQcmdStatus(result_.get());
}

} // namespace waymark::postgres
