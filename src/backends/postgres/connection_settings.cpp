#include "connection_settings.hpp"

#include <waymark/error.hpp>

#include <algorithm>
#include <libpq-fe.h>
#include <memory>
#include <new>

namespace waymark::postgres {

connection_settings::connection_settings(const std::string& conninfo, std::string schema,
                                         std::chrono::milliseconds connect_timeout,
                                         std::chrono::milliseconds answer_timeout, bool names_statements)
    : schema_(std::move(schema)), answer_timeout_(answer_timeout), names_statements_(names_statements)
{
    const std::unique_ptr<PQconninfoOption, void (*)(PQconninfoOption*)> parsed(
        conninfo.find('\0') == std::string::npos ? PQconninfoParse(conninfo.c_str(), nullptr) : nullptr,
        PQconninfoFree);
    if (!parsed)
        throw error(errc::invalid_argument,
                    "the connection string cannot be read (it is not shown, since it may hold a password); "
                    "write postgresql://user@host/database, or words like host=… dbname=… user=…");
    // What is not said. Half-open connections are noticed by the system's probes while nobody waits.
    words_ = {{"client_encoding", "UTF8"},
              {"fallback_application_name", "waymark"},
              {"target_session_attrs", "read-write"},
              {"connect_timeout", std::to_string(std::max<std::int64_t>(
                                      std::chrono::ceil<std::chrono::seconds>(connect_timeout).count(), 2))},
              {"keepalives_idle", "15"},
              {"keepalives_interval", "5"},
              {"keepalives_count", "3"}};
    for (const auto* word = parsed.get(); word->keyword != nullptr; ++word) {
        if (word->val == nullptr || std::string_view(word->keyword) == "client_encoding")
            continue;
        std::erase_if(words_, [&](const auto& known) { return known.first == word->keyword; });
        words_.emplace_back(word->keyword, word->val);
        if (std::string_view(word->dispchar).find('*') != std::string_view::npos && *word->val != '\0')
            secrets_.emplace_back(word->val);
    }
}

namespace {

//! The words as libpq wants them.
struct word_lists {
    explicit word_lists(const connection_settings& settings)
    {
        for (const auto& [name, value] : settings.words()) {
            names.push_back(name.c_str());
            values.push_back(value.c_str());
        }
        names.push_back(nullptr);
        values.push_back(nullptr);
    }

    std::vector<const char*> names;
    std::vector<const char*> values;
};

} // namespace

pg_conn* connection_settings::connect() const
{
    const word_lists words(*this);
    auto* const opened = PQconnectdbParams(words.names.data(), words.values.data(), 0);
    if (opened == nullptr)
        throw std::bad_alloc();
    return opened;
}

std::string connection_settings::without_secrets(std::string message) const
{
    for (const auto& secret : secrets_)
        for (auto at = message.find(secret); at != std::string::npos; at = message.find(secret, at + 3))
            message.replace(at, secret.size(), "***");
    return message;
}

std::string quoted_name(std::string_view name)
{
    std::string result = "\"";
    for (const char next : name)
        result.append(next == '"' ? 2 : 1, next);
    return result + '"';
}

std::string in_schema(std::string sql, std::string_view schema)
{
    constexpr std::string_view here = "waymark.";
    const auto there = quoted_name(schema) + '.';
    for (auto at = sql.find(here); at != std::string::npos; at = sql.find(here, at + there.size()))
        sql.replace(at, here.size(), there);
    return sql;
}

} // namespace waymark::postgres
