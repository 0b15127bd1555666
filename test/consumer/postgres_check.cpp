//! A program that links waymark::postgres; it needs no server.
#include <waymark/postgres_store.hpp>

#include <iostream>

int main()
{
    std::cout << waymark::postgres_store::ddl(waymark::postgres_options().with_schema("agents"));
    return 0;
}
