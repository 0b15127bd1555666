#include "hostile_strings.hpp"

#include "backends/file/file_names.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <string_view>

namespace waymark::faults {

namespace {

using texts = std::vector<std::string>;

std::string repeated(std::string_view part, std::size_t times)
{
    std::string all;
    for (std::size_t i = 0; i < times; ++i)
        all += part;
    return all;
}

std::string utf8(char32_t point)
{
    const auto tail = [&](int shift) { return static_cast<char>(0x80 | (point >> shift & 0x3F)); };
    if (point < 0x80)
        return {static_cast<char>(point)};
    if (point < 0x800)
        return {static_cast<char>(0xC0 | point >> 6), tail(0)};
    if (point < 0x10000)
        return {static_cast<char>(0xE0 | point >> 12), tail(6), tail(0)};
    return {static_cast<char>(0xF0 | point >> 18), tail(12), tail(6), tail(0)};
}

//! Every beginning with every end.
texts each_with_each(const texts& beginnings, const texts& ends)
{
    texts all;
    for (const auto& begin : beginnings)
        for (const auto& end : ends)
            all.push_back(begin + end);
    return all;
}

texts paths()
{
    texts all = {".",
                 "..",
                 "/",
                 "//",
                 "\\",
                 "\\\\server\\share",
                 "C:\\",
                 "C:x",
                 "c:/boot.ini",
                 "file:///etc/passwd",
                 "~",
                 "~root",
                 "~/x",
                 "a/b",
                 "a//b",
                 "a/./b",
                 "a/../b",
                 "a\\b",
                 "a/",
                 "/a",
                 "..%2f",
                 "..%5c",
                 "..%c0%af",
                 "%252e%252e%252f",
                 "%00",
                 "a%00b",
                 "%",
                 "%2",
                 "%zz",
                 "%2E",
                 "%2e",
                 "....//",
                 "..;/",
                 "/dev/null",
                 "/proc/self/mem",
                 "a:b",
                 "a::$DATA",
                 "{outside}",
                 "{outside}/escaped",
                 "{outside}/../escaped",
                 "file:{outside}/uri.db?mode=rwc",
                 "file::memory:?cache=shared",
                 ":memory:",
                 "postgresql:///postgres",
                 "host=/tmp dbname=x",
                 "../bystander",
                 "%2e%2e/bystander",
                 "bystander/"};
    for (std::size_t depth = 1; depth <= 9; ++depth)
        for (const auto* up : {"../", "..\\", "%2e%2e%2f", "/.."})
            all.push_back(repeated(up, depth) + "escaped");
    const auto inside = each_with_each({"", "../", ".\\", "%2e%2e/", ".waymark/"},
                                       {".waymark", "lock", "format.json", "agent.json", "temporary",
                                        "scopes", "steps", "store.db", "store.db-wal", "-wal", "-journal"});
    all.insert(all.end(), inside.begin(), inside.end());
    return all;
}

//! Names of devices, and endings that Windows drops.
texts names_of_windows()
{
    auto all = each_with_each({"con", "prn", "aux", "nul", "com1", "lpt9"},
                              {"", ".json", ".", " ", ":", "\xc2\xb9", ".tar.gz"});
    for (const auto* more : {"CON", "Con", "NUL.txt", "CONIN$", "conout$", "clock$", "COM\xc2\xb2"})
        all.emplace_back(more);
    return all;
}

//! Which are the same for those who fold case, normalise, trim, or look.
texts lookalikes()
{
    return {"agent",
            "Agent",
            "AGENT",
            "agenT",
            "agent.",
            "agent..",
            "agent ",
            "agent  ",
            " agent",
            "agent\t",
            ".agent",
            "agent. .",
            "agent\xc2\xa0",
            "agent\xe3\x80\x80",
            "\xef\xbd\x81gent",
            "\xd0\xb0gent",
            "\xc3\xa9",
            "e\xcc\x81",
            "\xc3\x89",
            "E\xcc\x81",
            "\xc3\x85",
            "A\xcc\x8a",
            "\xe2\x84\xab",
            "\xef\xac\x81",
            "fi",
            "FI",
            "\xef\xac\x80",
            "\xc4\xb0",
            "i\xcc\x87",
            "\xc4\xb1",
            "I",
            "i",
            "\xc3\x9f",
            "ss",
            "SS",
            "\xe1\xba\x9e",
            "\xce\xa3",
            "\xcf\x83",
            "\xcf\x82",
            "\xc7\x85",
            "\xc7\x84",
            "\xe2\x84\xaa",
            "K",
            "k",
            "\xe2\x84\xa6",
            "\xce\xa9",
            "\xea\xb0\x81",
            "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8",
            "\xe2\x91\xa0",
            "1",
            "\xc2\xb2",
            "2",
            "\xd9\xa2",
            "q\xcc\xa3\xcc\x87",
            "q\xcc\x87\xcc\xa3"};
}

texts database_texts()
{
    auto all = each_with_each({"'", "\"", "`", "')", "'))", "\\'", "$$", "x", "]"},
                              {" OR 1=1 --", "; DROP TABLE checkpoints; --", "; DELETE FROM agents; --",
                               "; CREATE TABLE hostile(x); --", " UNION SELECT name FROM sqlite_master --",
                               "; ATTACH DATABASE '{outside}/attached.db' AS x; --",
                               "; CREATE SCHEMA hostile; --", "; COPY (SELECT 1) TO '{outside}/copied'; --",
                               "; UPDATE checkpoints SET name = 'x'; --", "; COMMIT; DROP TABLE steps; --"});
    for (const auto* more :
         {"' AND (SELECT pg_sleep(5)) IS NULL --", "%%", "a%", "_", "_gent", "agen_", "*", "?", "[a-z]*",
          "[^a]", "a*", "\\%", "\\_", "?1", ":id", "@id", "$1", "$2", "/*", "*/", "--", "#", ";", "E'\\''",
          "U&'\\0041'", "X'00'", "$tag$", "||", "NULL", "' || 'x", "sqlite_master", "sqlite_sequence",
          "agents", "checkpoints", "messages", "objects", "erased_agents", "format", "waymark", "public",
          "pg_catalog", "rowid", "oid", "ctid", "select", "test_0_0", "information_schema.tables",
          // keys of filters that were pasted into JSON paths
          "$", "$.a", "$.*", "$[0]", "$..a", "$.\"a\"", "a.b", "a[0]", "x') = 'x' OR 1=1 --",
          "$.x') OR '1'='1", "x\"') = '1' OR 1=1; --", "x') IS NULL OR ('1'='1", "source') LIKE '%' OR ('a",
          "metadata->>'x'", "x}' OR '{", "@> '{}'", "?| array['x']", "#>>'{x}'", "{a|b}", "@field:{x}",
          "a') UNION SELECT checkpoint FROM checkpoints --", "__proto__", "constructor", "__class__",
          "checkpoint_ns", "__interrupt__"})
        all.emplace_back(more);
    return all;
}

//! For printf, templates, shells, browsers and readers of JSON.
texts texts_for_interpreters()
{
    return {"%s%s%s%n",
            "%x%x%x",
            "%1$n",
            "%*d",
            "{}",
            "{0}",
            "{{}}",
            "{:>9999999}",
            "${jndi:ldap://x/a}",
            "#{1}",
            "$(touch {outside}/shell)",
            "`touch {outside}/shell`",
            "; touch {outside}/shell",
            "| touch {outside}/shell",
            "&& touch {outside}/shell",
            "> {outside}/redirected",
            "\n touch {outside}/shell",
            "$HOME",
            "%PATH%",
            "!!",
            "<(id)",
            "-rf",
            "--help",
            "-",
            "-x",
            "\\n",
            "\\0",
            "\\x00",
            "\\u0000",
            "\\ud800",
            "\\u002e\\u002e/",
            "<script>alert(1)</script>",
            "<!--",
            "]]>",
            "&lt;",
            "<?xml version=\"1.0\"?>",
            "null",
            "true",
            "false",
            "nil",
            "undefined",
            "0",
            "-0",
            "-1",
            "00",
            "1e9",
            "1.0",
            "NaN",
            "Infinity",
            "9223372036854775808",
            "0x0",
            "[]",
            "\"\"",
            "[1,2",
            "{\"a\":1}",
            "{\"agent_id\":\"bystander\"}",
            "\"},{\"x\":\"",
            "{\"waymark_export\":1}",
            "{\"end\":{\"checkpoints\":0,\"steps\":0}}",
            "'",
            "''",
            "'''",
            "\"",
            "`",
            "``",
            "\\\\",
            "\\'",
            "\\\"",
            "\xc2\xab",
            "\xc2\xbb",
            "\xe2\x80\x98",
            "\xe2\x80\x99",
            "\xe2\x80\x9c",
            "\xe2\x80\x9d",
            "\xe2\x80\x9a",
            "\xe2\x80\xb2",
            "\xef\xbc\x87",
            "\xef\xbc\x82",
            "\xca\xbc"};
}

texts control_characters()
{
    texts all = {"\x1b[31m",
                 "\x1b[2J",
                 "\x1b]0;title\x07",
                 "\x1b]8;;http://x\x1b\\",
                 "\xc2\x9b"
                 "31m",
                 "\x1b"
                 "c",
                 "\x1b[6n",
                 "x\b\b\b",
                 "x\r\x1b[K",
                 "x\n2026-01-01 00:00:00 INFO all is well",
                 "x\r\nHTTP/1.1 200 OK\r\n\r\n",
                 "x\n",
                 "\r\n",
                 "\n\n",
                 "x\nVIOLATION",
                 "x\n{\"end\":{\"checkpoints\":0,\"steps\":0}}\n",
                 "x\xe2\x80\xa8y",
                 "x\xe2\x80\xa9y",
                 "\t\t"};
    for (char32_t point = 1; point < 0xA0; ++point) {
        if (point == 0x20)
            point = 0x7F;
        all.push_back(utf8(point));
        all.push_back("a" + utf8(point) + "b");
    }
    return all;
}

//! What is there and not seen, or seen elsewhere.
texts invisible_characters()
{
    texts all;
    for (const char32_t point :
         {0xADU,   0x34FU,  0x61CU,  0x115FU, 0x180EU, 0x200BU, 0x200CU, 0x200DU, 0x200EU,  0x200FU,
          0x202AU, 0x202BU, 0x202CU, 0x202DU, 0x202EU, 0x2060U, 0x2061U, 0x2062U, 0x2066U,  0x2067U,
          0x2068U, 0x2069U, 0x206AU, 0x3164U, 0xFE0FU, 0xFEFFU, 0xFFA0U, 0xFFF9U, 0xE0001U, 0xE0041U})
        for (const auto* before : {"", "adm"})
            all.push_back(before + utf8(point) + (*before == '\0' ? "" : "in"));
    for (const char32_t point : {0xFDD0U, 0xFDEFU, 0xFFFDU, 0xFFFEU, 0xFFFFU, 0x1FFFEU, 0x1FFFFU, 0x10FFFEU,
                                 0x10FFFFU, 0xE000U, 0xF8FFU, 0xD7FFU})
        all.push_back(utf8(point));
    for (const auto* emoji :
         {"\xf0\x9f\xa7\xad", "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7",
          "\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd", "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", "\xe2\x9d\xa4\xef\xb8\x8f"})
        all.emplace_back(emoji);
    all.push_back("z" + repeated("\xcc\x8d\xcd\x96", 40)); // a pile of marks
    return all;
}

texts long_strings()
{
    texts all;
    for (const auto* part : {"x", "X", "/", ".", "%", "'", "\\", " ", "\x01", "-", "\"", "_"})
        all.push_back(repeated(part, 255));
    for (const auto* part : {"\xc3\xa9", "\xf0\x9f\xa7\xad", "../", "\xe2\x80\xae"}) {
        const auto times = 255 / std::string_view(part).size();
        all.push_back(repeated(part, times) + std::string(255 - times * std::string_view(part).size(), 'e'));
    }
    all.push_back(std::string(254, 'x') + "y");
    all.push_back(std::string(254, 'x') + "X");
    for (const std::size_t length :
         {100U, 179U, 180U, 181U, 182U, 250U, 251U}) // names of files change their form there
        all.push_back(std::string(length, 'a'));
    for (const std::size_t length : {59U, 60U, 61U, 84U, 85U})
        all.push_back(std::string(length, 'A'));
    for (const auto& id : {std::string(255, 'x'), std::string(181, 'a'), repeated("../", 85)})
        all.push_back(file::to_name(id)); // an id like the file of another id
    return all;
}

//! What no store takes as an id; most not as a label, either.
texts refused_strings()
{
    texts all = {"",
                 std::string(256, 'x'),
                 repeated("\xc3\xa9", 128),
                 std::string(255, 'x') + "\xc3\xa9",
                 std::string(1'000, '/'),
                 std::string(70'000, 'y')};
    using namespace std::string_literals;
    for (const auto& with_nul : {"\0"s, "a\0"s, "\0a"s, "a\0b"s, "bystander\0"s, "bystander\0x"s, "\0\0\0"s})
        all.push_back(with_nul);
    for (const auto* bytes : {"\x80",
                              "\xbf",
                              "\xc0\x80",
                              "\xc0\xaf",
                              "\xc0\xae\xc0\xae/",
                              "\xc1\xbf",
                              "\xc3",
                              "\xe0\x80\xaf",
                              "\xe0\x9f\xbf",
                              "\xe2\x82",
                              "\xed\xa0\x80",
                              "\xed\xbf\xbf",
                              "\xed\xa0\xbd\xed\xb8\x80",
                              "\xf0\x80\x80\xaf",
                              "\xf0\x8f\xbf\xbf",
                              "\xf0\x9f\x98",
                              "\xf4\x90\x80\x80",
                              "\xf5\x80\x80\x80",
                              "\xf8\x88\x80\x80\x80",
                              "\xfc\x84\x80\x80\x80\x80",
                              "\xfe",
                              "\xff",
                              "\xff\xfe",
                              "\x9b"
                              "31m"})
        for (const auto* before : {"", "bystander"})
            all.push_back(std::string(before) + bytes);
    return all;
}

} // namespace

const std::vector<std::string>& hostile_strings()
{
    static const auto all = [] {
        texts result;
        std::set<std::string> seen;
        for (const auto& group :
             {refused_strings(), paths(), names_of_windows(), lookalikes(), database_texts(),
              texts_for_interpreters(), control_characters(), invisible_characters(), long_strings()})
            for (const auto& text : group)
                if (seen.insert(text).second)
                    result.push_back(text);
        // Mixed, so that each round has some of each kind.
        std::shuffle(result.begin(), result.end(), std::mt19937_64(1)); // NOLINT: the same order each time
        return result;
    }();
    return all;
}

std::string combined_hostile_string(std::uint64_t seed)
{
    std::mt19937_64 random(seed);
    const auto any = [&] { return hostile_strings()[random() % hostile_strings().size()]; };
    auto text = any();
    switch (random() % 4) {
    case 0:
        return text + any();
    case 1:
        return any() + "/" + text;
    case 2: // in the middle
        return text.insert(random() % (text.size() + 1), any());
    default: // one byte changed
        text.insert(random() % (text.size() + 1), 1, static_cast<char>(random() % 256));
        return text;
    }
}

} // namespace waymark::faults
