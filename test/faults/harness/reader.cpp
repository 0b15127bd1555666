#include "reader.hpp"

#include <algorithm>
#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace waymark::faults {

acknowledged::acknowledged(const std::filesystem::path& file)
{
    const int opened = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (opened < 0 || ::ftruncate(opened, sizeof(values)) != 0)
        throw std::runtime_error("no memory to share in " + file.native());
    void* const shared = ::mmap(nullptr, sizeof(values), PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
    ::close(opened);
    if (shared == MAP_FAILED)
        throw std::runtime_error("no memory to share in " + file.native());
    static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
    values_ = static_cast<values*>(shared); // all zero in a new file, which is how they begin
}

acknowledged::~acknowledged()
{
    ::munmap(values_, sizeof(values));
}

std::string fleeting_agent()
{
    return std::string(200, 'f');
}

checkpoint telling_checkpoint(const std::string& agent_id, const std::string& scope, const std::string& id,
                              std::int64_t iteration)
{
    const auto number = std::to_string(iteration);
    conversation chat;
    chat.push(message::user("question " + number));
    chat.push(message::assistant("answer " + number));
    return checkpoint(agent_id, chat, iteration)
        .with_id(id)
        .with_scope(scope)
        .with_name(number)
        .with_state({{"number", iteration}});
}

namespace {

//! An answer that must not be.
class wrong_answer : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

void expect_that(bool holds, const std::string& otherwise)
{
    if (!holds)
        throw wrong_answer(otherwise);
}

void require_whole(const checkpoint& found)
{
    const auto expected = telling_checkpoint(found.agent_id(), found.scope(), found.id(), found.iteration())
                              .with_created_at(found.created_at());
    const auto& chat = found.conversation();
    expect_that(found.name() == expected.name() && found.state() == expected.state() && chat.size() == 2 &&
                    chat[0].text() == expected.conversation()[0].text() &&
                    chat[1].text() == expected.conversation()[1].text(),
                "checkpoint '" + found.id() + "' is not whole");
}

void require_recent(std::int64_t found, std::int64_t acknowledged_before, const std::string& what)
{
    expect_that(found >= acknowledged_before, what + " is " + std::to_string(found) + " although " +
                                                  std::to_string(acknowledged_before) +
                                                  " was acknowledged before the question");
}

} // namespace

void reader::ask_latest()
{
    const auto which = random_() % 2;
    const auto before = said_->heads[which].load();
    const auto head = store_.load_latest(steady_agent, steady_scopes[which]);
    expect_that(head.has_value(), "load_latest found nothing");
    require_whole(*head);
    require_recent(head->iteration(), before, "load_latest");
}

void reader::ask_list()
{
    const auto which = random_() % 2;
    const auto before = said_->heads[which].load();
    const auto found = store_.list(query(steady_agent).scope(steady_scopes[which]));
    expect_that(!found.empty(), "list is empty");
    std::int64_t newest = 0;
    for (const auto& header : found) {
        expect_that(!header.damage(), "list shows damage: " + header.damage().value_or(""));
        newest = std::max(newest, header.iteration());
    }
    expect_that(std::is_sorted(found.begin(), found.end(),
                               [](const auto& a, const auto& b) { return a.sequence() > b.sequence(); }),
                "list is out of order");
    require_recent(newest, before, "the newest of list");
}

void reader::ask_load_all()
{
    const auto which = random_() % 2;
    const auto before = said_->heads[which].load();
    std::int64_t newest = 0;
    for (const auto& found : store_.load_all(query(steady_agent).scope(steady_scopes[which]))) {
        require_whole(found);
        newest = std::max(newest, found.iteration());
    }
    require_recent(newest, before, "the newest of load_all");
}

void reader::ask_agents()
{
    const auto agents = store_.list_agents();
    expect_that(std::find(agents.begin(), agents.end(), steady_agent) != agents.end(),
                "list_agents lacks an agent that is there");
    for (const auto& agent : agents)
        expect_that(agent == steady_agent || agent == fleeting_agent(),
                    "list_agents names '" + agent + "', which nobody has made");
}

void reader::ask_steps()
{
    const auto before = said_->step.load();
    std::optional<step> found;
    for (auto& record : store_.load_steps(step_query(steady_agent)))
        if (record.key() == steady_step)
            found = std::move(record);
    expect_that(found.has_value(), "load_steps lacks a step that is there");
    require_recent(found->result()->to_number<std::int64_t>(), before, "the result of the step");
}

void reader::ask_counts()
{
    expect_that(store_.count(query(steady_agent)) >= 2, "count counts too few");
    const auto all = store_.stats();
    expect_that(all.agents >= 1 && all.checkpoints >= 2 && all.steps >= 1, "stats counts too few");
    expect_that(store_.stats(steady_agent).checkpoints >= 2, "stats of the agent counts too few");
}

void reader::ask_verify()
{
    const auto found = store_.verify();
    expect_that(found.ok(), "verify reports damage: " + (found.ok() ? "" : found.damages()[0].what));
    expect_that(found.checked() >= 2, "verify looks at too few");
}

void reader::ask_fleeting()
{
    if (const auto head = store_.load_latest(fleeting_agent()))
        require_whole(*head);
    for (const auto& found : store_.load_all(query(fleeting_agent())))
        require_whole(found);
    store_.load_steps(step_query(fleeting_agent()));
    store_.stats(fleeting_agent());
}

std::optional<std::string> reader::ask()
{
    const auto what = random_() % 16;
    try {
        if (what < 6)
            ask_latest();
        else if (what < 8)
            ask_list();
        else if (what < 10)
            ask_load_all();
        else if (what == 10)
            ask_agents();
        else if (what < 13)
            ask_steps();
        else if (what == 13)
            ask_counts();
        else if (what == 14)
            ask_verify();
        else
            ask_fleeting();
    } catch (const std::exception& failure) {
        return failure.what();
    }
    return std::nullopt;
}

std::vector<std::string> read_until_over(store& from, const acknowledged& said, std::uint64_t seed)
{
    constexpr std::size_t enough = 5;
    std::vector<std::string> wrong;
    for (reader one(from, said, seed); !said->is_over; ++said->questions)
        if (auto found = one.ask(); found && wrong.size() < enough)
            wrong.push_back(std::move(*found));
    return wrong;
}

} // namespace waymark::faults
