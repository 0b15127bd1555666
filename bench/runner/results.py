"""Reads what run.py wrote, and finds in it what the tables, goals and charts ask for."""

from __future__ import annotations

import json
import statistics


def read(path):
    with open(path, encoding="utf-8") as lines:
        about, *runs = [json.loads(line) for line in lines if line.strip()]
    return Results(about, runs)


def at(run, path):
    """at(run, "save_ms.p50"); None where it is not there."""
    for key in path.split("."):
        run = run.get(key) if isinstance(run, dict) else None
    return run


def median(numbers):
    known = [number for number in numbers if number is not None]
    return statistics.median(known) if known else None


class Results:
    def __init__(self, about, runs):
        self.about = about
        self.good = [run for run in runs if "missing" not in run and "failed" not in run]
        self.bad = [run for run in runs if "missing" in run or "failed" in run]

    def runs(self, **wanted):
        return [run for run in self.good if all(run.get(key) == value for key, value in wanted.items())]

    def each_repetition(self, measure, **wanted):
        """{repetition: the median of a measure over its samples}; a measure is a path or a function of a run."""
        samples = {}
        for run in self.runs(**wanted):
            value = at(run, measure) if isinstance(measure, str) else measure(run)
            if value is not None:
                samples.setdefault(run["repetition"], []).append(value)
        return {repetition: statistics.median(values) for repetition, values in samples.items()}

    def middle(self, measure, **wanted):
        """The median over repetitions, or None."""
        return median(self.each_repetition(measure, **wanted).values())

    def limit(self, name):
        """{repetition: what the machine could do at most}"""
        best = {}
        for run in self.runs(workload="limits", limit=name):
            rate = run.get("per_second", run.get("bytes_per_second"))
            best[run["repetition"]] = max(rate, best.get(run["repetition"], rate))
        return best

    def why_absent(self, **wanted):
        """What became of a run without a result."""
        for run in self.bad:
            if all(run.get(key) == value for key, value in wanted.items()):
                return "missing" if "missing" in run else "failed"
        return "not run"


def stopped_early(run):
    """Whether the run passed its limit before it was done."""
    return any(f"{what}_done" in run and run[f"{what}_done"] < run[what] for what in ("turns", "saves"))


def save_seconds(run):
    """The time of all saves of a growth run; of one that was stopped, as it would have been.

    The medians of the tenths are fitted with a + b·k, k being the turn, and summed up over the turns that are left.
    """
    done, turns = run["turns_done"], run["turns"]
    if done >= turns:
        return run["wall_s"]
    tenths = run.get("deciles_ms") or []
    points = [((i + 0.5) * done / len(tenths), ms) for i, ms in enumerate(tenths) if ms is not None]
    if len(points) < 2:
        return None
    slope, start = statistics.linear_regression(*zip(*points))
    if slope < 0:  # noise: saves do not get cheaper
        slope, start = 0.0, statistics.fmean(ms for _, ms in points)
    left = turns - done
    return run["wall_s"] + (start * left + slope * (turns * (turns + 1) - done * (done + 1)) / 2) / 1000
