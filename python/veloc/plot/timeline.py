"""The trace of a job (VELOC_TRACE) as one picture, in the manner of figure 1 of HiPC'22."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from .chart import ALARM, SETTINGS, binary_ticks, legend
from .results import Json


class Span(NamedTuple):
    """Something that took time; in ms."""

    name: str
    blocked: bool
    start: float
    end: float
    version: int | None


CALLS = ("init", "checkpoint", "restore", "drain")
#: The time between the application's calls, and what has no place of its own.
COMPUTE, OTHER = ("#e3e7ea", "compute"), ("#a67c52", "other")
#: Why the application waited.
WAITS = {
    "copy": "#2b6cb0", "order": "#8ea9db", "map": "#f2c037", "device room": "#d92d20",
    "host room": "#8c1d18", "fetch": "#d053a8", "file": "#6941c6", "drain": "#b8bfc8",
}
#: What took time: its colour and what it is called in the legend.
ACTIVITIES = {
    "init": ("#1f2933", "initialisation"),
    "checkpoint": ("#52606d", "rest of a checkpoint call"),
    "restore": ("#7b8794", "rest of a restore call"),
    "drain": ("#9aa5b1", "rest of a draining call"),
    "map": ("#f2c037", "map"),
    "capture": ("#2b6cb0", "capture"),
    "recover": ("#6ab0e6", "copy back"),
    "flush": ("#2f9e57", "flush"),
    "flush to untouched pages": ("#a3d9a5", "flush to untouched pages"),
    "touch": ("#f08c3a", "touch"),
    "sequential": ("#9c4221", "touch between flushes"),
    "concurrent": ("#f6c39b", "touch beside flushes"),
    "register": ("#b42318", "register"),
    "node lock": ("#f3c6c2", "wait for the node lock"),
    "idle window": ("#fbe6e4", "wait for an idle window"),
    "fetch": ("#0e9384", "prefetch"),
    "write": ("#7a5af8", "write"),
    "persist": ("#b9a9fb", "persist"),
    "encode": ("#dcd0ff", "parities"),
    "read": ("#5fc6bb", "read ahead"),
}
#: From top to bottom: the name of a lane, the tier whose evictions it shows, and its rows, none of
#: which has activities of another.
LANES = (
    ("device cache", "device", [["map"]]),
    ("copies", None, [["capture", "recover"]]),
    ("flush (D2H)", None, [["flush", "flush to untouched pages"]]),
    ("host buffer", "host", [["touch"]]),
    ("touch mode", None, [["sequential", "concurrent"]]),
    ("register", None, [["register", "node lock", "idle window"]]),
    ("prefetch (H2D)", None, [["fetch"]]),
    ("files", None, [["write"], ["persist"], ["encode"]]),
    ("read ahead", None, [["read"]]),
)
COUNTERS = {
    "device mapped": ("#d9a400", "device cache mapped"),
    "device used": ("#2b6cb0", "device cache taken"),
    "host touched": ("#e0701a", "host buffer touched"),
    "host registered": ("#b42318", "host buffer registered"),
    "host used": ("#2f9e57", "host buffer taken"),
}
WIDTH = 13


def read(path: str) -> tuple[list[Json], bool]:
    """The events of a trace, and whether its end is missing, as a killed job leaves it."""
    text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace").lstrip()
    cut = not text or text[0] == "[" and text.rstrip()[-1] != "]"
    if cut:
        # Events are lines, of which the last may be a part of one.
        text = "[" + text[1:].rpartition("\n")[0].strip().rstrip(",") + "]"
    try:
        events = json.loads(text)
        events = events["traceEvents"] if isinstance(events, dict) else events
        return [event for event in events if event["ph"]], cut
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no trace: {error!r}") from None


@dataclasses.dataclass
class Process:
    """What one process did; times are in ms from the first span of all."""

    id: int
    facts: Json = dataclasses.field(default_factory=dict)
    spans: list[Span] = dataclasses.field(default_factory=list)
    evictions: list[tuple[float, str]] = dataclasses.field(default_factory=list)
    modes: list[tuple[float, str]] = dataclasses.field(default_factory=list)
    computing: list[tuple[float, float]] = dataclasses.field(default_factory=list)
    counters: dict[str, list[tuple[float, float]]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(list))
    title: str = ""

    def add(self, event: Json, origin: float) -> None:
        """Takes in one event."""
        kind, name, args = event["ph"], event.get("name", ""), event.get("args", {})
        start = (event.get("ts", 0) - origin) / 1000
        if kind == "M" and name == "veloc":
            self.facts.update(args)
        elif kind == "X":
            if name == "flush" and args.get("untouched_bytes", 0) * 2 > args.get("bytes", 0):
                name = "flush to untouched pages"
            end, blocked = start + event.get("dur", 0) / 1000, event.get("cat") == "blocked"
            self.spans.append(Span(name, blocked, start, end, args.get("version")))
        elif kind == "i" and name == "evict":
            self.evictions.append((start, args.get("tier")))
        elif kind == "i" and name == "touch mode":
            self.modes.append((start, args.get("mode")))
        elif kind == "C" and name in COUNTERS:
            self.counters[name].append((start, args.get("bytes", 0)))

    def finish(self, letter: str) -> None:
        """Sorts, and makes spans of the decisions of `touch = auto`, each until the next one."""
        over = max((span.end for span in self.spans if span.name == "touch"), default=0)
        self.modes.sort()
        for (start, mode), (end, _) in zip(self.modes, [*self.modes[1:], (over, "")]):
            self.spans.append(Span(mode, False, start, max(start, min(end, over)), None))
        self.spans.sort(key=lambda span: (span.start, -span.end))
        calls = [span for span in self.spans if span.name in CALLS and not span.blocked]
        self.computing = [(a.end, b.start) for a, b in zip(calls, calls[1:]) if a.end < b.start]
        rank = f"rank {self.rank()} (process {self.id})" if self.rank() >= 0 else f"process {self.id}"
        self.title = f"({letter}) {self.strategy()}" if letter else rank

    def crop(self, begin: float, end: float) -> None:
        """Leaves what is in a window."""
        self.spans = [span for span in self.spans if span.end >= begin and span.start <= end]
        self.evictions = [(at, tier) for at, tier in self.evictions if begin <= at <= end]
        self.computing = [(a, b) for a, b in self.computing if b >= begin and a <= end]

    def rank(self) -> int:
        """Its rank; -1 if it has said none."""
        return int(self.facts.get("rank", -1))

    def strategy(self) -> str:
        """How it keeps checkpoints, in words."""
        keys = ("approach", "touch", "pin")
        return ", ".join(f"{key} = {self.facts[key]}" for key in keys if key in self.facts)

    def lanes(self) -> list[tuple[str, list[float], list[list[Span]]]]:
        """The lanes that have anything in them: names, times of evictions, and rows of spans."""
        own = [span for span in self.spans if span.blocked or span.name in CALLS]
        known = {name for _, _, groups in LANES for names in groups for name in names}
        rest = {span.name for span in self.spans} - known - {span.name for span in own}
        found: list[tuple[str, list[float], list[list[Span]]]] = [("application", [], [own])]
        for label, tier, groups in (*LANES, ("other", None, [rest])):
            marks = [at for at, of in self.evictions if of == tier]
            rows = [row for names in groups for row in packed(
                span for span in self.spans if span.name in names and not span.blocked)]
            if rows or marks:
                found.append((label, marks, rows))
        return found


def packed(spans: Iterable[Span]) -> list[list[Span]]:
    """Rows of spans that do not overlap: each span is in the first row that is free."""
    rows: list[list[Span]] = []
    for span in spans:
        row = next((row for row in rows if row[-1].end <= span.start), None)
        if row:
            row.append(span)
        else:
            rows.append([span])
    return rows


def processes(files: Sequence[list[Json]], compare: bool) -> list[Process]:
    """The processes of several files by rank; to compare, those of each file begin at 0."""
    found: list[Process] = []
    for letter, events in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", files):
        common = events if compare else [event for of in files for event in of]
        origin = min(event["ts"] for event in common if event["ph"] == "X")
        of_file: dict[int, Process] = {}
        for event in events:
            id = event.get("pid", 0)
            of_file.setdefault(id, Process(id)).add(event, origin)
        for process in of_file.values():
            process.finish(letter if compare else "")
        found += (process for process in of_file.values() if process.spans)
    return found if compare else sorted(found, key=lambda process: (process.rank(), process.id))


def look(span: Span) -> tuple[str, str]:
    """The colour of a span, and its name in the legend."""
    if span.blocked:
        named = {"order": "queued work", "map": "mapping"}.get(span.name, span.name)
        return WAITS.get(span.name, OTHER[0]), f"blocked: {named}"
    return ACTIVITIES.get(span.name, OTHER)


def draw_lanes(axes: Axes, process: Process) -> None:
    """The application's calls and waits, and below them what went on beside it."""
    gaps = [(begin, end - begin) for begin, end in process.computing]
    axes.broken_barh(gaps, (-0.7, 1.4), color=COMPUTE[0], label=COMPUTE[1])
    ticks: dict[str, float] = {}
    y = 0.0
    for label, marks, rows in process.lanes():
        # Many threads share the room of a few.
        height = min(1, 4 / max(1, len(rows)))
        ticks[label] = y + height * max(len(rows) - 1, 0) / 2
        for number, row in enumerate(rows):
            draw_spans(axes, row, y + number * height, 1.4 if y == 0 else height * 0.9)
        if marks:
            above = [y - 0.65] * len(marks)
            axes.plot(marks, above, "v", color="#111111", markersize=4, label="eviction")
        y += height * max(len(rows), 1) + 0.6
    axes.set_yticks(list(ticks.values()), ticks)
    axes.set_ylim(y - 0.6, -0.9)
    axes.tick_params(length=0)
    axes.grid(axis="y", visible=False)


def draw_spans(axes: Axes, row: list[Span], y: float, height: float) -> None:
    """The spans of a row, waits over their calls; and their versions, where there is room."""
    by_look: dict[tuple[str, str], list[Span]] = {}
    left, right = axes.get_xlim()
    for span in sorted(row, key=lambda span: span.blocked):
        by_look.setdefault(look(span), []).append(span)
    for (colour, label), spans in by_look.items():
        # The line keeps the shortest to be seen. Very many are dots, also in an SVG.
        axes.broken_barh(
            [(span.start, span.end - span.start) for span in spans], (y - height / 2, height),
            facecolor=colour, edgecolor=colour, linewidth=0.3, label=label,
            rasterized=len(spans) > 5000,
        )
        for span in spans:
            text = str("" if span.version is None else span.version)
            text = span.name if colour == OTHER[0] else text
            start, end = max(span.start, left), min(span.end, right)
            if text and (end - start) * WIDTH * 60 > (6 * len(text) + 2) * (right - left):
                dark = sum(to_rgb(colour)) < 1.8
                axes.text((start + end) / 2, y, text, ha="center", va="center", fontsize=7,
                          color="white" if dark else "black")


def draw_counters(axes: Axes, process: Process) -> None:
    """How much of the caches is mapped, touched, registered and taken."""
    counters = process.counters
    left, right = axes.get_xlim()
    for name in (name for name in COUNTERS if any(most for _, most in counters[name])):
        # Each value holds until the next; before the first it is 0.
        values = sorted(counters[name])
        at, heights = zip((min(left, values[0][0]), 0), *values, (max(right, values[-1][0]), values[-1][1]))
        axes.step(at, heights, where="post", color=COUNTERS[name][0], label=COUNTERS[name][1])
    axes.set_ylim(bottom=0)
    binary_ticks(axes.yaxis, axes.get_ylim()[1])


@matplotlib.rc_context(SETTINGS)
def draw(asked: argparse.Namespace) -> tuple[Figure, list[str]]:
    """The figure, and what has to be said of it."""
    files, told = [], []
    for path in asked.files:
        events, cut = read(path)
        if not any(event["ph"] == "X" for event in events):
            # Of a process that was killed at once, beside others.
            told.append(f"{path} has no spans to draw")
            continue
        files.append(events)
        if cut:
            told.append(f"{path}: the end is missing; what is there is drawn")
    if not files:
        raise ValueError("there is nothing to draw in " + ", ".join(asked.files))
    there = processes(files, asked.compare)
    found = [p for p in there if asked.process in (None, p.id, p.rank())]
    if not found:
        raise ValueError(f"--process {asked.process}: there are {', '.join(p.title for p in there)}")
    last = max(span.end for process in found for span in process.spans)
    end = last if asked.end is None else asked.end
    if not asked.begin < min(end, last):
        raise ValueError(f"--from {asked.begin:g} --to {end:g}: the traces end at {last:.3f} ms")
    told += [f"{p.title}: {p.facts['dropped']} records are missing" for p in found
             if int(p.facts.get("dropped", 0))]
    return page(found, (asked.begin, end), asked), told


def page(found: Sequence[Process], window: tuple[float, float], asked: argparse.Namespace) -> Figure:
    """Lanes, and counters where there are any, of all processes below each other."""
    panels = []
    for process in found:
        process.crop(*window)
        rows = sum(min(4, max(1, len(rows))) + 0.6 for _, _, rows in process.lanes())
        panels.append((draw_lanes, process, 0.4 + 0.17 * rows))
        if any(value for values in process.counters.values() for _, value in values):
            panels.append((draw_counters, process, 1.4))
    heights = [height for _, _, height in panels]
    figure = Figure(figsize=(WIDTH, sum(heights) + 1.6), layout="constrained")
    facts = [found[0].facts.get("device", "no device")]
    facts += [found[0].strategy()] * bool(found[0].strategy() and not asked.compare)
    figure.suptitle(asked.title or ", ".join(facts), x=0.01, ha="left", fontsize=13)
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (draw_panel, process, _) in zip(grid, panels):
        axes.set_xlim(window)
        draw_panel(axes, process)
        if draw_panel is draw_lanes and len(found) > 1:
            axes.set_title(process.title, loc="left")
    warnings = dict.fromkeys(p.facts["warning"] for p in found if "warning" in p.facts)
    below = "\n" if len(found) > 1 else ""
    grid[0].set_title("\n".join(warnings) + below, loc="right", color=ALARM)
    grid[-1].set_xlabel("time (ms)")
    legend(figure, WIDTH, "lower")
    return figure
