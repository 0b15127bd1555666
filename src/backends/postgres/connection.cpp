#include "connection.hpp"

#include "../../values/text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <libpq-fe.h>
#include <limits>
#include <poll.h>
#include <utility>

namespace waymark::postgres {

namespace {

// Types of parameters, as every server of this protocol numbers them.
constexpr unsigned bool_type = 16, bytea_type = 17, int8_type = 20, text_type = 25, int8_list_type = 1016;

// The server ends a statement that takes too long; this is what the network may add.
constexpr auto network_time = std::chrono::seconds(5);

// Libpq keeps what it could not send yet.
constexpr std::size_t most_unsent = std::size_t{16} << 20;

std::string trimmed(const char* message)
{
    std::string text = message == nullptr ? "" : message;
    while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
        text.pop_back();
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

bool starts_with(const std::string& text, std::string_view prefix)
{
    return text.compare(0, prefix.size(), prefix) == 0;
}

errc code_for(const std::string& sqlstate)
{
    if (sqlstate == "40003" || sqlstate == "08007")
        return errc::outcome_unknown;
    if (sqlstate == "40001" || sqlstate == "40P01" || sqlstate == "55P03" || sqlstate == "57014" ||
        sqlstate == "23505")
        return errc::busy;
    if (starts_with(sqlstate, "08") || starts_with(sqlstate, "57P") || sqlstate == "53300" ||
        sqlstate == "25006")
        return errc::unavailable;
    if (sqlstate == "XX001" || sqlstate == "XX002")
        return errc::corrupt;
    return errc::io;
}

//! What to do about errors that a user can do something about.
std::string_view remedy_for(const std::string& sqlstate)
{
    if (sqlstate == "53100")
        return "; nothing was written: make room on the server's disk";
    if (sqlstate == "57014")
        return "; it took longer than the statement time-out, perhaps waiting for another writer";
    if (sqlstate == "42501")
        return "; grant the role what docs/choosing-a-store.md lists";
    if (sqlstate == "25006")
        return "; the server only reads: name the primary, or all hosts, in the connection string";
    return "";
}

} // namespace

// Settings

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

bool connection_settings::are_refused() const
{
    // Of several hosts, another one may be about to take over.
    for (const auto& [name, value] : words_)
        if ((name == "host" || name == "hostaddr") && value.find(',') != std::string::npos)
            return false;
    const word_lists words(*this);
    return PQpingParams(words.names.data(), words.values.data(), 0) == PQPING_OK;
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

// Errors

database_error::database_error(errc code, const std::string& message, std::string sqlstate, bool is_fatal)
    : error(code, message), sqlstate_(std::move(sqlstate)), is_connection_lost_(is_fatal)
{
}

database_error::database_error(const std::string& message)
    : error(errc::unavailable, message), is_connection_lost_(true)
{
}

bool database_error::is_transient() const noexcept
{
    // 23505: another process made the same agent meanwhile; this time it is there.
    return is_connection_lost_ || code() == errc::unavailable || sqlstate_ == "40001" ||
           sqlstate_ == "40P01" || sqlstate_ == "23505";
}

// Statements

query& query::append(unsigned type, std::string_view bytes)
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

query& query::add(std::int64_t number)
{
    return append(int8_type, bytes_of(number));
}

query& query::add_list(std::span<const std::int64_t> numbers)
{
    // One dimension, no nulls, the type, how many, counted from 1.
    auto list = bytes_of(std::int32_t{1}) + bytes_of(std::int32_t{0}) + bytes_of(std::int32_t{int8_type}) +
                bytes_of(static_cast<std::int32_t>(numbers.size())) + bytes_of(std::int32_t{1});
    for (const auto number : numbers)
        list += bytes_of(std::int32_t{8}) + bytes_of(number);
    return append(int8_list_type, list);
}

query& query::add_flag(bool flag)
{
    return append(bool_type, std::string_view(flag ? "\1" : "\0", 1));
}

query& query::add(std::string_view text)
{
    return append(text_type, text);
}

query& query::add(const std::optional<std::string>& text)
{
    if (text)
        return add(*text);
    parameters_.push_back({text_type, 0, -1});
    return *this;
}

query& query::add_bytes(std::string_view bytes)
{
    return append(bytea_type, bytes);
}

query& query::add_bytes(const std::optional<std::string>& bytes)
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

// The connection

connection::connection(const connection_settings& settings) : settings_(settings)
{
    const word_lists words(settings);
    connection_ = PQconnectdbParams(words.names.data(), words.values.data(), 0);
    if (connection_ == nullptr)
        throw std::bad_alloc();
    if (PQstatus(connection_) != CONNECTION_OK) {
        const auto why = settings.without_secrets(trimmed(PQerrorMessage(connection_)));
        PQfinish(connection_);
        throw database_error("there is no connection to PostgreSQL: " + why);
    }
    PQsetNoticeReceiver(
        connection_,
        [](void* self, const PGresult* notice) {
            const auto* severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
            const auto* state = PQresultErrorField(notice, PG_DIAG_SQLSTATE);
            if (severity != nullptr && std::strcmp(severity, "WARNING") == 0)
                static_cast<connection*>(self)->warnings_.emplace_back(state == nullptr ? "" : state);
        },
        this);
    if (PQsetnonblocking(connection_, 1) != 0 || PQenterPipelineMode(connection_) != 1) {
        const auto why = settings.without_secrets(trimmed(PQerrorMessage(connection_)));
        PQfinish(connection_);
        throw database_error("the connection to PostgreSQL cannot be used: " + why);
    }
}

connection::~connection()
{
    PQfinish(connection_);
}

std::string connection::parameter(const char* name) const
{
    const auto* value = PQparameterStatus(connection_, name);
    return value == nullptr ? "" : value;
}

bool connection::is_in_failed_transaction() const noexcept
{
    return is_lost_ || PQtransactionStatus(connection_) == PQTRANS_INERROR;
}

bool connection::roll_back() noexcept
try {
    added_.clear();
    if (is_lost_ || PQstatus(connection_) != CONNECTION_OK || !expected_.empty())
        return false;
    settle();
    if (PQtransactionStatus(connection_) != PQTRANS_IDLE)
        run(query("ROLLBACK"));
    return PQtransactionStatus(connection_) == PQTRANS_IDLE;
} catch (...) {
    return false;
}

void connection::lose(const std::string& why)
{
    is_lost_ = true;
    throw database_error("the connection to PostgreSQL was lost: " + settings_.without_secrets(why));
}

void connection::fail(const rows& failed) const
{
    const auto* result = failed.get();
    const auto* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const auto* severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const std::string sqlstate = state == nullptr ? "" : state;
    const bool is_fatal =
        severity != nullptr && (std::strcmp(severity, "FATAL") == 0 || std::strcmp(severity, "PANIC") == 0);
    // Details may hold data of the row and are left out.
    const auto message = trimmed(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
    throw database_error(
        code_for(sqlstate),
        "PostgreSQL: " +
            settings_.without_secrets(message.empty() ? trimmed(PQresultErrorMessage(result)) : message) +
            (sqlstate.empty() ? "" : " (SQLSTATE " + sqlstate + ")") + std::string(remedy_for(sqlstate)),
        sqlstate, is_fatal || PQstatus(connection_) != CONNECTION_OK);
}

connection::statement& connection::look_up(const char* sql)
{
    const auto [found, is_new] = statements_.try_emplace(sql);
    if (is_new) {
        found->second.text = in_schema(sql, settings_.schema());
        if (settings_.names_statements())
            found->second.name = "waymark_" + std::to_string(statements_.size());
    }
    return found->second;
}

void connection::add(query next)
{
    added_.push_back(std::move(next));
}

//! Without a name, a statement is known until the next one is parsed: those of one kind, one after the other,
//! are parsed once. That survives a pooler that gives a server connection away after each transaction.
void connection::enqueue(const query& next)
{
    auto& wanted = look_up(next.sql_);
    std::vector<Oid> types;
    std::vector<const char*> values;
    std::vector<int> lengths;
    for (const auto& parameter : next.parameters_) {
        types.push_back(parameter.type);
        values.push_back(parameter.length < 0 ? nullptr : next.buffer_.data() + parameter.begin);
        lengths.push_back(std::max(parameter.length, 0));
    }
    const std::vector<int> binary(types.size(), 1);
    const auto count = static_cast<int>(types.size());
    if (!wanted.is_prepared && !wanted.is_sent && last_parsed_ != &wanted) {
        if (PQsendPrepare(connection_, wanted.name.c_str(), wanted.text.c_str(), count, types.data()) != 1)
            lose(trimmed(PQerrorMessage(connection_)));
        expected_.push_back({part::parse, &wanted});
        last_parsed_ = &wanted;
        wanted.is_sent = settings_.names_statements();
    }
    if (PQsendQueryPrepared(connection_, wanted.name.c_str(), count, values.data(), lengths.data(),
                            binary.data(), 1) != 1)
        lose(trimmed(PQerrorMessage(connection_)));
    expected_.push_back({part::execute, &wanted});
}

void connection::sync()
{
    if (PQpipelineSync(connection_) != 1)
        lose(trimmed(PQerrorMessage(connection_)));
    is_answer_due_ = true;
    if (!settings_.names_statements())
        last_parsed_ = nullptr;
}

std::chrono::steady_clock::time_point connection::answer_deadline() const
{
    return std::chrono::steady_clock::now() + settings_.answer_timeout() + network_time;
}

void connection::wait(short events, std::chrono::steady_clock::time_point& deadline)
{
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0)
        lose("the server did not answer in time");
    pollfd watched{PQsocket(connection_), events, 0};
    const auto ready = ::poll(&watched, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (ready < 0 && errno != EINTR)
        lose(std::strerror(errno));
    if (ready > 0)
        deadline = answer_deadline(); // something moves
    if (ready > 0 && (watched.revents & (POLLIN | POLLERR | POLLHUP)) != 0 &&
        PQconsumeInput(connection_) != 1)
        lose(trimmed(PQerrorMessage(connection_)));
}

void connection::wait_for_input()
{
    auto deadline = answer_deadline();
    for (;;) {
        const auto unsent = PQflush(connection_);
        if (unsent < 0)
            lose(trimmed(PQerrorMessage(connection_)));
        if (PQisBusy(connection_) == 0)
            return;
        wait(static_cast<short>(unsent > 0 ? POLLIN | POLLOUT : POLLIN), deadline);
    }
}

void connection::wait_until_sent()
{
    auto deadline = answer_deadline();
    for (;;) {
        const auto unsent = PQflush(connection_);
        if (unsent < 0)
            lose(trimmed(PQerrorMessage(connection_)));
        if (unsent == 0)
            return;
        wait(POLLIN | POLLOUT, deadline);
    }
}

rows connection::receive()
{
    wait_for_input();
    return rows(PQgetResult(connection_));
}

//! Answers to what was only sent.
void connection::settle()
{
    if (is_answer_due_)
        collect();
}

//! Takes the answers to one round trip.
std::vector<rows> connection::collect()
{
    std::vector<rows> results;
    std::optional<rows> failed;
    for (const auto& next : expected_) {
        auto result = receive();
        if (!result.get())
            lose("the server's answers are not the expected ones");
        const auto status = PQresultStatus(result.get());
        while (receive().get() != nullptr) { // until the end of this answer
        }
        if (status == PGRES_FATAL_ERROR && !failed) {
            failed = std::move(result);
            if (PQstatus(connection_) != CONNECTION_OK) {
                is_lost_ = true;
                fail(*failed);
            }
        } else if (next.what == part::parse) {
            next.of->is_sent = false;
            next.of->is_prepared = settings_.names_statements() && status == PGRES_COMMAND_OK;
        } else if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
            results.push_back(std::move(result));
        } else if (!failed) {
            lose("the server's answers are not the expected ones");
        }
    }
    const auto end = receive();
    if (!end.get() || PQresultStatus(end.get()) != PGRES_PIPELINE_SYNC)
        lose("the server's answers are not the expected ones");
    expected_.clear();
    is_answer_due_ = false;
    last_parsed_ = nullptr;
    if (failed)
        fail(*failed);
    return results;
}

std::vector<rows> connection::run()
{
    settle();
    warnings_.clear();
    send();
    return collect();
}

rows connection::run(query only)
{
    add(std::move(only));
    return std::move(run().back());
}

void connection::send()
{
    settle();
    const auto queries = std::exchange(added_, {});
    std::size_t unsent = 0;
    for (const auto& next : queries) {
        enqueue(next);
        if ((unsent += next.bytes()) > most_unsent) {
            wait_until_sent();
            unsent = 0;
        }
    }
    sync();
    if (PQflush(connection_) < 0)
        lose(trimmed(PQerrorMessage(connection_)));
}

void connection::run_script(const std::string& sql)
{
    settle();
    // The pipeline is left: only then several statements may stand in one text.
    if (PQexitPipelineMode(connection_) != 1 || PQsendQuery(connection_, sql.c_str()) != 1)
        lose(trimmed(PQerrorMessage(connection_)));
    std::optional<rows> failed;
    for (auto result = receive(); result.get() != nullptr; result = receive())
        if (PQresultStatus(result.get()) == PGRES_FATAL_ERROR && !failed)
            failed = std::move(result);
    if (failed && PQstatus(connection_) != CONNECTION_OK)
        is_lost_ = true;
    else if (PQenterPipelineMode(connection_) != 1)
        lose(trimmed(PQerrorMessage(connection_)));
    if (failed)
        fail(*failed);
}

} // namespace waymark::postgres
