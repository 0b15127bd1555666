//! The whole story across compactions.
#include "on_every_store.hpp"

using namespace waymark;
using test::failure;
using test::on_every_store;

namespace {

using text_list = std::vector<std::string>;

text_list texts(const std::vector<message>& messages)
{
    text_list all;
    for (const auto& message : messages)
        all.push_back(message.text());
    return all;
}

void say(conversation& chat, int from, int to)
{
    for (int i = from; i < to; ++i)
        chat.push(message::user(std::to_string(i)));
}

text_list numbers(int from, int to)
{
    text_list all{"prompt"};
    for (int i = from; i < to; ++i)
        all.push_back(std::to_string(i));
    return all;
}

//! 30 messages in three parts, with a checkpoint for each message and a compaction behind each part.
asio::awaitable<conversation> live(session& session)
{
    conversation chat;
    chat.with_system_prompt("prompt");
    for (int part = 0; part < 3; ++part) {
        for (int i = 0; i < 10; ++i) {
            say(chat, part * 10 + i, part * 10 + i + 1);
            co_await session.async_checkpoint("turn", part * 10 + i, chat);
        }
        if (part == 2)
            break;
        chat = chat.compacted("summary " + std::to_string(part), 2);
        co_await session.async_checkpoint("compacted", part, chat);
    }
    co_return chat;
}

asio::awaitable<text_list> whole_story(session_view& view, std::size_t limit, int& pages)
{
    text_list story;
    transcript_options options;
    options.limit(limit);
    for (pages = 1;; ++pages) {
        const auto page = co_await view.async_transcript(options);
        CHECK(page.messages().size() <= limit);
        CHECK(page.missing() == 0);
        const auto part = texts(page.messages());
        story.insert(story.begin(), part.begin(), part.end());
        if (!page.earlier())
            co_return story;
        options.before(*page.earlier());
    }
}

asio::awaitable<void> read_it_all(async_store& store)
{
    session session{store, "agent"};
    const auto nothing = co_await session.async_transcript();
    CHECK(nothing.messages().empty());
    const auto chat = co_await live(session);
    CHECK(chat.size() == 2 + 2 + 10);

    int pages = 0;
    for (const std::size_t limit : {1000u, 7u, 1u}) {
        const auto story = co_await whole_story(session, limit, pages);
        CHECK(story == numbers(0, 30));
    }
    CHECK(pages == 31);
    const auto newest = co_await session.async_transcript();
    CHECK(texts(newest.messages()).front() == "18"); // what the second summary was put in front of
    CHECK(newest.earlier());

    failure how;
    transcript_options none;
    none.limit(0);
    co_await session.async_transcript(none, how.token());
    CHECK(how.code == errc::invalid_argument);
    transcript_options gone;
    gone.before(transcript_cursor("agent", "pruned since", 3));
    co_await session.async_transcript(gone, how.token());
    CHECK(how.code == errc::not_found);
    CHECK(how.says("'pruned since'"));
}

asio::awaitable<void> say_what_is_missing(async_store& store)
{
    session session{store, "agent"};
    const auto chat = co_await live(session);
    co_await session.async_prune(retention().keep_last(3));
    const auto page = co_await session.async_transcript();
    CHECK(texts(page.messages()) == [&] {
        text_list all;
        for (const auto& message : chat)
            all.push_back(message.text());
        return all;
    }());
    CHECK(page.messages()[1].text() == "summary 1"); // all that is left of them
    CHECK(page.missing() == 18);                     // what the first summary stood for, too
    CHECK_FALSE(page.earlier());

    // Compacted before what it stands for was saved.
    waymark::session hasty{store, "hasty"};
    conversation unsaved;
    say(unsaved, 0, 5);
    co_await hasty.async_checkpoint("saved", 1, unsaved);
    say(unsaved, 5, 10);
    co_await hasty.async_checkpoint("compacted", 2, unsaved.compacted("s", 1));
    const auto last = co_await hasty.async_transcript();
    CHECK(texts(last.messages()) == text_list{"9"});
    CHECK(last.missing() == 4);
    REQUIRE(last.earlier());
    transcript_options options;
    options.before(*last.earlier());
    const auto first = co_await hasty.async_transcript(options);
    CHECK(texts(first.messages()) == text_list{"0", "1", "2", "3", "4"});
}

asio::awaitable<void> follow_the_branch(async_store& store)
{
    session session{store, "agent"};
    conversation chat;
    chat.with_system_prompt("prompt");
    say(chat, 0, 6);
    const auto before = co_await session.async_checkpoint("before", 1, chat);
    co_await session.async_checkpoint("compacted", 2, chat.compacted("left behind", 1));
    const auto back = co_await session.async_rollback_to(before.id());
    auto other = back.conversation().compacted("taken", 2);
    say(other, 6, 8);
    co_await session.async_checkpoint("other", 3, other);
    int pages = 0;
    const auto story = co_await whole_story(session, 100, pages);
    CHECK(story == numbers(0, 8));
}

asio::awaitable<void> follow_the_forks(async_store& store)
{
    session session{store, "agent"};
    auto chat = co_await live(session);
    const auto first = co_await session.async_fork((co_await session.async_load_latest())->id(), "fork");
    waymark::session fork{store, "fork"};
    co_await fork.async_resume();
    say(chat, 30, 33);
    co_await fork.async_checkpoint("more", 31, chat);
    co_await fork.async_fork((co_await fork.async_load_latest())->id(), "second");
    waymark::session second{store, "second"};
    int pages = 0;
    for (const std::size_t limit : {1000u, 4u}) {
        auto story = co_await whole_story(fork, limit, pages);
        CHECK(story == numbers(0, 33));
        story = co_await whole_story(second, limit, pages);
        CHECK(story == numbers(0, 33));
    }
    co_await session.async_clear();
    const auto page = co_await fork.async_transcript(); // where it came from is gone
    CHECK(page.missing() == 18);
    CHECK_FALSE(page.earlier());
}

asio::awaitable<void> count_what_was_never_saved(async_store& store)
{
    session session{store, "agent"};
    conversation chat;
    chat.with_system_prompt("prompt");
    say(chat, 0, 10);
    co_await session.async_checkpoint("whole", 1, chat);
    chat = chat.compacted("first", 2); // never saved by itself
    say(chat, 10, 15);
    chat = chat.compacted("second", 2);
    CHECK(chat.compaction()->count() == 6);
    CHECK(chat.compaction()->stands_for() == 13);
    co_await session.async_checkpoint("shorter", 2, chat);
    const auto page = co_await session.async_transcript();
    CHECK(texts(page.messages()) == text_list{"13", "14"});
    CHECK(page.missing() == 3);
    REQUIRE(page.earlier());
    transcript_options earlier;
    earlier.before(*page.earlier());
    const auto rest = co_await session.async_transcript(earlier);
    CHECK(texts(rest.messages()) == numbers(0, 10));
}

//! All pages, the oldest first, and what is missing between them.
asio::awaitable<text_list> story_with_gaps(session_view& view, std::size_t limit)
{
    text_list story;
    transcript_options options;
    options.limit(limit);
    for (;;) {
        const auto page = co_await view.async_transcript(options);
        CHECK(page.messages().size() <= limit);
        auto part = texts(page.messages());
        if (page.missing() > 0)
            part.insert(part.begin(), "(" + std::to_string(page.missing()) + ")");
        story.insert(story.begin(), part.begin(), part.end());
        if (!page.earlier())
            co_return story;
        options.before(*page.earlier());
    }
}

asio::awaitable<void> tell_what_differs(async_store& store)
{
    {
        session session{store, "repaired and compacted at once"};
        conversation chat;
        say(chat, 0, 1);
        chat.push(message::assistant("", {tool_call("a", "f")}));
        say(chat, 1, 4);
        co_await session.async_checkpoint("crashed", 1, chat);
        chat.repair("interrupted");
        co_await session.async_checkpoint("compacted", 2, chat.compacted("s", 1));
        const auto story = co_await story_with_gaps(session, 100);
        CHECK(story ==
              text_list{"0", "", "1", "2", "(1)", "3"}); // the answer to the call was in no checkpoint
    }
    {
        session session{store, "the same summary again"};
        conversation chat;
        const auto summary = message::user("s");
        say(chat, 0, 4);
        co_await session.async_checkpoint("whole", 1, chat);
        chat = chat.compacted(summary, 1);
        co_await session.async_checkpoint("first", 2, chat);
        say(chat, 4, 8);
        co_await session.async_checkpoint("longer", 3, chat);
        chat = chat.compacted(summary, 1);
        co_await session.async_checkpoint("second", 4, chat);
        const auto story = co_await story_with_gaps(session, 100);
        CHECK(story == text_list{"0", "1", "2", "3", "4", "5", "6", "7"});
    }
    {
        session session{store, "a prompt that came later"};
        conversation chat;
        say(chat, 0, 3);
        co_await session.async_checkpoint("whole", 1, chat);
        chat = chat.compacted("s", 1);
        chat.with_system_prompt("prompt");
        co_await session.async_checkpoint("compacted", 2, chat);
        const auto story = co_await story_with_gaps(session, 100);
        CHECK(story == text_list{"0", "1", "2"});
    }
    {
        session session{store, "nothing was kept"};
        conversation chat;
        say(chat, 0, 3);
        co_await session.async_checkpoint("whole", 1, chat);
        co_await session.async_checkpoint("compacted", 2, chat.compacted("s", 0));
        const auto newest = co_await session.async_transcript();
        CHECK(texts(newest.messages()) == text_list{"0", "1", "2"});
        co_await session.async_prune(retention().keep_last(1));
        const auto left = co_await session.async_transcript();
        CHECK(texts(left.messages()) == text_list{"s"});
        CHECK(left.missing() == 3);
    }
    {
        session session{store, "little is left"};
        conversation chat;
        chat.with_system_prompt("prompt");
        say(chat, 0, 5);
        co_await session.async_checkpoint("compacted", 1, chat.compacted("s", 1));
        const auto story = co_await story_with_gaps(session, 1);
        CHECK(story == text_list{"(4)", "prompt", "s", "4"});
    }
}

} // namespace

TEST_CASE("a transcript is the whole story, whatever was compacted, in pages of any size", "[stores]")
{
    on_every_store(read_it_all);
}

TEST_CASE("a transcript says what is in no checkpoint any more", "[stores]")
{
    on_every_store(say_what_is_missing);
}

TEST_CASE("a transcript follows the parents of the head", "[stores]")
{
    on_every_store(follow_the_branch);
}

TEST_CASE("the transcript of a fork goes on where it was made from", "[stores]")
{
    on_every_store(follow_the_forks);
}

TEST_CASE("a transcript says where something is missing, whatever was done in between", "[stores]")
{
    on_every_store(tell_what_differs);
}

TEST_CASE("a transcript counts what two compactions in a row left out", "[stores]")
{
    on_every_store(count_what_was_never_saved);
}
