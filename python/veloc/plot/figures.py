"""Which pictures there are of the results of one device, after HiPC'22, figures 3 to 6, and beyond.

Each function below `pictures` yields names of files and figures.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from . import chart
from .chart import digits, size, style, time_unit
from .results import Json, Pool, extent, groups, means, processes, text_of, uniform, value_of, values

#: What was measured of plans; the same by approach; names of files and figures.
Points = list[Json]
Series = dict[str, Points]
Pictures = Iterator[tuple[str, Figure]]

#: In the order of legends and colours.
APPROACHES = ("ours", "direct-pin", "uvm", "incremental-memset", "ring", "uvm-budget")
#: What the library does if nothing is said of touching and registering.
DEFAULTS = {"touch": "auto", "pin": "chunked", "settings": []}
CAUSES = (
    "copy", "order", "map", "device room", "host room", "fetch", "file", "drain", "pin", "allocate",
    "host copy", "copy + page moves", "page moves", "initialisation", "rest of the call",
)
#: Copies on the way down and up; then what is no copy.
HOPS = (
    "AtoD AtoH AtoF DtoH DtoF HtoF FtoP PtoF FtoH HtoD DtoA HtoA FtoA AtoM MtoA RtoH HtoR map touch "
    "register pin turn"
).split()
HOP_LETTERS = (
    "A application, D device cache, H host buffer, F scratch file, P persistent file, M managed "
    "memory, R pinned ring"
)
#: The most that background work may add to a compute interval, in percent: the project's goal.
GOAL = 2

#: What a picture holds fixed, but for what is along its axis.
FIXED = (
    "configuration", "processes", "sizes", "interval_ms", "compute", "device_cache", "host_cache",
    "order", "verify",
)
AXES = {
    "interval_ms": "compute interval (ms)",
    "processes": "processes",
    "host_cache": "host buffer of each process",
}


@matplotlib.rc_context(chart.SETTINGS)
def pictures(pool: Pool) -> tuple[dict[str, Figure], list[str]]:
    """The figures by the names of their files, and what is missing, each with the reason."""
    points = list(pool.points.values())
    host = [point for point in points if point["plan"]["configuration"] == "large-host"]
    device = [point for point in points if point["plan"]["configuration"] == "large-device"]
    even = [point for point in host if uniform(point["plan"])]
    uneven = [point for point in host if not uniform(point["plan"])]
    busy = [point for point in points if point["plan"]["compute"] == "kernel"]
    several = "no setup was measured with several "
    found: dict[str, Figure] = {}
    missing = []
    for name, made, why in (
        ("3a", sizes(pool, uneven), "all checkpoints that were measured have the same size"),
        ("4a", initialisation(pool), "cache initialisation alone was not measured"),
        ("3b, 3c", blocked(pool, uneven, "3b", "3c"), "no such setup was measured"),
        ("4b, 4c", blocked(pool, device, "4b", "4c"), "no such setup was measured"),
        ("5a, 5b", blocked(pool, even, "5a", "5b"), "no such setup was measured"),
        ("6a, 6b", blocked(pool, points, "6a", "6b", "processes"), several + "numbers of processes"),
        ("6c", blocked(pool, host, None, "6c", "host_cache"), several + "host buffers"),
        ("5c", settings(pool, points, "5c", "variant"), several + "values of touch or pin"),
        ("settings", settings(pool, points, "", "settings"), several + "settings of the library"),
        ("causes", detail(causes, pool, points), "no measured approach tells causes apart"),
        ("disturbance", detail(disturbance, pool, busy), "no setup keeps the device busy"),
        ("each-checkpoint", detail(each_checkpoint, pool, points), "no checkpoints were measured"),
        ("hops", detail(hops, pool, points), "no measured approach counts what it moves"),
    ):
        before = len(found)
        for file, figure in made:
            while file in found:
                file += "-more"
            found[file] = figure
            chart.legend(figure.subfigs[1], figure.get_figwidth())
        if len(found) == before:
            missing.append(f"{name}: {why}")
    return found, missing


# --- groups and series ---


def fields_of(axis: str) -> list[str]:
    """What a picture along an axis holds fixed."""
    # The sizes of further processes come with them.
    sizes = "first sizes" if axis == "processes" else "sizes"
    return [sizes if field == "sizes" else field for field in FIXED if field != axis]


def swept(points: Points, axis: str) -> list[Points]:
    """Groups of points along an axis; intervals may be only one, if no group has several."""
    found = [of for of in groups(points, fields_of(axis)) if any(point["runs"] for point in of)]
    several = [of for of in found if len(places_of(by_approach(of), axis)) > 1]
    return several or (found if axis == "interval_ms" else [])


def by_approach(group: Points) -> Series:
    """Of each approach its points; of `ours` those with the defaults, or with most points."""
    series = {}
    for approach in APPROACHES:
        members = [point for point in group if point["plan"]["approach"] == approach]
        if approach == "ours" and members:
            members = max(groups(members, ("variant", "settings")), key=lambda of: (
                all(of[0]["plan"][key] == DEFAULTS[key] for key in DEFAULTS), len(of)))
        if members:
            series[approach] = members
    return series


def places_of(series: Series, axis: str) -> list[Any]:
    """The places along an axis at which anything was planned."""
    return sorted({value_of(point["plan"], axis) for of in series.values() for point in of})


def at(points: Points, axis: str, place: Any) -> Json | None:
    """The point at a place of an axis, if one was planned."""
    return next((point for point in points if value_of(point["plan"], axis) == place), None)


def cells(
    points: Iterable[Json], axis: str, places: Iterable[Any], figure: Callable[[Json], float]
) -> list[chart.Cell]:
    """By place the values of the repeats, or why there are none; nothing of what was not planned."""
    points = list(points)
    found = [at(points, axis, place) for place in places]
    return [values(point, figure) if point else "" for point in found]


def look(approach: str) -> chart.Style:
    """The colour of an approach, in every picture."""
    return style(APPROACHES.index(approach))


def file_name(base: str, group: Points, others: list[Points], fields: Sequence[str]) -> str:
    """The name of a file: its figure, and what it takes to tell its group from the others."""
    for field in fields:
        own = text_of(group[0]["plan"], field)
        same = [other for other in others if text_of(other[0]["plan"], field) == own]
        base += f"-{own}" * (len(same) < len(others))
        others = same
    return re.sub("[^a-z0-9.]+", "-", base.lower()).strip("-")[:100]


def begin(
    pool: Pool,
    title: str,
    points: Points,
    facts: Sequence[str],
    panels: int = 1,
    **room: float,
) -> tuple[Figure, Any]:
    """A page that says what was measured, how much of it, where, and what must not be overlooked."""
    facts = [pool.device, *facts, *(extent(points)[:4] if points else [])]
    wrong = sum(one["wrong_versions"] for point in points for one in processes(point))
    warnings = [f"{wrong} restored versions had wrong bytes"] if wrong else []
    return chart.page(title, facts, [*pool.warnings, *warnings], pool.foot(), panels, **room)


def setup(series: Series, fields: Iterable[str]) -> tuple[list[str], Points]:
    """The facts that a group holds fixed, the settings of ours, and all points."""
    points = [point for of in series.values() for point in of]
    facts = [text_of(points[0]["plan"], field) for field in fields]
    if "ours" in series:
        plan = series["ours"][0]["plan"]
        facts.append(f"ours: {text_of(plan, 'variant')}, {text_of(plan, 'settings')}")
    return facts, points


# --- figures 3 to 6 ---


def sizes(pool: Pool, points: Points) -> Pictures:
    """Figure 3a: the sizes of checkpoints that are not all alike."""
    found = groups(points, ["sizes"])
    for group in found:
        plan = group[0]["plan"]
        names = [str(process) for process in range(len(plan["sizes"]))]
        lines = [
            (f"process {number}", {"color": style(number)["edgecolor"]},
             {version: [length] for version, length in enumerate(of)})
            for number, of in enumerate(plan["sizes"])
        ]
        facts = [text_of(plan, "sizes"), "boxes: least, quartiles, median, greatest"]
        figure, (left, right) = begin(pool, "3a: sizes of checkpoints", [], facts, 2)
        chart.boxes(left, names, plan["sizes"], "process", "size of a checkpoint", sizes=True)
        chart.lines(right, lines, "version", "size of a checkpoint", sizes=True)
        yield file_name("3a-sizes", group, found, ["sizes"]), figure


def initialisation(pool: Pool) -> Pictures:
    """Figure 4a: how fast caches become usable, alone."""
    rates: dict[str, dict[int, list[float]]] = {}
    for (what, count, length, step), seconds in pool.initialisation.items():
        label = f"{what}, {size(length)}" + f" in steps of {size(step)}" * bool(step)
        of = [length / statistics.mean(repeat) / 1e9 for repeat in seconds if any(repeat)]
        if of:
            rates.setdefault(label, {})[count] = of
    if not rates:
        return
    series = [(label, {"color": style(number)["edgecolor"], "marker": "o"}, points)
              for number, (label, points) in enumerate(rates.items())]
    figure, (axes,) = begin(pool, "4a: initialisation of caches", [], ["bytes are those of a process"])
    chart.lines(axes, series, "processes at once", "rate of each process (GB/s)", logarithmic=True)
    counts = sorted({count for points in rates.values() for count in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, map(str, counts))
    yield "4a-initialisation", figure


def checkpoint_time(figures: Json) -> float:
    """How long a process was blocked by initialisation and checkpoints."""
    return float(figures["init"] + sum(figures["checkpoints"]))


def all_time(figures: Json) -> float:
    """The same, and by restores."""
    return checkpoint_time(figures) + sum(figures["restores"])


def blocked(
    pool: Pool, points: Points, checkpoints: str | None, both: str, axis: str = "interval_ms"
) -> Pictures:
    """Figures 3b to 6c: how long the application was blocked, approach beside approach."""
    found = swept(points, axis)
    for name, time in ((checkpoints, checkpoint_time), (both, all_time)):
        for group in found if name else []:
            series = by_approach(group)
            facts, members = setup(series, fields_of(axis))
            what = "checkpoints" if time is checkpoint_time else "checkpoints and restores"
            figure, (axes,) = begin(pool, f"{name}: blocked by {what}", members,
                                    [*facts, "n x = direct-pin / ours"])
            compare(pool, axes, [(key, look(key), of) for key, of in series.items()], axis, time)
            yield file_name(f"{name}-{what}", group, found, fields_of(axis)), figure


def compare(
    pool: Pool,
    axes: Axes,
    series: Sequence[tuple[str, chart.Style, Points]],
    axis: str,
    time: Callable[[Json], float],
) -> None:
    """Bars of blocked time; the series have a label, a style, and points."""
    points = [point for _, _, of in series for point in of]
    places = sorted({value_of(point["plan"], axis) for point in points})
    unit, scale = time_unit([t for p in points if p["runs"] for t in means(p, time)])
    rows = [(label, fill, cells(of, axis, places, lambda one: scale * time(one)))
            for label, fill, of in series]
    notes: list[str] = []
    floors: list[tuple[str, float | None]] = []
    by_label = {label: row for label, _, row in rows}
    for own, other in zip(by_label.get("ours", []), by_label.get("direct-pin", [])):
        ratio = 0.0
        if own and other and not isinstance(own, str) and not isinstance(other, str):
            middle = statistics.median(own)
            ratio = statistics.median(other) / middle if middle else 0
        notes.append(f"{digits(ratio)} x" if ratio else "")
    for place in places:
        point = at(points, axis, place)
        floor = pool.floor(point["plan"]) if point else None
        # Each byte is copied once, or there and back.
        there_and_back = time is all_time
        floors.append(("floor: bare copies" + " there and back" * there_and_back,
                       scale * (1 + there_and_back) * statistics.median(floor["passes"])
                       if floor else None))
    names = [size(place) if axis == "host_cache" else f"{place:g}" for place in places]
    chart.bars(axes, names, AXES[axis], rows, f"blocked per process ({unit})", notes, floors)


def settings(pool: Pool, points: Points, name: str, field: str) -> Pictures:
    """Figure 5c, and the same for further settings: ours beside itself."""
    ours = [point for point in points if point["plan"]["approach"] == "ours"]
    fields = [*fields_of("interval_ms"), "settings" if field == "variant" else "variant"]
    what = "touch and pin" if field == "variant" else "settings"
    # Only intervals at which there is something to compare.
    beside = [point for of in groups(ours, [*fields, "interval_ms"]) if len(of) > 1 for point in of]
    found = [of for of in groups(beside, fields) if any(point["runs"] for point in of)]
    for group in found:
        series = [(text_of(of[0]["plan"], field), style(number), of)
                  for number, of in enumerate(groups(group, [field]))]
        title = f"{name or 'Settings'}: blocked by checkpoints and restores, by {what}"
        facts = [text_of(group[0]["plan"], fixed) for fixed in fields]
        figure, (axes,) = begin(pool, title, group, facts)
        compare(pool, axes, series, "interval_ms", all_time)
        yield file_name(f"{name}-{what}", group, found, fields), figure


# --- beyond the paper ---


def detail(
    make: Callable[[Pool, Series, list[str], Points], Figure | None], pool: Pool, points: Points
) -> Pictures:
    """Pictures of each setup along compute intervals, by a function that gives a figure, or None."""
    fields = fields_of("interval_ms")
    found = swept(points, "interval_ms")
    for group in found:
        series = by_approach(group)
        figure = make(pool, series, *setup(series, fields))
        if figure:
            yield file_name(make.__name__, group, found, fields), figure


def causes(pool: Pool, series: Series, facts: list[str], points: Points) -> Figure | None:
    """Why the application was blocked: means, which add up, as medians do not."""
    told = {cause["name"] for point in points for one in processes(point) for cause in one["causes"]
            if cause["seconds"]}
    if not told:
        return None
    names = [*(name for name in CAUSES if name in told), *sorted(told - set(CAUSES))]
    parts = [(name, style(CAUSES.index(name) if name in CAUSES else 15)) for name in names]
    places = places_of(series, "interval_ms")
    title = "Blocked by checkpoints and restores, by cause"
    facts = [*facts, "shares of the time above each bar; means over processes and repeats"]
    figure, panels = begin(pool, title, points, facts, 2, height=6)
    for axes, heading, calls, time in (
        (panels[0], "initialisation and checkpoints", ("init", "checkpoint"), checkpoint_time),
        (panels[1], "the same and restores", ("init", "checkpoint", "restore"), all_time),
    ):
        stacks = [[shares(approach, at(of, "interval_ms", place), names, calls, time)
                   for approach, of in series.items()] for place in places]
        chart.stacks(axes, [f"{place:g}" for place in places], AXES["interval_ms"], parts, stacks,
                     "share of the blocked time (%)")
        axes.set_title(heading)
    return figure


def shares(
    approach: str,
    point: Json | None,
    names: Sequence[str],
    calls: Sequence[str],
    time: Callable[[Json], float],
) -> tuple[str, list[float] | str, str]:
    """The stack of a point: the share of each cause, and the time."""
    if not point or not point["runs"]:
        return approach, values(point, time) if point else "", ""
    every = processes(point)
    total = sum(map(time, every))
    waited = dict.fromkeys(names, 0)
    for cause in (cause for one in every for cause in one["causes"]):
        if cause["call"] in calls and cause["seconds"]:
            waited[cause["name"]] += cause["seconds"]
    unit, scale = time_unit([total / len(every)])
    heights = [100 * waited[name] / total if total else 0 for name in names]
    return approach, heights, f"{digits(scale * total / len(every))} {unit}"


def disturbance(pool: Pool, series: Series, facts: list[str], points: Points) -> Figure | None:
    """How much longer compute intervals are than without background work."""
    places = places_of(series, "interval_ms")
    title = "Compute intervals beside background work"
    figure, panels = begin(pool, title, points, facts, 2)
    for axes, key, heading in zip(panels, ("forward_intervals", "backward_intervals"),
                                  ("forward (checkpoints)", "backward (restores)")):
        def longer(figures: Json, key: str = key) -> float:
            return float(100 * (statistics.mean(figures[key]) / figures["quiet_interval"] - 1))

        def told(point: Json, key: str = key) -> bool:
            return all(one[key] and one["quiet_interval"] for one in processes(point))

        rows = [(approach, look(approach), cells(filter(told, of), "interval_ms", places, longer))
                for approach, of in series.items()]
        chart.bars(axes, [f"{place:g}" for place in places], AXES["interval_ms"], rows,
                   "longer than a quiet interval (%)", logarithmic=False)
        axes.axhline(0, color=chart.INK, linewidth=0.8)
        axes.axhline(GOAL, color=chart.INK, linestyle="--", label=f"goal: {GOAL} %")
        axes.set_ylim(top=max(axes.get_ylim()[1], GOAL * 1.2))
        axes.set_title(heading)
    return figure


def at_shortest(series: Series) -> tuple[str, dict[str, Json]]:
    """The shortest interval at which anything was measured, and its points."""
    shortest = min(p["plan"]["interval_ms"] for of in series.values() for p in of if p["runs"])
    there = {approach: at(of, "interval_ms", shortest) for approach, of in series.items()}
    return f"{shortest:g} ms between checkpoints", {a: p for a, p in there.items() if p and p["runs"]}


def each_checkpoint(pool: Pool, series: Series, facts: list[str], points: Points) -> Figure | None:
    """How long each checkpoint blocked, at the shortest interval, where waiting is worst."""
    fact, there = at_shortest(series)
    times: dict[str, dict[int, list[float]]] = {}
    for approach, point in there.items():
        for run in point["runs"]:
            of = [one["checkpoints"] for one in run["processes"]]
            for version in range(max(map(len, of))):
                mean = statistics.mean(one[version] for one in of if version < len(one))
                times.setdefault(approach, {}).setdefault(version, []).append(mean)
    if not times:
        return None
    unit, scale = time_unit([statistics.median(of) for at in times.values() for of in at.values()])
    floor = pool.floor(next(iter(there.values()))["plan"])
    if floor:
        times["floor: bare copy"] = {version: [t] for version, t in enumerate(floor["copies"])}
    lines = []
    for name, by_version in times.items():
        known = name in APPROACHES
        colour = look(name)["edgecolor"] if known else chart.INK
        line = {"color": colour, "linestyle": "-" if known else "--", "elinewidth": 0.5, "capsize": 0}
        lines.append((name, line, {at: [scale * t for t in of] for at, of in by_version.items()}))
    title = "Each checkpoint, initialisation not included"
    figure, (axes,) = begin(pool, title, points, [*facts, fact])
    chart.lines(axes, lines, "version", f"blocked per process ({unit})", logarithmic=True)
    return figure


def hops(pool: Pool, series: Series, facts: list[str], points: Points) -> Figure | None:
    """Bytes and rate per hop, at the shortest interval."""
    fact, there = at_shortest(series)
    told = {hop["name"] for p in there.values() for one in processes(p) for hop in one["hops"]
            if hop["bytes"]}
    if not told:
        return None
    names = [*(name for name in HOPS if name in told), *sorted(told - set(HOPS))]
    amounts, rates = [], []
    for approach, point in there.items():
        amount, rate = [], []
        for name in names:
            moved, took = (
                means(point, lambda one: sum(h[key] for h in one["hops"] if h["name"] == name))
                for key in ("bytes", "seconds")
            )
            # What is not counted has no bar, rather than one of 0.
            amount.append(moved if any(moved) else "")
            rate.append([b / s / 1e9 for b, s in zip(moved, took) if b and s] or "")
        amounts.append((approach, look(approach), amount))
        rates.append((approach, look(approach), rate))
    facts = [*facts, fact, HOP_LETTERS]
    figure, (left, right) = begin(pool, "Bytes and rate of each hop", points, facts, 2)
    chart.bars(left, names, "hop", amounts, "moved per process", sizes=True)
    chart.bars(right, names, "hop", rates, "rate of each process (GB/s)")
    return figure
