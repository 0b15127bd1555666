"""What the figures were measured on: the machine, and the versions of everything that was compared."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import platform
import re
import subprocess


def output_of(*command, given=""):
    """What a command prints, or None where it is not there or fails."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=30, check=True,
                              env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"})
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def field(path, name):
    """The value of the first "name : value" of a file of /proc."""
    try:
        found = re.search(rf"^{name}\s*:\s*(.+)$", pathlib.Path(path).read_text(), re.MULTILINE)
    except OSError:
        return None
    return found and found.group(1)


def file_system(folder):
    """The type of the file system that holds a folder: durability and speed depend on it more than on anything."""
    folder = pathlib.Path(folder).resolve()
    best, kind = -1, None
    try:
        mounts = pathlib.Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return None
    for line in mounts:
        _, where, type_, *_ = line.split()
        where = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal.group(1), 8)), where)
        # The last of several mounts at one place is the one that is seen.
        if folder.is_relative_to(where) and len(where) >= best:
            best, kind = len(where), type_
    return kind


def hardware(folder):
    kib = field("/proc/meminfo", "MemTotal")
    return {
        "cpu": field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(int(kib.split()[0]) / 2**20, 1) if kib else None,
        "kernel": f"{platform.system()} {platform.release()}",
        "file_system": file_system(folder),
    }


def compiler_of(build):
    try:
        cache = (pathlib.Path(build) / "CMakeCache.txt").read_text()
    except OSError:
        return "c++"
    found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", cache, re.MULTILINE)
    return found.group(1) if found else "c++"


def headers(compiler):
    """The versions that headers state about themselves, in the words of the preprocessor."""
    asked = {"asio": ("asio/version.hpp", "ASIO_VERSION"), "boost": ("boost/version.hpp", "BOOST_LIB_VERSION"),
             "sqlite": ("sqlite3.h", "SQLITE_VERSION")}
    known = {}
    for name, (header, macro) in asked.items():
        text = output_of(compiler, "-E", "-P", "-x", "c++", "-", given=f"#include <{header}>\nthe_version {macro}\n")
        found = re.search(r'the_version "?([^"\s]+)"?\s*$', text or "")
        known[name] = found.group(1).replace("_", ".") if found else None
    if known["asio"]:
        number = int(known["asio"])
        known["asio"] = f"{number // 100000}.{number // 100 % 1000}.{number % 100}"
    return known


def peers_in(folder):
    """The peers and the drivers that they use, as installed."""
    try:
        wanted = json.loads((pathlib.Path(folder) / "package.json").read_text())["dependencies"]
    except (OSError, TypeError, KeyError, ValueError):
        return {}
    known = dict(wanted)
    for driver in ("better-sqlite3", "pg"):
        installed = pathlib.Path(folder) / "node_modules" / driver / "package.json"
        try:
            known[driver] = json.loads(installed.read_text())["version"]
        except (OSError, KeyError, ValueError):
            pass
    return known


def versions(build, peers):
    compiler = compiler_of(build)
    server = os.path.join(os.environ.get("WAYMARK_POSTGRES_PROGRAMS", ""), "postgres")
    first_lines = {"compiler": output_of(compiler, "--version"), "postgres": output_of(server, "--version"),
                   "node": output_of("node", "--version") if peers else None}
    known = {name: text.splitlines()[0] if text else None for name, text in first_lines.items()}
    return {**known, **headers(compiler), "peers": peers_in(peers) if peers else {}}


def commit(top):
    name = output_of("git", "-C", str(top), "rev-parse", "--short", "HEAD")
    changed = output_of("git", "-C", str(top), "status", "--porcelain", "--untracked-files=no")
    return f"{name} and uncommitted changes" if name and changed else name


def describe(top, build, folder, peers):
    return {
        "machine": hardware(folder),
        "versions": versions(build, peers),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": commit(top),
    }
