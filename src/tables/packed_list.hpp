//! Lists that are stored in parts, so that a long list which changes a little costs a little.
//!
//! A list is a sequence of items. When it takes more than `inline_bytes`, runs of items become objects of
//! their own, stored once per agent, and a `group` item stands for each; that repeats until it is short. Runs
//! end at items that are chosen by their key, so that an item more or less changes one run and moves no
//! other.
#pragma once

#include "database.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace waymark::tables {

//! An object, and the first bytes of its hash, so that another one in its place is noticed.
struct object_reference {
    std::int64_t number = 0;
    std::uint64_t check = 0;

    friend bool operator==(const object_reference&, const object_reference&) = default;
};

//! What lists consist of. The bytes are part of the format.
enum class item_kind : unsigned char {
    group = 'g',       // object: the items that stand here
    extent = 'e',      // numbers: first message, count
    member = 'm',      // key, value as JSON
    member_at = 'r',   // key, object: value as JSON
    open_object = 'o', // key: the items up to its close_object are its members
    close_object = 'c',
};

struct item {
    item_kind kind = item_kind::close_object;
    std::string_view key;
    std::string_view value;
    object_reference object;
    extent numbers;
};

//! Stores bodies once. A save has one, which looks objects up in its transaction.
class object_sink {
public:
    virtual ~object_sink() = default;
    virtual object_reference store(std::string_view body) = 0;
    //! Says that bodies with these hashes come next.
    virtual void expect(std::span<const std::string_view> /*hashes*/) {}
    //! A part of a message, whose hash is known. Returns its number.
    virtual std::int64_t store_part(std::string_view body, const std::string& /*hash*/)
    {
        return store(body).number;
    }
};

class list_writer {
public:
    void add_extent(extent numbers);
    void add_member(std::string_view key, std::string_view json);
    void add_member_at(std::string_view key, object_reference object);
    void open_object(std::string_view key);
    void close_object();

    //! The bytes of the list, short now.
    std::string finish(object_sink& objects);

private:
    struct part {
        std::size_t begin; // in bytes_
        std::uint32_t key;
    };
    void begin_item(item_kind kind, std::string_view key);
    void add_reference(object_reference object);
    list_writer cut_into_groups(object_sink& objects) const;

    std::string bytes_;
    std::vector<part> parts_;
};

//! Takes bytes apart. @throws waymark::error `corrupt` when there are too few.
class byte_reader {
public:
    explicit byte_reader(std::string_view bytes) noexcept : left_(bytes) {}

    bool empty() const noexcept { return left_.empty(); }
    std::string_view take(std::size_t count);
    std::uint64_t take_number();

private:
    std::string_view left_;
};

//! Reads items one by one.
class list_reader {
public:
    explicit list_reader(std::string_view bytes) noexcept : bytes_(bytes) {}

    //! False at the end. @throws waymark::error `corrupt` if this is no list.
    bool next(item& to);

private:
    byte_reader bytes_;
};

//! Objects that were read, by number.
class object_map {
public:
    //! Reads those that are not there yet, in one go. One that is missing or damaged is remembered as such.
    void read(transaction& from, std::int64_t agent, const std::vector<object_reference>& wanted);
    void read(transaction& from, std::int64_t agent, std::span<const std::int64_t> wanted);
    //! The body. @throws waymark::error `corrupt` if it is missing, damaged or another than was referred to.
    std::string_view at(const object_reference& wanted) const;
    std::string_view at(std::int64_t number, std::string_view hash) const;
    //! Of all that were read.
    std::size_t bytes() const noexcept { return bytes_; }

private:
    struct entry {
        std::string body;
        std::string hash;
        const char* damage = nullptr;
    };
    template <class IsWanted>
    std::string_view find(std::int64_t number, IsWanted is_wanted) const;

    std::unordered_map<std::int64_t, entry> entries_;
    std::size_t bytes_ = 0;
};

//! Walks through a list and the groups in it. Groups are read a level at a time.
class list_walker {
public:
    //! `objects` keeps what was read.
    list_walker(transaction& from, std::int64_t agent, object_map& objects) noexcept
        : from_(from), agent_(agent), objects_(objects)
    {
    }

    //! Reads all groups below the list. With `values`, the objects of members too.
    enum class values : bool { skip, read };
    void fetch(std::string_view list, values which);
    //! Calls `visit` for every item but groups, in order; `enter` for every group.
    void walk(std::string_view list, const std::function<void(const item&)>& visit,
              const std::function<void(const object_reference&)>& enter = {}) const;

private:
    void walk(std::string_view list, const std::function<void(const item&)>& visit,
              const std::function<void(const object_reference&)>& enter, int depth, std::size_t& left) const;

    transaction& from_;
    std::int64_t agent_;
    object_map& objects_;
};

std::uint64_t reference_check(std::string_view hash) noexcept;

// Numbers of variable length, seven bits a byte, the lowest first.
void append_number(std::string& to, std::uint64_t number);

} // namespace waymark::tables
