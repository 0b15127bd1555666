//! A completion token that brings the whole sentence of an error along, not just its code.
#pragma once

#include <waymark/detail/asio.hpp>
#include <waymark/error.hpp>

#include <concepts>
#include <exception>
#include <type_traits>
#include <utility>

namespace waymark {

namespace detail {

struct to_exception;
struct to_object;

} // namespace detail

//! What `with_diagnostics` makes. As trivial to copy as the token inside, which a token should be: it is a
//! temporary of `co_await` expressions, and g++ 12 miscompiles some that own memory.
template <class Token, class Sink = detail::to_exception>
struct with_diagnostics_t {
    Token token{};
    [[no_unique_address]] Sink sink{};
};

//! What `co_await store.async_save(checkpoint)` uses.
using default_token = with_diagnostics_t<detail::awaitable_token>;

//! Turns the error code of an operation into a `waymark::error` that says what happened, to what, and what to
//! do. The token inside is given `void(std::exception_ptr, T)` in place of `void(std::error_code, T)`; any
//! other signature is left as it is.
//!
//!     auto saved = store.async_save(checkpoint, waymark::with_diagnostics(asio::use_future));
//!
//! Without a token, an operation of Waymark uses this one over what the coroutine can await. Other adapters
//! go inside, `with_diagnostics(asio::as_tuple(asio::use_awaitable))`: outside, they take the code away
//! before it can become an exception.
template <class Token>
    requires(!std::same_as<std::remove_cvref_t<Token>, diagnostics>) // details need a token behind them
constexpr auto with_diagnostics(Token&& token)
{
    return with_diagnostics_t<std::decay_t<Token>>{std::forward<Token>(token), {}};
}

//! Leaves error codes as they are, and puts the sentence into `details`, which a success clears. That happens
//! on the handler's executor, just before the handler is called. Other adapters go inside or outside.
//!
//!     co_await store.async_save(checkpoint,
//!                               with_diagnostics(details, asio::redirect_error(asio::use_awaitable, code)));
//!
//! @pre `details` lives until the operation has completed, and no other operation uses it until then.
template <class Token>
constexpr auto with_diagnostics(diagnostics& details, Token&& token)
{
    return with_diagnostics_t<std::decay_t<Token>, detail::to_object>{std::forward<Token>(token), {&details}};
}

//! Where a completion handler wants its details; null if it wants none. An associator like Asio's own: the
//! target is found through whatever is bound around the handler.
//!
//! An operation writes there on the handler's executor, just before it calls the handler:
//!
//!     if (auto* wanted = associated_diagnostics<Handler>::get(handler))
//!         *wanted = diagnostics(std::move(sentence)); // empty after a success
//!     std::move(handler)(code, std::move(result));
//!
//! The target may be inside the handler: moving the handler moves what was written, but makes the pointer
//! stale. Ask for it and write in one go, never ask, move and then write.
template <class Handler, class Default = diagnostics*>
struct associated_diagnostics {
    using type = diagnostics*;
    static type get(const Handler& /*handler*/, Default otherwise = nullptr) noexcept { return otherwise; }
};

template <class Handler, class Default>
    requires requires { typename asio::associator<associated_diagnostics, Handler, Default>::type; }
struct associated_diagnostics<Handler, Default> : asio::associator<associated_diagnostics, Handler, Default> {
};

namespace detail {

//! What a handler is called with when codes become exceptions.
template <class Signature>
struct throwing {
    using signature = Signature;
};
template <std::convertible_to<std::error_code> Code, class... Values>
struct throwing<void(Code, Values...)> {
    using signature = void(std::exception_ptr, Values...);
};

//! A sink is what a token does with details. It travels from the token to the initiation, and `start()` makes
//! the part of it that lives in the handler: `target()` is where an operation writes, `complete()` calls the
//! handler inside. This one throws, so to speak.
struct to_exception {
    template <class Signature>
    using inner = typename throwing<Signature>::signature;

    class started {
    public:
        diagnostics* target() const noexcept { return &details_; }

        template <class Handler, std::convertible_to<std::error_code> Code, class... Values>
        void complete(Handler&& handler, Code&& code, Values&&... values)
        {
            std::forward<Handler>(handler)(exception(code), std::forward<Values>(values)...);
        }
        template <class Handler, class... Values>
        void complete(Handler&& handler, Values&&... values)
        {
            std::forward<Handler>(handler)(std::forward<Values>(values)...);
        }

    private:
        //! Without memory for the error it is the `bad_alloc` that arrives: a handler must not be lost.
        std::exception_ptr exception(const std::error_code& code) noexcept
        {
            if (!code)
                return nullptr;
            try {
                return std::make_exception_ptr(error(code, std::move(details_).message()));
            } catch (...) {
                return std::current_exception();
            }
        }

        mutable diagnostics details_; // associators see handlers as const
    };

    started start() const noexcept { return {}; }
};

//! This one fills the caller's object, and needs nothing more in the handler.
struct to_object {
    template <class Signature>
    using inner = Signature;

    diagnostics* target() const noexcept { return details; }

    template <class Handler, class... Values>
    void complete(Handler&& handler, Values&&... values)
    {
        std::forward<Handler>(handler)(std::forward<Values>(values)...);
    }

    to_object start() const noexcept { return *this; }

    diagnostics* details;
};

//! The handler of the token inside, with a target for details.
template <class Handler, class Started>
struct diagnostics_handler {
    template <class... Values>
    void operator()(Values&&... values)
    {
        started.complete(std::move(handler), std::forward<Values>(values)...);
    }

    Handler handler;
    Started started;
};

//! Gives an operation such a handler. Derived from the operation's own initiation, because others look there
//! for its executor.
template <class Initiation, class Sink>
struct diagnostics_initiation : Initiation {
    template <class Handler, class... Arguments>
    void operator()(Handler&& handler, Arguments&&... arguments) &&
    {
        static_cast<Initiation&&>(*this)(wrap(std::forward<Handler>(handler)),
                                         std::forward<Arguments>(arguments)...);
    }
    template <class Handler, class... Arguments>
    void operator()(Handler&& handler, Arguments&&... arguments) const&
    {
        static_cast<const Initiation&>(*this)(wrap(std::forward<Handler>(handler)),
                                              std::forward<Arguments>(arguments)...);
    }

    template <class Handler>
    auto wrap(Handler&& handler) const
    {
        return diagnostics_handler<std::decay_t<Handler>, decltype(sink.start())>{
            std::forward<Handler>(handler), sink.start()};
    }

    [[no_unique_address]] Sink sink;
};

} // namespace detail

template <class Handler, class Started, class Default>
struct associated_diagnostics<detail::diagnostics_handler<Handler, Started>, Default> {
    using type = diagnostics*;
    static type get(const detail::diagnostics_handler<Handler, Started>& outer, Default = nullptr) noexcept
    {
        return outer.started.target();
    }
};

} // namespace waymark

namespace asio {

//! Executor, allocator, cancellation slot and so on are those of the handler inside.
template <template <class, class> class Associator, class Handler, class Started, class Default>
struct associator<Associator, waymark::detail::diagnostics_handler<Handler, Started>, Default>
    : Associator<Handler, Default> {
    using outer_handler = waymark::detail::diagnostics_handler<Handler, Started>;

    static decltype(auto) get(const outer_handler& outer) noexcept
    {
        return Associator<Handler, Default>::get(outer.handler);
    }
    static decltype(auto) get(const outer_handler& outer, const Default& otherwise) noexcept
    {
        return Associator<Handler, Default>::get(outer.handler, otherwise);
    }
};

//! Derived from the result of the token inside, whose `return_type` Asio asks for up to 1.28.
template <class Token, class Sink, class... Signatures>
struct async_result<waymark::with_diagnostics_t<Token, Sink>, Signatures...>
    : async_result<Token, typename Sink::template inner<Signatures>...> {
    template <class Initiation>
    using wrapper = waymark::detail::diagnostics_initiation<std::decay_t<Initiation>, Sink>;

    // The token inside is forwarded like the one outside: one that has a name may be used again. The type of
    // the result is spelled out so that Asio's concept sees what does not fit, and need not look any deeper.
    template <class Initiation, class Outer, class... Arguments,
              class Inner = decltype((std::declval<Outer>().token))>
    static auto initiate(Initiation&& initiation, Outer&& outer, Arguments&&... arguments)
        -> decltype(async_initiate<Inner, typename Sink::template inner<Signatures>...>(
            std::declval<wrapper<Initiation>>(), outer.token, std::forward<Arguments>(arguments)...))
    {
        return async_initiate<Inner, typename Sink::template inner<Signatures>...>(
            wrapper<Initiation>{std::forward<Initiation>(initiation), outer.sink}, outer.token,
            std::forward<Arguments>(arguments)...);
    }
};

} // namespace asio
