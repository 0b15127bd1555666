#include <waymark/error.hpp>
#include <waymark/session_options.hpp>

namespace waymark {

session_options& session_options::prune_every(std::size_t saves)
{
    if (saves == 0)
        throw error(errc::invalid_argument, "session_options::prune_every(0): at least one save comes "
                                            "between two prunings");
    prune_every_ = saves;
    return *this;
}

session_options& session_options::with_writer(std::string name)
{
    validate_label(name, "the writer");
    writer_ = std::move(name);
    return *this;
}

session_options& session_options::with_max_pending(std::size_t operations)
{
    if (operations == 0)
        throw error(errc::invalid_argument,
                    "session_options::with_max_pending(0): no operation could ever be started");
    max_pending_ = operations;
    return *this;
}

} // namespace waymark
