//! A PostgreSQL server of a test's own, to be stopped, killed and filled up.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace waymark::test {

//! Runs a shell command line. @throws std::runtime_error with its output if it fails.
void run_command(const std::string& command);
bool has_program(const std::string& name);

class postgres_server {
public:
    //! Where a server is, and how it is set up.
    struct setup {
        std::filesystem::path folder;      // an empty one that exists
        std::vector<std::string> settings; // lines of postgresql.conf
        std::string run_in;                // words before each command, such as `ip netns exec name`
        std::string password = {};         // asked for, if there is one
        std::string network = {};          // whose addresses may connect, such as 10.77.0.0/24
    };

    //! Makes a cluster and starts it.
    explicit postgres_server(setup how);
    //! Makes a standby of another one, which it reaches by `primary`, and starts it.
    postgres_server(setup how, const std::string& primary);
    postgres_server(const postgres_server&) = delete;
    postgres_server& operator=(const postgres_server&) = delete;
    ~postgres_server();

    void start();
    //! `fast`, or `immediate`, which is a crash.
    void stop(const std::string& mode = "fast");
    void promote();

    //! By its socket.
    std::string conninfo(const std::string& more = {}) const;
    std::filesystem::path data() const { return how_.folder / "data"; }

private:
    void run(const std::string& program_and_arguments) const;
    void configure() const;

    setup how_;
    bool is_running_ = false;
};

} // namespace waymark::test
