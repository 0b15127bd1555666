//! Stores that break a promise on purpose: every attack has to notice one.
#pragma once

#include "forwarding_store.hpp"

#include <waymark/store.hpp>

namespace waymark::faults {

//! Acknowledges a save when it has only been remembered; it is committed with the next one.
class hasty_store final : public test::forwarding_store {
public:
    using forwarding_store::forwarding_store;

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        forwarding_store::save(remembered_);
        remembered_.assign(batch.begin(), batch.end());
        return std::vector<save_outcome>(batch.size(), save_result());
    }

private:
    std::vector<save_request> remembered_;
};

//! Says that nothing is there where something is damaged.
class forgiving_store final : public test::forwarding_store {
public:
    using forwarding_store::forwarding_store;

    std::vector<checkpoint> load_all(const query& query) override
    {
        try {
            return forwarding_store::load_all(query);
        } catch (const error& failure) {
            if (failure.code() != errc::corrupt)
                throw;
            return {};
        }
    }
    std::vector<checkpoint_header> list(const query& query) override
    {
        try {
            auto found = forwarding_store::list(query);
            std::erase_if(found, [](const auto& header) { return header.damage().has_value(); });
            return found;
        } catch (const error& failure) {
            if (failure.code() != errc::corrupt)
                throw;
            return {};
        }
    }
    verify_report verify(const upkeep_control& = {}) override { return {}; }
};

//! Insists on the head, also where that is damaged.
class unforgiving_store final : public test::forwarding_store {
public:
    using forwarding_store::forwarding_store;
    using forwarding_store::save;

    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        std::vector<save_request> strict;
        for (const auto& request : batch) {
            auto options = request.options();
            if (options.passes_over_damage())
                options.expect_head(options.expected_head());
            strict.emplace_back(request.checkpoint(), options);
        }
        return forwarding_store::save(strict);
    }
};

//! Prunes one checkpoint too many: the newest of those that were to stay, but for the head.
class greedy_store final : public test::forwarding_store {
public:
    using forwarding_store::forwarding_store;

    prune_result prune(std::string_view agent, const retention& policies, dry_run dry,
                       const upkeep_control& control) override
    {
        auto result = forwarding_store::prune(agent, policies, dry, control);
        if (dry == dry_run::no)
            if (const auto left = list(query(std::string(agent)).scope("").limit(2)); left.size() == 2)
                erase(agent, "", left[1].id());
        return result;
    }
};

//! Copies and erases agents one checkpoint after the other, where everybody sees it.
class piecemeal_store final : public test::forwarding_store {
public:
    using forwarding_store::forwarding_store;

    std::uint64_t copy_agent(std::string_view from, std::string_view to,
                             const upkeep_control& /*control*/) override
    {
        const auto all = load_all(query(std::string(from)).oldest_first());
        for (const auto& each : all)
            save(checkpoint(each).with_agent(std::string(to)));
        return all.size();
    }
    std::uint64_t erase_agent(std::string_view agent) override
    {
        for (const auto& each : list(query(std::string(agent)).oldest_first()))
            erase(agent, each.scope(), each.id());
        return forwarding_store::erase_agent(agent);
    }
};

} // namespace waymark::faults
