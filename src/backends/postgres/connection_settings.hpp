//! How a server is reached, and which schema holds the tables.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct pg_conn;

namespace waymark::postgres {

//! What a connection is opened with.
class connection_settings {
public:
    //! @throws waymark::error `invalid_argument`; the text itself is never shown, it may hold a password.
    connection_settings(const std::string& conninfo, std::string schema,
                        std::chrono::milliseconds connect_timeout, std::chrono::milliseconds answer_timeout,
                        bool names_statements);

    //! Tries to connect; the result says whether that worked.
    pg_conn* connect() const;
    const std::vector<std::pair<std::string, std::string>>& words() const noexcept { return words_; }
    const std::string& schema() const noexcept { return schema_; }
    //! How long a server may take for the next answer.
    std::chrono::milliseconds answer_timeout() const noexcept { return answer_timeout_; }
    bool names_statements() const noexcept { return names_statements_; }

    //! A message without the passwords that are in the settings.
    std::string without_secrets(std::string message) const;

private:
    std::vector<std::pair<std::string, std::string>> words_;
    std::vector<std::string> secrets_;
    std::string schema_;
    std::chrono::milliseconds answer_timeout_;
    bool names_statements_;
};

//! The name as an identifier in SQL.
std::string quoted_name(std::string_view name);
//! SQL that names tables as `waymark.agents`, for another schema.
std::string in_schema(std::string sql, std::string_view schema);

} // namespace waymark::postgres
