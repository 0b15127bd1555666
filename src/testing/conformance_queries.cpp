#include "case_list.hpp"

#include <boost/json/parse.hpp>

#include <algorithm>

namespace waymark::testing {

namespace {

using namespace std::chrono_literals;

timestamp at(int second)
{
    return timestamp(std::chrono::seconds(1'800'000'000 + second));
}

//! Five checkpoints a second apart, "c0" to "c4"; names alternate between "even" and "odd".
std::shared_ptr<store> five_checkpoints(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    for (int i = 0; i < 5; ++i)
        store->save(checkpoint_of("agent", "c" + std::to_string(i), i)
                        .with_name(i % 2 == 0 ? "even" : "odd")
                        .with_created_at(at(i))
                        .with_state({{"i", i}})
                        .with_metadata("i", i));
    store->save(checkpoint_of("agent", "s", 9).with_scope("sub").with_created_at(at(9)));
    store->save(checkpoint_of("other", "o", 9).with_created_at(at(2)));
    return backend.reopen(std::move(store));
}

void lists_are_newest_first_unless_told(const backend_under_test& backend)
{
    auto store = five_checkpoints(backend);
    const query main = query("agent").scope("");
    WAYMARK_EXPECT(ids(store->list(main)) == (id_list{"c4", "c3", "c2", "c1", "c0"}));
    WAYMARK_EXPECT(ids(store->list(query(main).oldest_first())) == (id_list{"c0", "c1", "c2", "c3", "c4"}));
    WAYMARK_EXPECT(ids(store->list(query(main).limit(2))) == (id_list{"c4", "c3"}));
    WAYMARK_EXPECT(store->list(query(main).limit(0)).empty());
}

void a_query_covers_all_scopes_unless_told(const backend_under_test& backend)
{
    auto store = five_checkpoints(backend);
    WAYMARK_EXPECT(ids(store->list(query("agent"))) == (id_list{"s", "c4", "c3", "c2", "c1", "c0"}));
    WAYMARK_EXPECT(ids(store->list(query("agent").scope("sub"))) == (id_list{"s"}));
    WAYMARK_EXPECT(store->list(query("agent").scope("none")).empty());
}

void headers_tell_what_the_checkpoint_holds(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    const auto saved = checkpoint_of("agent", "a", 3)
                           .with_name("named")
                           .with_parent("p")
                           .with_created_at(at(1))
                           .with_metadata("k", "v");
    const auto result = store->save(saved);
    const auto header = store->list(query("agent")).at(0);
    WAYMARK_EXPECT(header.key() == saved.key());
    WAYMARK_EXPECT(header.name() == "named" && header.parent_id() == "p" && header.iteration() == 3);
    WAYMARK_EXPECT(header.created_at() == at(1) && header.metadata() == saved.metadata());
    WAYMARK_EXPECT(header.sequence() == result.sequence());
    WAYMARK_EXPECT(header.message_count() == saved.conversation().size());
    WAYMARK_EXPECT(header.stored_bytes() > 0 && !header.pinned());
    WAYMARK_EXPECT(header.content_bytes() == checkpoint_header(saved).content_bytes());
}

void names_select(const backend_under_test& backend)
{
    auto store = five_checkpoints(backend);
    WAYMARK_EXPECT(ids(store->list(query("agent").named("even"))) == (id_list{"c4", "c2", "c0"}));
    WAYMARK_EXPECT(ids(store->list(query("agent").named("even").limit(1))) == (id_list{"c4"}));
    WAYMARK_EXPECT(ids(store->list(query("agent").named(""))) == (id_list{"s"}));
    WAYMARK_EXPECT(store->list(query("agent").named("Even")).empty());
}

void times_select(const backend_under_test& backend)
{
    auto store = five_checkpoints(backend);
    const query main = query("agent").scope("");
    WAYMARK_EXPECT(ids(store->list(query(main).since(at(2)))) == (id_list{"c4", "c3"}));
    WAYMARK_EXPECT(ids(store->list(query(main).since(at(2) - 1us))) == (id_list{"c4", "c3", "c2"}));
    WAYMARK_EXPECT(ids(store->list(query(main).between(at(1), at(3)))) == (id_list{"c3", "c2", "c1"}));
    WAYMARK_EXPECT(store->list(query(main).between(at(3), at(1))).empty());
}

void before_is_resolved_to_a_sequence(const backend_under_test& backend)
{
    auto store = five_checkpoints(backend);
    WAYMARK_EXPECT(ids(store->list(query("agent").scope("").before("c2"))) == (id_list{"c1", "c0"}));
    WAYMARK_EXPECT(ids(store->list(query("agent").before("c1").oldest_first())) == (id_list{"c0"}));
    const query early = query("agent").scope("").before("c4").limit(2);
    WAYMARK_EXPECT(ids(store->list(early)) == (id_list{"c3", "c2"}));
    WAYMARK_EXPECT(ids(store->list(query(early).oldest_first())) == (id_list{"c0", "c1"}));
    store->save(checkpoint_of("agent", "by an old clock").with_created_at(at(-1)));
    WAYMARK_EXPECT(store->list(query("agent").scope("").before("by an old clock")).size() == 5);
    // An unknown id must not look like the end of the history.
    WAYMARK_EXPECT_ERROR(errc::not_found, store->list(query("agent").before("gone")));
    WAYMARK_EXPECT_ERROR(errc::not_found, store->list(query("agent").scope("sub").before("c2")));
    WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->list(query::all_agents().before("c2")));
    store->save(checkpoint_of("agent", "c2").with_scope("sub"));
    WAYMARK_EXPECT_ERROR(errc::conflict, store->list(query("agent").before("c2")));
    WAYMARK_EXPECT(ids(store->list(query("agent").scope("").before("c2"))) == (id_list{"c1", "c0"}));
}

void metadata_selects_by_typed_equality(const backend_under_test& backend)
{
    namespace json = boost::json;
    auto store = backend.make_empty();
    const std::vector<std::pair<std::string, json::value>> values = {
        {"int", 1},
        {"double", 1.0},
        {"text", "1"},
        {"true", true},
        {"null", nullptr},
        {"list", json::parse("[1, 2]")},
        {"object", json::parse(R"({"a": 1, "b": 2})")},
        {"large", 18446744073709551615u},
        {"quote", "x' OR 1=1 --"},
    };
    for (const auto& [id, value] : values)
        store->save(checkpoint_of("agent", id).with_metadata("key", value).with_metadata("both", 1));
    store->save(checkpoint_of("agent", "absent"));
    const auto found = [&](json::value value) {
        return ids(store->list(query("agent").metadata("key", std::move(value))));
    };
    for (const auto& [id, value] : values)
        WAYMARK_EXPECT(found(value) == id_list{id});
    WAYMARK_EXPECT(found(json::parse(R"({"b": 2, "a": 1})")) == id_list{"object"}); // order is no content
    WAYMARK_EXPECT(found(2).empty());
    WAYMARK_EXPECT(store->count(query("agent").metadata("both", 1).metadata("key", "1")) == 1);
    WAYMARK_EXPECT(store->count(query("agent").metadata("both", 2).metadata("key", "1")) == 0);
    // A key is data, however it looks.
    const std::string hostile = "k') OR 1=1 --.\"$[0]";
    store->save(checkpoint_of("agent", "hostile").with_metadata(hostile, 1));
    WAYMARK_EXPECT(ids(store->list(query("agent").metadata(hostile, 1))) == id_list{"hostile"});
}

void pages_follow_each_other(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    for (const auto* agent : {"a", "b", "c"})
        for (int i = 0; i < 7; ++i)
            store->save(checkpoint_of(agent, agent + std::to_string(i), 0).with_scope(i % 2 ? "odd" : ""));
    for (const bool oldest_first : {false, true}) {
        query all = query::all_agents();
        if (oldest_first)
            all.oldest_first();
        const auto whole = ids(store->list(all));
        WAYMARK_EXPECT(whole.size() == 21);
        WAYMARK_EXPECT(whole.front() == (oldest_first ? "a0" : "a6"));
        WAYMARK_EXPECT(whole.back() == (oldest_first ? "c6" : "c0"));
        id_list pieced;
        query page = query(all).limit(4);
        for (int guard = 0; guard < 10; ++guard) {
            const auto headers = store->list(page);
            if (headers.empty())
                break;
            for (const auto& header : headers)
                pieced.push_back(header.id());
            page.after(cursor(headers.back()));
        }
        WAYMARK_EXPECT(pieced == whole);
    }
    // A cursor outlives its checkpoint.
    const auto first_page = store->list(query("a").limit(2));
    store->erase("a", first_page.at(1).scope(), first_page.at(1).id());
    WAYMARK_EXPECT(ids(store->list(query("a").limit(2).after(cursor(first_page.at(1))))) ==
                   (id_list{"a4", "a3"}));
}

void load_all_and_count_agree_with_list(const backend_under_test& backend)
{
    auto store = five_checkpoints(backend);
    const cursor place(store->list(query("agent").scope("").named("odd").limit(1)).at(0)); // "c3"
    const std::vector<query> queries = {query::all_agents(),
                                        query("agent"),
                                        query("agent").named("odd"),
                                        query("agent").since(at(1)).limit(2),
                                        query("agent").before("c3"),
                                        query("agent").before("c3").oldest_first().limit(2),
                                        query::all_agents().metadata("i", 3),
                                        query("other").oldest_first(),
                                        query("agent").after(place),
                                        query("agent").after(place).limit(2),
                                        query::all_agents().after(place).oldest_first()};
    for (const auto& which : queries) {
        const auto headers = store->list(which);
        const auto whole = store->load_all(which);
        WAYMARK_EXPECT(store->count(which) == headers.size());
        WAYMARK_EXPECT(whole.size() == headers.size());
        for (std::size_t i = 0; i < whole.size(); ++i) {
            WAYMARK_EXPECT(whole[i].key() == headers.at(i).key());
            WAYMARK_EXPECT(whole[i].sequence() == headers.at(i).sequence());
            WAYMARK_EXPECT(whole[i].conversation().size() == headers.at(i).message_count());
            WAYMARK_EXPECT(store->load(whole[i].agent_id(), whole[i].scope(), whole[i].id()) == whole[i]);
        }
    }
}

void agents_are_listed_in_order(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    for (const auto* agent : {"b", "B", "a/b", "é", "a"})
        store->save(checkpoint_of(agent, "x"));
    const id_list all = {"B", "a", "a/b", "b", "é"};
    WAYMARK_EXPECT(store->list_agents() == all);
    WAYMARK_EXPECT(store->list_agents("", 2) == (id_list{"B", "a"}));
    WAYMARK_EXPECT(store->list_agents("a", 2) == (id_list{"a/b", "b"}));
    WAYMARK_EXPECT(store->list_agents("é", 2).empty());
    WAYMARK_EXPECT(store->list_agents("aa") == (id_list{"b", "é"}));
}

//! Most of one agent, and more agents than a list of them has unless told.
void ten_thousand_checkpoints(const backend_under_test& backend)
{
    constexpr int own = 8'950;
    constexpr int others = 1'050;
    auto store = backend.make_empty();
    conversation chat;
    std::vector<save_request> batch;
    for (int i = 0; i < own + others; ++i) {
        if (i % 100 == 0)
            chat.push(message::user("turn " + std::to_string(i)));
        if (i < own)
            batch.push_back({checkpoint("agent", chat, i).with_id("c" + std::to_string(i))});
        else
            batch.push_back({checkpoint("other-" + std::to_string(i)).with_id("o")});
        if (batch.size() == 500) {
            for (const auto& outcome : store->save(batch))
                WAYMARK_EXPECT(!outcome.code());
            batch.clear();
        }
    }
    std::vector<step_request> steps;
    for (int i = 0; i < 150; ++i)
        steps.push_back({step("agent", "", "call-" + std::to_string(1'000 + i)).with_result(i)});
    for (const auto& outcome : store->put_steps(steps))
        WAYMARK_EXPECT(!outcome.code());
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(store->count(query::all_agents()) == own + others);
    WAYMARK_EXPECT(store->count(query("agent")) == own);
    const auto page = store->list(query("agent").limit(3));
    WAYMARK_EXPECT(ids(page) == (id_list{"c8949", "c8948", "c8947"}));
    const auto listed = store->list(query("agent").oldest_first());
    WAYMARK_EXPECT(listed.size() == own);
    for (std::size_t i = 0; i < listed.size(); ++i)
        WAYMARK_EXPECT(listed[i].id() == "c" + std::to_string(i));
    const auto loaded = store->load_all(query("agent").before("c1200"));
    WAYMARK_EXPECT(loaded.size() == 1'200);
    for (std::size_t i = 0; i < loaded.size(); ++i)
        WAYMARK_EXPECT(loaded[i].id() == "c" + std::to_string(1'199 - i) &&
                       loaded[i].conversation().size() == (1'199 - i) / 100 + 1);
    const auto agents = store->list_agents("", 5'000);
    WAYMARK_EXPECT(agents.size() == others + 1);
    WAYMARK_EXPECT(store->list_agents() == id_list(agents.begin(), agents.begin() + 1'000));
    const auto found = store->load_steps(step_query("agent"));
    WAYMARK_EXPECT(found.size() == steps.size());
    for (std::size_t i = 0; i < found.size(); ++i)
        WAYMARK_EXPECT(found[i] == steps[i].step());
    WAYMARK_EXPECT(store->load_latest("agent").value().conversation().size() == 90);
    WAYMARK_EXPECT(store->load("agent", "", "c5000").value().conversation().size() == 51);
    WAYMARK_EXPECT(ids(store->list(query("agent").before("c2"))) == (id_list{"c1", "c0"}));
    WAYMARK_EXPECT(store->prune("agent", retention{}.keep_last(10), dry_run::no).count() == own - 10);
    WAYMARK_EXPECT(store->count(query("agent")) == 10);
    WAYMARK_EXPECT(store->load_latest("agent").value().conversation().size() == 90);
    WAYMARK_EXPECT(store->verify().ok());
}

void load_some_agrees_with_load(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    std::vector<checkpoint_key> keys;
    for (const auto* agent : {"one", "two"})
        for (int i = 1; i <= 4; ++i) {
            const auto next = checkpoint_of(agent, std::to_string(i), i).with_scope(i == 3 ? "side" : "");
            store->save(next);
            keys.push_back(next.key());
        }
    keys.insert(keys.begin() + 2, {"one", "", "nothing"});
    keys.insert(keys.begin() + 5, {"nobody", "", "1"});
    keys.push_back(keys.front());
    keys.insert(keys.begin(), keys.front()); // twice, side by side
    keys.insert(keys.begin() + 3, keys[3]);  // and so is one that is absent
    store = backend.reopen(std::move(store));

    // In one page or in many, with or without what came before.
    for (const std::size_t page : {1U, 3U, 100U}) {
        std::vector<checkpoint> earlier;
        for (auto rest = std::span<const checkpoint_key>(keys); !rest.empty();) {
            const auto wanted = rest.first(std::min(page, rest.size()));
            const auto loaded = store->load_some(wanted, earlier, page * 100);
            WAYMARK_EXPECT(!loaded.empty() && loaded.size() <= wanted.size());
            for (std::size_t i = 0; i < loaded.size(); ++i) {
                const auto expected = store->load(rest[i].agent_id(), rest[i].scope(), rest[i].id());
                const auto& found = loaded[i].value_or_throw();
                WAYMARK_EXPECT(found == expected);
                WAYMARK_EXPECT(!found || found->sequence() == expected->sequence());
                if (found)
                    earlier = {*found};
            }
            rest = rest.subspan(loaded.size());
        }
    }
    WAYMARK_EXPECT(store->load_some({}, {}, 1'000).empty());
    // However little is asked for, there is a first one.
    const auto smallest = store->load_some(keys, {}, 0);
    WAYMARK_EXPECT(!smallest.empty() && smallest.at(0).value_or_throw() == store->load("one", "", "1"));
    const checkpoint_key bad("one", "", "");
    WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->load_some(std::span(&bad, 1), {}, 1'000));
}

} // namespace

std::vector<conformance_case> query_cases()
{
    return {
        {"lists are newest first unless told", lists_are_newest_first_unless_told},
        {"a query covers all scopes unless told", a_query_covers_all_scopes_unless_told},
        {"headers tell what the checkpoint holds", headers_tell_what_the_checkpoint_holds},
        {"names select", names_select},
        {"times select: since is exclusive, between inclusive", times_select},
        {"before is resolved to a sequence", before_is_resolved_to_a_sequence},
        {"metadata selects by typed equality", metadata_selects_by_typed_equality},
        {"pages follow each other", pages_follow_each_other},
        {"load_all and count agree with list", load_all_and_count_agree_with_list},
        {"load_some agrees with load, key by key", load_some_agrees_with_load},
        {"agents are listed in order", agents_are_listed_in_order},
        {"ten thousand checkpoints", ten_thousand_checkpoints},
    };
}

} // namespace waymark::testing
