//! What saves and loads are going to ask for.
#include "questions.hpp"

#include "checkpoints.hpp"
#include "digest.hpp"

#include <unordered_set>

namespace waymark::tables {

void saver::prepare(std::span<const save_request> batch, std::span<const std::size_t> valid)
{
    if (!tables_.asks_together())
        return;
    std::vector<const save_request*> requests;
    for (const auto i : valid)
        requests.push_back(&batch[i]);
    prepare_records(requests);
    prepare_conversations(requests);
    prepare_objects(requests);
}

void saver::prepare_records(std::span<const save_request* const> batch)
{
    questions wanted;
    for (const auto* request : batch) {
        const auto& saved = request->checkpoint();
        wanted.emplace_back(question::kind::scope, saved.agent_id(), saved.scope());
        wanted.emplace_back(question::kind::checkpoint, saved.agent_id(), saved.scope(), saved.id());
        if (request->options().expects_head())
            wanted.emplace_back(question::kind::head, saved.agent_id(), saved.scope());
    }
    tables_.expect(wanted);
}

//! What conversations and messages remember is checked where someone else has written since; conversations
//! that do not go on from the head are compared with it and with the parent, if they hold messages that
//! nobody remembers.
void saver::prepare_conversations(std::span<const save_request* const> batch)
{
    questions open;
    std::vector<const checkpoint*> compared;
    for (const auto* request : batch) {
        const auto& wanted = request->checkpoint();
        const auto agent = tables_.find_agent(wanted.agent_id());
        if (!agent)
            continue;
        const auto scope = tables_.find_scope(agent->number, wanted.scope());
        if (!scope)
            open.emplace_back(question::kind::scope_count, wanted.agent_id());
        const detail::storage_place place{store_number_, agent->number};
        const auto found = detail::conversation_access::find_stored(wanted.conversation(), place);
        known_part assumed{static_cast<const remembered_prefix*>(found.prefix), found.length, {}, {}};
        const auto ask_for_stamp = [&](std::int64_t number) {
            open.emplace_back(question::kind::stamp, wanted.agent_id());
            open.back().number = number;
        };
        if (assumed.memory != nullptr && !assumed.memory->is_as_seen(*agent))
            ask_for_stamp(assumed.memory->newest().number);
        if (assumed.length == wanted.conversation().size())
            continue;
        const auto rest = detail::conversation_access::messages_from(wanted.conversation(), assumed.length);
        const remembered_messages messages(rest, place, nullptr);
        for (const auto number : messages.stamps_to_ask(*agent))
            ask_for_stamp(number);
        if (!scope)
            continue;
        compared.push_back(&wanted);
        if (!messages.some_are_open() || !may_have_relatives(wanted, assumed, *scope))
            continue;
        open.emplace_back(question::kind::head, wanted.agent_id(), wanted.scope());
        if (wanted.parent_id())
            open.emplace_back(question::kind::checkpoint, wanted.agent_id(), wanted.scope(),
                              *wanted.parent_id());
    }
    if (!open.empty())
        tables_.expect(open);

    open.clear();
    for (const auto* wanted : compared) {
        const auto agent = tables_.find_agent(wanted->agent_id());
        const auto scope = tables_.find_scope(agent->number, wanted->scope());
        const auto remembered = find_remembered(wanted->conversation(), *agent, store_number_, this, tables_);
        if (!remembered.messages.some_are_open())
            continue;
        const auto related = related_to(*wanted, *agent, &*scope, remembered.known);
        if (!is_worth_reading(remembered.messages, related))
            continue;
        for (const auto& messages : related) {
            open.emplace_back(question::kind::messages, wanted->agent_id());
            open.back().ranges = messages.all();
        }
    }
    if (!open.empty())
        tables_.expect(open);
}

//! Large members of states are looked up by hash. Lists of them may be objects themselves, which depend on
//! the numbers of their members: a second round asks for those.
void saver::prepare_objects(std::span<const save_request* const> batch)
{
    using hashes = std::unordered_set<std::string>; // each behind its agent's id
    class probe final : public object_sink {
    public:
        probe(transaction& in, const agent_row& agent, const hashes& answered, hashes& open)
            : tables_(in), agent_(agent), answered_(answered), open_(open), next_number_(agent.next_object)
        {
        }

        object_reference store(std::string_view body) override
        {
            const std::string hash(view(sha256(body)));
            std::optional<std::int64_t> number;
            if (auto key = agent_.id + hash; answered_.contains(key))
                number = tables_.find_object(agent_.number, hash);
            else if (open_.insert(std::move(key)).second)
                wanted.emplace_back(question::kind::object, agent_.id, "", hash);
            return {number ? *number : next_number_++, reference_check(hash)};
        }

        questions wanted;

    private:
        transaction& tables_;
        const agent_row& agent_;
        const hashes& answered_;
        hashes& open_;
        std::int64_t next_number_;
    };

    constexpr int most_rounds = 3;
    hashes answered;
    for (int round = 0; round < most_rounds; ++round) {
        questions wanted;
        hashes open;
        for (const auto* request : batch) {
            const auto& saved = request->checkpoint();
            if (!may_need_objects(saved.conversation(), saved.state()))
                continue;
            const auto agent = tables_.find_agent(saved.agent_id());
            if (!agent)
                continue;
            probe objects(tables_, *agent, answered, open);
            write_body(saved.conversation(), {}, saved.state(), objects);
            wanted.insert(wanted.end(), std::make_move_iterator(objects.wanted.begin()),
                          std::make_move_iterator(objects.wanted.end()));
        }
        if (wanted.empty())
            return;
        tables_.expect(wanted);
        answered.merge(open);
    }
}

void history_reader::prepare(std::span<const checkpoint_row> rows, const agent_row& agent)
{
    if (!tables_.asks_together())
        return;
    questions wanted;
    std::map<std::string_view, extent_list> last; // by scope
    object_map groups;
    for (const auto& row : rows) {
        try {
            const auto& before =
                last.try_emplace(row.scope, last_of(row.scope, agent).messages).first->second;
            auto needed = read_references(row.body, tables_, agent.number, groups);
            const auto rest = needed.messages.behind(needed.messages.common_prefix(before));
            if (rest.size() > 0) {
                wanted.emplace_back(question::kind::messages, agent.id).ranges = rest.all();
            }
            if (!needed.objects.empty()) {
                auto& next = wanted.emplace_back(question::kind::objects, agent.id);
                for (const auto& object : needed.objects)
                    next.numbers.push_back(object.number);
            }
            last[row.scope] = std::move(needed.messages);
        } catch (const error& failure) { // the load will say so
            if (failure.code() != errc::corrupt)
                throw;
        }
    }
    if (!wanted.empty())
        tables_.expect(wanted);
}

} // namespace waymark::tables
