//! What the store of an import has already.
#pragma once

#include "entry.hpp"

#include <waymark/store.hpp>

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace waymark::transfer {

//! What the store has under a key of the input.
struct counterpart {
    enum class kind { absent, same, different, unreadable };

    kind is = kind::absent;
    std::string damage = {}; // of what is unreadable
};

//! The checkpoints that the store has under the keys of the input, looked up page by page. What was found
//! equal is remembered, so that the next checkpoint of a history is compared from there on.
class stored_checkpoints {
public:
    explicit stored_checkpoints(store& in) : store_(in) {}

    //! One for each entry, all of which are checkpoints.
    std::vector<counterpart> look_up(std::span<const entry> entries);

private:
    //! Two checkpoints that begin with so many equal messages.
    struct compared {
        conversation wanted;
        checkpoint stored;
        std::size_t equal = 0;
    };
    using agent_scope = std::pair<std::string, std::string>;

    std::vector<checkpoint> earlier(std::span<const checkpoint_key> keys) const;
    counterpart compare(const entry& next, const load_outcome& found);
    std::size_t count_equal(const checkpoint& wanted, const checkpoint& stored) const;

    store& store_;
    std::map<agent_scope, compared> last_;
};

//! The pins that the store has, of one agent at a time.
class stored_pins {
public:
    explicit stored_pins(store& in) : store_(in) {}

    //! Also true for a damaged checkpoint, whose header does not tell.
    bool may_contain(const checkpoint_key& key);

private:
    void read(const std::string& agent_id);

    store& store_;
    std::optional<std::string> agent_id_;
    std::set<checkpoint_key> pins_;
};

//! The steps that the store has, of one agent at a time.
class stored_steps {
public:
    explicit stored_steps(store& in) : store_(in) {}

    std::optional<step> find(const step& wanted);

private:
    void read(const std::string& agent_id);

    store& store_;
    std::optional<std::string> agent_id_;
    bool are_known_ = false;
    std::map<std::pair<std::string, std::string>, step> steps_; // by scope and key
};

} // namespace waymark::transfer
