//! Decoders of what stores have written: packed lists, rows of a database, the documents of file_store.
//!
//! A hash stands in front of most of them, which chance does not get past. Whoever forges a file does, and so
//! the hashes of these inputs are made to fit.
#include "backends/file/documents.hpp"
#include "backends/file/file_names.hpp"
#include "decoders.hpp"
#include "fixed_tables.hpp"
#include "tables/body.hpp"
#include "tables/checkpoints.hpp"
#include "tables/checksums.hpp"
#include "tables/content_sizes.hpp"
#include "tables/large_parts.hpp"
#include "tables/steps.hpp"
#include "tables/verify.hpp"

namespace waymark::faults {

using tables::item_kind;

namespace {

//! The parts of an input, which stand between separators.
std::vector<std::string> split(std::string_view input)
{
    constexpr std::string_view separator = "\n--\n";
    std::vector<std::string> pieces;
    for (;;) {
        const auto end = input.find(separator);
        pieces.emplace_back(input.substr(0, end));
        if (end == std::string_view::npos)
            return pieces;
        input.remove_prefix(end + separator.size());
    }
}

//! Gives each reference to an object that is there the hash of that object. `list` is a part of `bytes`.
void mend_references(std::string& bytes, std::string_view list, const fixed_tables& in)
{
    tables::byte_reader reader(list);
    const auto mend = [&] {
        const auto found = in.objects.find(static_cast<std::int64_t>(reader.take_number()));
        const auto place = reader.take(8).data() - bytes.data();
        if (found != in.objects.end())
            std::copy_n(found->second.hash.begin(), 8, bytes.begin() + place);
    };
    while (!reader.empty()) {
        switch (static_cast<item_kind>(reader.take(1)[0])) {
        case item_kind::group:
            mend();
            break;
        case item_kind::extent:
            reader.take_number();
            reader.take_number();
            break;
        case item_kind::member:
            reader.take(reader.take_number());
            reader.take(reader.take_number());
            break;
        case item_kind::member_at:
            reader.take(reader.take_number());
            mend();
            break;
        case item_kind::open_object:
            reader.take(reader.take_number());
            break;
        case item_kind::close_object:
            break;
        default:
            return;
        }
    }
}

//! An object can only refer to those before it: nothing holds its own hash.
void add_object(fixed_tables& to, std::string body)
{
    accepted({errc::corrupt}, [&] {
        mend_references(body, body, to);
        return true;
    });
    to.add_object(body);
}

std::string mended_body(std::string body, const fixed_tables& in)
{
    accepted({errc::corrupt}, [&] {
        const tables::body_parts parts(body);
        mend_references(body, parts.conversation, in);
        mend_references(body, parts.state, in);
        return true;
    });
    return body;
}

//! What the library does with the numbers of messages that it has read.
void use_extents(const tables::body_references& needed, fixed_tables& in)
{
    const auto& messages = needed.messages;
    tables::number_set numbers;
    for (const auto& range : messages.all()) {
        numbers.insert(range);
        if (!numbers.intersects(range))
            broken_promise("a set of numbers does not hold what was put into it");
    }
    for (const auto count : {std::int64_t{0}, messages.size() / 2, messages.size()}) {
        const auto front = messages.truncated(count);
        const auto back = messages.behind(count);
        if (front.size() != count || back.size() != messages.size() - count ||
            messages.common_prefix(front) != count)
            broken_promise("a part of a conversation has another length than was asked for");
    }
    tables::content_sizes sizes(in, in.agent.number);
    sizes.take(needed);
    if (sizes.take(needed) != 0)
        broken_promise("the same messages were counted twice");
}

class table_sink final : public tables::object_sink {
public:
    explicit table_sink(fixed_tables& to) : tables_(to) {}

    tables::object_reference store(std::string_view body) override
    {
        const auto& row = tables_.add_object(body);
        return {row.number, tables::reference_check(row.hash)};
    }

private:
    fixed_tables& tables_;
};

} // namespace

//! Objects, and behind the last separator the body that refers to them.
void decode_stored_body(std::string_view input)
{
    auto pieces = split(input);
    fixed_tables tables;
    tables.agent.number = 1;
    const auto body = std::move(pieces.back());
    pieces.pop_back();
    for (auto& piece : pieces)
        add_object(tables, std::move(piece));
    const auto mended = mended_body(body, tables);

    tables::object_map groups;
    const auto needed = accepted({errc::corrupt}, [&] {
        return tables::read_references(mended, tables, tables.agent.number, groups);
    });
    const auto content =
        accepted({errc::corrupt}, [&] { return tables::read_body(mended, tables, tables.agent.number); });
    if (needed)
        use_extents(*needed, tables);
    if (!content)
        return;
    if (!needed || !(needed->messages.all() == content->messages.all()))
        broken_promise("a body refers to other messages than it holds");

    // What no save would accept need not survive another one.
    const auto saved = checkpoint("agent", content->chat).with_state(content->state);
    if (!accepted({errc::invalid_argument}, [&] {
            validate(saved);
            return true;
        }))
        return;
    fixed_tables others;
    others.agent.number = 1;
    table_sink sink(others);
    const auto written = tables::write_body(content->chat, content->messages, content->state, sink);
    const auto again = tables::read_body(written, others, others.agent.number);
    if (!(again.chat == content->chat) || !(again.messages.all() == content->messages.all()) ||
        !(again.state == content->state))
        broken_promise("a body became another one when it was written and read");
}

namespace {

//! A row of messages. The first byte says how much of it is as it should be.
tables::message_row read_message_row(std::string_view piece, const fixed_tables& in, std::int64_t next)
{
    tables::message_row row;
    row.agent = in.agent.number;
    row.first = next;
    tables::byte_reader reader(piece);
    const auto kind = reader.take(1)[0];
    piece.remove_prefix(1);
    if (kind == 'd') { // any digests
        row.digests = piece.substr(0, 72);
        row.body = piece.substr(row.digests.size());
        return row;
    }
    if (kind == 'n') { // any number
        row.first = static_cast<std::int64_t>(reader.take_number());
        std::string number;
        tables::append_number(number, static_cast<std::uint64_t>(row.first));
        piece.remove_prefix(std::min(number.size(), piece.size()));
    }
    row.body = piece;
    if (kind == 'p') { // the first line has a large part, with any place and any object
        const auto place = reader.take_number();
        const auto object = static_cast<std::int64_t>(reader.take_number());
        std::string numbers;
        tables::append_number(numbers, place);
        tables::append_number(numbers, static_cast<std::uint64_t>(object));
        piece.remove_prefix(std::min(numbers.size(), piece.size()));
        const auto found = in.objects.find(object);
        const auto hash = found == in.objects.end() ? std::string(32, '\0') : found->second.hash;
        row.body = "#" + std::to_string(place) + ":" + tables::to_hex(hash) + ";#" + std::string(piece);
        row.parts = tables::write_parts(std::vector{object}, row.first);
    }
    for (std::string_view left = row.body;;) {
        const auto end = left.find('\n');
        row.digests += tables::view(tables::sha256(left.substr(0, end)));
        if (end == std::string_view::npos)
            break;
        left.remove_prefix(end + 1);
    }
    if (kind != 'u') // one from before there were checksums
        tables::seal(row);
    return row;
}

//! The hash of the conversation that a body refers to, if all of it is there.
std::string chain_of(const tables::extent_list& messages, const fixed_tables& in)
{
    tables::digest chain{};
    for (const auto& range : messages.all())
        for (const auto& row : in.messages)
            for (auto number = std::max(row.first, range.first);
                 number < std::min(row.numbers().end(), range.end()); ++number) {
                tables::digest value;
                std::copy_n(row.digest_at(number - row.first).begin(), value.size(), value.begin());
                chain = tables::chain(chain, value);
            }
    return std::string(tables::view(chain));
}

} // namespace

//! The metadata and the body of a checkpoint, the result of a step, and then rows that these may need:
//! objects (which begin with 'o') and messages.
void decode_stored_rows(std::string_view input)
{
    auto pieces = split(input);
    pieces.resize(std::max<std::size_t>(pieces.size(), 3));
    fixed_tables tables;
    tables.agent.number = 1;
    tables.agent.id = "a";
    tables.agent.scopes = 1;
    tables::seal(tables.agent);
    std::int64_t next = 1;
    for (std::size_t i = 3; i < pieces.size(); ++i) {
        if (pieces[i].empty())
            continue;
        if (pieces[i].front() == 'o') {
            add_object(tables, pieces[i].substr(1));
            continue;
        }
        const auto row = accepted({errc::corrupt}, [&] { return read_message_row(pieces[i], tables, next); });
        if (!row)
            continue;
        tables.messages.push_back(*row);
        next = std::max(next, row->numbers().end());
    }
    std::sort(tables.messages.begin(), tables.messages.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });

    tables::checkpoint_row row;
    row.agent = 1;
    row.sequence = 1;
    row.id = "c";
    row.metadata = pieces[0];
    row.body = mended_body(pieces[1], tables);
    accepted({errc::corrupt}, [&] {
        tables::object_map groups;
        const auto needed = tables::read_references(row.body, tables, 1, groups);
        row.messages = needed.messages.size();
        row.chain = chain_of(needed.messages, tables);
        return true;
    });
    tables.checkpoints.push_back(tables::seal(row));
    tables::step_row step;
    step.agent = 1;
    step.key = "k";
    step.result = pieces[2];
    tables.steps.push_back(tables::seal(step));
    tables.scopes.push_back(tables::seal(tables::scope_row{1, "", 1, 1, 1, {}}));

    tables::read_header(row, tables.agent); // says what is damaged, and throws nothing
    accepted({errc::corrupt}, [&] { return tables::read_step(step, tables.agent); });
    tables::last_read last;
    const auto loaded = accepted({errc::corrupt},
                                 [&] { return tables::load_checkpoint(row, tables.agent, 1, tables, last); });
    // With what the first one has left behind.
    if (loaded && !(tables::load_checkpoint(row, tables.agent, 1, tables, last) == *loaded))
        broken_promise("the same checkpoint is loaded in two ways");
    fixed_database database(tables);
    tables::verify(database, {});
}

namespace {

constexpr std::initializer_list<errc> file_damage = {errc::corrupt, errc::unsupported_format};

void check_names(std::string_view input)
{
    const auto id = file::from_name(input);
    if (id && file::to_name(*id) != input)
        broken_promise("a file would be looked for under another name");
    const auto name = file::to_name(input);
    if (name.size() > 250 || name.find_first_of("/\\") != std::string::npos || name.starts_with('.'))
        broken_promise("an id makes a name that no file can have");
    if (!file::is_shortened(name) && file::from_name(name) != std::optional(std::string(input)))
        broken_promise("the id of a file is read as another one");
}

} // namespace

//! The documents of file_store, and the names of its files.
void decode_file_documents(std::string_view input)
{
    file::guess_sequence(input);
    check_names(input);
    if (const auto value = accepted(file_damage, [&] { return file::read_checkpoint(input); })) {
        const auto text = file::write_checkpoint(*value, {});
        if (!(file::read_checkpoint(text) == *value))
            broken_promise("a checkpoint became another one when it was written and read");
        const auto guess = file::guess_sequence(text);
        if (guess && *guess != value->sequence())
            broken_promise("a damaged file would take another place in the order");
    }
    if (const auto value = accepted(file_damage, [&] { return file::read_step(input); })) {
        const auto again = file::read_step(file::write_step(*value));
        if (!(again.value == value->value) || again.made_on != value->made_on)
            broken_promise("a step became another one when it was written and read");
    }
    if (const auto value = accepted(file_damage, [&] { return file::read_agent(input); })) {
        const auto again = file::read_agent(file::write_agent(*value));
        if (again.agent_id != value->agent_id || again.last_sequence != value->last_sequence ||
            again.pins != value->pins)
            broken_promise("the record of an agent became another one when it was written and read");
    }
}

} // namespace waymark::faults
