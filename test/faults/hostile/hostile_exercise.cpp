#include "hostile_exercise.hpp"

#include "hostile_expect.hpp"
#include "hostile_refusal.hpp"
#include "hostile_text.hpp"

#include <waymark/transfer.hpp>

#include <algorithm>
#include <limits>
#include <sstream>

namespace waymark::faults {

namespace {

namespace json = boost::json;

constexpr const char* copied = "the harness' copy";
constexpr const char* nowhere = "the harness' missing one";

//! What an agent has, to be compared with what another agent has.
struct contents_of_agent {
    std::vector<checkpoint> checkpoints;
    std::vector<bool> pins;
    std::vector<step> steps;

    friend bool operator==(const contents_of_agent&, const contents_of_agent&) = default;
};

contents_of_agent contents_of(store& target, const std::string& agent)
{
    contents_of_agent result;
    for (auto& one : target.load_all(query(agent).oldest_first()))
        result.checkpoints.push_back(std::move(one).with_agent(""));
    for (const auto& header : target.list(query(agent).oldest_first()))
        result.pins.push_back(header.pinned());
    for (auto& one : target.load_steps(step_query(agent)))
        result.steps.push_back(std::move(one).with_agent(""));
    return result;
}

conversation chat_of(const std::string& text)
{
    conversation chat;
    chat.push(message::system(text));
    chat.push(message::from({{"role", "user"}, {"content", text}, {"harness", text}}));
    chat.push(message::assistant(text, {tool_call(text, text, json::object{{text, text}})}));
    chat.push(message::tool_result(text, text));
    return chat;
}

//! The string everywhere.
checkpoint made_of(const std::string& text)
{
    return checkpoint(text, chat_of(text), 7)
        .with_scope(text)
        .with_id(text)
        .with_parent(text)
        .with_name(text)
        .with_metadata(text, text)
        .with_state({{text, text}, {"a member", json::object{{text, json::array{text}}}}});
}

//! The first, and others that differ from string to string: each costs a server some time.
std::vector<std::string> some_neighbours_of(const std::string& text)
{
    constexpr std::size_t enough = 5;
    auto all = neighbours_of(text);
    const auto others = all.size() - 1;
    if (others > 0)
        std::rotate(all.begin() + 1, all.begin() + 1 + static_cast<std::ptrdiff_t>(text.size() % others),
                    all.end());
    all.resize(std::min(all.size(), enough));
    return all;
}

std::vector<std::string> ids(const std::vector<checkpoint_header>& list)
{
    std::vector<std::string> result;
    for (const auto& header : list)
        result.push_back(header.id());
    return result;
}

//! A string that is a valid id, in one store.
class valid_id {
public:
    valid_id(store& target, const std::string& text)
        : store_(target), text_(text), main_(made_of(text)), siblings_(some_neighbours_of(text))
    {
    }

    //! Ends with nothing of that agent.
    void run()
    {
        nothing_is_there();
        alone();
        save_siblings();
        queries();
        pins_and_steps();
        conflicts();
        copies();
        removals();
        as_target();
        siblings_first();
    }

private:
    query own() const { return query(text_).scope(text_); }

    void nothing_is_there()
    {
        require(!store_.load(text_, text_, text_) && !store_.load(text_) && !store_.load_latest(text_, text_),
                "something is there before it was saved");
        require(store_.count(query(text_)) == 0 && store_.load_steps(step_query(text_)).empty(),
                "a query finds what was not saved");
        require(!store_.erase(text_, text_, text_) && !store_.pin(text_, text_, text_, true) &&
                    !store_.erase_step(text_, text_, text_) && store_.erase_scope(text_, text_) == 0 &&
                    store_.erase_agent(text_) == 0,
                "something was removed or pinned before it was saved");
        require_failure(errc::not_found, "copy_agent from nothing",
                        [&] { store_.copy_agent(text_, copied); });
    }

    void alone()
    {
        require(store_.save(main_).bytes_written() > 0, "a save wrote nothing");
        require(store_.load(text_, text_, text_) == main_, "load gives something else");
        require(store_.load(text_) == main_, "load by id gives something else");
        require(store_.load_latest(text_, text_) == main_, "load_latest gives something else");
        require(!store_.load_latest(text_), "the default scope is not empty");
        require(store_.save(main_).bytes_written() == 0, "the same again is not the same");
    }

    //! In the same scope with other ids, and in other scopes with the same id.
    void save_siblings()
    {
        std::vector<save_request> batch;
        for (const auto& other : siblings_) {
            batch.emplace_back(
                checkpoint(text_).with_scope(text_).with_id(other).with_name(other).with_metadata(other,
                                                                                                  text_));
            batch.emplace_back(
                checkpoint(text_).with_scope(other).with_id(text_).with_parent(other).with_metadata(text_,
                                                                                                    other));
        }
        for (const auto& outcome : store_.save(batch))
            require(!code_of(outcome), "a save of a neighbour failed");
        require(store_.load(text_, text_, text_) == main_, "a neighbour replaced it");
        for (const auto& request : batch) {
            const auto& wanted = request.checkpoint();
            require(store_.load(text_, wanted.scope(), wanted.id()) == wanted, "a neighbour is another one");
        }
    }

    void queries()
    {
        const std::vector<std::string> just_it = {text_};
        require(ids(store_.list(own().named(text_))) == just_it, "a query by name finds something else");
        require(ids(store_.list(own().metadata(text_, text_))) == just_it,
                "a query by metadata finds something else");
        require(ids(store_.list(query::all_agents().scope(text_).named(text_).metadata(text_, text_))) ==
                    just_it,
                "a query across agents finds something else");
        require(store_.load_all(own().named(text_)) == std::vector{main_}, "load_all finds something else");
        require(store_.count(own()) == siblings_.size() + 1, "a query by scope finds something else");
        require(store_.count(query(text_)) == 2 * siblings_.size() + 1,
                "a query by agent finds something else");
        require(store_.list(own().before(text_)).empty(), "before() the first there is something");
        require(ids(store_.list(own().before(siblings_.front()))) == just_it,
                "before() finds something else");
        const auto first = store_.list(own().oldest_first().limit(1)).at(0);
        require(store_.count(own().oldest_first().after(cursor(first))) == siblings_.size(),
                "a cursor goes on elsewhere");
        const auto behind =
            query::all_agents().after(cursor(text_, std::numeric_limits<std::int64_t>::max()));
        for (const auto& header : store_.list(query(behind).oldest_first()))
            require(header.agent_id() > text_, "a cursor does not go by bytes");
        const auto agents = store_.list_agents();
        require(std::is_sorted(agents.begin(), agents.end()), "agents are not in order of bytes");
        const auto here = std::find(agents.begin(), agents.end(), text_);
        require(here != agents.end(), "the agent is not listed");
        require(store_.list_agents(text_) == std::vector<std::string>(here + 1, agents.end()),
                "list_agents goes on elsewhere");
        require(store_.stats(text_).checkpoints == 2 * siblings_.size() + 1, "stats counts something else");
    }

    void pins_and_steps()
    {
        require(store_.pin(text_, text_, text_, true), "the checkpoint cannot be pinned");
        for (const auto& header : store_.list(query(text_)))
            require(header.pinned() == (header.key() == main_.key()), "something else was pinned");

        std::vector<step_request> batch;
        batch.emplace_back(
            step(text_, text_, text_).with_checkpoint(text_).with_result(json::object{{text_, text_}}));
        batch.emplace_back(step(text_, text_, siblings_.front()).with_checkpoint(text_).with_result(text_));
        batch.emplace_back(step(text_, siblings_.front(), text_).with_result(nullptr));
        for (const auto& outcome : store_.put_steps(batch))
            require(!code_of(outcome), "a step was refused");
        for (const auto& request : batch) {
            const auto& wanted = request.step();
            require(store_.load_steps(step_query(text_).scope(wanted.scope()).key(wanted.key())) ==
                        std::vector{wanted},
                    "a step is another one");
        }
        require(store_.load_steps(step_query(text_).key(text_)).size() == 2, "a query of steps finds others");
    }

    //! Whatever is said of them has to be printable, which `require_failure` looks at.
    void conflicts()
    {
        const auto other = checkpoint(main_).with_iteration(8);
        require_failure(errc::conflict, "create_only",
                        [&] { store_.save(other, save_options().create_only()); });
        require_failure(errc::conflict, "expect_head",
                        [&] { store_.save(other, save_options().expect_head(text_)); });
        require_failure(errc::conflict, "an id in several scopes", [&] { store_.load(text_); });
        require_failure(errc::conflict, "copy_agent onto an agent",
                        [&] { store_.copy_agent(bystander, text_); });
        require_failure(errc::not_found, "before() of nothing", [&] { store_.list(own().before(nowhere)); });
        require_failure(errc::conflict, "before() in several scopes",
                        [&] { store_.list(query(text_).before(text_)); });
        const step_request astray(step(text_, text_, nowhere).with_checkpoint(nowhere));
        require(code_of(store_.put_steps(std::span(&astray, 1)).at(0)) == errc::not_found,
                "a step on nothing was not refused");
        const step_request again(step(text_, text_, text_).with_result(0), true);
        require(code_of(store_.put_steps(std::span(&again, 1)).at(0)) == errc::conflict,
                "a step that is there was not refused");
        std::istringstream lines(replaced(exported(store_, text_), "\"iteration\":7", "\"iteration\":9"));
        require_failure(errc::conflict, "an import",
                        [&] { import_lines(store_, lines, import_options().when_exists(existing::fail)); });
    }

    void copies()
    {
        const auto original = contents_of(store_, text_);
        require(original.checkpoints.size() == 2 * siblings_.size() + 1, "load_all is not complete");
        require(store_.copy_agent(text_, copied) == original.checkpoints.size(), "copy_agent lost something");
        require(contents_of(store_, copied) == original, "copy_agent gives something else");
        store_.erase_agent(copied);

        std::istringstream lines(exported(store_, text_));
        import_lines(store_, lines, import_options().as_agent(copied));
        require(contents_of(store_, copied) == original, "export and import give something else");
        store_.erase_agent(copied);
        import_json(store_, export_json(store_, export_options().of_agent(text_)),
                    import_options().as_agent(copied));
        require(contents_of(store_, copied) == original, "export and import of JSON give something else");
        store_.erase_agent(copied);
        require(contents_of(store_, text_) == original, "a copy changed the original");
    }

    void removals()
    {
        const auto elsewhere = store_.count(query(text_)) - store_.count(own());
        const auto pruned = store_.prune(text_, retention().keep_last(0).only_scope(text_), dry_run::no);
        require(pruned.count() == siblings_.size() - 1,
                "prune removed others than it should"); // pin and head
        for (const auto& key : pruned.removed())
            require(key.agent_id() == text_ && key.scope() == text_ && key.id() != text_,
                    "prune says that it removed something else");
        require(store_.count(query(text_)) == elsewhere + 2, "prune reached another scope");
        require(store_.load(text_, text_, text_) == main_, "prune removed what is pinned");

        require(store_.erase_step(text_, text_, text_) && !store_.erase_step(text_, text_, text_),
                "erase_step does not erase");
        require(store_.load_steps(step_query(text_)).size() == 2, "erase_step erased others");
        require(store_.erase(text_, text_, text_) && !store_.erase(text_, text_, text_),
                "erase does not erase");
        require(!store_.load(text_, text_, text_), "what was erased is there");
        require(store_.erase_scope(text_, text_) == 1, "erase_scope removed others than it should");
        require(store_.count(query(text_)) == elsewhere, "erase_scope reached another scope");
        require(store_.erase_agent(text_) == elsewhere, "erase_agent removed others than it should");
    }

    //! The agent is made by other functions than save.
    void as_target()
    {
        const auto original = contents_of(store_, bystander);
        store_.copy_agent(bystander, text_);
        require(contents_of(store_, text_) == original, "copy_agent made something else");
        store_.erase_agent(text_);
        std::istringstream lines(exported(store_, bystander));
        import_lines(store_, lines, import_options().as_agent(text_));
        require(contents_of(store_, text_) == original, "import made something else");
        store_.erase_agent(text_);
        const step_request alone(step(text_, text_, text_));
        require(!code_of(store_.put_steps(std::span(&alone, 1)).at(0)), "a step alone was refused");
        require(store_.load_steps(step_query(text_)) == std::vector{alone.step()},
                "a step alone is another one");
        store_.erase_agent(text_);
    }

    //! Who comes later must not take the place of who is there.
    void siblings_first()
    {
        std::vector<save_request> batch;
        for (const auto& other : siblings_) {
            batch.emplace_back(checkpoint(text_).with_scope(text_).with_id(other));
            batch.emplace_back(checkpoint(text_).with_scope(other).with_id(text_));
        }
        store_.save(batch);
        require(!store_.load(text_, text_, text_), "a neighbour is taken for it");
        require(!store_.erase(text_, text_, text_) && !store_.pin(text_, text_, text_, true),
                "a neighbour is erased or pinned in its place");
        store_.save(main_, save_options().create_only());
        require(store_.load(text_, text_, text_) == main_, "load gives something else");
        const auto there = store_.load_all(query(text_).oldest_first());
        require(there.size() == batch.size() + 1 && there.back() == main_, "load_all gives something else");
        for (std::size_t i = 0; i < batch.size(); ++i)
            require(there[i] == batch[i].checkpoint(), "it took the place of a neighbour");
        require(store_.erase_agent(text_) == batch.size() + 1, "erase_agent removed others than it should");
    }

    store& store_;
    const std::string& text_;
    checkpoint main_;
    std::vector<std::string> siblings_;
};

//! Agents next to this one, as far as there are not such already.
std::vector<std::string> save_neighbours(store& target, const std::string& text,
                                         const std::vector<std::string>& known)
{
    auto agents = some_neighbours_of(text);
    std::erase_if(agents,
                  [&](const auto& agent) { return std::count(known.begin(), known.end(), agent) > 0; });
    std::vector<save_request> batch;
    for (const auto& agent : agents)
        batch.emplace_back(checkpoint(agent).with_id("a neighbour's"));
    for (const auto& outcome : target.save(batch))
        require(!code_of(outcome), "a neighbour could not be saved");
    return agents;
}

} // namespace

visible_contents look_at(store& target)
{
    return {target.list_agents(), target.list(query::all_agents()), target.load_steps(step_query(bystander)),
            target.stats().steps};
}

void save_bystander(store& target)
{
    conversation chat;
    for (int i = 1; i <= 3; ++i) {
        const auto number = std::to_string(i);
        chat.push(message::user("message " + number));
        target.save(
            checkpoint(bystander, chat, i).with_id("bystander " + number).with_name("name " + number));
        target.save(checkpoint(bystander, chat, i)
                        .with_id("bystander's part " + number)
                        .with_scope("part")
                        .with_metadata("key", number)
                        .with_state({{"member", number}}));
    }
    target.pin(bystander, "", "bystander 1", true);
    const step_request begun(step(bystander, "part", "call").with_checkpoint("bystander's part 2"));
    require(!code_of(target.put_steps(std::span(&begun, 1)).at(0)), "the bystander's step was refused");
}

void exercise(store& target, const std::string& text)
{
    const auto before = look_at(target);
    if (is_id(text)) {
        const auto neighbours = save_neighbours(target, text, before.agents);
        const auto around = look_at(target);
        valid_id(target, text).run();
        require(look_at(target) == around, "another agent was touched");
        for (const auto& agent : neighbours)
            require(target.erase_agent(agent) == 1, "a neighbour was not there to be erased");
    } else
        exercise_refusals(target, text);
    require(look_at(target) == before, "another agent was touched, or something is left over");
    if (!is_id(text))
        return;
    target.save(made_of(text));
    const step_request record(step(text, text, text).with_checkpoint(text));
    target.put_steps(std::span(&record, 1));
}

} // namespace waymark::faults
