#include "../values/storage_memory.hpp"
#include "../values/text.hpp"

#include <waymark/detail/request.hpp>

#include <new>

namespace waymark::detail {

void request_target::note_stored(const conversation& chat) const noexcept
{
    conversation_access::mark_stored(chat, mark_);
}

void request_target::note_loaded(const std::optional<checkpoint>& loaded) const noexcept
{
    if (loaded)
        note_stored(loaded->conversation());
}

void request_target::note_loaded(const std::vector<checkpoint>& loaded) const noexcept
{
    for (const auto& each : loaded)
        note_stored(each.conversation());
}

// How a request ends

void request::fail(std::error_code code, std::string details) noexcept
{
    code_ = code;
    drop_input();
    try {
        const auto agent = agent_id_.empty() ? std::string() : detail::quoted(agent_id_);
        if (details.find(agent) == std::string::npos)
            details.insert(0, "agent " + agent + ": ");
        details_ = std::move(details);
    } catch (const std::bad_alloc&) { // an error without its details is still an error
        details_.clear();
    }
}

void request::fail_with_current_exception() noexcept
{
    fail_as(!is_read());
}

void request::fail_with_current_exception(std::error_code aborted) noexcept
{
    fail_as(!is_read());
    if (code_ == std::errc::operation_canceled)
        code_ = aborted;
}

void request::refuse_with_current_exception() noexcept
{
    fail_as(false);
}

void request::fail_as(bool may_be_written) noexcept
{
    std::error_code code = errc::io;
    std::string text;
    const auto keep = [&text](const char* said) {
        try {
            text = said;
        } catch (const std::bad_alloc&) {
            text.clear();
        }
    };
    try {
        throw;
    } catch (const error& failure) {
        keep(failure.details().message().c_str());
        return fail(failure.code(), std::move(text));
    } catch (const std::bad_alloc&) {
        code = std::make_error_code(std::errc::not_enough_memory);
        keep("memory ran out");
    } catch (const std::system_error& failure) {
        code = failure.code();
        keep(failure.what());
    } catch (const std::exception& failure) {
        keep(failure.what());
    } catch (...) {
        keep("the store threw something that is no exception");
    }
    fail(may_be_written ? make_error_code(errc::outcome_unknown) : code, std::move(text));
}

void request::abort(std::error_code aborted) noexcept
{
    std::string details;
    try {
        details = "the operation was cancelled, or its store or session destroyed, before it began; it has "
                  "changed nothing, and may be started again";
    } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch): see fail
    }
    fail(aborted, std::move(details));
}

void request::end(std::shared_ptr<request> ended) noexcept
{
    if (ended->supervisor_ == nullptr)
        return hand_over(std::move(ended));
    auto* const who = std::exchange(ended->supervisor_, nullptr);
    ended.reset();
    who->ended();
}

void request::hand_over(std::shared_ptr<request> ended) noexcept
{
    auto* const who = ended->take_waiter();
    ended.reset();
    if (who != nullptr)
        who->ended();
}

void request::let_waiter_go(std::error_code code) noexcept
{
    if (auto* const who = take_waiter())
        who->left(code);
}

std::string request::describe_departure(std::error_code code) const noexcept
{
    try {
        auto text = agent_id_.empty() ? std::string() : "agent " + detail::quoted(agent_id_) + ": ";
        if (code == errc::outcome_unknown && schedule_ == schedule::background)
            text +=
                "its caller stopped waiting while it was being carried out; it is stopped soon, and what it "
                "has done stays";
        else if (code == errc::outcome_unknown)
            text += "its caller stopped waiting while it was being carried out, which goes on: it will take "
                    "place as a whole or not at all; async_flush waits for it, and then a load tells";
        else
            text += "cancelled; it has changed nothing, and may be started again";
        return text;
    } catch (const std::bad_alloc&) { // see fail
        return {};
    }
}

void request::drop(std::shared_ptr<request> unended) noexcept
{
    auto* const who = unended->take_waiter();
    unended.reset();
    if (who != nullptr)
        who->dropped();
}

// Lists of them

request_list::request_list(request_list&& other) noexcept
    : first_(std::move(other.first_)),
      last_(std::exchange(other.last_, nullptr)),
      size_(std::exchange(other.size_, 0))
{
}

request_list& request_list::operator=(request_list&& other) noexcept
{
    clear();
    first_ = std::move(other.first_);
    last_ = std::exchange(other.last_, nullptr);
    size_ = std::exchange(other.size_, 0);
    return *this;
}

void request_list::push_back(std::shared_ptr<request> arrived) noexcept
{
    auto* const newest = arrived.get();
    (last_ == nullptr ? first_ : last_->behind_) = std::move(arrived);
    last_ = newest;
    ++size_;
}

std::shared_ptr<request> request_list::pop_front() noexcept
{
    auto taken = std::move(first_);
    first_ = std::move(taken->behind_);
    if (first_ == nullptr)
        last_ = nullptr;
    --size_;
    return taken;
}

void request_list::prepend(request_list others) noexcept
{
    if (others.empty())
        return;
    others.last_->behind_ = std::move(first_);
    first_ = std::move(others.first_);
    if (last_ == nullptr)
        last_ = others.last_;
    size_ += std::exchange(others.size_, 0);
    others.last_ = nullptr;
}

std::shared_ptr<request> request_list::remove(const request& wanted) noexcept
{
    request* before = nullptr;
    for (auto* each = first_.get(); each != nullptr; before = each, each = each->behind_.get()) {
        if (each != &wanted)
            continue;
        auto& link = before == nullptr ? first_ : before->behind_;
        auto taken = std::move(link);
        link = std::move(taken->behind_);
        if (last_ == taken.get())
            last_ = before;
        --size_;
        return taken;
    }
    return nullptr;
}

void request_list::clear() noexcept
{
    while (!empty()) // one by one: a long list would be a deep recursion
        pop_front();
}

// Saves and steps

namespace {

//! One outcome for each request of a batch. @throws waymark::error `outcome_unknown`
void require_outcomes(std::size_t given, std::size_t wanted, const char* function)
{
    if (given != wanted)
        throw error(errc::outcome_unknown, "the store gave " + std::to_string(given) + " outcomes for " +
                                               std::to_string(wanted) + " requests; its " + function +
                                               " is wrong");
}

void fail_all_with_current_exception(std::span<const std::shared_ptr<request>> batch) noexcept
{
    for (const auto& each : batch)
        each->fail_with_current_exception();
}

} // namespace

void batched_request::run(const request_target& in, std::span<const std::shared_ptr<request>> batch) noexcept
{
    const auto at = [&](std::size_t i) -> batched_request& {
        return static_cast<batched_request&>(*batch[i]);
    };
    shared_commit all;
    all.requests = batch.size();
    try {
        std::size_t saves = 0, steps = 0;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            saves += at(i).saves();
            steps += at(i).steps();
        }
        all.saves.reserve(saves);
        all.steps.reserve(steps);
        for (std::size_t i = 0; i < batch.size(); ++i)
            at(i).add_to(all);
    } catch (const std::bad_alloc&) { // before anything is written
        for (const auto& each : batch)
            each->refuse_with_current_exception();
        return;
    }
    try {
        if (all.steps.empty())
            all.outcomes.saves = in.backend.save(all.saves);
        else if (all.saves.empty())
            all.outcomes.steps = in.backend.put_steps(all.steps);
        else
            all.outcomes = in.backend.commit(all.saves, all.steps);
        require_outcomes(all.outcomes.saves.size(), all.saves.size(), "save()");
        require_outcomes(all.outcomes.steps.size(), all.steps.size(), "put_steps()");
    } catch (...) {
        return fail_all_with_current_exception(batch);
    }
    all.end = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < batch.size(); ++i)
        at(i).take_from(all, in);
}

batched_save::batched_save(save_request wanted)
    : result_request(store_operation::save, wanted.checkpoint().agent_id()), wanted_(std::move(wanted))
{
}

std::size_t batched_save::unstored_bytes(const limits& accepted, std::uint64_t store_identity) const
{
    const auto& saved = wanted_->checkpoint();
    validate_sizes(saved, accepted);
    return conversation_access::unstored_bytes(saved.conversation(), store_identity) +
           saved.bytes_besides_conversation();
}

void batched_save::add_to(shared_commit& batch)
{
    batch.saves.push_back(std::move(*wanted_));
}

void batched_save::take_from(shared_commit& batch, const request_target& in) noexcept
{
    const auto i = batch.next_save++;
    auto& outcome = batch.outcomes.saves[i];
    if (const auto code = outcome.code())
        return fail(code, std::move(outcome).details().message());
    in.note_stored(batch.saves[i].checkpoint().conversation());
    wanted_ = std::move(batch.saves[i]);
    result_ = {outcome.value(), batch.requests, queue_depth(), batch.end - start()};
}

batched_steps::batched_steps(std::vector<step_request> wanted)
    : result_request(store_operation::step,
                     wanted.empty() ? std::string() : wanted.front().step().agent_id()),
      wanted_(std::move(wanted))
{
}

std::size_t batched_steps::unstored_bytes(const limits& /*accepted*/, std::uint64_t /*store_identity*/) const
{
    std::size_t sum = 0;
    for (const auto& each : wanted_)
        sum += each.step().bytes();
    return sum;
}

void batched_steps::add_to(shared_commit& batch)
{
    result_.reserve(wanted_.size()); // no failure once they are written
    for (auto& each : wanted_)
        batch.steps.push_back(std::move(each));
}

void batched_steps::take_from(shared_commit& batch, const request_target& /*in*/) noexcept
{
    for (auto& each : wanted_) {
        each = std::move(batch.steps[batch.next_step]);
        result_.push_back(std::move(batch.outcomes.steps[batch.next_step++]));
    }
}

} // namespace waymark::detail
