#include <waymark/error.hpp>
#include <waymark/session_options.hpp>

namespace waymark {

session_options& session_options::with_scope(std::string scope) &
{
    scope_ = std::move(scope);
    return *this;
}

session_options&& session_options::with_scope(std::string scope) &&
{
    return std::move(with_scope(std::move(scope)));
}

session_options& session_options::with_strategy(waymark::strategy strategy) &
{
    strategy_ = std::move(strategy);
    return *this;
}

session_options&& session_options::with_strategy(waymark::strategy strategy) &&
{
    return std::move(with_strategy(std::move(strategy)));
}

session_options& session_options::with_retention(waymark::retention policies) &
{
    retention_ = std::move(policies);
    return *this;
}

session_options&& session_options::with_retention(waymark::retention policies) &&
{
    return std::move(with_retention(std::move(policies)));
}

session_options& session_options::prune_every(std::size_t saves) &
{
    if (saves == 0)
        throw error(errc::invalid_argument, "session_options::prune_every(0): at least one save comes "
                                            "between two prunings");
    prune_every_ = saves;
    return *this;
}

session_options&& session_options::prune_every(std::size_t saves) &&
{
    return std::move(prune_every(saves));
}

session_options& session_options::exclusive() & noexcept
{
    exclusive_ = true;
    return *this;
}

session_options&& session_options::exclusive() && noexcept
{
    return std::move(exclusive());
}

session_options& session_options::with_writer(std::string name) &
{
    validate_label(name, "the writer");
    writer_ = std::move(name);
    return *this;
}

session_options&& session_options::with_writer(std::string name) &&
{
    return std::move(with_writer(std::move(name)));
}

session_options& session_options::with_max_pending(std::size_t operations) &
{
    if (operations == 0)
        throw error(errc::invalid_argument,
                    "session_options::with_max_pending(0): no operation could ever be started");
    max_pending_ = operations;
    return *this;
}

session_options&& session_options::with_max_pending(std::size_t operations) &&
{
    return std::move(with_max_pending(operations));
}

step_options& step_options::safe_to_repeat() & noexcept
{
    safe_to_repeat_ = true;
    return *this;
}

step_options&& step_options::safe_to_repeat() && noexcept
{
    return std::move(safe_to_repeat());
}

} // namespace waymark
