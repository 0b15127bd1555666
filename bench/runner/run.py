#!/usr/bin/env python3
"""Runs the plan of plan.py and writes what the programs measured, one JSON object a line; see README.md.

Everything runs once, then everything a second time, and so on: what is compared ran at about the same time, and a
machine that gets slower for a while disturbs one repetition of all contenders, not all repetitions of one.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the source folder stays clean

import machine  # noqa: E402
import plan  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[2]
TIME_OUT_SECONDS = 600
TEXT_BYTES = 100_000_000  # more than any workload saves
NOT_UNDERSTOOD = 2
CANNOT_RUN_HERE = 77
SOMETHING_FAILED = 3  # and the results say what; all the rest was measured


class Databases:
    """PostgreSQL databases, one for each chain of the plan, so that no run sees the tables of another."""

    def __init__(self):
        self.server = os.environ.get("WAYMARK_POSTGRES")
        self.psql = os.path.join(os.environ.get("WAYMARK_POSTGRES_PROGRAMS", ""), "psql")

    def ask(self, statement):
        """Whether the server did it; if not, it says why."""
        return subprocess.run([self.psql, "-X", "-q", "-d", self.server, "-c", statement],
                              stdout=subprocess.DEVNULL).returncode == 0

    def make(self, name):
        """How to connect to it, or None."""
        if not self.ask(f"CREATE DATABASE {name}"):
            return None
        return re.sub(r"^(\w+://[^/]*/)[^?]*", rf"\g<1>{name}", self.server)

    def drop(self, name):
        self.ask(f"DROP DATABASE {name} WITH (FORCE)")

    def settle(self):
        self.ask("CHECKPOINT")


class Progress:
    """A line that says what runs and how long the rest will take."""

    def __init__(self, steps):
        self.left = list(steps)
        self.total = len(self.left)
        self.took = {}
        self.on_terminal = sys.stderr.isatty()

    def seconds_left(self):
        return sum(self.took.get(str(step), step.rough_seconds) for step in self.left)

    def begin(self, step):
        seconds = self.seconds_left()
        rest = f"about {round(seconds / 60)} min left" if seconds >= 90 else f"about {round(seconds)} s left"
        line = f"[{self.total - len(self.left) + 1}/{self.total}] {step} … {rest}"
        self.write(line)

    def end(self, step, seconds):
        self.left.pop(0)
        self.took[str(step)] = seconds

    def say(self, line):
        """A line that stays."""
        self.write(line)
        if self.on_terminal:
            print(file=sys.stderr)

    def write(self, line):
        if self.on_terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{line[:width]}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


def last_line(text):
    """The line that says why a program failed. Node.js says above its stack trace that it ran out of memory."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith("FATAL ERROR")]
    return (fatal or lines or [""])[-1].replace(f"{TOP}/", "")


def run_program(command, environment):
    """The JSON objects that a program prints; or one that says that it is missing or failed."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                          stdin=subprocess.DEVNULL, start_new_session=True) as program:
        try:
            printed, said = program.communicate(timeout=TIME_OUT_SECONDS)
        except BaseException as error:
            os.killpg(program.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return [{"failed": f"no result after {TIME_OUT_SECONDS} s"}]
    if program.returncode == CANNOT_RUN_HERE:
        return [{"missing": last_line(said) or "it cannot run here"}]
    if program.returncode < 0:
        return [{"failed": f"{signal.Signals(-program.returncode).name}: {last_line(said)}"}]
    if program.returncode == NOT_UNDERSTOOD:  # help follows
        return [{"failed": last_line(said.partition("\n")[0])}]
    if program.returncode != 0:
        return [{"failed": last_line(said) or f"exit status {program.returncode}"}]
    try:
        return [json.loads(line) for line in printed.splitlines() if line.strip()]
    except ValueError:
        return [{"failed": f"it printed something else than JSON: {last_line(printed)}"}]


class Runner:
    def __init__(self, options):
        self.options = options
        self.databases = Databases()
        self.texts = options.folder / "texts"
        self.problems = set()  # (contender, "missing" or "failed", reason): each is said once

    def make_texts(self):
        subprocess.run([self.options.waymark, "texts", "--bytes", str(TEXT_BYTES), "--out", str(self.texts)],
                       check=True, stdout=subprocess.DEVNULL)

    def why_missing(self, step):
        contender = step.contender or ""
        if contender.startswith("langgraph-") and not self.options.peers:
            return self.options.no_peers or "the peers are not installed"
        if "postgres" in contender and not self.databases.server:
            return "there is no PostgreSQL server; run this with scripts/with-postgres"
        return None

    def command(self, step, folder, server):
        if (step.contender or "").startswith("langgraph-"):
            words = ["node", str(self.options.peers / "savers.mjs")]
        else:
            words = [str(self.options.waymark)]
        words += step.arguments()
        if step.workload != "resume":  # which makes no messages
            words += ["--texts", str(self.texts)]
        if server:
            return words + ["--postgres", server]
        return words if "memory" in (step.contender or "") else words + ["--folder", str(folder)]

    def run_step(self, step, folder, server):
        reason = self.why_missing(step)
        if reason:
            return [{"missing": reason}]
        # What an earlier run left to be written is written now, not during this one.
        os.sync()
        if server:
            self.databases.settle()
        environment = dict(os.environ)
        if server:
            environment["WAYMARK_POSTGRES"] = server
        results = run_program(self.command(step, folder, server), environment)
        if not results and not step.prepares:
            return [{"failed": "it printed no result"}]
        return results

    def run_chain(self, chain, name, progress):
        """The results of steps that share a folder and a database; yields (step, seconds, results)."""
        folder = self.options.folder / name
        folder.mkdir()
        server, broken = None, None
        if "postgres" in (chain[0].contender or "") and not self.why_missing(chain[0]):
            server = self.databases.make(name)
            broken = None if server else {"failed": "the PostgreSQL server made no database for it"}
        try:
            for step in chain:
                progress.begin(step)
                begin = time.monotonic()
                results = [broken] if broken else self.run_step(step, folder, server)
                seconds = time.monotonic() - begin
                problem = next((each for each in results if "failed" in each or "missing" in each), None)
                if problem and not broken and step is chain[0]:  # which makes what the others need
                    broken = problem if "missing" in problem else {"failed": "the run before it failed"}
                self.note(step, problem, progress)
                yield step, seconds, [] if step.prepares and not problem else results
                progress.end(step, seconds)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if server:
                self.databases.drop(name)

    def note(self, step, problem, progress):
        if not problem:
            return
        kind = "missing" if "missing" in problem else "failed"
        if (step.contender, kind, problem[kind]) not in self.problems:
            self.problems.add((step.contender, kind, problem[kind]))
            progress.say(f"{step}: {kind}: {problem[kind]}")

    def run(self, chains, repetitions, write):
        progress = Progress([step for _ in range(repetitions) for chain in chains for step in chain])
        self.make_texts()
        for repetition in range(1, repetitions + 1):
            for number, chain in enumerate(chains):
                for step, seconds, results in self.run_chain(chain, f"bench_{repetition}_{number}", progress):
                    for result in results:
                        # The plan's words for what ran: the report looks for those.
                        write({**result, **step.identity(), "repetition": repetition, "run_s": round(seconds, 3)})
        progress.say(f"{progress.total} runs")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one repetition of smaller sizes")
    parser.add_argument("--only", metavar="WORKLOAD[,WORKLOAD]", default=",".join(plan.WORKLOADS),
                        help="of: " + ", ".join(plan.WORKLOADS))
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for databases, on the disk to be measured")
    parser.add_argument("--results", type=pathlib.Path, default=TOP / "build/bench/results.jsonl")
    parser.add_argument("--waymark", type=pathlib.Path, default=TOP / "build/release/bench/waymark_bench",
                        help="the program waymark_bench")
    peers = parser.add_mutually_exclusive_group()
    peers.add_argument("--peers", type=pathlib.Path, help="the folder of savers.mjs, with its packages")
    peers.add_argument("--no-peers", metavar="REASON", help="the peers are reported as missing, with this reason")
    options = parser.parse_args()
    options.workloads = options.only.split(",")
    unknown = set(options.workloads) - set(plan.WORKLOADS)
    if unknown:
        parser.error(f"no such workload: {', '.join(sorted(unknown))}; there are {', '.join(plan.WORKLOADS)}")
    options.folder, options.waymark = options.folder.resolve(), options.waymark.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    return options


def main():
    options = parse_arguments()
    sizes = plan.QUICK if options.quick else plan.FULL
    runner = Runner(options)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    with open(options.results, "w", encoding="utf-8") as results:

        def write(line):
            print(json.dumps(line, ensure_ascii=False), file=results, flush=True)

        about = machine.describe(TOP, options.waymark.parent.parent, options.folder, options.peers)
        write({**about, "quick": options.quick, "workloads": options.workloads})
        try:
            runner.run(plan.chains(sizes, options.workloads), sizes.repetitions, write)
        except KeyboardInterrupt:
            print(f"\nstopped; what was measured so far is in {options.results}", file=sys.stderr)
            sys.exit(128 + signal.SIGINT)
        finally:
            runner.texts.unlink(missing_ok=True)
    if any(kind == "failed" for _, kind, _ in runner.problems):
        sys.exit(SOMETHING_FAILED)


if __name__ == "__main__":
    main()
