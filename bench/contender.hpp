//! Who is measured: Waymark's stores, and what one would write by hand instead.
#pragma once

#include "arguments.hpp"
#include "histories.hpp"

#include <waymark/durability.hpp>
#include <waymark/store.hpp>

#include <asio/io_context.hpp>
#include <boost/json/object.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

namespace waymark::bench {

class contender {
public:
    virtual ~contender() = default;

    //! Callbacks run on the io_context, never inside the call. An error ends the measurement: it is thrown
    //! out of the context's run().
    using saved_callback = std::function<void(std::size_t batch)>;
    virtual void save(const checkpoint& next, saved_callback saved) = 0;
    using loaded_callback = std::function<void(std::size_t messages)>;
    virtual void load_latest(const std::string& agent, loaded_callback loaded) = 0;

    //! Whether one save can be in flight while others are.
    virtual bool has_batches() const noexcept { return false; }
    //! Adds what only this contender can tell to a result.
    virtual void describe(boost::json::object& /*result*/) {}
    //! Closes what is open, so that nothing is left in a log, and tells what is on the disk.
    virtual std::optional<std::uint64_t> close_and_measure() = 0;
};

//! What the files below a folder take.
std::uint64_t bytes_below(const std::filesystem::path& folder);

//! @throws usage_error, missing_error
std::unique_ptr<contender> open_contender(const arguments& given, asio::io_context& io);

//! A store of ours by its contender's name, blocking, empty; several have names of their own.
//! @throws usage_error, missing_error
std::shared_ptr<store> open_store(const arguments& given, const std::string& name);
std::shared_ptr<store> open_store(const arguments& given, const std::string& name, durability level);
//! The same store with what it holds.
std::shared_ptr<store> reopen_store(const arguments& given, const std::string& name);

//! Saves a conversation of so many turns, a checkpoint each, many in a batch.
void fill(store& to, const std::string& agent, std::size_t turns, std::size_t message_bytes, texts& source);

// In peers/: whole conversations as JSON, as the two older designs keep them; and just the new rows.
std::unique_ptr<contender> open_seed_sqlite(const arguments& given, asio::io_context& io);
std::unique_ptr<contender> open_seed_files(const arguments& given, asio::io_context& io);
std::unique_ptr<contender> open_bare_sqlite(const arguments& given, asio::io_context& io);

} // namespace waymark::bench
