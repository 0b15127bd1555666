#include "timestamp.hpp"

#include "text.hpp"

#include <waymark/error.hpp>

#include <cstdint>

namespace waymark {

timestamp now() noexcept
{
    return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
}

} // namespace waymark

namespace waymark::detail {

namespace {

using namespace std::chrono;

constexpr timestamp first_printable = sys_days{year{0} / January / 1};
constexpr timestamp first_not_printable = sys_days{year{10000} / January / 1};

//! Reads a fixed form from left to right; `ok` falls once and stays.
struct scanner {
    std::string_view rest;
    bool ok = true;

    int digits(std::size_t count)
    {
        int value = 0;
        for (std::size_t i = 0; i < count; ++i) {
            if (rest.empty() || rest.front() < '0' || rest.front() > '9') {
                ok = false;
                return 0;
            }
            value = value * 10 + (rest.front() - '0');
            rest.remove_prefix(1);
        }
        return value;
    }

    bool skip_one_of(std::string_view characters)
    {
        if (rest.empty() || characters.find(rest.front()) == std::string_view::npos)
            return false;
        rest.remove_prefix(1);
        return true;
    }

    void expect(std::string_view characters)
    {
        if (!skip_one_of(characters))
            ok = false;
    }
};

microseconds read_fraction(scanner& scan)
{
    int value = 0;
    int place = 100'000;
    if (scan.rest.empty() || scan.rest.front() < '0' || scan.rest.front() > '9')
        scan.ok = false;
    while (!scan.rest.empty() && scan.rest.front() >= '0' && scan.rest.front() <= '9') {
        value += (scan.rest.front() - '0') * place;
        place /= 10;
        scan.rest.remove_prefix(1);
    }
    return microseconds{value};
}

minutes read_offset(scanner& scan)
{
    if (scan.skip_one_of("Zz"))
        return minutes{0};
    const bool negative = !scan.rest.empty() && scan.rest.front() == '-';
    scan.expect("+-");
    const int hour = scan.digits(2);
    scan.expect(":");
    const int minute = scan.digits(2);
    if (hour > 23 || minute > 59)
        scan.ok = false;
    const minutes offset = hours{hour} + minutes{minute};
    return negative ? -offset : offset;
}

} // namespace

bool is_printable(timestamp time) noexcept
{
    return time >= first_printable && time < first_not_printable;
}

std::string to_rfc3339(timestamp time)
{
    if (!is_printable(time))
        throw error(errc::invalid_argument, "a time outside the years 0 to 9999 cannot be written (" +
                                                std::to_string(time.time_since_epoch().count()) +
                                                " µs since 1970)");
    const auto day = floor<days>(time);
    const year_month_day date{day};
    const hh_mm_ss clock{time - day};
    std::string text = "0000-00-00T00:00:00.000000Z";
    const auto put = [&](std::size_t end,
                         std::int64_t value) { // snprintf takes longer than hashing a message
        for (; value > 0; value /= 10)
            text[--end] = static_cast<char>('0' + value % 10);
    };
    put(4, int{date.year()});
    put(7, unsigned{date.month()});
    put(10, unsigned{date.day()});
    put(13, clock.hours().count());
    put(16, clock.minutes().count());
    put(19, clock.seconds().count());
    put(26, clock.subseconds().count());
    return text;
}

timestamp from_rfc3339(std::string_view text, std::string_view what)
{
    scanner scan{text};
    const int y = scan.digits(4);
    scan.expect("-");
    const int m = scan.digits(2);
    scan.expect("-");
    const int d = scan.digits(2);
    scan.expect("Tt ");
    const int hour = scan.digits(2);
    scan.expect(":");
    const int minute = scan.digits(2);
    scan.expect(":");
    const int second = scan.digits(2);
    const auto fraction = scan.skip_one_of(".") ? read_fraction(scan) : microseconds{0};
    const auto offset = read_offset(scan);

    const year_month_day date{year{y}, month{static_cast<unsigned>(m)}, day{static_cast<unsigned>(d)}};
    const bool in_range = date.ok() && hour < 24 && minute < 60 && second <= 60; // 60: a leap second
    if (scan.ok && scan.rest.empty() && in_range) {
        const auto time =
            sys_days{date} + hours{hour} + minutes{minute} + seconds{second} + fraction - offset;
        if (is_printable(time))
            return time;
    }
    throw error(errc::invalid_argument, std::string(what) + " is not a time as in RFC 3339: " + quoted(text) +
                                            "; write it like 2026-03-01T09:30:00Z");
}

} // namespace waymark::detail
