//! What is saved: the same data for every contender.
#pragma once

#include <waymark/checkpoint.hpp>

#include <boost/json/serialize.hpp>

#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>

namespace waymark::bench {

//! Letters and spaces that do not compress to nothing.
inline std::string random_text(std::size_t bytes, std::uint64_t seed = 1)
{
    static constexpr char letters[] = "abcdefghijklmnopqrstuvwxyz      ";
    std::mt19937_64 random(seed);
    std::string result(bytes, ' ');
    for (std::size_t i = 0; i < bytes; i += 8) {
        auto bits = random();
        for (std::size_t j = i; j < bytes && j < i + 8; ++j, bits >>= 5)
            result[j] = letters[bits & 31];
    }
    return result;
}

//! Pieces of one long text in a file, one after the other, from its beginning again when it ends. Read piece
//! by piece: the memory of a contender is measured, too.
class texts {
public:
    //! Some of our own.
    texts() : texts(std::make_unique<std::istringstream>(random_text(std::size_t{4} << 20))) {}
    explicit texts(std::unique_ptr<std::istream> from) : from_(std::move(from)) {}

    static texts from_file(const std::string& path)
    {
        auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
        if (file->peek() == std::ifstream::traits_type::eof())
            throw std::runtime_error("there is no text in '" + path + "'");
        return texts(std::move(file));
    }

    std::string next(std::size_t bytes)
    {
        std::string piece(bytes, ' ');
        for (std::size_t at = 0; at < bytes;) {
            from_->read(piece.data() + at, static_cast<std::streamsize>(bytes - at));
            at += static_cast<std::size_t>(from_->gcount());
            if (from_->eof()) {
                from_->clear();
                from_->seekg(0);
            }
        }
        return piece;
    }

private:
    std::unique_ptr<std::istream> from_;
};

inline std::uint64_t json_bytes(const message& written)
{
    return boost::json::serialize(boost::json::value_from(written)).size();
}

//! One agent: each checkpoint is the child of the one before.
class agent_history {
public:
    //! The JSON of all messages, each once; and of files.
    std::uint64_t payload() const noexcept { return payload_; }
    const waymark::conversation& chat() const noexcept { return chat_; }

protected:
    agent_history(std::string agent, texts& source) : agent_(std::move(agent)), source_(&source) {}

    std::string text(std::size_t bytes) { return source_->next(bytes); }

    void push(message next)
    {
        payload_ += json_bytes(next);
        chat_.push(std::move(next));
    }

    checkpoint next_checkpoint()
    {
        checkpoint made(agent_, chat_, ++turn_);
        made.with_parent(last_);
        last_ = made.id();
        return made;
    }

    std::int64_t turn_ = 0;
    std::uint64_t payload_ = 0;

private:
    std::string agent_;
    texts* source_;
    waymark::conversation chat_;
    std::optional<std::string> last_;
};

//! A conversation that grows by two messages a turn, of the user and the assistant.
class growing_agent : public agent_history {
public:
    growing_agent(std::string agent, texts& source, std::size_t message_bytes = 1'024)
        : agent_history(std::move(agent), source), message_bytes_(message_bytes)
    {
    }

    checkpoint next()
    {
        push(message::user(text(message_bytes_)));
        push(message::assistant(text(message_bytes_)));
        return next_checkpoint();
    }

private:
    std::size_t message_bytes_;
};

//! A coding agent: each turn two files of 8 KB added to an object in `state`, a tool result of 5 KB and 800
//! bytes of the assistant; every fifth turn a result of 100 KB that is put into `state` as a file.
class coding_agent : public agent_history {
public:
    coding_agent(std::string agent, texts& source) : agent_history(std::move(agent), source)
    {
        state_["files"].emplace_object();
    }

    checkpoint next()
    {
        const auto turn = std::to_string(turn_ + 1);
        add_file("source/module_" + turn + ".cpp", 8'000);
        add_file("test/module_" + turn + ".cpp", 8'000);
        push(message::assistant(text(800), {tool_call("call-" + turn, "run", {{"turn", turn_ + 1}})}));
        push(message::tool_result("call-" + turn, text(5'000)));
        if ((turn_ + 1) % 5 == 0)
            add_file("result_" + turn + ".txt", 100'000);
        return next_checkpoint().with_state(state_);
    }

private:
    void add_file(const std::string& name, std::size_t bytes)
    {
        payload_ += bytes;
        state_["files"].get_object()[name] = text(bytes);
    }

    boost::json::object state_;
};

} // namespace waymark::bench
