//! What the converters of all APIs do with parts, and what they report.
#pragma once

#include "arrangement.hpp"

#include <waymark/wire.hpp>

#include <boost/json/object.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace waymark::wire {

//! What could not be carried over, each thing once a message.
class omissions {
public:
    //! `taker` is the name of the API, as it stands in sentences.
    explicit omissions(std::string taker) : taker_(std::move(taker)) {}

    void add(std::size_t message, std::string what);
    //! Reasoning, or a part that the library does not interpret.
    void add_foreign(const piece& from);
    //! "an image, which … does not take"
    void add_media(std::size_t message, const part& media);
    void add_error_mark(std::size_t message);
    //! What texts that are converted have beside their text.
    void add_losses_of_texts(const std::vector<turn>& turns);

    //! In the order of the conversation.
    std::vector<omission> take(const conversation& chat) &&;

private:
    std::string taker_;
    std::vector<std::pair<std::size_t, std::string>> all_;
};

//! What a piece means to a converter. A document that is text is text.
enum class piece_kind { text, media, call, result, foreign };
piece_kind kind_of(const part& from);

//! A result, taken apart.
struct result_content {
    std::string text;
    std::vector<part> media;
    bool is_error = false;
};
//! Reports what is neither text nor media.
result_content read_result(const piece& from, omissions& left_out);

//! The name of a tool in letters, digits, "_" and "-": Gemini takes more than others.
std::string tool_name(const part& call, std::size_t longest);

//! The arguments of a call as text; as the API sent them, if that was text.
std::string arguments_text(const part& call);
//! The same as an object. What is none becomes its member "input".
boost::json::object arguments_object(const part& call);

//! As it is registered: "image/jpeg", even if its maker says "image/jpg".
std::string_view media_type(const part& media);
//! An image that all APIs but Gemini's take.
bool is_common_image(std::string_view type) noexcept;
//! "data:image/png;base64,…"
std::string data_url(const part& media);
//! Whether anybody can reach it: not the name that another API gave an upload.
bool is_on_the_web(const part& media);
//! Not if it is unknown ("") or a group ("image/*").
bool has_exact_type(const part& media);

//! The texts of pieces of one message, joined; between messages stands an empty line.
std::string joined_text(const std::vector<piece>& pieces);

//! Stands where the user should have spoken first.
inline constexpr std::string_view earlier_messages = "(Earlier messages are left out.)";

} // namespace waymark::wire
