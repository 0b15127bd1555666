//! A plugin with a copy of the library of its own, which two_copies_test loads twice.
#include "values/random_bits.hpp"

#include <waymark/sqlite_store.hpp>

#include <memory>

extern "C" {

void open_store(const char* file, std::shared_ptr<waymark::store>& opened)
{
    opened = std::make_shared<waymark::sqlite_store>(file);
}

//! What the next store of this copy is told apart by.
std::uint64_t next_number()
{
    return waymark::detail::random_bits();
}
}
