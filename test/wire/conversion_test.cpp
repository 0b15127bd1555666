#include "catch.hpp"
#include "recordings.hpp"

#include <set>

using namespace waymark;
using namespace waymark::test;
namespace json = boost::json;

namespace {

constexpr const char* png = "iVBORw0KGgo=";

message image_of_user()
{
    return message::user({part::text("What is it?"), part::media("image/png", "\x89PNG\r\n\x1a\n")});
}

json::value items(wire::api api, const conversation& chat)
{
    return items_of(api, wire::make_request(api, chat));
}

conversation made_of(std::initializer_list<message> messages)
{
    conversation chat;
    for (const auto& next : messages)
        chat.push(next);
    return chat;
}

message item(const char* text)
{
    return message::from(parse(text).as_object());
}

std::vector<std::string> left_out(const wire::request& request)
{
    std::vector<std::string> all;
    for (const auto& next : request.left_out())
        all.push_back(std::to_string(next.message()) + ": " + next.what());
    return all;
}

//! Question, two calls, their results (an error, an image), answer.
conversation made_by_hand()
{
    return made_of(
        {message::system("Be brief."), image_of_user(),
         message::assistant("I look.", {tool_call("c1", "look", json::object{{"at", 1}}),
                                        tool_call("c2", "draw", json::object{})}),
         message::tool_result(tool_result("c1", "no such file").with_error()),
         message::tool_result(tool_result("c2", {part::text("drawn"), part::media("image/png", "abc")})),
         message::assistant("A cat.")});
}

} // namespace

TEST_CASE("messages made by hand go to every API")
{
    for (const auto api : all_apis) {
        CAPTURE(wire::to_string(api));
        const auto request = wire::make_request(api, made_by_hand());
        CAPTURE(request.body());
        CHECK(violations(api, request) == accepted);
    }
}

TEST_CASE("messages made by hand, for Chat Completions")
{
    const auto request = wire::chat_completions(made_by_hand());
    // Tool messages hold text alone: media follow as a message of the user, behind all of them.
    CHECK(request.body().at("messages") == parse(R"json([
        {"role":"system","content":"Be brief."},
        {"role":"user","content":[{"type":"text","text":"What is it?"},
            {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]},
        {"role":"assistant","content":"I look.","tool_calls":[
            {"id":"c1","type":"function","function":{"name":"look","arguments":"{\"at\":1}"}},
            {"id":"c2","type":"function","function":{"name":"draw","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"c1","content":"no such file"},
        {"role":"tool","tool_call_id":"c2","content":"drawn"},
        {"role":"user","content":[{"type":"text","text":"(From the result of draw:)"
},
            {"type":"image_url","image_url":{"url":"data:image/png;base64,YWJj"}}]
},
        {"role":"assistant","content":"A cat."}])json"));
    CHECK(left_out(request) ==
          std::vector<std::string>{
              "3: the mark that a result is an error, which Chat Completions does not know; its "
              "text is there"});
}

TEST_CASE("messages made by hand, for the Responses API")
{
    const auto request = wire::responses(made_by_hand());
    CHECK(request.body().at("input") == parse(R"([
        {"role":"system","content":"Be brief."},
        {"role":"user","content":[{"type":"input_text","text":"What is it?"},
            {"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo=","detail":"auto"}]},
        {"role":"assistant","content":"I look."},
        {"type":"function_call","call_id":"c1","name":"look","arguments":"{\"at\":1}"},
        {"type":"function_call","call_id":"c2","name":"draw","arguments":"{}"},
        {"type":"function_call_output","call_id":"c1","output":"no such file"},
        {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"drawn"},
            {"type":"input_image","image_url":"data:image/png;base64,YWJj","detail":"auto"}]},
        {"role":"assistant","content":"A cat."}])"));
    CHECK(request.left_out().size() == 1);
}

TEST_CASE("messages made by hand, for Anthropic")
{
    const auto request = wire::anthropic(made_by_hand());
    CHECK(request.body() == parse(R"({"system":"Be brief.","messages":[
        {"role":"user","content":[{"type":"text","text":"What is it?"},
            {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]},
        {"role":"assistant","content":[{"type":"text","text":"I look."},
            {"type":"tool_use","id":"c1","name":"look","input":{"at":1}},
            {"type":"tool_use","id":"c2","name":"draw","input":{}}]},
        {"role":"user","content":[
            {"type":"tool_result","tool_use_id":"c1","content":"no such file","is_error":true},
            {"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"drawn"},
                {"type":"image","source":{"type":"base64","media_type":"image/png","data":"YWJj"}}]}]},
        {"role":"assistant","content":"A cat."}]})"));
    CHECK(request.left_out().empty());
}

TEST_CASE("messages made by hand, for Gemini")
{
    const auto request = wire::gemini(made_by_hand());
    // Calls that Gemini has not made have the signature that Google documents for them, the first of each
    // step.
    CHECK(request.body() == parse(R"json({"systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":[
        {"role":"user","parts":[{"text":"What is it?"},
            {"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]},
        {"role":"model","parts":[{"text":"I look."},
            {"functionCall":{"name":"look","args":{"at":1},"id":"c1"},
             "thoughtSignature":"skip_thought_signature_validator"},
            {"functionCall":{"name":"draw","args":{},"id":"c2"}}]},
        {"role":"user","parts":[
            {"functionResponse":{"name":"look","response":{"error":"no such file"},"id":"c1"}},
            {"functionResponse":{"name":"draw","response":{"result":"drawn"},"id":"c2"}}]},
        {"role":"user","parts":[{"text":"(From the result of draw:)"
},
            {"inlineData":{"mimeType":"image/png","data":"YWJj"}}]
},
        {"role":"model","parts":[{"text":"A cat."}]}]
})json"));
    CHECK(request.left_out().empty());
}

TEST_CASE("documents, audio and addresses go where they are taken")
{
    const auto chat =
        made_of({message::user({part::media("application/pdf", "%PDF"), part::media("audio/wav", "RIFF"),
                                part::media("video/mp4", "v"), part::media("image/heic", "h"),
                                part::media_url("https://x.org/cat", "image/png"),
                                part::media_url("https://x.org/a.pdf", "application/pdf"),
                                part::media_url("file-123", "image/png")})});
    CHECK(items(wire::api::anthropic, chat) == parse(R"([{"role":"user","content":[
        {"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERg=="}},
        {"type":"image","source":{"type":"url","url":"https://x.org/cat"}},
        {"type":"document","source":{"type":"url","url":"https://x.org/a.pdf"}}]}])"));
    for (const auto api : all_apis) {
        CAPTURE(wire::to_string(api));
        const auto request = wire::make_request(api, chat);
        CAPTURE(request.body());
        CHECK(violations(api, request) == accepted);
        CHECK_FALSE(request.left_out().empty());
    }
}

TEST_CASE("media elsewhere keep what they are")
{
    const auto chat = made_of({message::user({part::media_url("https://x.org/y.pdf", "application/pdf"),
                                              part::media_url("gs://bucket/x.mp4", "video/mp4")})});
    CHECK(chat[0].parts().at(0).media_type() == "application/pdf");
    CHECK(items(wire::api::responses, chat) ==
          parse(R"([{"role":"user","content":[{"type":"input_file","file_url":"https://x.org/y.pdf"}]}])"));
    CHECK(left_out(wire::responses(chat)) ==
          std::vector<std::string>{"0: a video, which the Responses API does not take here"});
    CHECK(items(wire::api::gemini, chat) == parse(R"([{"role":"user","parts":[
            {"fileData":{"fileUri":"https://x.org/y.pdf","mimeType":"application/pdf"}},
            {"fileData":{"fileUri":"gs://bucket/x.mp4","mimeType":"video/mp4"}}]}])"));
    CHECK(left_out(wire::chat_completions(chat)).size() == 2);
}

TEST_CASE("an item that only Chat Completions can have made goes out as it is")
{
    for (const auto* text :
         {R"({"role":"system","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]})",
          R"({"role":"user","content":[{"type":"text","text":"a","cache_control":{}}],"name":"bob"})",
          R"({"role":"user","content":[{"type":"text","text":"a","x":1},
              {"type":"image_url","image_url":{"url":"https://x.org/a.png"}}]})",
          R"({"role":"assistant","content":[{"type":"text","text":"a","annotations":[1]}],"tool_calls":[
              {"id":"c","type":"function","function":{"name":"f","arguments":"{}"},
               "extra_content":{"google":{"thought_signature":"s"}}}]})"}) {
        const auto request = wire::chat_completions(made_of({item(text)}));
        CHECK(items_of(wire::api::chat_completions, request).at(0) == parse(text));
        CHECK(request.left_out().empty());
    }
    // This may be Anthropic's, whose texts have more than others take.
    const auto marked = item(
        R"({"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]})");
    const auto request = wire::chat_completions(made_of({marked}));
    CHECK(items_of(wire::api::chat_completions, request).at(0) == parse(R"({"role":"user","content":"a"})"));
    CHECK(left_out(request) ==
          std::vector<std::string>{"0: 'cache_control' of a text, which only the API that made it knows"});
    CHECK(items(wire::api::anthropic, made_of({marked})).at(0) == json::value(marked.item()));
    // What some servers send and others refuse.
    CHECK(items(wire::api::chat_completions,
                made_of({item(R"({"role":"assistant","content":"a","tool_calls":[]})")}))
              .at(0) == parse(R"({"role":"assistant","content":"a"})"));
}

TEST_CASE("calls of another model stand in one content with what Gemini has said before")
{
    const auto chat =
        made_of({message::user("Go."), item(R"({"role":"model","parts":[{"text":"I look."}]})"),
                 message::assistant("", {tool_call("c", "f")}), message::tool_result("c", "done")});
    const auto request = wire::gemini(chat);
    CAPTURE(request.body());
    CHECK(violations(wire::api::gemini, request) == accepted);
    CHECK(items_of(wire::api::gemini, request).size() == 3);
}

TEST_CASE("names of tools are such as the API takes")
{
    const auto chat = made_of({message::user("Go."), message::assistant("", {tool_call("c", "my.tool:x")}),
                               message::tool_result("c", "done")});
    for (const auto api : {wire::api::responses, wire::api::anthropic}) {
        const auto request = wire::make_request(api, chat);
        CAPTURE(request.body());
        CHECK(violations(api, request) == accepted);
    }
    CHECK(items(wire::api::anthropic, chat).at(1).at("content").at(0).at("name") == "my_tool_x");
    const auto of_gemini = item(R"({"role":"model","parts":[{"functionCall":{"name":"a.b","args":{}}}]})");
    CHECK(items(wire::api::chat_completions, made_of({of_gemini}))
              .at(0)
              .at("tool_calls")
              .at(0)
              .at("function")
              .at("name") == "a_b");
}

TEST_CASE("results with several texts, and with what MCP has, keep them apart")
{
    const auto call = message::assistant("", {tool_call("c", "f")});
    const auto texts = item(R"({"role":"tool","tool_call_id":"c","isError":true,"content":[
        {"type":"text","text":"a"},{"type":"text","text":""},{"type":"text","text":"b"}]})");
    CHECK(texts.tool_results().at(0).text() == "a\nb");
    CHECK(items(wire::api::anthropic, made_of({call, texts})).at(2) ==
          parse(R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"a\nb",
                    "is_error":true}]})"));
    const auto of_mcp = item(R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[
        {"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}]}]})");
    CHECK(items(wire::api::anthropic, made_of({call, of_mcp})).at(2) ==
          parse(R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[
            {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}]})"));
}

TEST_CASE("what a message of another API says to all is carried over")
{
    const auto thinking = item(R"({"role":"assistant","content":[
        {"type":"thinking","thinking":"hm","signature":"s"},
        {"type":"text","text":"It is ","citations":[{"type":"x"}]},{"type":"text","text":"31 m."},
        {"type":"server_tool_use","id":"s1","name":"web_search","input":{}},
        {"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]})");
    const auto chat = made_of({message::user("How high?"), thinking, message::tool_result("t1", "ok")});
    const auto request = wire::chat_completions(chat);
    CHECK(items_of(wire::api::chat_completions, request).at(1) ==
          parse(R"({"role":"assistant","content":"It is 31 m.",
        "tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]})"));
    CHECK(left_out(request) ==
          std::vector<std::string>{"1: 'citations' of a text, which only the API that made it knows",
                                   "1: the reasoning, which only the API that made it can read",
                                   "1: a server_tool_use, which only the API that made it knows"});
    const auto refusal = item(R"({"role":"assistant","content":null,"refusal":"I won't."})");
    CHECK(items(wire::api::anthropic, made_of({message::user("Do."), refusal})).at(1) ==
          parse(R"({"role":"assistant","content":[{"type":"text","text":"I won't."}]})"));
}

TEST_CASE("items of the Responses API make one message of a turn")
{
    const auto chat =
        made_of({message::user("Go."), item(R"({"type":"reasoning","id":"rs_1","summary":[]})"),
                 item(R"({"type":"message","role":"assistant","status":"completed","content":[
                                   {"type":"output_text","text":"First."}]})"),
                 item(R"({"type":"function_call","call_id":"a","name":"f","arguments":"{\"x\": 1}"})"),
                 item(R"({"type":"function_call","call_id":"b","name":"g","arguments":""})"),
                 item(R"({"type":"function_call_output","call_id":"b","output":"B"})"),
                 item(R"({"type":"function_call_output","call_id":"a","output":"A"})")});
    CHECK(items(wire::api::chat_completions, chat) == parse(R"([{"role":"user","content":"Go."},
        {"role":"assistant","content":"First.","tool_calls":[
            {"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},
            {"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"b","content":"B"},{"role":"tool","tool_call_id":"a","content":"A"}])"));
    // Anthropic and Gemini want the order of the calls.
    CHECK(items(wire::api::anthropic, chat).at(2) == parse(R"({"role":"user","content":[
        {"type":"tool_result","tool_use_id":"a","content":"A"},{"type":"tool_result","tool_use_id":"b","content":"B"}]})"));
}

TEST_CASE("results that are far from their call come to it")
{
    const auto chat = made_of(
        {message::user("Go."), item(R"({"type":"function_call","call_id":"a","name":"f","arguments":"{}"})"),
         message::user("Hurry!"), item(R"({"type":"function_call_output","call_id":"a","output":"A"})")});
    for (const auto api : all_apis) {
        CAPTURE(wire::to_string(api));
        CHECK(violations(api, wire::make_request(api, chat)) == accepted);
    }
    CHECK(items(wire::api::chat_completions, chat).at(3).at("content") == "Hurry!");
}

TEST_CASE("a result made by hand joins the results of the API")
{
    const auto chat = made_of({message::user("Go."), item(R"({"role":"assistant","content":[
                                   {"type":"tool_use","id":"a","name":"f","input":{}},
                                   {"type":"tool_use","id":"b","name":"g","input":{}}]})"),
                               item(R"({"role":"user","content":[
                                   {"type":"tool_result","tool_use_id":"b","content":"B"},
                                   {"type":"text","text":"Well?"}]})"),
                               message::tool_result("a", "A")});
    CHECK(items(wire::api::anthropic, chat).at(2) == parse(R"({"role":"user","content":[
        {"type":"tool_result","tool_use_id":"a","content":"A"},
        {"type":"tool_result","tool_use_id":"b","content":"B"},{"type":"text","text":"Well?"}]})"));
    CHECK(violations(wire::api::anthropic, wire::anthropic(chat)) == accepted);
}

TEST_CASE("results and text of one message of Anthropic become tool messages, then one of the user")
{
    const auto chat = made_of({message::user("Go."), item(R"({"role":"assistant","content":[
                                   {"type":"tool_use","id":"a","name":"f","input":{}}]})"),
                               item(R"({"role":"user","content":[
                                   {"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"A"}]},
                                   {"type":"text","text":"Well?"}]})")});
    const auto messages = items(wire::api::chat_completions, chat);
    CHECK(messages.at(2) == parse(R"({"role":"tool","tool_call_id":"a","content":"A"})"));
    CHECK(messages.at(3) == parse(R"({"role":"user","content":"Well?"})"));
}

TEST_CASE("all instructions go apart where the API wants it so")
{
    const auto developer = item(R"({"role":"developer","content":[{"type":"text","text":"And kind."}]})");
    const auto chat = made_of({message::system("Be brief."), message::user("Hi."), developer});
    CHECK(wire::anthropic(chat).body().at("system") ==
          parse(R"([{"type":"text","text":"Be brief."},{"type":"text","text":"And kind."}])"));
    CHECK(wire::gemini(chat).body().at("systemInstruction") ==
          parse(R"({"parts":[{"text":"Be brief."},{"text":"And kind."}]})"));
    CHECK(items(wire::api::responses, chat).at(2) == parse(R"({"role":"developer","content":"And kind."})"));
    CHECK(items(wire::api::chat_completions, chat).at(2) == developer.item());
    const auto cached = item(
        R"({"role":"system","content":[{"type":"text","text":"Long.","cache_control":{"type":"ephemeral"}}]})");
    CHECK(wire::anthropic(made_of({cached, message::user("Hi.")})).body().at("system") ==
          cached.item().at("content"));
}

TEST_CASE("the user speaks first")
{
    const auto chat = made_of({message::system("s"), message::assistant("Hello!"), message::user("Hi.")});
    CHECK(items(wire::api::anthropic, chat).at(0) ==
          parse(R"json({"role":"user","content":"(Earlier messages are left out.)"
})json"));
    CHECK(items(wire::api::gemini, chat).at(0) ==
          parse(R"json({"role":"user","parts":[{"text":"(Earlier messages are left out.)"
}]
})json"));
}

TEST_CASE("what says nothing is not sent where it would be refused")
{
    const auto chat = made_of({message::user("Hi."), message::assistant(""), message::user(" "),
                               item(R"({"role":"assistant","content":[{"type":"text","text":""},
                                    {"type":"text","text":"x"}]})")});
    CHECK(items(wire::api::anthropic, chat) == parse(R"([{"role":"user","content":"Hi."},
        {"role":"assistant","content":[{"type":"text","text":"x"}]}])"));
    CHECK(violations(wire::api::gemini, wire::gemini(chat)) == accepted);
}

TEST_CASE("an answer of Anthropic that was kept whole is reduced to role and content")
{
    const auto whole = item(R"({"id":"msg_1","type":"message","role":"assistant","model":"m",
        "content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Hi."}],
        "stop_reason":"end_turn","usage":{"input_tokens":1}})");
    CHECK(json::serialize(items(wire::api::anthropic, made_of({message::user("Hi."), whole})).at(1)) ==
          R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},)"
          R"({"type":"text","text":"Hi."}]})");
}

TEST_CASE("ids of calls that an API refuses are replaced in call and result")
{
    const std::string long_id(65, 'x');
    const auto chat = made_of(
        {message::user("Go."), message::assistant("", {tool_call("a.b", "f"), tool_call(long_id, "g")}),
         message::tool_result("a.b", "1"), message::tool_result(long_id, "2"),
         message::assistant("", {tool_call("a.b", "f")}), message::tool_result("a.b", "3"),
         item(R"({"role":"model","parts":[{"functionCall":{"name":"h"}}]})"),
         item(R"({"role":"user","parts":[{"functionResponse":{"name":"h",
                                   "response":{"x":1}}}]})")});
    for (const auto api : {wire::api::responses, wire::api::anthropic}) {
        const auto request = wire::make_request(api, chat);
        CAPTURE(request.body());
        CHECK(violations(api, request) == accepted);
    }
    const auto messages = items(wire::api::anthropic, chat);
    const auto id = messages.at(1).at("content").at(0).at("id").as_string();
    CHECK(id.size() == 23);
    CHECK(id.starts_with("call_"));
    CHECK(messages.at(2).at("content").at(0).at("tool_use_id") == id);
    CHECK(messages.at(1).at("content").at(1).at("id") != id);
    auto window = conversation(chat);
    window.with_system_prompt("They stand elsewhere now."); // and are called the same
    CHECK(items(wire::api::anthropic, window).at(1).at("content").at(0).at("id") == id);
    CHECK(items(wire::api::responses, chat).at(1).at("call_id") == "a.b");
    // The name of the call without id and of its result is the same, too.
    const auto last = items(wire::api::chat_completions, chat);
    CHECK(last.at(7).at("tool_call_id") == last.at(6).at("tool_calls").at(0).at("id"));
}

TEST_CASE("calls in the form of earlier versions are converted for every API")
{
    const auto chat = made_of({message::user("Go."), item(R"({"role":"assistant","content":"","tool_calls":[
                                   {"id":"c1","name":"f","arguments":{"a":1}}]})"),
                               message::tool_result("c1", "ok")});
    for (const auto api : all_apis) {
        CAPTURE(wire::to_string(api));
        CHECK(violations(api, wire::make_request(api, chat)) == accepted);
    }
}

TEST_CASE("the output of a call of the Responses API is of its kind")
{
    const auto chat = made_of({message::user("Go."),
                               item(R"({"type":"custom_tool_call","call_id":"a","name":"f","input":"x"})"),
                               message::tool_result("a", "ok")});
    CHECK(items(wire::api::responses, chat).at(2) ==
          parse(R"({"type":"custom_tool_call_output","call_id":"a","output":"ok"})"));
    CHECK(items(wire::api::anthropic, chat).at(1).at("content").at(0).at("input") ==
          parse(R"({"input":"x"})"));
}

TEST_CASE("media beside a response of Gemini is carried over")
{
    const auto chat = made_of({item(R"({"role":"user","parts":[{"text":"Look."}]})"),
                               item(R"({"role":"model","parts":[{"functionCall":{"name":"f","id":"1"}}]})"),
                               item(R"({"role":"user","parts":[{"functionResponse":{"name":"f","id":"1",
                                   "response":{"output":"seen"},
                                   "parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}}]})")});
    CHECK(items(wire::api::anthropic, chat).at(2).at("content").at(0).at("content") == parse(R"([
        {"type":"text","text":"seen"},
        {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}])"));
    CHECK(items(wire::api::gemini, chat).at(2) == chat[2].item());
    CHECK(png == items(wire::api::anthropic, chat)
                     .at(2)
                     .at("content")
                     .at(0)
                     .at("content")
                     .at(1)
                     .at("source")
                     .at("data"));
}

TEST_CASE("conversations that nobody has repaired are sent as they stand")
{
    const auto chat =
        made_of({message::tool_result("none", "lost"), message::assistant("", {tool_call("c", "f")}),
                 message::assistant("", {tool_call("c", "f")}), message::user("Hm."),
                 item(R"({"type":"function_call_output","call_id":"gone","output":"x"})"),
                 item(R"({"role":"user","parts":[{"functionResponse":{"name":"g","response":{}}}]})"),
                 item(R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"z"}]})"), item("{}"),
                 item(R"({"role":7,"content":{},"parts":3,"type":[],"tool_calls":9})"),
                 item(R"({"role":"assistant","tool_calls":[1,{},{"function":{}}]})"),
                 item(R"({"role":"someone","content":"else"})"), item(R"({"parts":[1,null,{}]})"),
                 item(R"({"role":"user","content":{"type":"text","text":"of MCP"}})")});
    for (const auto api : all_apis) {
        const auto request = wire::make_request(api, chat);
        CHECK(items_of(api, request).size() > 3);
        CHECK(json::serialize(request.body()).find("of MCP") != std::string::npos);
        CHECK(wire::make_request(api, conversation()).left_out().empty());
    }
    CHECK(json::serialize(items(wire::api::gemini, chat)).find(R"({"text":"else"})") != std::string::npos);
}

TEST_CASE("hostile items are converted or left out, and nothing breaks")
{
    std::string deep = R"({"role":"user","content":)";
    for (int i = 0; i < 400; ++i)
        deep += R"([{"type":"tool_result","content":)";
    deep += "0";
    for (int i = 0; i < 400; ++i)
        deep += "}]";
    const auto chat = made_of({item((deep + "}").c_str()), message::user("Hi.")});
    for (const auto api : all_apis)
        CHECK_FALSE(wire::make_request(api, chat).body().empty());
}

TEST_CASE("items with random damage are converted or left out, and nothing breaks")
{
    std::mt19937 random(7); // NOLINT(cert-msc51-cpp): the same each time
    for (const auto& transcript : recordings("transcripts"))
        for (int round = 0; round < 20; ++round) {
            json::value damaged = transcript.content.at("items");
            for (int i = 0; i < 3; ++i)
                damage(damaged, random);
            conversation chat;
            for (const auto& next : damaged.is_array() ? damaged.get_array() : json::array{})
                if (next.is_object())
                    chat.push(message::from(next.get_object()));
            for (const auto api : all_apis)
                CHECK_NOTHROW(wire::make_request(api, chat));
            chat.repair();
            for (const auto api : all_apis)
                CHECK_NOTHROW(wire::make_request(api, chat));
        }
}

TEST_CASE("a compacted conversation is one like any other")
{
    auto chat = made_by_hand();
    for (const auto api : all_apis)
        for (std::size_t kept = 0; kept < 6; ++kept) {
            CAPTURE(wire::to_string(api), kept);
            CHECK(violations(api, wire::make_request(api, chat.compacted("A cat was drawn.", kept))) ==
                  accepted);
        }
}

TEST_CASE("APIs have names")
{
    std::set<std::string_view> names;
    for (const auto api : all_apis)
        names.insert(wire::to_string(api));
    CHECK(names == std::set<std::string_view>{"chat_completions", "responses", "anthropic", "gemini"});
}
