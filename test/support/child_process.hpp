//! Another process, whose output is read line by line.
#pragma once

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <spawn.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace waymark::test {

class child_process {
public:
    explicit child_process(std::vector<std::string> command)
    {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0)
            throw std::runtime_error("no pipe");
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        std::vector<char*> arguments;
        for (auto& word : command)
            arguments.push_back(word.data());
        arguments.push_back(nullptr);
        const auto failure =
            ::posix_spawn(&id_, command.at(0).c_str(), &actions, nullptr, arguments.data(), environ);
        posix_spawn_file_actions_destroy(&actions);
        ::close(ends[1]);
        output_ = ::fdopen(ends[0], "r");
        if (failure != 0)
            throw std::runtime_error(command.at(0) + " cannot be run");
    }
    child_process(child_process&& other) noexcept
        : id_(std::exchange(other.id_, -1)), output_(std::exchange(other.output_, nullptr))
    {
    }
    child_process& operator=(child_process&&) = delete;
    ~child_process()
    {
        if (id_ > 0)
            kill();
        if (output_ != nullptr)
            std::fclose(output_);
    }

    pid_t id() const noexcept { return id_; }

    //! False at the end of the output.
    bool read_line(std::string& line)
    {
        line.clear();
        for (int c = std::fgetc(output_); c != EOF; c = std::fgetc(output_)) {
            if (c == '\n')
                return true;
            line += static_cast<char>(c);
        }
        return false; // a line without an end was cut off
    }

    //! The exit code; 128 and more for a signal.
    int wait()
    {
        int status = 0;
        ::waitpid(std::exchange(id_, -1), &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

    void kill()
    {
        ::kill(id_, SIGKILL);
        wait();
    }

private:
    pid_t id_ = -1;
    std::FILE* output_ = nullptr;
};

} // namespace waymark::test
