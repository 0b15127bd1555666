//! The words in which the rules of all APIs are written: where something stands, what shape it has, what is
//! wrong.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace model_api::rules {

namespace json = boost::json;

//! What was found so far, one sentence each.
class findings {
public:
    //! `where` is a path such as messages[2].content[0].
    void add(std::string_view where, std::string_view what);
    [[nodiscard]] std::vector<std::string> sentences() && { return std::move(sentences_); }

private:
    std::vector<std::string> sentences_;
};

//! What a member may be; `optional` allows its absence.
enum kinds : unsigned {
    text = 1,
    number = 2,
    boolean = 4,
    list = 8,
    object = 16,
    null = 32,
    optional = 64,
    anything = text | number | boolean | list | object | null
};

struct member {
    std::string_view name;
    unsigned kind;
};

using members = std::vector<member>;

//! No member is unknown to the shape, none that it requires is missing, and each is of a kind that it allows.
//! True if all of this holds.
bool has_shape(findings& found, std::string_view where, const json::object& what, const members& shape);

//! The object, or a finding and null.
const json::object* object_at(findings& found, std::string_view where, const json::value& what);

//! The member if it is there and of this kind, else null. Without a finding: has_shape() has looked already.
const json::object* object_in(const json::object& holder, std::string_view name);
const json::array* list_in(const json::object& holder, std::string_view name);
std::string_view text_in(const json::object& holder, std::string_view name);
bool has(const json::object& holder, std::string_view name);

std::string member_of(std::string_view where, std::string_view name);
std::string element_of(std::string_view where, std::string_view name, std::size_t index);
std::string quoted(std::string_view text);

bool one_of(std::string_view text, std::initializer_list<std::string_view> choice);
//! Nothing but spaces, tabs and line ends, or nothing at all.
bool is_blank(std::string_view text);
//! Letters, digits, underscores and dashes; at least one and at most `most` of them.
bool is_plain_id(std::string_view text, std::size_t most);
bool is_json(std::string_view text);
//! Not empty, in the usual alphabet and padded; `or_url_alphabet` allows - and _ in place of + and /.
bool is_base64(std::string_view text, bool or_url_alphabet = false);
bool is_web_address(std::string_view text);
//! type/subtype
bool is_media_type(std::string_view text);

struct data_url {
    std::string_view media_type;
    std::string_view data;
};
//! The parts of data:type;base64,… ; both are empty if it is none.
data_url parse_data_url(std::string_view url);

namespace chat_completions {
void check(findings& found, const json::object& request);
}
namespace responses {
void check(findings& found, const json::object& request);
}
namespace anthropic {
void check(findings& found, const json::object& request);
}
namespace gemini {
void check(findings& found, const json::object& request);
}

} // namespace model_api::rules
