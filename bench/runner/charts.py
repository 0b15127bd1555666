"""The charts of docs/benchmarks.md, as SVG that is readable on light and on dark pages."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape

from results import median, stopped_early

WIDTH, HEIGHT = 810, 430
LEFT, RIGHT, TOP, BOTTOM = 78, 590, 78, 372  # the edges of the plot; labels of lines are right of it
LABEL_X = RIGHT + 26
LABEL_HEIGHT = 18

# class: on light, on dark; each can be told from the others by people who see red and green alike
COLOURS = {
    "waymark-sqlite": ("#0a5fc2", "#62aeff"),
    "waymark-postgres": ("#00808a", "#3fd0d8"),
    "bare-sqlite": ("#4d7a10", "#a5d65c"),
    "langgraph-sqlite": ("#c2410c", "#ff8f5e"),
    "langgraph-sqlite-delta": ("#a66a00", "#f2b84b"),
    "langgraph-postgres": ("#9333a8", "#d99aee"),
    "seed-sqlite": ("#666d75", "#a9b1ba"),
    "payload": ("#666d75", "#a9b1ba"),
}


def style():
    """The colours of light pages for renderers that know no others, and of dark pages for browsers."""
    light = "".join(f".{name}{{color:{colour}}}" for name, (colour, _) in COLOURS.items())
    dark = "".join(f".{name}{{color:{colour}}}" for name, (_, colour) in COLOURS.items())
    return f"""
text{{fill:#1f2328;font:13px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}}
text.title{{font-size:16px;font-weight:600}}
text.axis{{fill:#59636e;font-size:12px}}
text.name{{fill:currentColor;font-weight:600}}
.grid{{stroke:#d1d9e0;stroke-width:1}}
.line{{stroke:currentColor;stroke-width:2.25;fill:none;stroke-linejoin:round}}
.dashed{{stroke-dasharray:6 4}}
.leader{{stroke:currentColor;stroke-width:1;stroke-dasharray:1 3;fill:none}}
.dot{{fill:currentColor}}
{light}
@media (prefers-color-scheme:dark){{
text{{fill:#e6edf3}}text.axis{{fill:#9da7b3}}.grid{{stroke:#3d444d}}
{dark}
}}
"""


@dataclass
class Line:
    contender: str
    points: list[tuple[float, float]]
    label: str = ""
    dashed: bool = False


@dataclass
class Axis:
    label: str
    write: Callable[[float], str]  # a tick's number as text
    logarithmic: bool = True
    ticks: list[float] = field(default_factory=list)  # none given: made from the data, logarithmic
    low: float = 0.0
    high: float = 0.0

    def fit(self, values):
        low, high = min(values), max(values)
        if self.ticks:
            self.low, self.high = min(self.ticks), max(self.ticks)
        else:
            self.low, self.high, self.ticks = log_range(low, high)

    def place(self, value, start, end):
        scale = math.log10 if self.logarithmic else float
        low, high = scale(self.low), scale(self.high)
        return start + (end - start) * ((scale(value) - low) / (high - low) if high > low else 0.5)


def log_range(low, high):
    """From and to a 1, 2 or 5 around the data; ticks at all of these between, or at powers of ten if those are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    below = max(step for step in steps if step <= low * 1.0001)
    above = min(step for step in steps if step >= high * 0.9999)
    within = [step for step in steps if below <= step <= above]
    if len(within) > 10:
        within = [10.0**power for power in powers if below <= 10.0**power <= above]
    return below, above, within


def even_ticks(high):
    step = 10.0 ** math.floor(math.log10(high))
    while high / step < 4:
        step /= 2
    return [step * i for i in range(int(high / step) + 1)]


def spread(wanted):
    """Heights as near as possible to the wanted ones, none nearer to another than a label is high."""
    blocks = []  # [sum of what is wanted for the first of the block, labels]
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    for i in order:
        blocks.append([wanted[i], [i]])
        while len(blocks) > 1 and overlap(blocks[-2], blocks[-1]):
            total, labels = blocks.pop()
            before = blocks[-1]
            before[0] += total - len(labels) * len(before[1]) * LABEL_HEIGHT
            before[1] += labels
    heights = [0.0] * len(wanted)
    for block in blocks:
        for row, i in enumerate(block[1]):
            heights[i] = top_of(block) + row * LABEL_HEIGHT
    return heights


def top_of(block):
    total, labels = block
    return total / len(labels)


def overlap(upper, lower):
    return top_of(upper) + len(upper[1]) * LABEL_HEIGHT > top_of(lower)


@dataclass
class Chart:
    file: str
    title: str
    x: Axis
    y: Axis
    lines: list[Line]
    notes: list[str]

    def markdown(self):
        return "\n\n".join([f"![{self.title}](charts/{self.file})", *([" ".join(self.notes)] if self.notes else [])])

    def description(self):
        ends = (f"{line.label or line.contender} {self.y.write(line.points[-1][1])}" for line in self.lines)
        return f"{self.y.label} against {self.x.label}. At the end of each line: {'; '.join(ends)}."

    def svg(self):
        self.x.fit([x for line in self.lines for x, _ in line.points])
        self.y.fit([y for line in self.lines for _, y in line.points])
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
            f'height="{HEIGHT}" role="img" aria-labelledby="title description">',
            f'<title id="title">{escape(self.title)}</title>',
            f'<desc id="description">{escape(self.description())}</desc>',
            f"<style>{style()}</style>",
            f'<text class="title" x="16" y="28">{escape(self.title)}</text>',
            axis_text(16, 52, self.y.label, "start"),
            axis_text((LEFT + RIGHT) / 2, BOTTOM + 44, self.x.label),
            *self.grid(), *self.curves(), *self.names(), "</svg>\n"]
        return "\n".join(parts)

    def at(self, point):
        return self.x.place(point[0], LEFT, RIGHT), self.y.place(point[1], BOTTOM, TOP)

    def grid(self):
        for tick in self.y.ticks:
            height = self.y.place(tick, BOTTOM, TOP)
            yield f'<path class="grid" d="M{LEFT} {height:.1f}H{RIGHT}"/>'
            yield axis_text(LEFT - 8, height + 4, self.y.write(tick), "end")
        yield f'<path class="grid" d="M{LEFT} {BOTTOM}H{RIGHT}"/>'
        for tick in self.x.ticks:
            place = self.x.place(tick, LEFT, RIGHT)
            yield f'<path class="grid" d="M{place:.1f} {BOTTOM}v6"/>'
            yield axis_text(place, BOTTOM + 21, self.x.write(tick))

    def curves(self):
        """The first is drawn last: it lies on top of the others."""
        for line in reversed(self.lines):
            places = [self.at(point) for point in line.points]
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
            dots = [] if line.dashed else [f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places]
            kind = "line dashed" if line.dashed else "line"
            yield f'<g class="{line.contender}"><path class="{kind}" d="M{path}"/>{"".join(dots)}</g>'

    def names(self):
        """Each line's name, joined to its end by dots, since names move where they would overlap."""
        ends = [self.at(line.points[-1]) for line in self.lines]
        for line, (x, y), height in zip(self.lines, ends, spread([y for _, y in ends])):
            leader = f"M{x + 5:.1f} {y:.1f}H{RIGHT + 5}L{LABEL_X - 4} {height:.1f}"
            name = escape(line.label or line.contender)
            yield (f'<g class="{line.contender}"><path class="leader" d="{leader}"/>'
                   f'<text class="name" x="{LABEL_X}" y="{height + 4:.1f}">{name}</text></g>')


def axis_text(x, y, text, anchor="middle"):
    return f'<text class="axis" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def write_bytes(value):
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def write_count(value):
    return f"{value:,.0f}"


def write_ms(value):
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"


def lines_and_notes(contenders, points_of):
    """The lines of contenders that were measured, and a word about the others."""
    lines = [Line(contender, points_of(contender)) for contender in contenders]
    absent = [line.contender for line in lines if not line.points]
    return ([line for line in lines if line.points],
            [f"Not in the chart, since not measured: {', '.join(absent)}."] if absent else [])


def stopped_note(results, turns, lines):
    stopped = [line.contender for line in lines
               if any(map(stopped_early, results.runs(workload="growth", turns=turns, contender=line.contender)))]
    return [f"Stopped at its limit before the last turn: {', '.join(stopped)}."] if stopped else []


def growth_sizes(results):
    return sorted({run["turns"] for run in results.runs(workload="growth") if run["turns"] >= 100})


def bytes_chart(results):
    sizes = growth_sizes(results)

    def middles(measure, contender):
        """Whoever was stopped at its limit is shown at the turn that it reached."""
        found = []
        for turns in sizes:
            wanted = {"workload": "growth", "contender": contender, "durability": "full", "turns": turns}
            done, value = results.middle("turns_done", **wanted), results.middle(measure, **wanted)
            if done and value:
                found.append((done, value))
        return sorted(found)

    lines, notes = lines_and_notes(("waymark-sqlite", "langgraph-sqlite", "langgraph-sqlite-delta", "seed-sqlite"),
                                   lambda contender: middles("bytes", contender))
    payload = middles("payload_bytes", "waymark-sqlite")
    if payload:
        lines.append(Line("payload", payload, "JSON of the messages", dashed=True))
    if not lines:
        return None
    return Chart("bytes.svg", "Bytes on disk as a conversation grows by 2 KiB a turn",
                 Axis("turns, a checkpoint each", write_count, ticks=sizes),
                 Axis("on disk", write_bytes), lines, notes + stopped_note(results, sizes[-1], lines))


def latency_chart(results):
    sizes = growth_sizes(results)
    if not sizes:
        return None

    def tenths(contender):
        runs = results.runs(workload="growth", contender=contender, durability="full", turns=sizes[-1])
        done = median(run["turns_done"] for run in runs)
        columns = list(zip(*(run["deciles_ms"] for run in runs)))
        points = [((i + 0.5) * done / len(columns), median(column)) for i, column in enumerate(columns)]
        return [point for point in points if point[1]]

    lines, notes = lines_and_notes(("waymark-sqlite", "bare-sqlite", "langgraph-sqlite", "langgraph-sqlite-delta",
                                    "seed-sqlite"), tenths)
    if not lines:
        return None
    return Chart("latency.svg", f"Time of a save over {sizes[-1]:,} turns, every save synced",
                 Axis("turn (medians of tenths of the run)", write_count, False, even_ticks(sizes[-1])),
                 Axis("a save", write_ms), lines, notes + stopped_note(results, sizes[-1], lines))


def throughput_chart(results):
    def rates(contender):
        wanted = {"workload": "fleet", "contender": contender, "durability": "full"}
        in_flights = sorted({run["in_flight"] for run in results.runs(**wanted)})
        found = [(count, results.middle("saves_per_second", in_flight=count, **wanted)) for count in in_flights]
        return [point for point in found if point[1]]

    lines, notes = lines_and_notes(("waymark-sqlite", "waymark-postgres", "bare-sqlite", "langgraph-sqlite",
                                    "langgraph-sqlite-delta", "langgraph-postgres", "seed-sqlite"), rates)
    if not lines:
        return None
    in_flights = sorted({x for line in lines for x, _ in line.points})
    return Chart("throughput.svg", "Saves per second of many agents, every save synced",
                 Axis("saves in flight", write_count, ticks=in_flights),
                 Axis("saves per second", write_count), lines, notes)


def draw(results):
    return [chart for chart in (bytes_chart(results), latency_chart(results), throughput_chart(results)) if chart]
