#include "mutants.hpp"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cctype>

namespace waymark::test {

namespace {

constexpr const char* newest_first = "lists are newest first unless told";
constexpr const char* all_scopes = "a query covers all scopes unless told";
constexpr const char* headers_tell = "headers tell what the checkpoint holds";
constexpr const char* by_name = "names select";
constexpr const char* by_time = "times select: since is exclusive, between inclusive";
constexpr const char* by_before = "before is resolved to a sequence";
constexpr const char* by_metadata = "metadata selects by typed equality";
constexpr const char* by_page = "pages follow each other";
constexpr const char* by_keys = "load_some agrees with load, key by key";
constexpr const char* agreement = "load_all and count agree with list";
constexpr const char* by_the_thousand = "ten thousand checkpoints";
constexpr const char* agents_in_order = "agents are listed in order";

using keys = std::span<const checkpoint_key>;
using loaded = std::span<const checkpoint>;

//! Loads all, each with a change.
faults loading_all_with(void (*change)(checkpoint&))
{
    return {.load_all = [change](store& inner, const query& asked) {
        auto found = inner.load_all(asked);
        for (auto& each : found)
            change(each);
        return found;
    }};
}

load_outcome absent()
{
    return std::optional<checkpoint>();
}

//! The parts of a query that can be left out of it.
struct parts {
    bool scope = true;
    bool named = true;
    bool since = true;
    bool between = true;
    bool before = true;
    bool metadata = true;
    bool limit = true;
    bool after = true;
    bool order = true;
};

query only(const query& from, const parts& kept)
{
    auto to = from.agent_id() ? query(*from.agent_id()) : query::all_agents();
    if (kept.scope && from.scope())
        to.scope(*from.scope());
    if (kept.named && from.named())
        to.named(*from.named());
    if (kept.since && from.since())
        to.since(*from.since());
    if (kept.between && from.between())
        to.between(from.between()->first, from.between()->second);
    if (kept.before && from.before())
        to.before(*from.before());
    if (kept.metadata)
        for (const auto& [key, value] : from.metadata())
            to.metadata(key, value);
    if (kept.limit && from.limit())
        to.limit(*from.limit());
    if (kept.after && from.after())
        to.after(*from.after());
    if (kept.order && from.is_oldest_first())
        to.oldest_first();
    return to;
}

faults ignoring(parts kept)
{
    return asking_instead([kept](const query& asked) { return only(asked, kept); });
}

//! Keeps what a condition of its own says, instead of a part of the query.
faults selecting(parts kept, std::function<bool(const query&, const checkpoint_header&)> matches)
{
    kept.limit = false;
    const auto list = [=](store& inner, const query& asked) {
        auto found = inner.list(only(asked, kept));
        std::erase_if(found, [&](const checkpoint_header& each) { return !matches(asked, each); });
        if (asked.limit() && found.size() > *asked.limit())
            found.erase(found.begin() + static_cast<std::ptrdiff_t>(*asked.limit()), found.end());
        return found;
    };
    return {.list = list,
            .load_all =
                [list](store& inner, const query& asked) {
                    std::vector<checkpoint> whole;
                    for (const auto& each : list(inner, asked))
                        whole.push_back(inner.load(each.agent_id(), each.scope(), each.id()).value());
                    return whole;
                },
            .count = [list](store& inner, const query& asked) -> std::uint64_t {
                return list(inner, asked).size();
            }};
}

faults listing(std::function<checkpoint_header(checkpoint_header)> change)
{
    return {.list = [change = std::move(change)](store& inner, const query& asked) {
        auto found = inner.list(asked);
        for (auto& each : found)
            each = change(std::move(each));
        return found;
    }};
}

bool equal_but_for_case(const std::string& a, const std::string& b)
{
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

//! What a value looks like in a column of text.
std::string as_text(const boost::json::value& value)
{
    const auto* const string = value.if_string();
    return string != nullptr ? std::string(*string) : boost::json::serialize(value);
}

std::vector<mutant> filters()
{
    return {
        {"ignores the scope of a query", {all_scopes, the_model}, ignoring({.scope = false})},
        {"asks the default scope unless told",
         {all_scopes, the_model},
         asking_instead([](const query& asked) { return asked.scope() ? asked : query(asked).scope(""); })},
        {"ignores the name of a query", {by_name, the_model}, ignoring({.named = false})},
        {"takes the empty name for any", {by_name, the_model}, asking_instead([](const query& asked) {
             return only(asked, {.named = asked.named() && !asked.named()->empty()});
         })},
        {"compares names without regard to case",
         {by_name},
         selecting({.named = false},
                   [](const query& asked, const checkpoint_header& each) {
                       return !asked.named() || equal_but_for_case(*asked.named(), each.name());
                   })},
        {"ignores since", {by_time, the_model}, ignoring({.since = false})},
        {"takes since as inclusive",
         {by_time, the_model},
         selecting({.since = false},
                   [](const query& asked, const checkpoint_header& each) {
                       return !asked.since() || each.created_at() >= *asked.since();
                   })},
        {"ignores between", {by_time, the_model}, ignoring({.between = false})},
        {"takes between as exclusive",
         {by_time, the_model},
         selecting({.between = false},
                   [](const query& asked, const checkpoint_header& each) {
                       return !asked.between() || (each.created_at() >= asked.between()->first &&
                                                   each.created_at() < asked.between()->second);
                   })},
        {"takes the ends of between in any order",
         {by_time, the_model},
         asking_instead([](const query& asked) {
             auto to = only(asked, {.between = false});
             if (asked.between())
                 to.between(std::min(asked.between()->first, asked.between()->second),
                            std::max(asked.between()->first, asked.between()->second));
             return to;
         })},
        {"ignores before", {by_before, the_model}, ignoring({.before = false})},
        {"finds nothing before a checkpoint that is not there",
         {by_before, the_model},
         {.list =
              [](store& inner, const query& asked) {
                  try {
                      return inner.list(asked);
                  } catch (const error& failure) {
                      if (failure.code() != errc::not_found)
                          throw;
                      return std::vector<checkpoint_header>();
                  }
              }}},
        {"decides about before by the clock",
         {by_before, the_model},
         {.list =
              [](store& inner, const query& asked) {
                  auto found = inner.list(asked);
                  if (!asked.before())
                      return found;
                  const auto all = inner.list(query(*asked.agent_id()));
                  const auto which = std::find_if(all.begin(), all.end(), [&](const checkpoint_header& each) {
                      return each.id() == *asked.before();
                  });
                  std::erase_if(found, [&](const checkpoint_header& each) {
                      return each.created_at() > which->created_at();
                  });
                  return found;
              }}},
        {"takes the first of several that before may mean",
         {by_before, the_model},
         {.list =
              [](store& inner, const query& asked) {
                  try {
                      return inner.list(asked);
                  } catch (const error& failure) {
                      if (failure.code() != errc::conflict)
                          throw;
                      return inner.list(query(asked).scope(""));
                  }
              }}},
        {"ignores metadata", {by_metadata, the_model}, ignoring({.metadata = false})},
        {"looks at the last metadata of a query only", {by_metadata}, asking_instead([](const query& asked) {
             auto to = only(asked, {.metadata = false});
             if (!asked.metadata().empty())
                 to.metadata(asked.metadata().back().first, asked.metadata().back().second);
             return to;
         })},
        {"compares metadata as text",
         {by_metadata},
         selecting({.metadata = false},
                   [](const query& asked, const checkpoint_header& each) {
                       return std::all_of(
                           asked.metadata().begin(), asked.metadata().end(), [&](const auto& wanted) {
                               const auto* const value = each.metadata().if_contains(wanted.first);
                               return value != nullptr && as_text(*value) == as_text(wanted.second);
                           });
                   })},
        {"takes absent metadata for null",
         {by_metadata},
         selecting({.metadata = false},
                   [](const query& asked, const checkpoint_header& each) {
                       return std::all_of(
                           asked.metadata().begin(), asked.metadata().end(), [&](const auto& wanted) {
                               const auto* const value = each.metadata().if_contains(wanted.first);
                               return value == nullptr ? wanted.second.is_null() : *value == wanted.second;
                           });
                   })},
    };
}

std::vector<mutant> pages()
{
    return {
        {"lists the oldest first", {newest_first, the_model}, asking_instead([](const query& asked) {
             return query(asked).oldest_first();
         })},
        {"ignores oldest_first", {newest_first, by_page, the_model}, ignoring({.order = false})},
        {"lists by the clock",
         {"the latest is decided by sequence, not by the clock", the_model},
         {.list =
              [](store& inner, const query& asked) {
                  auto found = inner.list(asked);
                  std::stable_sort(found.begin(), found.end(),
                                   [&](const checkpoint_header& a, const checkpoint_header& b) {
                                       return asked.is_oldest_first() ? a.created_at() < b.created_at()
                                                                      : a.created_at() > b.created_at();
                                   });
                  return found;
              }}},
        {"ignores the limit", {newest_first, by_page, the_model}, ignoring({.limit = false})},
        {"takes a limit of 0 for none", {newest_first, the_model}, asking_instead([](const query& asked) {
             return only(asked, {.limit = asked.limit() != 0});
         })},
        {"applies the limit before the conditions",
         {by_name, the_model},
         {.list =
              [](store& inner, const query& asked) {
                  auto found = inner.list(only(asked, {.named = false}));
                  if (asked.named())
                      std::erase_if(found, [&](const checkpoint_header& each) {
                          return each.name() != *asked.named();
                      });
                  return found;
              }}},
        {"lists a thousand at most, and counts so", {by_the_thousand}, asking_instead([](const query& asked) {
             return asked.limit() ? asked : query(asked).limit(1'000);
         })},
        {"lists a thousand at most",
         {by_the_thousand},
         {.list =
              [](store& inner, const query& asked) {
                  return inner.list(asked.limit() ? asked : query(asked).limit(1'000));
              }}},
        {"loads a hundred at most",
         {by_the_thousand},
         {.load_all =
              [](store& inner, const query& asked) {
                  return inner.load_all(asked.limit() ? asked : query(asked).limit(100));
              }}},
        {"takes the newest before a checkpoint where the oldest were asked for",
         {by_before},
         {.list =
              [](store& inner, const query& asked) {
                  if (!asked.before() || !asked.is_oldest_first() || !asked.limit())
                      return inner.list(asked);
                  auto found = inner.list(only(asked, {.order = false}));
                  std::reverse(found.begin(), found.end());
                  return found;
              }}},
        {"loads the newest before a checkpoint where the oldest were asked for",
         {agreement},
         {.load_all =
              [](store& inner, const query& asked) {
                  if (!asked.before() || !asked.is_oldest_first() || !asked.limit())
                      return inner.load_all(asked);
                  auto found = inner.load_all(only(asked, {.order = false}));
                  std::reverse(found.begin(), found.end());
                  return found;
              }}},
        {"loads one behind a cursor",
         {agreement, the_model},
         {.load_all =
              [](store& inner, const query& asked) {
                  return inner.load_all(asked.after() && asked.limit() != 0 ? query(asked).limit(1) : asked);
              }}},
        {"counts without regard to the cursor",
         {agreement, the_model},
         {.count = [](store& inner,
                      const query& asked) { return inner.count(only(asked, {.after = false})); }}},
        {"ignores the cursor", {by_page, the_model}, ignoring({.after = false})},
        {"begins a page with the last one of the page before",
         {by_page, the_model},
         asking_instead([](const query& asked) {
             if (!asked.after())
                 return asked;
             const auto beside = asked.is_oldest_first() ? -1 : 1;
             return query(asked).after(cursor(asked.after()->agent_id(), asked.after()->sequence() + beside));
         })},
        {"skips one between two pages",
         {by_page, the_model},
         {.list =
              [](store& inner, const query& asked) {
                  if (!asked.after())
                      return inner.list(asked);
                  auto found = inner.list(only(asked, {.limit = false}));
                  if (!found.empty())
                      found.erase(found.begin());
                  if (asked.limit() && found.size() > *asked.limit())
                      found.erase(found.begin() + static_cast<std::ptrdiff_t>(*asked.limit()), found.end());
                  return found;
              }}},
        {"ends the list where a page meets the next agent",
         {by_page, the_model},
         {.list =
              [](store& inner, const query& asked) {
                  auto found = inner.list(asked);
                  if (asked.after())
                      std::erase_if(found, [&](const checkpoint_header& each) {
                          return each.agent_id() != asked.after()->agent_id();
                      });
                  return found;
              }}},
        {"loses a cursor with its checkpoint",
         {by_page},
         {.list =
              [](store& inner, const query& asked) {
                  if (asked.after()) {
                      const auto all = inner.list(query(asked.after()->agent_id()));
                      if (std::none_of(all.begin(), all.end(), [&](const checkpoint_header& each) {
                              return each.sequence() == asked.after()->sequence();
                          }))
                          return std::vector<checkpoint_header>();
                  }
                  return inner.list(asked);
              }}},
        {"lists all agents by sequence",
         {by_page, the_model},
         {.list =
              [](store& inner, const query& asked) {
                  auto found = inner.list(asked);
                  if (!asked.agent_id())
                      std::stable_sort(found.begin(), found.end(),
                                       [&](const checkpoint_header& a, const checkpoint_header& b) {
                                           return asked.is_oldest_first() ? a.sequence() < b.sequence()
                                                                          : a.sequence() > b.sequence();
                                       });
                  return found;
              }}},
        {"loads nothing by keys",
         {by_keys},
         {.load_some = [](store&, keys wanted, loaded,
                          std::size_t) { return std::vector<load_outcome>(wanted.size(), absent()); }}},
        {"gives no outcome at all for keys",
         {by_keys},
         {.load_some = [](store&, keys, loaded, std::size_t) { return std::vector<load_outcome>(); }}},
        {"gives what it loads by keys in its own order",
         {by_keys},
         {.load_some =
              [](store& inner, keys wanted, loaded earlier, std::size_t about_bytes) {
                  auto found = inner.load_some(wanted, earlier, about_bytes);
                  std::reverse(found.begin(), found.end());
                  return found;
              }}},
        {"leaves out the keys that are absent",
         {by_keys},
         {.load_some =
              [](store& inner, keys wanted, loaded earlier, std::size_t about_bytes) {
                  auto found = inner.load_some(wanted, earlier, about_bytes);
                  std::erase_if(found, [](const auto& one) { return !one.code() && !one.value(); });
                  return found;
              }}},
        {"gives no outcome where no bytes are asked for",
         {by_keys},
         {.load_some =
              [](store& inner, keys wanted, loaded earlier, std::size_t about_bytes) {
                  return about_bytes == 0 ? std::vector<load_outcome>()
                                          : inner.load_some(wanted, earlier, about_bytes);
              }}},
        {"gives one outcome for a key that is asked for twice",
         {by_keys},
         {.load_some =
              [](store& inner, keys wanted, loaded earlier, std::size_t about_bytes) {
                  std::vector<checkpoint_key> once(wanted.begin(), wanted.end());
                  once.erase(std::unique(once.begin(), once.end()), once.end());
                  return inner.load_some(once, earlier, about_bytes);
              }}},
        {"takes a key that no store can hold for an absent one",
         {by_keys},
         {.load_some =
              [](store& inner, keys wanted, loaded earlier, std::size_t about_bytes) {
                  try {
                      return inner.load_some(wanted, earlier, about_bytes);
                  } catch (const error&) {
                      return std::vector<load_outcome>(wanted.size(), absent());
                  }
              }}},
        {"gives what was loaded earlier once more",
         {by_keys},
         {.load_some =
              [](store& inner, keys wanted, loaded earlier, std::size_t about_bytes) {
                  auto found = inner.load_some(wanted, earlier, about_bytes);
                  if (!earlier.empty())
                      found.front() = load_outcome(earlier.front());
                  return found;
              }}},
        {"loads all without regard to the limit",
         {agreement, the_model},
         {.load_all = [](store& inner,
                         const query& asked) { return inner.load_all(only(asked, {.limit = false})); }}},
        {"loads all in another order",
         {agreement, the_model},
         {.load_all =
              [](store& inner, const query& asked) {
                  auto found = inner.load_all(asked);
                  std::reverse(found.begin(), found.end());
                  return found;
              }}},
        {"loads all without sequences", {agreement}, loading_all_with([](checkpoint& each) {
             each.with_sequence(0);
         })},
        {"loads all without their messages", {agreement, the_model}, loading_all_with([](checkpoint& each) {
             each.with_conversation({});
         })},
        {"loads all without their state", {agreement, the_model}, loading_all_with([](checkpoint& each) {
             each.with_state({});
         })},
        {"counts without regard to the conditions",
         {agreement, by_metadata, the_model},
         {.count =
              [](store& inner, const query& asked) {
                  return inner.count(only(asked, {.named = false, .since = false, .metadata = false}));
              }}},
        {"counts without regard to the limit",
         {agreement, the_model},
         {.count = [](store& inner,
                      const query& asked) { return inner.count(only(asked, {.limit = false})); }}},
    };
}

std::vector<mutant> lists()
{
    return {
        {"lists without pins",
         {"an existing key is replaced and keeps its sequence and pin", the_model},
         listing([](checkpoint_header each) { return std::move(each.with_pinned(false)); })},
        {"lists without the number of messages",
         {headers_tell, agreement, the_model},
         listing([](checkpoint_header each) { return std::move(each.with_message_count(0)); })},
        {"counts the messages in one byte",
         {"many short messages at once come back"},
         listing([](checkpoint_header each) {
             return std::move(each.with_message_count(std::min<std::size_t>(each.message_count(), 255)));
         })},
        {"lists without stored bytes", {headers_tell}, listing([](checkpoint_header each) {
             return std::move(each.with_stored_bytes(0));
         })},
        {"lists the bytes of the messages as the content",
         {headers_tell},
         listing([](checkpoint_header each) {
             return std::move(each.with_content_bytes(each.content_bytes() - each.metadata().size()));
         })},
        {"lists with sequences of its own", {headers_tell}, listing([](checkpoint_header each) {
             return std::move(each.with_sequence(each.sequence() + 7));
         })},
        {"lists agents in the order of a dictionary",
         {agents_in_order},
         {.list_agents =
              [](store& inner, text after, std::size_t limit) {
                  auto found = inner.list_agents(after, limit);
                  std::stable_sort(
                      found.begin(), found.end(), [](const std::string& a, const std::string& b) {
                          return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                                              [](unsigned char x, unsigned char y) {
                                                                  return std::tolower(x) < std::tolower(y);
                                                              });
                      });
                  return found;
              }}},
        {"lists agents from a name on, inclusive",
         {agents_in_order},
         {.list_agents =
              [](store& inner, text after, std::size_t limit) {
                  auto found = inner.list_agents({}, static_cast<std::size_t>(-1));
                  std::erase_if(found, [&](const std::string& each) { return each < after; });
                  found.resize(std::min(found.size(), limit));
                  return found;
              }}},
        {"lists agents without regard to the limit",
         {agents_in_order},
         {.list_agents = [](store& inner, text after,
                            std::size_t) { return inner.list_agents(after, static_cast<std::size_t>(-1)); }}},
        {"lists a thousand agents at most",
         {by_the_thousand},
         {.list_agents =
              [](store& inner, text after, std::size_t limit) {
                  return inner.list_agents(after, std::min<std::size_t>(limit, 1'000));
              }}},
        {"lists all agents where a thousand are meant",
         {by_the_thousand},
         {.list_agents =
              [](store& inner, text after, std::size_t limit) {
                  return inner.list_agents(after, limit == 1'000 ? static_cast<std::size_t>(-1) : limit);
              }}},
        {"lists agents from the beginning",
         {agents_in_order},
         {.list_agents = [](store& inner, text, std::size_t limit) { return inner.list_agents({}, limit); }}},
        {"lists only agents with checkpoints",
         {"steps are recorded and found", the_model},
         {.list_agents =
              [](store& inner, text after, std::size_t limit) {
                  auto found = inner.list_agents(after, limit);
                  std::erase_if(found,
                                [&](const std::string& each) { return inner.count(query(each)) == 0; });
                  return found;
              }}},
        {"lists agents that are gone",
         {"erase_agent removes everything of an agent", the_model},
         [] {
             const auto known = std::make_shared<std::vector<std::string>>();
             return faults{.list_agents =
                               [known](store& inner, text after, std::size_t limit) {
                                   auto found = inner.list_agents(after, limit);
                                   found.insert(found.end(), known->begin(), known->end());
                                   std::sort(found.begin(), found.end());
                                   return found;
                               },
                           .erase_agent =
                               [known](store& inner, text agent) {
                                   const auto erased = inner.erase_agent(agent);
                                   if (erased > 0)
                                       known->emplace_back(agent);
                                   return erased;
                               }};
         }},
    };
}

} // namespace

std::vector<mutant> mutants_of_queries()
{
    std::vector<mutant> all;
    for (const auto& part : {filters(), pages(), lists()})
        all.insert(all.end(), part.begin(), part.end());
    return all;
}

} // namespace waymark::test
