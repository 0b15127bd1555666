#include "connection.hpp"

#include "../../tables/digest.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <libpq-fe.h>
#include <poll.h>
#include <utility>

namespace waymark::postgres {

namespace {

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

//! A statement that the server should know is not there, or one that it should not know is: a pooler gave the
//! server's connection to someone else meanwhile, or statements were deallocated.
bool is_about_statement_name(const std::string& sqlstate)
{
    return sqlstate == "26000" || sqlstate == "42P05";
}

errc code_for(const std::string& sqlstate)
{
    if (sqlstate == "40003" || sqlstate == "08007")
        return errc::outcome_unknown;
    if (sqlstate == "40001" || sqlstate == "40P01" || sqlstate == "55P03" || sqlstate == "57014" ||
        sqlstate == "23505" || sqlstate == "53200")
        return errc::busy;
    if (sqlstate.starts_with("08") || sqlstate.starts_with("57P") || sqlstate == "53300" ||
        sqlstate == "25006" || is_about_statement_name(sqlstate))
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
        return "; it took longer than with_statement_timeout allows, perhaps waiting for another writer";
    if (sqlstate == "53200")
        return "; nothing was written: others hold the server's locks, or its memory; if this comes often, "
               "raise max_locks_per_transaction as docs/postgres.md says";
    if (sqlstate == "42501")
        return "; grant the role what docs/postgres.md lists";
    if (sqlstate == "25006")
        return "; the server only reads: name the primary, or all hosts, in the connection string";
    if (is_about_statement_name(sqlstate))
        return "; nothing was written: if a pooler stands between, turn with_prepared_statements off";
    return "";
}

//! The same text has the same name on every connection: where a pooler mixes them up, a statement is missing
//! or already there, which is an error, and never another one.
std::string name_for(std::string_view text)
{
    return "waymark_" + tables::to_hex(tables::view(tables::sha256(text)).substr(0, 10));
}

} // namespace

// Errors

database_error::database_error(errc code, const std::string& message, std::string sqlstate, bool is_fatal)
    : error(code, message), sqlstate_(std::move(sqlstate)), is_connection_lost_(is_fatal)
{
}

database_error::database_error(const std::string& message)
    : error(errc::unavailable, message), is_connection_lost_(true)
{
}

bool database_error::is_connection_useless() const noexcept
{
    return is_connection_lost_ || sqlstate_ == "25006" || is_about_statement_name(sqlstate_);
}

bool database_error::is_transient() const noexcept
{
    // 23505: another process made the same agent meanwhile; this time it is there. 53200: no room for locks,
    // until others end their transactions.
    return is_connection_lost_ || code() == errc::unavailable || sqlstate_ == "40001" ||
           sqlstate_ == "40P01" || sqlstate_ == "23505" || sqlstate_ == "53200";
}

// The connection

connection::connection(const connection_settings& settings)
    : settings_(settings), connection_(settings.connect())
{
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
    if (is_lost_ || is_useless_ || PQstatus(connection_) != CONNECTION_OK || !expected_.empty())
        return false;
    settle();
    if (PQtransactionStatus(connection_) != PQTRANS_IDLE)
        run(statement("ROLLBACK"));
    return PQtransactionStatus(connection_) == PQTRANS_IDLE;
} catch (...) {
    return false;
}

void connection::lose(const std::string& why)
{
    is_lost_ = true;
    fail(database_error("the connection to PostgreSQL was lost: " + settings_.without_secrets(why)));
}

void connection::fail(database_error failure)
{
    is_useless_ = failure.is_connection_useless();
    failure.is_of_old_connection_ = is_useless_ && was_idle_;
    throw failure; // NOLINT(cert-err09-cpp,cert-err61-cpp): made by another function
}

void connection::fail(const rows& failed)
{
    const auto* result = failed.get();
    const auto* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const auto* severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const std::string sqlstate = state == nullptr ? "" : state;
    const bool is_fatal =
        severity != nullptr && (std::strcmp(severity, "FATAL") == 0 || std::strcmp(severity, "PANIC") == 0);
    // Details may hold data of the row and are left out.
    const auto message = trimmed(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
    fail(database_error(
        code_for(sqlstate),
        "PostgreSQL: " +
            settings_.without_secrets(message.empty() ? trimmed(PQresultErrorMessage(result)) : message) +
            (sqlstate.empty() ? "" : " (SQLSTATE " + sqlstate + ")") + std::string(remedy_for(sqlstate)),
        sqlstate, is_fatal || PQstatus(connection_) != CONNECTION_OK));
}

connection::parsed_statement& connection::look_up(const char* sql)
{
    const auto [found, is_new] = statements_.try_emplace(sql);
    if (is_new) {
        found->second.text = in_schema(sql, settings_.schema());
        if (settings_.names_statements())
            found->second.name = name_for(found->second.text);
    }
    return found->second;
}

void connection::add(statement next)
{
    added_.push_back(std::move(next));
}

//! Without a name, a statement is known until the next one is parsed: those of one kind, one after the other,
//! are parsed once. That survives a pooler that gives a server connection away after each transaction.
void connection::enqueue(const statement& next)
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
    return std::chrono::steady_clock::now() + answer_timeout_ + network_time;
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
        lose(std::error_code(errno, std::system_category()).message());
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
        if (next.what == part::parse) { // whatever the answer: only success makes a statement known
            next.of->is_sent = false;
            next.of->is_prepared = settings_.names_statements() && status == PGRES_COMMAND_OK;
        }
        if (status == PGRES_FATAL_ERROR && !failed) {
            failed = std::move(result);
            if (PQstatus(connection_) != CONNECTION_OK) {
                is_lost_ = true;
                fail(*failed);
            }
        } else if (next.what == part::parse) {
            continue;
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

rows connection::run(statement only)
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
        unsent += next.bytes();
        if (unsent > most_unsent) {
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
