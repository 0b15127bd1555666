#!/usr/bin/env python3
"""Writes the figures of docs/benchmarks.md, between their two markers, and its charts, from what run.py measured."""

from __future__ import annotations

import argparse
import pathlib
import sys

sys.dont_write_bytecode = True  # the source folder stays clean

import charts  # noqa: E402
import goals  # noqa: E402
import results as measured  # noqa: E402
from results import median, save_seconds, stopped_early  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
EMPTY_PAGE = f"# Benchmarks\n\nMeasured with `scripts/bench`; `bench/README.md` says how.\n\n{BEGIN}\n{END}\n"
NONE = "–"
MESSAGES_A_SAVE = 2  # of the fleet


def number(value):
    """Three digits, as many as a shared machine deserves."""
    if value is None:
        return NONE
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def milliseconds(value):
    return NONE if value is None else f"{number(value)} ms"


def seconds(value):
    return NONE if value is None else milliseconds(value * 1000) if value < 1 else f"{number(value)} s"


def size(value):
    if value is None:
        return NONE
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{number(value)} {unit}"
        value /= 1000
    return f"{number(value)} GB"


def three_digits(value):
    """Like number, with the zeros at the end: for figures that are compared with each other."""
    return number(value) if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def times(value):
    return NONE if value is None else f"{three_digits(value)} ×"


def percent(value):
    return NONE if value is None else f"{number(value * 100)} %"


def table(heads, rows):
    """Names on the left, figures on the right."""
    names = sum(1 for head in heads if head in ("workload", "compared", "contender", "durability", "what", "where", ""))
    rule = "|" + "---|" * names + "--:|" * (len(heads) - names)
    first, *others = ["| " + " | ".join(line) + " |" for line in [heads, *rows]]
    return "\n".join([first, rule, *others])


def found_in_order(results, *keys, **wanted):
    """The different values of keys among runs, in the order of the plan."""
    return list(dict.fromkeys(tuple(run.get(key) for key in keys) for run in results.runs(**wanted)))


def goals_table(results):
    rows = []
    for goal in goals.all_goals():
        outcome = goal.measure(results)
        shown = [outcome.note] if outcome.note else []
        if outcome.values:
            figure = f"{three_digits(median(outcome.values))}{goal.unit}"
            low, high = three_digits(min(outcome.values)), three_digits(max(outcome.values))
            shown.insert(0, f"{figure} ({low}–{high})" if len(outcome.values) > 1 else figure)
        sign, target = ("≥", goal.least) if goal.least is not None else ("≤", goal.most)
        rows.append([goal.workload, goal.compared, ", ".join(shown),
                     NONE if target is None else f"{sign} {number(target)}{goal.unit}",
                     {True: "yes", False: "**no**", None: NONE}[goal.met(outcome)]])
    return table(["workload", "compared", "median (least–most)", "goal", "met"], rows)


def of_limit(results, rate, limit, wanted):
    """The median over repetitions of a rate as a fraction of what the machine could do in that repetition."""
    return median(goals.divide(results.each_repetition(rate, **wanted), results.limit(limit)))


def of_json(results, wanted):
    """Bytes on disk as a multiple of the JSON of the messages."""
    return times(results.middle(lambda run: goals.quotient(run.get("bytes"), run.get("payload_bytes")), **wanted))


def latencies(results, wanted):
    return [milliseconds(results.middle(f"latency_ms.{rank}", **wanted)) for rank in ("p50", "p99", "p999")]


def turns_per_second(run):
    return goals.quotient(run["turns_done"], run["wall_s"])


def sync_limit(contender):
    """PostgreSQL writes into log files that are there already; SQLite's log grows."""
    return "fdatasync_overwrite" if "postgres" in contender else "fdatasync_append"


def growth_limit(results, wanted):
    if wanted["durability"] == "full":
        return of_limit(results, turns_per_second, sync_limit(wanted["contender"]), wanted)
    if wanted["durability"] == "relaxed":
        return of_limit(results, lambda run: run["payload_bytes"] / run["wall_s"], "json_serialize", wanted)
    return None


def growth_table(results, turns):
    rows = []
    for contender, durability in found_in_order(results, "contender", "durability", workload="growth", turns=turns):
        wanted = {"workload": "growth", "contender": contender, "durability": durability, "turns": turns}
        runs = results.runs(**wanted)
        done = median(run["turns_done"] for run in runs)
        stopped = any(stopped_early(run) for run in runs)
        middle = {path: results.middle(path, **wanted) for path in
                  ("save_ms.p50", "save_ms.p99", "cpu_ms.first_p50", "cpu_ms.last_p50", "bytes", "load_ms",
                   "peak_rss_bytes")}
        took = seconds(results.middle(save_seconds, **wanted))
        rows.append([
            contender, durability if durability != "-" else NONE,
            f"{took}, projected from {number(done)} turns" if stopped else took,
            number(results.middle(turns_per_second, **wanted)),
            percent(growth_limit(results, wanted)),
            milliseconds(middle["save_ms.p50"]), milliseconds(middle["save_ms.p99"]),
            f"{number(middle['cpu_ms.first_p50'])} → {milliseconds(middle['cpu_ms.last_p50'])}",
            size(middle["bytes"]) + (f" at {number(done)}" if stopped and middle["bytes"] else ""),
            of_json(results, wanted),
            milliseconds(middle["load_ms"]), size(middle["peak_rss_bytes"])])
    return table(["contender", "durability", "all saves", "saves/s", "of the limit", "a save, p50", "p99",
                  "CPU, first → last tenth", "on disk", "of the JSON", "load", "peak memory"], rows)


def growth_section(results):
    sizes = sorted(turns for (turns,) in found_in_order(results, "turns", workload="growth"))
    if not sizes:
        return None
    text = ["## Growth",
            "One agent, two messages of 1 KiB a turn, a checkpoint each turn, one save in flight. The limit is one "
            "`fdatasync` a save (full) or writing the JSON of the messages once (relaxed)."]
    for turns in sizes:
        kind = " (a short conversation)" if turns < 100 else ""
        text += [f"**{turns:,} turns**{kind}", growth_table(results, turns)]
    return "\n\n".join(text)


def fleet_limit(results, wanted):
    contender, in_flight = wanted["contender"], wanted["in_flight"]
    if wanted["durability"] != "full":
        return None
    if in_flight == 1:
        return of_limit(results, "saves_per_second", sync_limit(contender), wanted)
    if "postgres" in contender:
        return None
    return of_limit(results, lambda run: run["saves_per_second"] * MESSAGES_A_SAVE, "sqlite_rows_64", wanted)


def fleet_section(results):
    rows = []
    keys = ("contender", "durability", "in_flight")
    for contender, durability, in_flight in found_in_order(results, *keys, workload="fleet"):
        wanted = {"workload": "fleet", "contender": contender, "durability": durability, "in_flight": in_flight}
        stopped = any(stopped_early(run) for run in results.runs(**wanted))
        done = results.middle("saves_done", **wanted)
        rows.append([
            contender, durability, number(in_flight), number(results.middle("saves_per_second", **wanted)),
            percent(fleet_limit(results, wanted)), number(results.middle("batch_mean", **wanted)),
            *latencies(results, wanted), number(done) + (", stopped at its limit" if stopped else ""),
            size(results.middle("bytes", **wanted)), of_json(results, wanted)])
    if not rows:
        return None
    return "\n\n".join([
        "## Fleet",
        f"{agents_in(results)} agents, 20 turns of two messages of 2 KiB each, never two saves of one agent in flight. "
        "The limit is one `fdatasync` a save for one in flight, and otherwise SQLite with a row a message and 64 rows "
        "a transaction.",
        table(["contender", "durability", "in flight", "saves/s", "of the limit", "saves a commit", "p50", "p99",
               "p99.9", "saves", "on disk", "of the JSON"], rows)])


def agents_in(results):
    return " or ".join(f"{agents:,}" for (agents,) in found_in_order(results, "agents", workload="fleet"))


def resume_section(results):
    rows = []
    for contender, in_flight in found_in_order(results, "contender", "in_flight", workload="resume"):
        wanted = {"workload": "resume", "contender": contender, "in_flight": in_flight}
        source = {"workload": "fleet", "contender": contender, "durability": "full", "in_flight": 64}
        agent_bytes = results.middle(lambda run: run["payload_bytes"] / run["agents"], **source)

        def bytes_per_second(run, each=agent_bytes):
            return each and run["loads_per_second"] * each

        rows.append([
            contender, number(in_flight), number(results.middle("loads_per_second", **wanted)),
            percent(of_limit(results, bytes_per_second, "json_parse", wanted)),
            *latencies(results, wanted), size(agent_bytes)])
    if not rows:
        return None
    return "\n\n".join([
        "## Resume",
        "The latest checkpoint of random agents, from what the fleet with 64 saves in flight left. The limit is "
        "parsing the JSON of an agent's messages from memory.",
        table(["contender", "in flight", "loads/s", "of the limit", "p50", "p99", "p99.9", "JSON of an agent"], rows)])


def first_load_section(results):
    parse = results.middle("parse_ms", workload="first-load", contender="waymark-sqlite")
    rows = []
    for (contender,) in found_in_order(results, "contender", workload="first-load"):
        wanted = {"workload": "first-load", "contender": contender}
        load = results.middle("load_ms", **wanted)
        rows.append([contender, milliseconds(load), percent(goals.quotient(parse, load))])
    if not rows:
        return None
    return "\n\n".join([
        "## First load",
        "The first load of a fresh process, opening included, of a conversation of 10,000 messages of 1 KiB. The limit "
        f"is parsing its JSON from memory: {milliseconds(parse)}.",
        table(["contender", "load", "of the limit"], rows)])


def heavy_section(results):
    rows = []
    for (contender,) in found_in_order(results, "contender", workload="heavy"):
        wanted = {"workload": "heavy", "contender": contender}
        stopped = any(stopped_early(run) for run in results.runs(**wanted))
        rows.append([
            contender, number(results.middle("turns_done", **wanted)) + (", stopped at its limit" if stopped else ""),
            seconds(results.middle("wall_s", **wanted)), number(results.middle(turns_per_second, **wanted)),
            percent(of_limit(results, turns_per_second, sync_limit(contender), wanted)),
            size(results.middle("bytes", **wanted)), of_json(results, wanted)])
    if not rows:
        return None
    return "\n\n".join([
        "## Heavy",
        "A coding agent that keeps its files in its state, 200 turns, full durability. The limit is one `fdatasync` a "
        "save.",
        table(["contender", "turns", "all saves", "saves/s", "of the limit", "on disk", "of the JSON"], rows)])


def event_loop_section(results):
    rows = []
    for (contender,) in found_in_order(results, "contender", workload="event-loop"):
        wanted = {"workload": "event-loop", "contender": contender}
        extra = results.middle(goals.added_delay, **wanted)
        rows.append([contender, number(results.middle("saves", **wanted)),
                     *(milliseconds(results.middle(path, **wanted)) for path in
                       ("idle_ms.p50", "idle_ms.p99", "busy_ms.p50", "busy_ms.p99")), milliseconds(extra),
                     milliseconds(results.middle("whole_ms.p99", **wanted))])
    if not rows:
        return None
    return "\n\n".join([
        "## Event loop",
        "How late a timer of 1 ms is on the thread that saves a conversation of 10 MB again and again, for 3 s, and on "
        "one that does not. The limit is the idle loop. “Whole”: each save is of another agent, so that all 10 MB are "
        "new.",
        table(["contender", "saves", "idle p50", "idle p99", "busy p50", "busy p99", "busy − idle, p99", "whole, p99"],
              rows)])


def limits_section(results):
    meanings = {
        "hand_overs": "a thread wakes another and is woken by it",
        "fdatasync_append": "4 KiB appended and synced", "fdatasync_overwrite": "4 KiB overwritten and synced",
        "sqlite_commits_1": "SQLite, one row of 2 KiB a transaction",
        "sqlite_rows_64": "SQLite, rows of 2 KiB, 64 a transaction",
        "memory_copy": "copying memory", "json_serialize": "writing JSON", "json_parse": "parsing JSON"}
    rows = []
    for (name,) in found_in_order(results, "limit", workload="limits"):
        rate = results.limit(name)
        middle, lowest, highest = median(rate.values()), min(rate.values()), max(rate.values())
        show = size if "bytes_per_second" in results.runs(workload="limits", limit=name)[0] else number
        spread = f" ({show(lowest)}–{show(highest)})" if len(rate) > 1 else ""
        rows.append([f"{meanings.get(name, name)} (`{name}`)", f"{show(middle)} a second{spread}"])
    return "\n\n".join(["## Limits of the machine", table(["what", "median (least–most)"], rows)]) if rows else None


def machine_section(results):
    about = results.about
    hardware, versions = about.get("machine", {}), about.get("versions", {})
    peers = ", ".join(f"{name} {version}" for name, version in versions.get("peers", {}).items())
    libraries = ", ".join(versions.get(name) or NONE for name in ("asio", "boost", "sqlite"))
    rows = [("CPU", f"{hardware.get('cpu')}, {hardware.get('cores')} cores"),
            ("memory", f"{hardware.get('memory_gib')} GiB"), ("kernel", hardware.get("kernel")),
            ("file system", hardware.get("file_system")), ("compiler", versions.get("compiler")),
            ("Asio, Boost, SQLite", libraries), ("PostgreSQL", versions.get("postgres")),
            ("Node.js", versions.get("node")), ("peers", peers),
            ("date, commit", f"{about.get('date')}, {about.get('commit')}")]
    return "\n\n".join(["## Machine and versions", table(["", "what"], [[name, text or NONE] for name, text in rows])])


def where_of(run):
    """A run without its contender, in words."""
    words = [run["workload"]]
    if run["workload"] == "growth":
        words.append(f"{run['turns']:,} turns")
    if "in_flight" in run:
        words.append(f"{run['in_flight']} in flight")
    return ", ".join(words)


def absent_section(results):
    """Whoever could not run, each reason once."""
    places = {}
    for run in results.bad:
        kind = "missing" if "missing" in run else "failed"
        places.setdefault((run.get("contender", NONE), kind, run[kind]), {})[where_of(run)] = None
    if not places:
        return "Nothing was missing and nothing failed."
    rows = [[contender, kind, reason.replace("|", "\\|"), "; ".join(where)]
            for (contender, kind, reason), where in places.items()]
    return "\n\n".join(["## Missing and failed", table(["contender", "", "what", "where"], rows)])


def repetitions_in(results):
    return max((run["repetition"] for run in results.good), default=0)


def introduction(results):
    count = repetitions_in(results)
    projected = ("“Projected”: the run was stopped at its limit, and the rest of its saves was added up from a line "
                 "that was fitted to the times so far.")
    if results.about.get("quick"):
        return f"A quick run, to see that everything works: smaller sizes, one repetition. {projected}"
    return (f"Medians of {count} repetitions: everything ran once, then everything again. Ratios are taken within a "
            f"repetition. {projected}")


def figures(results, drawn):
    parts = [introduction(results), "## Goals", goals_table(results), *(chart.markdown() for chart in drawn),
             growth_section(results), fleet_section(results), resume_section(results), first_load_section(results),
             heavy_section(results), event_loop_section(results), limits_section(results), machine_section(results),
             absent_section(results)]
    return "\n\n".join(part for part in parts if part)


def replace_figures(page, text):
    if BEGIN not in page or END not in page:
        sys.exit(f"the page needs the lines {BEGIN} and {END}, for the figures to go between")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=TOP / "build/bench/results.jsonl")
    parser.add_argument("--page", type=pathlib.Path, default=TOP / "docs/benchmarks.md",
                        help="charts go to the folder charts beside it")
    options = parser.parse_args()
    results = measured.read(options.results)
    folder = options.page.parent / "charts"
    folder.mkdir(parents=True, exist_ok=True)
    drawn = charts.draw(results)
    for chart in drawn:
        (folder / chart.file).write_text(chart.svg(), encoding="utf-8")
    page = options.page.read_text(encoding="utf-8") if options.page.exists() else EMPTY_PAGE
    options.page.write_text(replace_figures(page, figures(results, drawn)), encoding="utf-8")


if __name__ == "__main__":
    main()
