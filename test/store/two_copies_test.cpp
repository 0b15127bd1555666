//! Two copies of the library in one process: plugins that each link it statically, and share conversations.
#include "catch.hpp"
#include "temporary_folder.hpp"

#include <waymark/store.hpp>

#include <dlfcn.h>
#include <filesystem>
#include <memory>
#include <stdexcept>

using namespace waymark;

namespace {

//! Never unloaded: what its stores made may outlive it.
class plugin {
public:
    explicit plugin(const std::filesystem::path& file)
        : handle_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))
    {
        if (handle_ == nullptr)
            throw std::runtime_error(::dlerror());
    }

    std::shared_ptr<store> open(const std::filesystem::path& file) const
    {
        std::shared_ptr<store> opened;
        find<void(const char*, std::shared_ptr<store>&)>("open_store")(file.c_str(), opened);
        return opened;
    }
    std::uint64_t next_number() const { return find<std::uint64_t()>("next_number")(); }

private:
    template <class Function>
    Function* find(const char* name) const
    {
        auto* const found = reinterpret_cast<Function*>(::dlsym(handle_, name));
        if (found == nullptr)
            throw std::runtime_error(::dlerror());
        return found;
    }

    void* handle_;
};

} // namespace

TEST_CASE("two copies of the library in one process take each other's stores for others")
{
    const test::temporary_folder folder;
    std::filesystem::copy_file(WAYMARK_PLUGIN, folder.path() / "one.so");
    std::filesystem::copy_file(WAYMARK_PLUGIN, folder.path() / "two.so");
    const plugin one(folder.path() / "one.so");
    const plugin two(folder.path() / "two.so");
    const auto first = one.open(folder.path() / "first.db");
    const auto second = two.open(folder.path() / "second.db");

    conversation chat;
    for (int turn = 0; turn < 20; ++turn) {
        chat.push(message::user("turn " + std::to_string(turn)));
        const auto wanted = checkpoint("agent", chat, turn);
        auto& fewer = turn % 3 == 0 ? *first : *second;
        fewer.save(wanted);
        CHECK(fewer.load_latest("agent").value() == wanted);
        if (turn % 5 == 4) { // and now the other one, which knows less of it
            auto& other = turn % 3 == 0 ? *second : *first;
            other.save(wanted);
            CHECK(other.load_latest("agent").value() == wanted);
        }
    }
    CHECK(first->verify().ok());
    CHECK(second->verify().ok());
    CHECK(one.next_number() != two.next_number());
}
