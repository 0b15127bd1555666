//! What a session tells its hooks, and how they are connected.
#pragma once

#include <waymark/checkpoint.hpp>
#include <waymark/error.hpp>
#include <waymark/save_receipt.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace waymark {

//! A checkpoint that is about to be saved, for `session::before_save`.
class pending_save {
public:
    explicit pending_save(waymark::checkpoint draft) : checkpoint_(std::move(draft)) {}

    //! May be changed. Agent, scope and parent are the session's: what a hook sets there has no effect.
    waymark::checkpoint& checkpoint() noexcept { return checkpoint_; }
    const waymark::checkpoint& checkpoint() const noexcept { return checkpoint_; }

    //! Nothing is saved. Further hooks are not asked.
    void veto(std::string reason) { veto_ = std::move(reason); }
    const std::optional<std::string>& veto() const noexcept { return veto_; }

private:
    waymark::checkpoint checkpoint_;
    std::optional<std::string> veto_;
};

//! A checkpoint that is durable, for `session::on_checkpoint`.
class checkpoint_saved {
public:
    checkpoint_saved(checkpoint_header header, const save_receipt& receipt)
        : header_(std::move(header)), receipt_(receipt)
    {
    }

    const checkpoint_header& header() const& noexcept { return header_; }
    checkpoint_header header() && { return std::move(header_); }
    //! What it added to the store.
    std::uint64_t bytes_written() const noexcept { return receipt_.bytes_written(); }
    //! From the hand-over to the store until it was durable.
    std::chrono::nanoseconds latency() const noexcept { return receipt_.latency(); }
    //! How many saves shared the commit.
    std::size_t batch_size() const noexcept { return receipt_.batch_size(); }
    //! How many writes were queued at the store or under way when it came.
    std::size_t queue_depth() const noexcept { return receipt_.queue_depth(); }

private:
    checkpoint_header header_;
    save_receipt receipt_;
};

//! Something that went wrong, for `session::on_error`.
class session_error {
public:
    enum class source {
        save,      //!< a save failed; the operation completes with the same error
        hook,      //!< a hook threw; what it was called for goes on
        retention, //!< automatic retention failed; it is tried again after a later save
    };

    session_error(source where, std::error_code code, std::string message)
        : source_(where), error_(code, std::move(message))
    {
    }

    source from() const noexcept { return source_; }
    const std::error_code& code() const noexcept { return error_.code(); }
    //! The details, without the general remedy of the code.
    const std::string& message() const noexcept { return error_.details().message(); }
    //! The same as an exception; `what()` has everything.
    const waymark::error& error() const noexcept { return error_; }

private:
    source source_;
    waymark::error error_;
};

namespace detail {

class hook_registry {
public:
    virtual void disconnect(std::uint64_t number) noexcept = 0;
    virtual bool contains(std::uint64_t number) const noexcept = 0;

protected:
    ~hook_registry() = default;
};

} // namespace detail

//! Refers to a connected hook. May be dropped: the hook stays connected then, as long as its session exists.
//! Its functions may be called from any thread, also from within a hook, and after the session is gone.
class connection {
public:
    //! Refers to nothing.
    connection() = default;
    connection(std::weak_ptr<detail::hook_registry> where, std::uint64_t number) noexcept
        : registry_(std::move(where)), number_(number)
    {
    }

    //! The hook is not called any more. One that is running on another thread is not waited for.
    void disconnect() noexcept
    {
        if (const auto alive = registry_.lock())
            alive->disconnect(number_);
    }

    bool connected() const noexcept
    {
        const auto alive = registry_.lock();
        return alive && alive->contains(number_);
    }

private:
    std::weak_ptr<detail::hook_registry> registry_;
    std::uint64_t number_ = 0;
};

//! Disconnects its hook when it goes.
class scoped_connection {
public:
    scoped_connection() = default;
    scoped_connection(connection owned) noexcept : connection_(std::move(owned)) {}
    scoped_connection(scoped_connection&& other) noexcept : connection_(other.release()) {}
    scoped_connection& operator=(scoped_connection&& other) noexcept
    {
        if (this != &other) {
            disconnect();
            connection_ = other.release();
        }
        return *this;
    }
    ~scoped_connection() { disconnect(); }

    void disconnect() noexcept { connection_.disconnect(); }
    bool connected() const noexcept { return connection_.connected(); }
    //! Gives up ownership: the hook stays connected.
    connection release() noexcept { return std::exchange(connection_, {}); }

private:
    connection connection_;
};

} // namespace waymark
