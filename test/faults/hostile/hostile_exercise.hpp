//! One string in every place of every function of a store.
#pragma once

#include <waymark/store.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace waymark::faults {

//! A store did something else than it promises; says what.
class broken_promise : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

//! What a store holds, as far as that can be asked for in a few questions.
struct visible_contents {
    std::vector<std::string> agents;
    std::vector<checkpoint_header> headers;
    std::vector<step> steps_of_bystander;
    std::uint64_t step_count = 0;

    friend bool operator==(const visible_contents&, const visible_contents&) = default;
};

visible_contents look_at(store& target);

//! An agent that nobody speaks of, and that nothing may happen to.
void save_bystander(store& target);

//! Uses the string as agent, scope, id, parent, name, key and text. What is valid comes back byte for byte
//! and is told from its neighbours; what is not is refused; nobody else is touched. Leaves an agent of that
//! name behind if it can be one.
//! @throws broken_promise, or what the store throws and should not.
void exercise(store& target, const std::string& text);

} // namespace waymark::faults
