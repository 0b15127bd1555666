#include "hostile_refusal.hpp"

#include "hostile_expect.hpp"
#include "hostile_text.hpp"

#include <boost/json/serialize.hpp>

#include <limits>
#include <sstream>

namespace waymark::faults {

namespace {

namespace json = boost::json;

constexpr const char* other = "the harness' other";

class refusals {
public:
    refusals(store& target, const std::string& text) : store_(target), text_(text) {}

    void run()
    {
        as_id();
        as_id_of_reads();
        if (!is_label(text_))
            as_label();
        if (is_utf8(text_))
            accepted_as_text();
        else
            as_text();
        as_line();
        store_.erase_agent(other); // what went along with the refused
    }

private:
    template <class Action>
    void refused(const std::string& what, Action action)
    {
        require_failure(errc::invalid_argument, what, action);
    }

    //! Between two that are good, and have to be saved all the same.
    void refused_save(const std::string& what, const checkpoint& bad)
    {
        const std::vector<save_request> batch = {
            checkpoint(other).with_id("before"), {bad}, checkpoint(other).with_id("behind")};
        const auto outcomes = store_.save(batch);
        require(code_of(outcomes.at(1)) == errc::invalid_argument, "a save was accepted: " + what);
        require(!code_of(outcomes.at(0)) && !code_of(outcomes.at(2)),
                "good ones were refused beside a bad " + what);
    }

    void refused_step(const std::string& what, const step& bad)
    {
        const std::vector<step_request> batch = {{step(other, "", "before")}, {bad}};
        const auto outcomes = store_.put_steps(batch);
        require(code_of(outcomes.at(1)) == errc::invalid_argument, "a step was accepted: " + what);
        require(!code_of(outcomes.at(0)), "a good step was refused beside a bad " + what);
    }

    void as_id()
    {
        refused_save("agent", checkpoint(text_));
        refused_save("id", checkpoint(bystander).with_id(text_));
        refused_save("parent", checkpoint(bystander).with_parent(text_));
        refused_step("agent of a step", step(text_, "", "key"));
        refused_step("key of a step", step(bystander, "", text_));
        refused_step("checkpoint of a step", step(bystander, "", "key").with_checkpoint(text_));
        refused("erase, agent", [&] { store_.erase(text_, "", "bystander 1"); });
        refused("erase, id", [&] { store_.erase(bystander, "", text_); });
        refused("erase_scope, agent", [&] { store_.erase_scope(text_, "part"); });
        refused("erase_agent", [&] { store_.erase_agent(text_); });
        refused("erase_step, agent", [&] { store_.erase_step(text_, "part", "call"); });
        refused("erase_step, key", [&] { store_.erase_step(bystander, "part", text_); });
        refused("copy_agent from", [&] { store_.copy_agent(text_, other); });
        refused("copy_agent to", [&] { store_.copy_agent(bystander, text_); });
        refused("prune", [&] { store_.prune(text_, retention().keep_last(0), dry_run::no); });
        refused("pin, agent", [&] { store_.pin(text_, "", "bystander 1", false); });
        refused("pin, id", [&] { store_.pin(bystander, "", text_, true); });
        refused("as_agent", [&] {
            std::istringstream lines(exported(store_, bystander));
            import_lines(store_, lines, import_options().as_agent(text_));
        });
    }

    void as_id_of_reads()
    {
        refused("load, agent", [&] { store_.load(text_, "", "bystander 1"); });
        refused("load, id", [&] { store_.load(bystander, "", text_); });
        refused("load by id", [&] { store_.load(text_); });
        refused("load_latest", [&] { store_.load_latest(text_); });
        refused("list", [&] { store_.list(query(text_)); });
        refused("load_all", [&] { store_.load_all(query(text_)); });
        refused("count", [&] { store_.count(query(text_)); });
        refused("before", [&] { store_.list(query(bystander).before(text_)); });
        refused("load_steps", [&] { store_.load_steps(step_query(text_)); });
        refused("stats", [&] { store_.stats(text_); });
        refused("of_agent", [&] { export_json(store_, export_options().of_agent(text_)); });
        finds_nothing("load_steps by key", [&] {
            return store_.load_steps(step_query(bystander).key(text_)).empty() &&
                   store_.load_steps(step_query(bystander).scope("part").key(text_)).empty();
        });
        // Every agent is behind the empty one.
        finds_nothing("a cursor", [&] {
            for (const auto& header : store_.list(
                     query::all_agents().after(cursor(text_, std::numeric_limits<std::int64_t>::max()))))
                if (header.agent_id() < text_)
                    return false;
            return true;
        });
        const save_request expecting(checkpoint(bystander).with_id("new"), save_options().expect_head(text_));
        const auto code = code_of(store_.save(std::span(&expecting, 1)).at(0));
        require(code == errc::conflict || code == errc::invalid_argument, "expect_head was accepted");
    }

    //! A read may say that there is no such thing, or that there cannot be.
    template <class Action>
    void finds_nothing(const std::string& what, Action action)
    {
        bool nothing = true;
        const auto code = code_of_call([&] { nothing = action(); });
        require(!code || code == errc::invalid_argument, what + " failed with '" + code.message() + "'");
        require(nothing, what + " finds something");
    }

    void as_label()
    {
        refused_save("scope", checkpoint(bystander).with_scope(text_));
        refused_save("name", checkpoint(bystander).with_name(text_));
        refused_step("scope of a step", step(bystander, text_, "key"));
        refused("load, scope", [&] { store_.load(bystander, text_, "bystander 1"); });
        refused("load_latest, scope", [&] { store_.load_latest(bystander, text_); });
        refused("list, scope", [&] { store_.list(query(bystander).scope(text_)); });
        refused("list, name", [&] { store_.list(query(bystander).named(text_)); });
        refused("list_agents", [&] { store_.list_agents(text_); });
        refused("erase, scope", [&] { store_.erase(bystander, text_, "bystander 1"); });
        refused("erase_scope", [&] { store_.erase_scope(bystander, text_); });
        refused("erase_step, scope", [&] { store_.erase_step(bystander, text_, "call"); });
        refused("pin, scope", [&] { store_.pin(bystander, text_, "bystander 1", false); });
        refused("only_scope",
                [&] { store_.prune(bystander, retention().keep_last(0).only_scope(text_), dry_run::no); });
        finds_nothing("load_steps by scope", [&] {
            return store_.load_steps(step_query(bystander).scope(text_)).empty() &&
                   store_.load_steps(step_query(bystander).scope(text_).key("call")).empty();
        });
    }

    void as_text()
    {
        refused_save("key of metadata", checkpoint(bystander).with_metadata(text_, 1));
        refused_save("value of metadata", checkpoint(bystander).with_metadata("key", text_));
        refused_save("key of state", checkpoint(bystander).with_state({{text_, 1}}));
        refused_save("value of state", checkpoint(bystander).with_state({{"key", json::array{text_}}}));
        refused_step("result", step(bystander, "", "key").with_result(json::object{{"key", text_}}));
        refused("a message", [&] { message::user(text_); });
        refused("a tool call", [&] { tool_call("id", text_); });
        refused("a member of a message", [&] {
            message::from({{"role", "user"}, {"content", ""}, {"key", text_}});
        });
        refused("key of a query", [&] { store_.list(query(bystander).metadata(text_, 1)); });
        refused("value of a query", [&] { store_.list(query(bystander).metadata("key", text_)); });
    }

    void accepted_as_text()
    {
        conversation chat;
        chat.push(message::user(text_));
        chat.push(message::assistant(text_, {tool_call("id", "name", json::object{{text_, text_}})}));
        const auto wanted = checkpoint(other, chat)
                                .with_id("text")
                                .with_metadata(text_, text_)
                                .with_state({{text_, json::array{text_}}});
        store_.save(wanted);
        require(store_.load(other, "", "text") == wanted, "text comes back as another");
        require(store_.load_all(query::all_agents().metadata(text_, text_)) == std::vector{wanted},
                "a query by metadata finds something else");
        const step_request record(step(other, "", "text").with_result(json::object{{text_, text_}}));
        require(!code_of(store_.put_steps(std::span(&record, 1)).at(0)), "a result was refused");
        require(store_.load_steps(step_query(other).key("text")) == std::vector{record.step()},
                "a result comes back as another");
        const auto lines = exported(store_, other);
        store_.erase_agent(other);
        std::istringstream from(lines);
        import_lines(store_, from);
        require(store_.load(other, "", "text") == wanted, "text is another after export and import");
    }

    //! In a file that somebody else has written.
    void as_line()
    {
        const auto lines = exported(store_, bystander);
        const auto agent = json::serialize(json::string(text_));
        for (const auto& bad : {agent, std::string(R"("\ud800")"), std::string(R"("\u0000")")})
            refused("an import", [&] {
                std::istringstream from(replaced(lines, "\"bystander\"", bad));
                import_lines(store_, from);
            });
    }

    store& store_;
    const std::string& text_;
};

} // namespace

void exercise_refusals(store& target, const std::string& text)
{
    refusals(target, text).run();
}

} // namespace waymark::faults
