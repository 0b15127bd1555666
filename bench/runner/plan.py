"""What is measured: workloads, contenders, durability and sizes. run.py runs it in this order, once a repetition."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    repetitions: int
    growth_turns: tuple[int, ...]  # of the columns of GROWTH
    save_limit: int  # seconds of saves after which a contender that rewrites everything stops; the rest is projected
    cheap_samples: int  # of runs of a few seconds: a busy moment of the machine must not spoil a repetition
    short_samples: int  # of the short conversation
    agents: int
    fleet_limit: int
    loads: int
    load_limit: int


FULL = Sizes(repetitions=3, growth_turns=(200, 1000, 5000), save_limit=20, cheap_samples=3, short_samples=5,
             agents=1000, fleet_limit=25, loads=5000, load_limit=10)
QUICK = Sizes(repetitions=1, growth_turns=(200, 1000), save_limit=12, cheap_samples=1, short_samples=3,
              agents=200, fleet_limit=5, loads=1000, load_limit=2)
CHEAP_SECONDS = 4

# "full" survives a power cut, "relaxed" a killed process, "default" is what a peer does when nothing is said. What
# keeps everything in memory has none of them. PostgreSQL's default is full.
GROWTH = (
    # contender                  durability       rough seconds at 200, 1,000 and 5,000 turns; None: not run
    ("waymark-sqlite",           "full relaxed",  (1, 1, 3)),
    ("waymark-postgres",         "full",          (1, 2, 8)),
    ("waymark-memory",           "-",             (1, 1, 1)),
    ("waymark-file",             "full",          (1, 6, 60)),
    ("bare-sqlite",              "full",          (1, 1, 2)),
    ("seed-sqlite",              "full default",  (1, 6, 60)),
    ("seed-file",                "default",       (1, 5, 60)),
    ("langgraph-sqlite",         "full default",  (1, 10, 55)),
    ("langgraph-sqlite-delta",   "full default",  (1, 2, 8)),
    ("langgraph-postgres",       "full",          (3, 45, None)),
    ("langgraph-postgres-delta", "full",          (2, 4, None)),
    ("langgraph-memory",         "-",             (1, 8, None)),  # of 5,000 turns it keeps all of 28 GB
    ("langgraph-memory-delta",   "-",             (1, 1, 5)),
)
WITHOUT_CHOICE = ("waymark-file",)  # always full, and not to be told
# These write what is new: they are never stopped early.
UNLIMITED = ("waymark-sqlite", "waymark-postgres", "waymark-memory", "bare-sqlite")

SHORT_TURNS = 20
SHORT = (
    ("waymark-sqlite",           "relaxed"),
    ("langgraph-sqlite",         "default"),
    ("langgraph-sqlite-delta",   "default"),
    ("seed-sqlite",              "default"),
)

FLEET_TURNS = 20
FLEET = (
    # contender                  durability  saves in flight  rough seconds
    ("waymark-sqlite",           "full",     (1, 8, 64, 512), 4),
    ("waymark-sqlite",           "relaxed",  (1, 64),         3),
    ("bare-sqlite",              "full",     (64,),           2),
    ("langgraph-sqlite",         "full",     (1, 64),         20),
    ("langgraph-sqlite",         "default",  (64,),           15),
    ("langgraph-sqlite-delta",   "full",     (1, 64),         10),
    ("langgraph-sqlite-delta",   "default",  (64,),           5),
    ("seed-sqlite",              "full",     (1, 64),         10),
    ("seed-file",                "default",  (64,),           4),
    ("waymark-postgres",         "full",     (1, 8, 64, 512), 25),
    ("langgraph-postgres",       "full",     (1, 64),         40),
)
FLEET_LIMITED = ("langgraph-postgres",)  # unless its conversations are loaded afterwards: those have to be complete

# Loads from what the fleet with 64 saves in flight left, with so many loads in flight.
RESUME_FLEET = 64
RESUME_IN_FLIGHT = (1, 64)
RESUME = ("waymark-sqlite", "langgraph-sqlite", "langgraph-sqlite-delta", "seed-sqlite", "waymark-postgres",
          "langgraph-postgres")

FIRST_LOAD = ("waymark-sqlite", "seed-sqlite")
HEAVY = ("waymark-sqlite", "langgraph-sqlite", "langgraph-sqlite-delta", "seed-sqlite")
HEAVY_LIMITED = ("langgraph-sqlite", "seed-sqlite")
EVENT_LOOP = ("waymark-sqlite", "langgraph-sqlite", "langgraph-sqlite-delta")

WORKLOADS = ("limits", "growth", "fleet", "resume", "first-load", "heavy", "event-loop")
# What tells the results of one contender and workload apart.
IDENTITY = ("turns", "in_flight", "messages")


class Step:
    """One run of one program."""

    def __init__(self, workload, contender=None, durability=None, rough_seconds=5, sample=None, prepares=False,
                 **parameters):
        self.workload = workload
        self.contender = contender
        self.durability = durability
        self.rough_seconds = rough_seconds
        self.sample = sample
        self.prepares = prepares  # makes databases for the next step, and has no result
        self.parameters = {key: value for key, value in parameters.items() if value is not None}

    def arguments(self):
        words = [self.workload]
        named = {"contender": self.contender, "durability": self.durability, **self.parameters}
        if self.durability in (None, "-") or self.contender in WITHOUT_CHOICE:
            del named["durability"]
        for key, value in named.items():
            if value is not None:
                words += ["--" + key.replace("_", "-"), str(value)]
        return words

    def identity(self):
        """What a result of this step is found by, in the results and in the report."""
        known = {"workload": self.workload}
        if self.contender:
            known |= {"contender": self.contender, "durability": self.durability}
        known |= {key: self.parameters[key] for key in IDENTITY if key in self.parameters}
        if self.sample:
            known["sample"] = self.sample
        return known

    def __str__(self):
        words = [self.workload, self.contender, self.durability if self.durability != "-" else None]
        if "in_flight" in self.parameters:
            words.append(f"{self.parameters['in_flight']} in flight")
        elif "turns" in self.parameters:
            words.append(f"{self.parameters['turns']} turns")
        if self.prepares:
            words.append("(preparation)")
        return " ".join(word for word in words if word)


# A chain is a list of steps that share their databases, which are deleted after the last of them.

def limits():
    return [Step("limits", rough_seconds=11)]


def growth(sizes):
    """All contenders at one size, then at the next, so that what is compared runs at about the same time."""
    chains = []
    for column, turns in enumerate(sizes.growth_turns):
        for sample in range(1, sizes.cheap_samples + 1):
            for contender, durabilities, seconds in GROWTH:
                if seconds[column] is None or (sample > 1 and seconds[column] > CHEAP_SECONDS):
                    continue
                limit = None if contender in UNLIMITED else sizes.save_limit
                rough = seconds[column] if limit is None else min(seconds[column], limit + 2)
                chains += [[Step("growth", contender, durability, rough, sample, turns=turns, limit=limit)]
                           for durability in durabilities.split()]
    return chains


def short(sizes):
    return [[Step("growth", contender, durability, 1, sample, turns=SHORT_TURNS)]
            for sample in range(1, sizes.short_samples + 1) for contender, durability in SHORT]


def fleet(sizes, with_fleet=True, with_resume=True):
    chains = []
    for sample in range(1, sizes.cheap_samples + 1):
        for contender, durability, in_flights, seconds in FLEET:
            for in_flight in in_flights:
                resumes = with_resume and in_flight == RESUME_FLEET and durability == "full" and contender in RESUME
                if in_flight > sizes.agents or not (with_fleet or resumes) or (sample > 1 and seconds > CHEAP_SECONDS):
                    continue
                limit = sizes.fleet_limit if contender in FLEET_LIMITED and not resumes else None
                rough = max(1, seconds * sizes.agents // FULL.agents)
                chain = [Step("fleet", contender, durability, rough, sample, agents=sizes.agents, turns=FLEET_TURNS,
                              in_flight=in_flight, limit=limit, keep="yes" if resumes else None)]
                if resumes:
                    chain += [Step("resume", contender, durability, 3, sample, agents=sizes.agents, turns=FLEET_TURNS,
                                   loads=sizes.loads, in_flight=loads, limit=sizes.load_limit)
                              for loads in RESUME_IN_FLIGHT]
                chains.append(chain)
    return chains


def first_load():
    return [[Step("first-load", contender, "full", 1, prepares=True, messages=10_000, prepare="yes"),
             Step("first-load", contender, "full", 1, messages=10_000)] for contender in FIRST_LOAD]


def heavy(sizes):
    return [[Step("heavy", contender, "full", 5, turns=200,
                  limit=sizes.save_limit if contender in HEAVY_LIMITED else None)] for contender in HEAVY]


def event_loop():
    return [[Step("event-loop", contender, "full", 8, bytes=10_000_000)] for contender in EVENT_LOOP]


def chains(sizes, workloads):
    """One repetition."""
    plan = []
    if "growth" in workloads:
        plan += growth(sizes) + short(sizes)
    if "fleet" in workloads or "resume" in workloads:
        plan += fleet(sizes, with_fleet="fleet" in workloads, with_resume="resume" in workloads)
    if "first-load" in workloads:
        plan += first_load()
    if "heavy" in workloads:
        plan += heavy(sizes)
    if "event-loop" in workloads:
        plan += event_loop()
    if "limits" in workloads:
        # Spread over the repetition, since what the disk gives changes from minute to minute.
        for sample in range(sizes.cheap_samples):
            plan.insert(sample * len(plan) // sizes.cheap_samples, limits())
    return plan
