#include "model_api_rules.hpp"

#include "model_api/shapes.hpp"

#include <boost/json/parse.hpp>

#include <algorithm>
#include <cctype>

namespace model_api {

std::vector<std::string> violations(api which, const boost::json::object& request)
{
    rules::findings found;
    switch (which) {
    case api::chat_completions:
        rules::chat_completions::check(found, request);
        break;
    case api::responses:
        rules::responses::check(found, request);
        break;
    case api::anthropic:
        rules::anthropic::check(found, request);
        break;
    case api::gemini:
        rules::gemini::check(found, request);
        break;
    }
    return std::move(found).sentences();
}

namespace rules {

namespace {

unsigned kind_of(const json::value& what)
{
    switch (what.kind()) {
    case json::kind::null:
        return null;
    case json::kind::bool_:
        return boolean;
    case json::kind::int64:
    case json::kind::uint64:
    case json::kind::double_:
        return number;
    case json::kind::string:
        return text;
    case json::kind::array:
        return list;
    case json::kind::object:
        return object;
    }
    return 0;
}

bool is_letter_or_digit(char c)
{
    return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

} // namespace

void findings::add(std::string_view where, std::string_view what)
{
    sentences_.push_back(std::string(where) + ": " + std::string(what) + ".");
}

bool has_shape(findings& found, std::string_view where, const json::object& what, const members& shape)
{
    auto good = true;
    for (const auto& [name, value] : what) {
        const auto known =
            std::find_if(shape.begin(), shape.end(), [&](const member& m) { return m.name == name; });
        if (known == shape.end()) {
            found.add(where, "the member " + quoted(name) + " is unknown");
            good = false;
        } else if ((known->kind & kind_of(value)) == 0) {
            found.add(where, "the member " + quoted(name) + " has the wrong type");
            good = false;
        }
    }
    for (const auto& m : shape) {
        if ((m.kind & optional) == 0 && !what.contains(m.name)) {
            found.add(where, "the member " + quoted(m.name) + " is missing");
            good = false;
        }
    }
    return good;
}

const json::object* object_at(findings& found, std::string_view where, const json::value& what)
{
    if (!what.is_object())
        found.add(where, "this is not an object");
    return what.if_object();
}

const json::object* object_in(const json::object& holder, std::string_view name)
{
    const auto* value = holder.if_contains(name);
    return value != nullptr ? value->if_object() : nullptr;
}

const json::array* list_in(const json::object& holder, std::string_view name)
{
    const auto* value = holder.if_contains(name);
    return value != nullptr ? value->if_array() : nullptr;
}

std::string_view text_in(const json::object& holder, std::string_view name)
{
    const auto* value = holder.if_contains(name);
    return value != nullptr && value->is_string() ? std::string_view(value->get_string())
                                                  : std::string_view();
}

bool has(const json::object& holder, std::string_view name)
{
    const auto* value = holder.if_contains(name);
    return value != nullptr && !value->is_null();
}

std::string member_of(std::string_view where, std::string_view name)
{
    return std::string(where) + "." + std::string(name);
}

std::string element_of(std::string_view where, std::string_view name, std::size_t index)
{
    const auto element = std::string(name) + "[" + std::to_string(index) + "]";
    return where.empty() ? element : member_of(where, element);
}

std::string quoted(std::string_view text)
{
    return "'" + std::string(text) + "'";
}

bool one_of(std::string_view text, std::initializer_list<std::string_view> choice)
{
    return std::find(choice.begin(), choice.end(), text) != choice.end();
}

bool is_blank(std::string_view text)
{
    return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

bool is_plain_id(std::string_view text, std::size_t most)
{
    return !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), [](char c) {
        return is_letter_or_digit(c) || c == '_' || c == '-';
    });
}

bool is_json(std::string_view text)
{
    json::error_code failed;
    json::parse(text, failed);
    return !failed;
}

bool is_base64(std::string_view text, bool or_url_alphabet)
{
    if (text.empty() || text.size() % 4 != 0)
        return false;
    for (auto padding = 0; padding < 2 && text.back() == '='; ++padding)
        text.remove_suffix(1);
    return std::all_of(text.begin(), text.end(), [&](char c) {
        return is_letter_or_digit(c) || c == '+' || c == '/' || (or_url_alphabet && (c == '-' || c == '_'));
    });
}

bool is_web_address(std::string_view text)
{
    return (text.starts_with("https://") && text.size() > 8) ||
           (text.starts_with("http://") && text.size() > 7);
}

bool is_media_type(std::string_view text)
{
    const auto slash = text.find('/');
    return slash != std::string_view::npos && slash > 0 && slash + 1 < text.size();
}

data_url parse_data_url(std::string_view url)
{
    constexpr std::string_view scheme = "data:";
    constexpr std::string_view encoding = ";base64,";
    const auto end = url.find(encoding);
    if (!url.starts_with(scheme) || end == std::string_view::npos)
        return {};
    return {url.substr(scheme.size(), end - scheme.size()), url.substr(end + encoding.size())};
}

} // namespace rules

} // namespace model_api
