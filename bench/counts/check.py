#!/usr/bin/env python3
"""check.py PROGRAM [--update]: compares what waymark_counts counts with expected.json.

Fails when something costs more than it should, beyond the tolerance. What has become cheaper is said, so that
--update can write it down.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

EXPECTED = pathlib.Path(__file__).with_name("expected.json")
# The log is written back by a thread when it sees fit, and a C library has other code for other processors.
TOLERANCE = {"allocations": 0.03, "statements": 0.03, "bytes_written": 0.10, "writes": 0.10, "instructions": 0.10}
MEASURED = {"saves": "measured_saves", "batches of 64 saves": "measured_batches", "loads": "measured_loads"}


def counts(program):
    """What the program counts itself, by the name of the work."""
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    lines = [json.loads(line) for line in printed.splitlines()]
    return {line.pop("what"): line for line in lines}


def instructions(program, function):
    """Instructions inside of a function and what it calls."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
                   f"--toggle-collect=*::{function}*", program]
        log = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    collected = int(re.search(r"Collected : (\d+)", log)[1])
    if collected == 0:
        raise SystemExit(f"callgrind has seen nothing of {function}")
    return collected


def measure(program):
    found = counts(program)
    for name, function in MEASURED.items():
        found[f"memory and sqlite, all {name}"] = {"instructions": instructions(program, function)}
    return found


def compare(expected, found):
    """Returns how many are worse; prints what differs."""
    worse = 0
    for work, wanted in expected.items():
        for name, before in wanted.items():
            now = found.get(work, {}).get(name)
            if now is None:
                print(f"missing: {name} of {work}")
                worse += 1
            elif now > before * (1 + TOLERANCE[name]) + 0.5:
                print(f"worse: {work}: {now:,.1f} {name} instead of {before:,.1f}")
                worse += 1
            elif now < before * (1 - TOLERANCE[name]) - 0.5:
                print(f"better: {work}: {now:,.1f} {name} instead of {before:,.1f}; write it down with --update")
    return worse


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--update"]):
        raise SystemExit(__doc__)
    found = measure(sys.argv[1])
    if sys.argv[2:] == ["--update"]:
        EXPECTED.write_text(json.dumps(found, indent=2) + "\n")
        return
    expected = json.loads(EXPECTED.read_text())
    worse = compare(expected, found)
    total = sum(len(wanted) for wanted in expected.values())
    print(f"counts: {total - worse} passed, {worse} failed")
    if worse:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
