#include "random_bits.hpp"

#include <cerrno>
#include <sys/random.h>
#include <system_error>

namespace waymark::detail {

std::uint64_t random_bits()
{
    // No generator with a state: a child of a fork would repeat its parent's. Nor std::random_device, which
    // asks what the processor can do each time: that takes long where the machine is a virtual one.
    std::uint64_t bits = 0;
    while (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
        if (errno != EINTR)
            throw std::system_error(errno, std::generic_category(), "no random number from the system");
    return (bits >> 1) | 1;
}

} // namespace waymark::detail
