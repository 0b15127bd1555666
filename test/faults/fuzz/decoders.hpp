//! The decoders of the library, each as a function that takes any bytes. What they promise: bad input is
//! refused with a waymark::error, and what is accepted can be written and read again.
#pragma once

#include <waymark/error.hpp>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace waymark::faults {

//! Says what went wrong and traps, which the fuzzer reports together with the input.
[[noreturn]] void broken_promise(const std::string& what);

//! What the decoder made of its input, or none if it refused that with one of these errors. Any other
//! exception is a fault and passes.
template <class Decode>
auto accepted(std::initializer_list<errc> refusals, Decode decode) -> std::optional<decltype(decode())>
{
    try {
        return decode();
    } catch (const error& refusal) {
        if (std::none_of(refusals.begin(), refusals.end(), [&](errc code) { return refusal.code() == code; }))
            broken_promise(std::string("refused with an error that is not documented: ") + refusal.what());
        return std::nullopt;
    }
}

// Texts of other programs, and of our own exports and API: text_decoders.cpp

void decode_checkpoint_json(std::string_view input);
void decode_import_json(std::string_view input);
void decode_import_lines(std::string_view input);
void decode_message_text(std::string_view input);
void decode_json_values(std::string_view input);

// What stores have written, and something has damaged: stored_decoders.cpp

void decode_stored_body(std::string_view input);
void decode_stored_rows(std::string_view input);
void decode_file_documents(std::string_view input);

// What model APIs send: model_decoders.cpp

void decode_model_items(std::string_view input);
void decode_model_streams(std::string_view input);

} // namespace waymark::faults
