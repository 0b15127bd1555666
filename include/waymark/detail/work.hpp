//! How the compiled library gets something run without knowing Asio.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace waymark::detail {

//! Something that is to be run. It belongs to whoever was given it, until that calls one of its functions.
class work {
public:
    work() = default;
    work(const work&) = delete;
    work& operator=(const work&) = delete;

    virtual void run() = 0;
    //! In place of `run`: nobody will ever run it, because the context of its executor is going.
    virtual void drop() noexcept = 0;

protected:
    ~work() = default;
};

//! Work that brings the memory along in which an executor queues it, so that it need not wait for any.
class pooled_work : public work {
public:
    std::span<std::byte> memory() noexcept { return memory_; }

protected:
    ~pooled_work() = default;

private:
    alignas(std::max_align_t) std::array<std::byte, 128> memory_;
};

//! Where work is run: the threads of a store, or the executor of a session.
class work_executor {
public:
    work_executor() = default;
    work_executor(const work_executor&) = delete;
    work_executor& operator=(const work_executor&) = delete;
    virtual ~work_executor() = default;

    //! Has it run soon, never from within this call; it may have been run, and be gone, when this returns.
    //! @throws std::bad_alloc; then it is still the caller's.
    virtual void post(pooled_work& wanted) = 0;
    //! Whether its threads have nothing else to do, so that they may wait for a moment.
    virtual bool is_private() const noexcept { return false; }
};

} // namespace waymark::detail
