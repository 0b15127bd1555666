#include "case_list.hpp"

#include <waymark/testing/conformance.hpp>

#include <ostream>

namespace waymark::testing {

backend_under_test::backend_under_test(std::string name, maker make_empty)
    : name_(std::move(name)), make_empty_(std::move(make_empty))
{
}

std::shared_ptr<store> backend_under_test::reopen(std::shared_ptr<store> current) const
{
    return reopen_ ? reopen_(std::move(current)) : current;
}

std::shared_ptr<store> backend_under_test::open_beside(const std::shared_ptr<store>& current) const
{
    return open_beside_ ? open_beside_(current) : current;
}

const std::vector<conformance_case>& conformance_suite()
{
    static const auto suite = [] {
        std::vector<conformance_case> all;
        for (const auto& part : {save_and_load_cases(), query_cases(), upkeep_cases(), input_cases(),
                                 value_cases(), race_cases()})
            all.insert(all.end(), part.begin(), part.end());
        return all;
    }();
    return suite;
}

std::size_t run_conformance_suite(const backend_under_test& backend, std::ostream& log)
{
    std::size_t failures = 0;
    for (const auto& promise : conformance_suite()) {
        try {
            promise.run(backend);
            log << "ok      " << backend.name() << ": " << promise.name() << '\n';
        } catch (const std::exception& failure) {
            ++failures;
            log << "FAILED  " << backend.name() << ": " << promise.name() << "\n        " << failure.what()
                << '\n';
        }
    }
    return failures;
}

conversation chat_of(std::size_t turns)
{
    conversation chat(8'000);
    chat.with_system_prompt("You are under test.");
    for (std::size_t i = 0; i < turns; ++i) {
        chat.push(message::user("question " + std::to_string(i)));
        chat.push(message::assistant("answer " + std::to_string(i)));
    }
    return chat;
}

checkpoint checkpoint_of(std::string agent, std::string id, std::int64_t iteration)
{
    return checkpoint(std::move(agent), chat_of(static_cast<std::size_t>(iteration)), iteration)
        .with_id(std::move(id));
}

std::vector<std::string> ids(const std::vector<checkpoint_header>& list)
{
    std::vector<std::string> result;
    for (const auto& header : list)
        result.push_back(header.id());
    return result;
}

} // namespace waymark::testing
