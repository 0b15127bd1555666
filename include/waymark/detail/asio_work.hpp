//! Executors of Asio, as the compiled library sees them.
#pragma once

#include <waymark/detail/asio.hpp>
#include <waymark/detail/work.hpp>

#include <asio/execution/context_as.hpp>
#include <asio/execution_context.hpp>
#include <asio/query.hpp>
#include <asio/thread_pool.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <utility>

namespace waymark::detail {

//! Lets a context be destroyed as soon as the last handler has run there. The thread that posted it may still
//! be on its way out of `post` then, where it wakes the context's threads, or drops a copy of its executor:
//! the context waits for that.
class post_gate final : public asio::execution_context::service {
public:
    using key_type = post_gate;
    static inline asio::execution_context::id id;

    explicit post_gate(asio::execution_context& owner) : asio::execution_context::service(owner) {}

    //! Null for an executor without a context, such as that of `use_future`.
    template <class Executor>
    static post_gate* of(const Executor& executor)
    {
        constexpr auto context = asio::execution::context_as<asio::execution_context&>;
        if constexpr (asio::can_query<const Executor&, decltype(context)>::value)
            return &asio::use_service<post_gate>(asio::query(executor, context));
        else
            return nullptr;
    }

    //! On the stack of a thread that posts.
    class visit {
    public:
        explicit visit(post_gate* gate) noexcept : gate_(gate)
        {
            if (gate_ != nullptr)
                gate_->inside_.fetch_add(1, std::memory_order_relaxed);
        }
        visit(const visit&) = delete;
        visit& operator=(const visit&) = delete;
        //! The last that the thread does with anything of the context.
        ~visit()
        {
            if (gate_ != nullptr)
                gate_->inside_.fetch_sub(1, std::memory_order_release);
        }

    private:
        post_gate* gate_;
    };

private:
    void shutdown() override
    {
        while (inside_.load(std::memory_order_acquire) != 0)
            std::this_thread::yield();
    }

    std::atomic<std::size_t> inside_ = 0;
};

//! The function that is posted. It owns the work until it runs. It is no template, so that a user's file
//! compiles `post` once for each executor and not for each operation.
class posted_work {
public:
    explicit posted_work(work& owned) noexcept : owned_(&owned) {}
    posted_work(posted_work&& other) noexcept : owned_(std::exchange(other.owned_, nullptr)) {}
    posted_work(const posted_work&) = delete;
    ~posted_work();

    void operator()() { std::exchange(owned_, nullptr)->run(); }

private:
    work* owned_;
};

//! On the stack around a `post`: if that throws, or the executor throws away what it was given, the work
//! comes back to who posted it.
class posting {
public:
    explicit posting(const work& posted) noexcept : posted_(&posted), outer_(innermost) { innermost = this; }
    posting(const posting&) = delete;
    posting& operator=(const posting&) = delete;
    ~posting() { innermost = outer_; }

    bool came_back() const noexcept { return came_back_; }

    //! Whether this thread is just posting it.
    static bool takes_back(const work& thrown_away) noexcept
    {
        for (auto* each = innermost; each != nullptr; each = each->outer_)
            if (each->posted_ == &thrown_away)
                return each->came_back_ = true;
        return false;
    }

private:
    static inline thread_local posting* innermost = nullptr;

    const work* posted_;
    posting* outer_;
    bool came_back_ = false;
};

inline posted_work::~posted_work()
{
    if (owned_ != nullptr && !posting::takes_back(*owned_))
        owned_->drop();
}

//! @throws std::bad_alloc; then it is still the caller's.
template <class Executor, class Function>
void post_work(const Executor& executor, work& wanted, Function function)
{
    const posting now(wanted);
    asio::post(executor, std::move(function));
    if (now.came_back())
        wanted.drop(); // nobody will ever run it
}
template <class Executor>
void post_work(const Executor& executor, work& wanted)
{
    post_work(executor, wanted, posted_work(wanted));
}

//! An allocator of the memory that work brings along.
template <class T>
class pooled_allocator {
public:
    using value_type = T;

    explicit pooled_allocator(pooled_work& owner) noexcept : owner_(&owner) {}
    template <class Other>
    pooled_allocator(const pooled_allocator<Other>& other) noexcept : owner_(other.owner_)
    {
    }

    T* allocate(std::size_t count)
    {
        if (const auto memory = owner_->memory(); count * sizeof(T) <= memory.size())
            return static_cast<T*>(static_cast<void*>(memory.data()));
        return std::allocator<T>().allocate(count);
    }
    void deallocate(T* freed, std::size_t count) noexcept
    {
        if (static_cast<void*>(freed) != owner_->memory().data())
            std::allocator<T>().deallocate(freed, count);
    }

    template <class Other>
    friend bool operator==(const pooled_allocator& left, const pooled_allocator<Other>& right) noexcept
    {
        return left.owner_ == right.owner_;
    }

private:
    template <class>
    friend class pooled_allocator;

    pooled_work* owner_;
};

class posted_pooled_work : public posted_work {
public:
    using allocator_type = pooled_allocator<void>;

    explicit posted_pooled_work(pooled_work& owned) noexcept : posted_work(owned), allocator_(owned) {}
    allocator_type get_allocator() const noexcept { return allocator_; }

private:
    allocator_type allocator_;
};

//! Threads of a store's own.
class own_pool final : public work_executor {
public:
    explicit own_pool(std::size_t threads) : pool_(threads) {}
    ~own_pool() override
    {
        pool_.stop();
        pool_.join();
    }

    void post(pooled_work& wanted) override
    {
        post_work(pool_.get_executor(), wanted, posted_pooled_work(wanted));
    }
    bool is_private() const noexcept override { return true; }

private:
    asio::thread_pool pool_;
};

//! A pool of the user's.
class shared_pool final : public work_executor {
public:
    explicit shared_pool(asio::any_io_executor executor) noexcept : executor_(std::move(executor)) {}

    void post(pooled_work& wanted) override { post_work(executor_, wanted); }

private:
    asio::any_io_executor executor_;
};

} // namespace waymark::detail
