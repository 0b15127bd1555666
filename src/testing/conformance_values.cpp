//! What a store could lose without anyone noticing: a sign, a digit, an order, an emptiness. Values are
//! compared by what they are written as, because `==` of JSON takes some that differ for equal.
#include "case_list.hpp"

#include <boost/json/serialize.hpp>

#include <limits>

namespace waymark::testing {

namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

//! Numbers, each of which is another one after a detour through a shorter or another type.
const std::vector<json::value>& delicate_numbers()
{
    using real = std::numeric_limits<double>;
    static const std::vector<json::value> all = {
        0.0,
        -0.0,
        1,
        1.0,
        0.1 + 0.2,
        1.0 / 3,
        9007199254740993,   // 2^53 + 1, which no double is
        9007199254740992.0, // 2^53
        1e15,
        1e16,
        1e-7,
        real::max(),
        real::lowest(),
        real::min(),
        real::denorm_min(),
        real::epsilon(),
        std::numeric_limits<std::int64_t>::min(),
        std::numeric_limits<std::int64_t>::max(),
        std::numeric_limits<std::uint64_t>::max(),
        9223372036854775808U, // 2^63
        9223372036854775808.0,
    };
    return all;
}

//! Texts that something on the way could shorten, fold or replace.
const std::vector<std::string>& delicate_texts()
{
    static const std::vector<std::string> all = {
        "",
        " ",
        std::string(1, '\0'),
        std::string("a\0b", 3),
        std::string("end\0", 4),
        "line\r\nline\rline\n",
        "trailing space ",
        "trailing newline\n",
        "\t",
        "\x01\x1f\x7f",
        "\\u0041 \\n \\",
        "\"quoted\" 'quoted'",
        "</script>",
        "\xef\xbb\xbf with a byte order mark",
        "\xe2\x80\xa8\xe2\x80\xa9", // separators of lines and paragraphs
        "\xf0\x9f\xa7\xad",         // beyond 16 bits
        "\xc3\xa9",                 // é, composed
        "e\xcc\x81",                // é, decomposed
        "\xef\xbf\xbd",             // the replacement character itself
        "null",
        "true",
        "1.0",
    };
    return all;
}

json::array all_values()
{
    json::array all = {nullptr, true, false, json::array(), json::object(), json::array{json::array()}};
    for (const auto& number : delicate_numbers())
        all.push_back(number);
    for (const auto& text : delicate_texts())
        all.emplace_back(text);
    return all;
}

//! Members in an order that is neither sorted nor by length, some with values that look like nothing.
json::object in_an_order()
{
    return {{"zebra", 1},
            {"apple", nullptr},
            {"", ""},
            {"Mango", json::object()},
            {"kiwi.with.dots", json::array()},
            {std::string_view("nul\0key", 7), false},
            {"b", json::object{{"z", 0}, {"a", 0}}}};
}

std::string written(const checkpoint& value)
{
    return json::serialize(json::value_from(checkpoint(value).with_sequence(0)));
}

std::string written(const std::optional<checkpoint>& value)
{
    return value ? written(*value) : "none";
}

//! The same message with one member more in its item.
message with_member(const message& from, std::string_view key, const json::value& value)
{
    auto item = from.item();
    item.insert_or_assign(key, value);
    return message(from).with_item(std::move(item));
}

//! Each of the values in each place that takes any JSON.
checkpoint with_values(const json::value& value)
{
    conversation chat(7);
    chat.with_extra("value", value);
    chat.push(with_member(message::user("u"), "value", value));
    chat.push(message::assistant("a", {tool_call("c", "t", value)}));
    chat.push(message::from(
        {{"role", "assistant"},
         {"content",
          json::array{json::object{
              {"type", "tool_use"}, {"id", "c"}, {"name", "t"}, {"input", value}, {"value", value}}}}}));
    return checkpoint("agent", chat)
        .with_id("id")
        .with_state({{"value", value}})
        .with_metadata("value", value);
}

void expect_the_same(const backend_under_test& backend, const std::vector<checkpoint>& saved)
{
    auto store = backend.make_empty();
    for (const auto& each : saved)
        store->save(each);
    store = backend.reopen(std::move(store));
    for (const auto& each : saved) {
        const auto loaded = written(store->load(each.agent_id(), each.scope(), each.id()));
        if (loaded != written(each))
            fail(__FILE__, __LINE__, "saved:  " + written(each) + "\nloaded: " + loaded);
        const auto listed = store->list(query(each.agent_id()).scope(each.scope()).limit(1)).at(0);
        WAYMARK_EXPECT(json::serialize(listed.metadata()) == json::serialize(each.metadata()));
    }
}

void numbers_come_back(const backend_under_test& backend)
{
    std::vector<checkpoint> saved;
    for (const auto& number : delicate_numbers())
        saved.push_back(with_values(number).with_scope("scope-" + std::to_string(saved.size())));
    expect_the_same(backend, saved);
}

void a_sign_alone_is_a_change(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    const auto positive = with_values(0.0);
    const auto negative = checkpoint(positive).with_state({{"value", -0.0}});
    store->save(positive);
    WAYMARK_EXPECT_ERROR(errc::conflict, store->save(negative, save_options().create_only()));
    store->save(negative);
    WAYMARK_EXPECT(written(store->load("agent", "", "id")) == written(negative));

    const auto begun = step("agent", "", "call");
    const auto put = [&](double result) {
        const step_request request(step(begun).with_result(result));
        store->put_steps(std::span(&request, 1)).at(0).value_or_throw();
        return json::serialize(store->load_steps(step_query("agent")).at(0).result().value());
    };
    WAYMARK_EXPECT(put(0.0) == json::serialize(json::value(0.0)));
    WAYMARK_EXPECT(put(-0.0) == json::serialize(json::value(-0.0)));
}

//! The checkpoint changed in one way each. No two of the results are equal.
std::vector<checkpoint> changed_in_one_way(const checkpoint& from)
{
    const auto with_metadata = [&](std::initializer_list<std::pair<const char*, json::value>> members) {
        auto to = checkpoint(from.agent_id(), from.conversation(), from.iteration())
                      .with_id(from.id())
                      .with_state(from.state())
                      .with_created_at(from.created_at());
        for (const auto& [key, value] : members)
            to.with_metadata(key, value);
        return to;
    };
    const auto with_message = [&](const message& last) {
        auto chat = from.conversation();
        chat.truncate(chat.size() - 1);
        chat.push(last);
        return checkpoint(from).with_conversation(chat);
    };
    auto other_budget = conversation(from.conversation().max_tokens() + 1);
    for (const auto& each : from.conversation())
        other_budget.push(each);
    const auto said = from.conversation()[from.conversation().size() - 1];
    return {
        checkpoint(from).with_name("named"),
        checkpoint(from).with_parent("parent"),
        checkpoint(from).with_iteration(from.iteration() + 1),
        checkpoint(from).with_created_at(from.created_at() + 1us),
        checkpoint(from).with_state({{"b", 1}, {"a", 2}}), // another order
        checkpoint(from).with_state({{"a", 2.0}, {"b", 1}}),
        checkpoint(from).with_state({{"a", 2}}),
        with_metadata({{"b", 1}, {"a", 2}}),
        with_metadata({{"a", 2.0}, {"b", 1}}),
        with_metadata({{"a", 2}}),
        checkpoint(from).with_conversation(other_budget),
        checkpoint(from).with_conversation(conversation(from.conversation()).with_extra("x", 1)),
        with_message(with_member(said, "x", 1)),
        with_message(message(said).with_timestamp(said.timestamp() + 1us)),
        with_message(message(said).with_id("another")),
    };
}

void any_change_is_a_change(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    conversation chat(7);
    chat.push(message::user("u"));
    chat.push(message::assistant("a"));
    const auto base = checkpoint("agent", chat)
                          .with_id("id")
                          .with_state({{"a", 2}, {"b", 1}})
                          .with_metadata("a", 2)
                          .with_metadata("b", 1);
    // All in a scope of their own, so that each replaces what the change is measured by.
    std::vector<save_request> originals, created, replacements;
    for (const auto& each : changed_in_one_way(base)) {
        const auto scope = "scope-" + std::to_string(originals.size());
        originals.emplace_back(checkpoint(base).with_scope(scope));
        created.emplace_back(checkpoint(each).with_scope(scope), save_options().create_only());
        replacements.emplace_back(checkpoint(each).with_scope(scope));
    }
    store->save(originals);
    for (const auto& outcome : store->save(created))
        WAYMARK_EXPECT(outcome.code() == errc::conflict);
    store->save(replacements);
    store = backend.reopen(std::move(store));
    for (const auto& request : replacements) {
        const auto& wanted = request.checkpoint();
        const auto loaded = written(store->load("agent", wanted.scope(), "id"));
        if (loaded != written(wanted))
            fail(__FILE__, __LINE__, "replaced by: " + written(wanted) + "\nloaded:      " + loaded);
        const auto header = store->list(query("agent").scope(wanted.scope())).at(0);
        WAYMARK_EXPECT(header.parent_id() == wanted.parent_id() && header.name() == wanted.name());
        WAYMARK_EXPECT(json::serialize(header.metadata()) == json::serialize(wanted.metadata()));
    }

    const auto begun = step("agent", "", "call");
    for (const auto& result : {json::value{{"a", 2}, {"b", 1}}, json::value{{"b", 1}, {"a", 2}},
                               json::value{{"b", 1.0}, {"a", 2}}}) {
        const step_request request(step(begun).with_result(result));
        store->put_steps(std::span(&request, 1)).at(0).value_or_throw();
        WAYMARK_EXPECT(json::serialize(store->load_steps(step_query("agent")).at(0).result().value()) ==
                       json::serialize(result));
    }
}

void texts_come_back(const backend_under_test& backend)
{
    std::vector<checkpoint> saved;
    for (const auto& text : delicate_texts()) {
        conversation chat;
        chat.push(message::system(text));
        chat.push(message::user(text));
        chat.push(message::assistant(text, {tool_call(text, text, text)}));
        chat.push(message::tool_result(text, text).with_id(text));
        auto made = checkpoint("agent", chat)
                        .with_id("id")
                        .with_scope("scope-" + std::to_string(saved.size()))
                        .with_state({{text, text}})
                        .with_metadata(text, text);
        saved.push_back(std::move(made));
    }
    // Longer than any buffer, page or column that one would choose, and every character of several bytes.
    std::string text;
    for (int i = 0; i < 50'000; ++i)
        text += "\xe2\x82\xac";
    saved.push_back(with_values(json::value(text)).with_scope("long"));
    expect_the_same(backend, saved);
}

void order_and_emptiness_come_back(const backend_under_test& backend)
{
    const auto ordered = in_an_order();
    auto with_members = with_values(ordered).with_state(ordered);
    for (const auto& [key, value] : ordered)
        with_members.with_metadata(key, value);
    // What is empty, and what is not there: no parent, no name, no state, no metadata, no message.
    expect_the_same(backend, {with_members, with_values(json::object()).with_scope("object"),
                              with_values(json::array()).with_scope("array"),
                              with_values(nullptr).with_scope("null"), checkpoint("agent").with_scope("none"),
                              checkpoint("agent", conversation(std::numeric_limits<std::uint64_t>::max()))
                                  .with_scope("largest budget")});
    auto store = backend.make_empty();
    store->save(checkpoint("agent").with_id("id"));
    const auto bare = store->load("agent", "", "id").value();
    WAYMARK_EXPECT(!bare.parent_id() && bare.name().empty() && bare.state().empty() &&
                   bare.metadata().empty() && bare.conversation().empty());
    WAYMARK_EXPECT(!store->list(query("agent")).at(0).parent_id());
}

void times_come_back(const backend_under_test& backend)
{
    const std::vector<timestamp> times = {
        timestamp(0us),
        timestamp(-1us),
        timestamp(1us),
        timestamp(1'750'000'000'999'999us),
        timestamp(std::chrono::sys_days{std::chrono::year{1} / 1 / 1}),
        timestamp(std::chrono::sys_days{std::chrono::year{9999} / 12 / 31} + 24h - 1us),
    };
    std::vector<checkpoint> saved;
    for (const auto time : times) {
        conversation chat;
        chat.push(message::user("u").with_timestamp(time));
        saved.push_back(checkpoint("agent", chat)
                            .with_scope("scope-" + std::to_string(saved.size()))
                            .with_created_at(time));
    }
    expect_the_same(backend, saved);
    auto store = backend.make_empty();
    for (const auto time : times) {
        const step_request request(step("agent", "", "call").with_started_at(time));
        store->put_steps(std::span(&request, 1)).at(0).value_or_throw();
        WAYMARK_EXPECT(store->load_steps(step_query("agent")) == std::vector{request.step()});
    }
}

void results_of_steps_come_back(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    std::vector<step> saved;
    auto results = all_values();
    results.push_back(in_an_order());
    results.push_back(results);
    for (const auto& result : results)
        saved.push_back(step("agent", "", std::to_string(1'000 + saved.size())).with_result(result));
    for (const auto& each : saved) {
        const step_request request(each);
        store->put_steps(std::span(&request, 1)).at(0).value_or_throw();
    }
    store = backend.reopen(std::move(store));
    const auto loaded = store->load_steps(step_query("agent"));
    WAYMARK_EXPECT(loaded.size() == saved.size());
    for (std::size_t i = 0; i < saved.size(); ++i)
        WAYMARK_EXPECT(json::serialize(json::value_from(loaded[i])) ==
                       json::serialize(json::value_from(saved[i])));
    WAYMARK_EXPECT(store->load_steps(step_query("agent").pending_only()).empty()); // null is a result
}

} // namespace

std::vector<conformance_case> value_cases()
{
    return {
        {"numbers come back to the last bit", numbers_come_back},
        {"a sign alone is a change", a_sign_alone_is_a_change},
        {"a parent, an order or a type alone is a change", any_change_is_a_change},
        {"texts come back to the last byte", texts_come_back},
        {"the order of members comes back, and what is empty", order_and_emptiness_come_back},
        {"times come back to the microsecond", times_come_back},
        {"results of steps come back, whatever they are", results_of_steps_come_back},
    };
}

} // namespace waymark::testing
