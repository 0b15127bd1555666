//! What functions return by value may be asked at once: `for (auto& each : store.verify().damages())`. C++20
//! ends the life of the report before the loop begins, so its accessors hand out values then, and references
//! otherwise.
#include "catch.hpp"
#include "with_member.hpp"

#include <waymark/diff.hpp>
#include <waymark/history.hpp>
#include <waymark/memory_store.hpp>
#include <waymark/resume.hpp>
#include <waymark/session_options.hpp>
#include <waymark/summary.hpp>
#include <waymark/transfer.hpp>

#include <type_traits>
#include <utility>

using namespace waymark;
namespace json = boost::json;

namespace {

//! Whether an accessor gives a reference to a member of an object that stays, and the member itself of one
//! that goes.
#define LENDS_OR_GIVES(type, member)                                                                         \
    (std::is_lvalue_reference_v<decltype(std::declval<const type&>().member)> &&                             \
     std::is_lvalue_reference_v<decltype(std::declval<type&>().member)>&& noexcept(                          \
         std::declval<const type&>().member) &&                                                              \
     !std::is_reference_v<decltype(std::declval<type>().member)> &&                                          \
     std::is_same_v<const decltype(std::declval<type>().member)&,                                            \
                    decltype(std::declval<const type&>().member)>)

static_assert(LENDS_OR_GIVES(verify_report, damages()));
static_assert(LENDS_OR_GIVES(prune_result, removed()));
static_assert(LENDS_OR_GIVES(save_outcome, details()));
static_assert(LENDS_OR_GIVES(save_outcome, value()));
static_assert(!std::is_reference_v<decltype(std::declval<save_outcome>().value_or_throw())>);
static_assert(!std::is_reference_v<decltype(std::declval<save_outcome>().code())>);

static_assert(LENDS_OR_GIVES(diagnostics, message()));
static_assert(LENDS_OR_GIVES(error, details()));

static_assert(LENDS_OR_GIVES(checkpoint_key, agent_id()));
static_assert(LENDS_OR_GIVES(checkpoint_key, scope()));
static_assert(LENDS_OR_GIVES(checkpoint_key, id()));

static_assert(LENDS_OR_GIVES(checkpoint, id()));
static_assert(LENDS_OR_GIVES(checkpoint, agent_id()));
static_assert(LENDS_OR_GIVES(checkpoint, scope()));
static_assert(LENDS_OR_GIVES(checkpoint, key()));
static_assert(LENDS_OR_GIVES(checkpoint, parent_id()));
static_assert(LENDS_OR_GIVES(checkpoint, name()));
static_assert(LENDS_OR_GIVES(checkpoint, conversation()));
static_assert(LENDS_OR_GIVES(checkpoint, state()));
static_assert(LENDS_OR_GIVES(checkpoint, metadata()));

static_assert(LENDS_OR_GIVES(step, agent_id()));
static_assert(LENDS_OR_GIVES(step, scope()));
static_assert(LENDS_OR_GIVES(step, key()));
static_assert(LENDS_OR_GIVES(step, attempt()));
static_assert(LENDS_OR_GIVES(step, result()));
static_assert(LENDS_OR_GIVES(step, checkpoint_id()));

static_assert(LENDS_OR_GIVES(checkpoint_header, id()));
static_assert(LENDS_OR_GIVES(checkpoint_header, agent_id()));
static_assert(LENDS_OR_GIVES(checkpoint_header, scope()));
static_assert(LENDS_OR_GIVES(checkpoint_header, key()));
static_assert(LENDS_OR_GIVES(checkpoint_header, parent_id()));
static_assert(LENDS_OR_GIVES(checkpoint_header, name()));
static_assert(LENDS_OR_GIVES(checkpoint_header, metadata()));
static_assert(LENDS_OR_GIVES(checkpoint_header, damage()));

static_assert(LENDS_OR_GIVES(conversation, operator[](0)));
static_assert(LENDS_OR_GIVES(conversation, back()));
static_assert(LENDS_OR_GIVES(conversation, extra()));

static_assert(LENDS_OR_GIVES(message, id()));
static_assert(!std::is_reference_v<decltype(std::declval<message>().item())>);
static_assert(LENDS_OR_GIVES(part, json()));
static_assert(LENDS_OR_GIVES(tool_result, call_id()));
static_assert(LENDS_OR_GIVES(tool_result, name()));
static_assert(LENDS_OR_GIVES(tool_result, parts()));
static_assert(LENDS_OR_GIVES(compaction_range, summary_id()));
static_assert(LENDS_OR_GIVES(tool_call, id()));
static_assert(LENDS_OR_GIVES(tool_call, name()));
static_assert(LENDS_OR_GIVES(tool_call, arguments()));

static_assert(LENDS_OR_GIVES(resumed, operator*()));
static_assert(!std::is_reference_v<decltype(std::declval<resumed>().value())>);
static_assert(LENDS_OR_GIVES(resumed, unanswered_tool_calls()));
static_assert(LENDS_OR_GIVES(resumed, damage()));
static_assert(LENDS_OR_GIVES(resumed, passed_over()));

static_assert(LENDS_OR_GIVES(checkpoint_diff, messages_added()));
static_assert(LENDS_OR_GIVES(checkpoint_diff, messages_removed()));
static_assert(LENDS_OR_GIVES(checkpoint_diff, state_changes()));
static_assert(LENDS_OR_GIVES(checkpoint_diff, metadata_changes()));
static_assert(LENDS_OR_GIVES(member_change, path()));
static_assert(LENDS_OR_GIVES(member_change, before()));
static_assert(LENDS_OR_GIVES(member_change, after()));

static_assert(LENDS_OR_GIVES(summary, names()));
static_assert(LENDS_OR_GIVES(summary, first()));
static_assert(LENDS_OR_GIVES(summary, last()));

static_assert(LENDS_OR_GIVES(history, checkpoints()));
#undef LENDS_OR_GIVES

//! Pointers into a history that goes are refused.
template <class History>
concept gives_pointers = requires { std::declval<History>().branches(); };
static_assert(gives_pointers<const history&> && gives_pointers<history&>);
static_assert(!gives_pointers<history> && !gives_pointers<const history>);
template <class History>
concept gives_paths = requires { std::declval<History>().path_to("id"); };
static_assert(gives_paths<const history&> && !gives_paths<history>);

//! Setters of values that carry data keep a temporary a temporary, so that it is moved and not copied.
//! Options are cheap to copy: a setter returns the options themselves, whatever they are called on.
#define KEEPS_TEMPORARY(type, setter)                                                                        \
    (std::is_same_v<type&, decltype(std::declval<type&>().setter)> &&                                        \
     std::is_same_v<type&&, decltype(std::declval<type>().setter)>)
#define RETURNS_ITSELF(type, setter)                                                                         \
    (std::is_same_v<type&, decltype(std::declval<type&>().setter)> &&                                        \
     std::is_same_v<type&, decltype(std::declval<type>().setter)>)
static_assert(KEEPS_TEMPORARY(message, with_id("m")));
static_assert(KEEPS_TEMPORARY(message, with_item({})));
static_assert(KEEPS_TEMPORARY(tool_result, with_error()));
static_assert(KEEPS_TEMPORARY(tool_result, with_name("f")));
static_assert(KEEPS_TEMPORARY(conversation, with_system_prompt("")));
static_assert(KEEPS_TEMPORARY(checkpoint, with_id("c")));
static_assert(KEEPS_TEMPORARY(checkpoint_header, with_pinned(true)));
static_assert(KEEPS_TEMPORARY(step, with_attempt("a")));
static_assert(KEEPS_TEMPORARY(step_request, restored()));
static_assert(RETURNS_ITSELF(query, limit(1)));
static_assert(RETURNS_ITSELF(step_query, pending_only()));
static_assert(RETURNS_ITSELF(retention, keep_last(1)));
static_assert(RETURNS_ITSELF(limits, with_max_depth(1)));
static_assert(RETURNS_ITSELF(save_options, create_only()));
static_assert(RETURNS_ITSELF(memory_options, with_limits({})));
static_assert(RETURNS_ITSELF(session_options, exclusive()));
static_assert(RETURNS_ITSELF(step_options, safe_to_repeat()));
static_assert(RETURNS_ITSELF(resume_options, repair()));
static_assert(RETURNS_ITSELF(export_options, of_agent("a")));
static_assert(RETURNS_ITSELF(import_options, as_agent("a")));
#undef KEEPS_TEMPORARY
#undef RETURNS_ITSELF

//! Longer than what a string keeps inside of itself, so that the address sanitizer sees a use of it.
std::string lasting(const std::string& text)
{
    return text + " and a tail that makes the string allocate";
}

checkpoint returned_checkpoint()
{
    conversation chat;
    chat.push(test::with_member(message::user(lasting("hello")), "key", lasting("value")));
    chat.push(
        message::assistant(lasting("call"), {tool_call(lasting("id"), "search", json::object{{"q", 1}})}));
    return checkpoint(lasting("agent"), chat)
        .with_id(lasting("c"))
        .with_parent(lasting("p"))
        .with_name(lasting("name"))
        .with_state({{"file", lasting("content")}})
        .with_metadata("owner", lasting("me"));
}

} // namespace

TEST_CASE("loops over what a temporary holds find it")
{
    memory_store store;
    const auto saved = returned_checkpoint();
    store.save(saved);

    SECTION("what a store reports")
    {
        for (const auto& damage : verify_report(1, {{saved.key(), lasting("torn")}}).damages())
            CHECK(damage.what == lasting("torn"));
        store.save(checkpoint(saved.agent_id()));
        for (const auto& key : store.prune(saved.agent_id(), retention{}.keep_last(1), dry_run::no).removed())
            CHECK(key == saved.key());
        for (const auto& character : outcome<std::string>(error(errc::io, lasting("x"))).details().message())
            CHECK(character != '\0');
        for (const auto& character : outcome<std::string>(lasting("y")).value_or_throw())
            CHECK(character != '\0');
    }
    SECTION("checkpoints and conversations")
    {
        std::size_t messages = 0;
        for (const auto& each : returned_checkpoint().conversation())
            messages += each.text().size();
        CHECK(messages == lasting("hello").size() + lasting("call").size());
        for (const auto& [key, value] : returned_checkpoint().state())
            CHECK(value == json::value(lasting("content")));
        for (const auto& [key, value] : checkpoint_header(saved).metadata())
            CHECK(value == json::value(lasting("me")));
        for (const auto& call : returned_checkpoint().conversation().back().tool_calls())
            CHECK(call.id() == lasting("id"));
        for (const auto& [key, value] : returned_checkpoint().conversation()[0].item())
            CHECK(!value.get_string().empty());
        for (const auto& each : returned_checkpoint().conversation()[0].parts())
            CHECK(each.text() == lasting("hello"));
    }
    SECTION("what a session returns")
    {
        const auto other = checkpoint(saved.agent_id());
        for (const auto& each : checkpoint_diff(other, saved).messages_added())
            CHECK(!each.text().empty());
        for (const auto& change : checkpoint_diff(other, saved).state_changes())
            CHECK(change.path() == "/file");
        for (const auto& each : history({checkpoint_header(saved)}).checkpoints())
            CHECK(each.id() == saved.id());
        const auto summed = [&] {
            summary sum;
            sum.add(checkpoint_header(saved));
            return sum;
        };
        for (const auto& [name, count] : summed().names())
            CHECK(name == lasting("name"));
        const auto again = [&] {
            return resumed(saved, saved.conversation().unanswered_tool_calls(), {checkpoint_header(saved)},
                           lasting("damaged"));
        };
        for (const auto& each : (*again()).conversation())
            CHECK(!each.text().empty());
        for (const auto& call : again().unanswered_tool_calls())
            CHECK(call.id() == lasting("id"));
        for (const auto& each : again().passed_over())
            CHECK(each.id() == saved.id());
    }
}

TEST_CASE("a reference to what a temporary held is one to a value of its own")
{
    const auto& id = returned_checkpoint().key().id();
    CHECK(id == lasting("c"));
    const auto& parent = returned_checkpoint().parent_id();
    CHECK(parent == lasting("p"));
    const auto& text = error(errc::io, lasting("details")).details().message();
    CHECK(text == lasting("details"));
    const auto& damage = checkpoint_header(returned_checkpoint()).with_damage(lasting("torn")).damage();
    CHECK(damage == lasting("torn"));
}

TEST_CASE("what is shared stays with the other copies when one of them gives it away")
{
    auto copy = returned_checkpoint();
    const auto kept = copy;
    const auto state = std::move(copy).state();
    CHECK(kept.state() == state);
    auto first = kept.conversation()[0];
    CHECK(std::move(first).text() == lasting("hello"));
    CHECK(kept.conversation()[0].text() == lasting("hello"));
}

TEST_CASE("options that are built in one expression outlive it")
{
    const auto wanted = query(lasting("agent")).scope(lasting("scope")).limit(3);
    CHECK(wanted.agent_id() == lasting("agent"));
    CHECK(wanted.scope() == lasting("scope"));
    CHECK(wanted.limit() == 3);
    const auto policies = [] { return retention{}.keep_last(2).only_scope(lasting("scope")); };
    CHECK(policies().keep_last() == 2);
    CHECK(policies().applies_to(lasting("scope")));
}
