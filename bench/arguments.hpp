//! The command line of a benchmark: a workload, and `--key value` pairs.
#pragma once

#include <map>
#include <set>
#include <stdexcept>
#include <string>

namespace waymark::bench {

//! What was asked for cannot be understood.
struct usage_error : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

//! What was asked for cannot be had on this machine.
struct missing_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class arguments {
public:
    arguments(int count, const char* const* values)
    {
        if (count < 2)
            throw usage_error("name a workload");
        workload_ = values[1];
        for (int i = 2; i < count; i += 2) {
            const std::string key = values[i];
            if (!key.starts_with("--") || i + 1 == count)
                throw usage_error("'" + key + "' is not a --key with a value");
            given_[key.substr(2)] = values[i + 1];
        }
    }

    const std::string& workload() const noexcept { return workload_; }

    std::string text(const std::string& key, const std::string& otherwise = "") const
    {
        asked_.insert(key);
        const auto found = given_.find(key);
        return found == given_.end() ? otherwise : found->second;
    }

    std::string required(const std::string& key) const
    {
        const auto value = text(key);
        if (value.empty())
            throw usage_error("--" + key + " is missing");
        return value;
    }

    double number(const std::string& key, double otherwise) const
    try {
        const auto value = text(key);
        std::size_t end = 0;
        const auto result = value.empty() ? otherwise : std::stod(value, &end);
        if (end != value.size() || result < 0)
            throw std::invalid_argument(value);
        return result;
    } catch (const std::logic_error&) {
        throw usage_error("--" + key + " takes a number, not '" + text(key) + "'");
    }

    std::size_t count(const std::string& key, std::size_t otherwise) const
    {
        return static_cast<std::size_t>(number(key, static_cast<double>(otherwise)));
    }

    bool flag(const std::string& key) const { return text(key, "no") == "yes"; }

    //! Call it when everything was asked for that has a meaning.
    void refuse_others() const
    {
        for (const auto& [key, value] : given_)
            if (!asked_.contains(key))
                throw usage_error("--" + key + " means nothing to " + workload_);
    }

private:
    std::string workload_;
    std::map<std::string, std::string> given_;
    mutable std::set<std::string> asked_;
};

} // namespace waymark::bench
