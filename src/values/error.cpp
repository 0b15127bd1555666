#include <waymark/error.hpp>
#include <waymark/version.hpp>

#define WAYMARK_TEXT_(x) #x
#define WAYMARK_TEXT(x) WAYMARK_TEXT_(x)

namespace waymark {

namespace {

class waymark_category final : public std::error_category {
public:
    const char* name() const noexcept override { return "waymark"; }

    std::string message(int value) const override
    {
        switch (static_cast<errc>(value)) {
        case errc::invalid_argument:
            return "the input was refused and nothing was written; correct it";
        case errc::not_found:
            return "something that this call depends on does not exist; list, list_agents and load_steps "
                   "show what there is";
        case errc::conflict:
            return "the store does not hold what the caller expected and nothing was changed; load it again "
                   "and decide anew";
        case errc::corrupt:
            return "stored data is damaged; verify() lists all damage";
        case errc::busy:
            return "the store is held by someone else; try again";
        case errc::unavailable:
            return "the database server cannot be reached, or refuses the connection; this call has changed "
                   "nothing; try again when it is back";
        case errc::closed:
            return "the store, or the session, is closed; open a new one";
        case errc::overloaded:
            return "the queue is full and nothing was queued; wait for earlier operations, or raise the "
                   "bounds in "
                   "async_options or session_options";
        case errc::unsupported_format:
            return "written by a newer version of Waymark and left untouched; upgrade the library";
        case errc::outcome_unknown:
            return "it is not known whether this took place; it did so as a whole or not at all: load it and "
                   "look";
        case errc::step_in_doubt:
            return "the step began and its end was never recorded; find out whether its effect happened";
        case errc::vetoed:
            return "a before_save hook refused the save and nothing was written; the details have its reason";
        case errc::callback_threw:
            return "a function of the caller's threw an exception; the details say which and what";
        case errc::io:
            return "the operating system or the database failed; the details say how";
        case errc::api_busy:
            return "the model's API cannot answer now; send the request again later";
        case errc::api_refused:
            return "the model's API refused the request; the details have its reason";
        }
        return "unknown error " + std::to_string(value);
    }

    std::error_condition default_error_condition(int value) const noexcept override
    {
        switch (static_cast<errc>(value)) {
        case errc::invalid_argument:
            return std::errc::invalid_argument;
        case errc::busy:
            return std::errc::device_or_resource_busy;
        case errc::unavailable:
        case errc::overloaded:
        case errc::api_busy:
            return std::errc::resource_unavailable_try_again;
        case errc::io:
            return std::errc::io_error;
        default:
            return {value, *this};
        }
    }
};

} // namespace

const std::error_category& category() noexcept
{
    static const waymark_category instance;
    return instance;
}

std::error_code make_error_code(errc code) noexcept
{
    return {static_cast<int>(code), category()};
}

error::error(errc code, std::string details) : error(make_error_code(code), std::move(details)) {}

error::error(std::error_code code, std::string details)
    : std::system_error(code, details), details_(std::move(details))
{
}

const char* version() noexcept
{
    return WAYMARK_TEXT(WAYMARK_VERSION_MAJOR) "." WAYMARK_TEXT(WAYMARK_VERSION_MINOR) "." WAYMARK_TEXT(
        WAYMARK_VERSION_PATCH);
}

} // namespace waymark
