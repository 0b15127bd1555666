#include "../backends/files.hpp"
#include "../store/request_checks.hpp"
#include "../values/text.hpp"
#include "documents.hpp"
#include "lines.hpp"

#include <waymark/transfer.hpp>

#include <fcntl.h>
#include <fstream>
#include <map>
#include <ostream>
#include <set>
#include <span>

namespace waymark::transfer {

namespace {

//! Goes through agents, checkpoints (oldest first) and steps, and holds only some of them at a time.
class exporter {
public:
    virtual ~exporter() = default;

    transfer_result run(store& from, const export_options& options)
    {
        if (options.agent())
            require_content(from, *options.agent());
        begin();
        if (options.agent()) {
            export_agent(from, *options.agent(), options);
        } else {
            constexpr std::size_t agents_at_a_time = 1000;
            std::string last;
            for (;;) {
                const auto agents = from.list_agents(last, agents_at_a_time);
                for (const auto& agent_id : agents)
                    export_agent(from, agent_id, options);
                if (agents.size() < agents_at_a_time)
                    break;
                last = agents.back();
            }
        }
        if (options.progress())
            options.progress()(done());
        return done();
    }

protected:
    virtual void begin() = 0;
    virtual void write(const checkpoint& value, bool pinned) = 0;
    virtual void write(const step& value) = 0;
    transfer_result done() const noexcept { return {checkpoints_, steps_, 0}; }

private:
    //! A mistyped id is not an agent without content.
    static void require_content(store& from, const std::string& agent_id)
    {
        if (from.list(query(agent_id).limit(1)).empty() && from.load_steps(step_query(agent_id)).empty())
            throw error(errc::not_found,
                        "there is nothing of agent " + detail::quoted(agent_id) + " to export");
    }

    void export_agent(store& from, const std::string& agent_id, const export_options& options)
    {
        constexpr std::size_t headers_at_a_time = 256;
        constexpr int most_looks = 1'000;
        int looks = 0;
        last_.clear();
        auto wanted = query(agent_id).oldest_first().limit(headers_at_a_time);
        for (;;) {
            const auto headers = from.list(wanted);
            const auto before = checkpoints_;
            for (auto rest = std::span(headers); !rest.empty();) {
                options.control().require_wanted();
                rest = rest.subspan(export_some(from, rest));
                if (options.progress())
                    options.progress()(done());
            }
            if (!headers.empty())
                wanted.after(cursor(headers.back()));
            if (headers.size() == headers_at_a_time)
                continue;
            // What is gone meanwhile may have been replaced by something newer.
            const bool all_were_there = checkpoints_ - before == headers.size();
            if (all_were_there)
                break;
            if (++looks == most_looks)
                throw error(errc::busy, "agent " + detail::quoted(agent_id) +
                                            " changes faster than it can be exported; try again later");
        }
        for (const auto& record : from.load_steps(step_query(agent_id))) {
            write(record);
            ++steps_;
        }
    }

    //! As many as the store gives at once. Returns how many of the headers are done.
    std::size_t export_some(store& from, std::span<const checkpoint_header> headers)
    {
        constexpr std::size_t about_bytes = 64'000'000;
        std::vector<checkpoint_key> keys;
        std::vector<checkpoint> earlier; // the last ones of these scopes
        std::set<std::string_view> scopes;
        for (const auto& header : headers) {
            if (header.damage() && keys.empty())
                return export_alone(from, header);
            if (header.damage())
                break;
            keys.push_back(header.key());
            if (!scopes.insert(header.scope()).second)
                continue;
            if (const auto known = last_.find(header.scope()); known != last_.end())
                earlier.push_back(known->second);
        }
        const auto loaded = from.load_some(keys, earlier, about_bytes);
        detail::require_some_outcomes(loaded.size(), keys.size());
        for (std::size_t i = 0; i < loaded.size(); ++i) {
            const auto& found = loaded[i].value_or_throw();
            if (found)
                put(*found, headers[i]);
            else
                export_alone(from, headers[i]);
        }
        return loaded.size();
    }

    //! For one that a list showed as damaged, or that was listed and is not found by its key: it is mended or
    //! gone meanwhile, or it is an error.
    std::size_t export_alone(store& from, const checkpoint_header& header)
    {
        if (const auto found = from.load(header.agent_id(), header.scope(), header.id())) {
            put(*found, header);
            return 1;
        }
        for (const auto& listed : from.list(query(header.agent_id()))) // its key may be damaged, too
            if (listed.damage() && listed.key() == header.key())
                throw error(errc::corrupt, "checkpoint " + detail::quoted(header.id()) + " of agent " +
                                               detail::quoted(header.agent_id()) +
                                               " is damaged: " + *listed.damage());
        return 1;
    }

    void put(const checkpoint& value, const checkpoint_header& listed)
    {
        if (value.sequence() != listed.sequence())
            return; // erased and saved again meanwhile: its turn comes
        write(value, listed.pinned());
        ++checkpoints_;
        last_.insert_or_assign(value.scope(), value);
    }

    std::map<std::string, checkpoint> last_; // that was exported of the agent, by scope
    std::uint64_t checkpoints_ = 0;
    std::uint64_t steps_ = 0;
};

class lines_exporter final : public exporter {
public:
    explicit lines_exporter(std::ostream& to) : to_(to) {}

    void finish(const transfer_result& all)
    {
        put(line_writer::last_line(all.checkpoints(), all.steps()));
        to_.flush();
        require_stream();
    }

private:
    void begin() override { put(line_writer::first_line()); }
    void write(const checkpoint& value, bool pinned) override { put(lines_.line_of(value, pinned)); }
    void write(const step& value) override { put(line_writer::line_of(value)); }

    void put(const std::string& line)
    {
        to_ << line << '\n';
        require_stream();
    }

    void require_stream() const
    {
        if (!to_)
            throw error(errc::io, "the export cannot be written (is the disk full?)");
    }

    std::ostream& to_;
    line_writer lines_;
};

class document_exporter final : public exporter {
public:
    std::string take_text() && { return std::move(document_).take_text(); }

private:
    void begin() override {}
    void write(const checkpoint& value, bool pinned) override { document_.add(value, pinned); }
    void write(const step& value) override { document_.add(value); }

    document_writer document_;
};

} // namespace

} // namespace waymark::transfer

namespace waymark {

export_options& export_options::of_agent(std::string agent_id)
{
    validate_id(agent_id, "the agent id");
    agent_ = std::move(agent_id);
    return *this;
}

transfer_result export_lines(store& from, std::ostream& to, const export_options& options)
{
    transfer::lines_exporter lines(to);
    const auto all = lines.run(from, options);
    lines.finish(all);
    return all;
}

transfer_result export_lines(store& from, const std::filesystem::path& file, const export_options& options)
{
    // Aside first: under its name there is never half an export.
    auto aside = file;
    aside += "." + random_id() + ".tmp";
    try {
        try {
            files::make_private_file(aside);
        } catch (const error& failure) {
            throw error(failure.code(),
                        detail::quoted(file.native()) + " cannot be written: " + failure.details().message());
        }
        transfer_result result;
        {
            // Little by little: the saves of others wait for a disk that has much to sync.
            constexpr std::streamoff bytes_between_syncs = 4'000'000;
            std::ofstream to(aside, std::ios::binary);
            std::streamoff synced = 0;
            auto paced = options;
            paced.with_progress([&](const transfer_result& now) {
                if (const std::streamoff written = to.tellp(); written - synced >= bytes_between_syncs) {
                    to.flush();
                    files::sync_file(files::open(aside, O_RDONLY), aside);
                    synced = written;
                }
                if (options.progress())
                    options.progress()(now);
            });
            result = export_lines(from, to, paced);
        }
        files::sync_file(files::open(aside, O_RDONLY), aside);
        std::error_code failure;
        std::filesystem::rename(aside, file, failure);
        if (failure)
            files::fail(file, "written", failure.value());
        files::sync_folder(file.has_parent_path() ? file.parent_path() : std::filesystem::path("."));
        return result;
    } catch (...) {
        std::error_code ignored;
        std::filesystem::remove(aside, ignored);
        throw;
    }
}

std::string export_json(store& from, const export_options& options)
{
    transfer::document_exporter document;
    document.run(from, options);
    return std::move(document).take_text();
}

} // namespace waymark
