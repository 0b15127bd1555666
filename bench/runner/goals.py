"""What Waymark wants to reach, each as a ratio within one repetition or as an amount of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from results import Results, at, median, save_seconds, stopped_early


@dataclass
class Outcome:
    values: list[float]  # one for each repetition
    note: str = ""


@dataclass
class Goal:
    workload: str
    compared: str
    measure: Callable[[Results], Outcome]
    least: float | None = None
    most: float | None = None
    unit: str = " ×"

    def met(self, outcome):
        """None: no goal, or nothing measured."""
        value = median(outcome.values)
        if value is None or (self.least is None and self.most is None):
            return None
        return value >= self.least if self.least is not None else value <= self.most


def divide(above, below):
    return [above[repetition] / below[repetition] for repetition in sorted(above) if below.get(repetition)]


def absent(results, *sides):
    """Says which side of a comparison is not there."""
    for side in sides:
        if not results.runs(**side):
            return Outcome([], f"{side['contender']}: {results.why_absent(**side)}")
    return Outcome([], "not comparable: stopped at its limit")


def ratio(measure, above, below):
    """above / below in each repetition; both are what to look for."""

    def of(results):
        values = divide(results.each_repetition(measure, **above), results.each_repetition(measure, **below))
        if not values:
            return absent(results, above, below)
        stopped = any(stopped_early(run) for side in (above, below) for run in results.runs(**side))
        word = "projected" if measure is save_seconds else "the peer was stopped at its limit"
        return Outcome(values, word if stopped else "")

    return of


def quotient(above, below):
    return above / below if above is not None and below else None


def bytes_when_done(run):
    return None if stopped_early(run) else run.get("bytes")


def cpu_growth(run):
    return quotient(at(run, "cpu_ms.last_p50"), at(run, "cpu_ms.first_p50"))


def added_delay(run):
    return at(run, "busy_ms.p99") - at(run, "idle_ms.p99")


def of_one(measure, **wanted):
    """A measure of single runs."""

    def of(results):
        values = list(results.each_repetition(measure, **wanted).values())
        return Outcome(values) if values else absent(results, wanted)

    return of


def against_the_best(measure, ours, peers):
    """The fastest peer of each repetition / ours."""

    def of(results):
        best = {}
        for peer in peers:
            for repetition, value in results.each_repetition(measure, **peer).items():
                best[repetition] = min(value, best.get(repetition, value))
        # The best of some is not the best.
        if not all(results.runs(**peer) for peer in [ours, *peers]):
            return absent(results, ours, *peers)
        return Outcome(divide(best, results.each_repetition(measure, **ours)))

    return of


def growth(contender, turns, durability="full"):
    return {"workload": "growth", "contender": contender, "turns": turns, "durability": durability}


def fleet(contender, in_flight=64):
    return {"workload": "fleet", "contender": contender, "in_flight": in_flight, "durability": "full"}


def resume(contender, in_flight):
    return {"workload": "resume", "contender": contender, "in_flight": in_flight}


def one(workload):
    return {"workload": workload, "contender": "waymark-sqlite"}


def growth_goals():
    ours, longer, name = growth("waymark-sqlite", 1000), growth("waymark-sqlite", 5000), "growth, 1,000 turns"
    peer, delta = growth("langgraph-sqlite", 1000), growth("langgraph-sqlite-delta", 1000)
    yield Goal(name, "time: langgraph-sqlite / waymark-sqlite", ratio(save_seconds, peer, ours), 20)
    yield Goal(name, "time: seed-sqlite / waymark-sqlite", ratio(save_seconds, growth("seed-sqlite", 1000), ours), 15)
    yield Goal(name, "time: langgraph-sqlite-delta / waymark-sqlite", ratio(save_seconds, delta, ours), 1.8)
    yield Goal(name, "time: waymark-sqlite / bare-sqlite",
               ratio(save_seconds, ours, growth("bare-sqlite", 1000)), most=1.3)
    yield Goal(name, "bytes: langgraph-sqlite / waymark-sqlite", ratio(bytes_when_done, peer, ours), 350)
    yield Goal(name, "bytes: langgraph-sqlite-delta / waymark-sqlite", ratio(bytes_when_done, delta, ours), 2.2)
    yield Goal(name, "time: langgraph-memory / waymark-memory",
               ratio(save_seconds, growth("langgraph-memory", 1000, "-"), growth("waymark-memory", 1000, "-")), 50)

    name = "growth, 5,000 turns"
    yield Goal(name, "time: langgraph-sqlite / waymark-sqlite",
               ratio(save_seconds, growth("langgraph-sqlite", 5000), longer), 100)
    yield Goal(name, "bytes: langgraph-sqlite-delta / waymark-sqlite",
               ratio(bytes_when_done, growth("langgraph-sqlite-delta", 5000), longer), 3.5)
    yield Goal(name, "CPU of a save of waymark-sqlite: last tenth / first tenth",
               of_one(cpu_growth, **longer), most=1.2)

    name, ours = "growth, 20 turns", growth("waymark-sqlite", 20, "relaxed")
    peers = [growth(peer, 20, "default") for peer in ("langgraph-sqlite", "langgraph-sqlite-delta", "seed-sqlite")]
    yield Goal(name, "time: langgraph-sqlite (default) / waymark-sqlite (relaxed)",
               ratio(save_seconds, peers[0], ours), 1)
    yield Goal(name, "time: the best peer (default) / waymark-sqlite (relaxed)",
               against_the_best(save_seconds, ours, peers), 1)


def fleet_goals():
    for ours, peer, least in (("waymark-sqlite", "langgraph-sqlite", 7),
                              ("waymark-sqlite", "langgraph-sqlite-delta", 7),
                              ("waymark-sqlite", "bare-sqlite", 0.6),
                              ("waymark-postgres", "langgraph-postgres", 10)):
        yield Goal("fleet, 64 in flight", f"saves per second: {ours} / {peer}",
                   ratio("saves_per_second", fleet(ours), fleet(peer)), least)


def resume_goals():
    for ours, peer, least in (("waymark-sqlite", "langgraph-sqlite", 2),
                              ("waymark-sqlite", "langgraph-sqlite-delta", 8),
                              ("waymark-sqlite", "seed-sqlite", 0.9),
                              ("waymark-postgres", "langgraph-postgres", 20)):
        for in_flight, goal in ((64, least), (1, None)):
            yield Goal(f"resume, {in_flight} in flight", f"loads per second: {ours} / {peer}",
                       ratio("loads_per_second", resume(ours, in_flight), resume(peer, in_flight)), goal)


def other_goals():
    yield Goal("first load", "time of waymark-sqlite / parsing the JSON from memory",
               of_one(lambda run: quotient(run.get("load_ms"), run.get("parse_ms")), **one("first-load")), most=3)
    yield Goal("heavy", "bytes of waymark-sqlite",
               of_one(lambda run: run["bytes"] / 1e6, **one("heavy")), most=15, unit=" MB")
    yield Goal("event loop", "delay of a timer, p99, waymark-sqlite: busy − idle",
               of_one(added_delay, **one("event-loop")), most=1, unit=" ms")


def all_goals():
    return [*growth_goals(), *fleet_goals(), *resume_goals(), *other_goals()]
