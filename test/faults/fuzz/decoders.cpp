//! Feeds bytes that libFuzzer makes up to one decoder: fuzz_decoders --target=NAME [libFuzzer options]
//! CORPUS…
#include "decoders.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace waymark::faults {

void broken_promise(const std::string& what)
{
    std::fprintf(stderr, "broken promise: %s\n", what.c_str());
    __builtin_trap();
}

namespace {

using decoder = void (*)(std::string_view input);

struct target {
    std::string_view name;
    decoder decode;
};

constexpr std::array targets = {
    target{"checkpoint-json", decode_checkpoint_json}, target{"import-json", decode_import_json},
    target{"import-lines", decode_import_lines},       target{"message-text", decode_message_text},
    target{"json-values", decode_json_values},         target{"stored-body", decode_stored_body},
    target{"stored-rows", decode_stored_rows},         target{"file-documents", decode_file_documents},
    target{"model-items", decode_model_items},         target{"model-streams", decode_model_streams},
};

// Decoders with a fault each, to prove that the fuzzer would find one. They are not listed.

//! Trusts a length that stands in the input.
void decode_beyond_the_end(std::string_view input)
{
    if (input.size() < 3 || input[0] != 'W' || input[1] != 'M')
        return;
    const auto length = static_cast<unsigned char>(input[2]);
    volatile char last = input.data()[2 + length];
    static_cast<void>(last);
}

//! Lets an exception out that is not ours.
void decode_with_foreign_exception(std::string_view input)
{
    if (input.starts_with("{}}"))
        throw std::out_of_range("not an error of Waymark");
}

//! Accepts what it then reads otherwise.
void decode_something_else(std::string_view input)
{
    if (input.starts_with("[1]"))
        broken_promise("what was written is not what is read");
}

constexpr std::array broken_targets = {
    target{"broken-on-purpose", decode_beyond_the_end},
    target{"broken-exception", decode_with_foreign_exception},
    target{"broken-promise", decode_something_else},
};

decoder chosen = nullptr;

decoder find_decoder(std::string_view name)
{
    for (const auto& next : targets)
        if (next.name == name)
            return next.decode;
    for (const auto& next : broken_targets)
        if (next.name == name)
            return next.decode;
    return nullptr;
}

void print_names(std::FILE* to, const char* indent)
{
    for (const auto& next : targets)
        std::fprintf(to, "%s%.*s\n", indent, static_cast<int>(next.name.size()), next.name.data());
}

//! libFuzzer ignores arguments that begin with two dashes, and hands them on to processes that it starts.
void read_arguments(int count, char** arguments)
{
    constexpr std::string_view prefix = "--target=";
    std::string_view name;
    for (int i = 1; i < count; ++i) {
        const std::string_view argument = arguments[i];
        if (argument == "--list") {
            print_names(stdout, "");
            std::exit(0);
        }
        if (argument.starts_with(prefix))
            name = argument.substr(prefix.size());
    }
    chosen = find_decoder(name);
    if (chosen != nullptr)
        return;
    if (name.empty())
        std::fprintf(stderr, "Say which decoder to attack with --target=NAME. There are:\n");
    else
        std::fprintf(stderr, "There is no decoder '%.*s'. There are:\n", static_cast<int>(name.size()),
                     name.data());
    print_names(stderr, "  ");
    std::exit(2);
}

} // namespace

} // namespace waymark::faults

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv)
{
    waymark::faults::read_arguments(*argc, *argv);
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    waymark::faults::chosen({reinterpret_cast<const char*>(data), size});
    return 0;
}
