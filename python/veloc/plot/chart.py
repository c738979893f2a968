"""A page with its heading, and bars, stacks, lines and boxes for its panels; matplotlib draws."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MultipleLocator, NullFormatter

#: Okabe and Ito's colours, which the colour-blind can tell apart; yellow is faint on white.
PALETTE = "#0072B2 #D55E00 #009E73 #E69F00 #CC79A7 #56B4E9 #000000 #F0E442".split()
HATCHES = (None, "////", "....", "xxxx")
INK, FAINT, ALARM = "#222222", "#666666", "#B02000"

#: Keywords of matplotlib's that say how something is drawn.
Style = dict[str, Any]
#: The values of the repeats, or why there are none.
Cell = list[float] | str

#: Those of matplotlib that all pictures have.
SETTINGS: Any = {
    "font.size": 9,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "errorbar.capsize": 3,
    "grid.color": "#DDDDDD",
    "legend.frameon": False,
    # Text stays text in an SVG, and "$" in the name of a file is no formula.
    "svg.fonttype": "none",
    "text.parse_math": False,
}

#: Values that differ by this factor do not fit on a linear axis.
ORDERS = 20


def style(number: int) -> dict[str, Any]:
    """How the `number`th of several things is filled."""
    colour, hatch = PALETTE[number % 8], HATCHES[number // 8 % 4]
    return {"facecolor": "white" if hatch else colour, "edgecolor": colour, "hatch": hatch}


def size(number: float) -> str:
    """Bytes for people: `128 MiB`."""
    power = min(int(math.log2(number) / 10), 3) if number >= 1 else 0
    text = f"{number / 1024**power:.2f}".rstrip("0").rstrip(".")
    return f"{text} {('B', 'KiB', 'MiB', 'GiB')[power]}"


def time_unit(seconds: Sequence[float]) -> tuple[str, float]:
    """The unit in which the longest of these times reads best, and how many of it are a second."""
    longest = max(seconds, default=0)
    if 0 < longest < 1e-3:
        return "µs", 1e6
    return ("ms", 1e3) if 0 < longest < 1 else ("s", 1)


def digits(number: float) -> str:
    """A number in three digits."""
    return f"{number:.{max(0, 2 - math.floor(math.log10(number)))}f}" if number > 0 else "0"


def page(
    title: str,
    facts: Sequence[str],
    warnings: Sequence[str],
    foot: Sequence[str],
    panels: int = 1,
    height: float = 4.6,
) -> tuple[Figure, Any]:
    """A figure with a heading and a foot, and the axes of its panels."""
    width, line = 9 if panels == 1 else 13, 0.18

    def wrap(texts: Iterable[str]) -> list[str]:
        # A fact is broken only if it is longer than a line.
        kept = [text if len(text) > width * 13 else text.replace(" ", "\xa0") for text in texts]
        return textwrap.wrap(" · ".join(kept), int(width * 14.5), break_on_hyphens=False)

    facts, foot, red = wrap(facts), wrap(foot), [line for text in warnings for line in wrap([text])]
    heights = [0.45 + line * (len(facts) + 1.3 * len(red)), height, 0.1 + line * len(foot)]
    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    parts: Any = figure.subfigures(3, 1, height_ratios=heights)
    head, body, below = parts
    head.text(0.01, 1 - 0.1 / heights[0], title, fontsize=13, va="top")
    head.text(0.01, 1 - 0.4 / heights[0], "\n".join(facts), color=FAINT, linespacing=1.3, va="top")
    if red:
        head.text(0.01, 0.08, "\n".join(red), color="white", backgroundcolor=ALARM)
    below.text(0.01, 0.5, "\n".join(foot), va="center", color=FAINT, fontsize=8)
    return figure, body.subplots(1, panels, squeeze=False)[0]


def legend(figure: Any, width: float, where: str = "upper") -> None:
    """One legend of what all axes of a figure have labelled, above or below them."""
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            entries.setdefault(label, handle)
    if entries:
        columns = min(len(entries), max(1, int(width * 14 / (max(map(len, entries)) + 8))))
        figure.legend(entries.values(), entries, loc=f"outside {where} left", ncols=columns)


def binary_ticks(axis: Axis, most: float) -> None:
    """Ticks of an axis of bytes that are multiples of a power of two."""
    axis.set_major_locator(MultipleLocator(2 ** math.ceil(math.log2(most / 6)) if most else 1))
    axis.set_major_formatter(FuncFormatter(lambda value, _: size(value)))


def value_axis(
    axes: Axes,
    values: Iterable[float],
    title: str,
    logarithmic: bool | None = None,
    sizes: bool = False,
) -> None:
    """Scales the y axis: logarithmic (by default where values differ by orders), or from 0."""
    axes.set_ylabel(title)
    axes.grid(axis="x", visible=False)
    positive = [value for value in values if value > 0] or [1]
    least, greatest = min(positive), max(positive)
    if greatest >= ORDERS * least if logarithmic is None else logarithmic:
        axes.set_yscale("log", base=2 if sizes else 10, nonpositive="clip")
        axes.set_ylim(least / 2, greatest * max(2, (2 * greatest / least) ** 0.18))
        if not sizes:
            digits_shown = (1, 2, 5) if greatest < 250 * least else (1,)
            axes.yaxis.set_major_locator(LogLocator(subs=digits_shown))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: size(y) if sizes else f"{y:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(min(0, min(values, default=0) * 1.1), greatest * 1.18)
        if sizes:
            binary_ticks(axes.yaxis, greatest)


def name_axis(axes: Axes, names: Sequence[str], title: str) -> None:
    """An axis with a name at each whole number."""
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel(title)


def note(axes: Axes, at: float, height: float, text: str, room: float, colour: str = INK) -> None:
    """Writes above a place of a panel, upright if it has no room (inches)."""
    upright = len(text) * 0.07 > room
    axes.annotate(text, (at, height), (0, 4), textcoords="offset points", color=colour, ha="center",
                  va="bottom", rotation=90 if upright else 0, fontsize=8)


def absence(axes: Axes, at: float, why: str) -> None:
    """Says in the place of a bar why there is none."""
    axes.annotate(why, (at, 0.03), xycoords=("data", "axes fraction"), rotation=90, ha="center",
                  color=ALARM if why == "failed" else FAINT, fontsize=8,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, and how far the least and the greatest are from it, if they are."""
    if not values:
        return math.nan, math.nan, math.nan
    median, least, greatest = statistics.median(values), min(values), max(values)
    if least == greatest:
        return median, math.nan, math.nan
    return median, median - least, greatest - median


def bars(
    axes: Axes,
    places: Sequence[str],
    place_title: str,
    series: Sequence[tuple[str, Style, Sequence[Cell]]],
    title: str,
    notes: Sequence[str] = (),
    floors: Sequence[tuple[str, float | None]] = (),
    **axis: Any,
) -> None:
    """Bars in groups: the median of each, with a line from the least to the greatest.

    `series` are a label, a style, and for each place the values of the repeats, or why there are
    none. `notes` stand above the bars of the first series. `floors` are what bars cannot be shorter
    than.
    """
    width = min(0.8 / len(series), 0.3)
    drawn = []
    for number, (label, fill, row) in enumerate(series):
        at = [place + (number - (len(series) - 1) / 2) * width for place in range(len(row))]
        cells = [[] if isinstance(cell, str) else cell for cell in row]
        drawn += [value for cell in cells for value in cell]
        heights, down, up = zip(*map(spread, cells))
        axes.bar(at, heights, width * 0.92, yerr=(down, up), ecolor=INK, label=label, **fill)
        for place, cell in zip(at, row):
            if isinstance(cell, str):
                absence(axes, place, cell)
        for place, cell, text in zip(at, cells, notes if number == 0 else ()):
            if text:
                note(axes, place, max(cell), text, width * 8 / len(places))
    for place, (label, floor) in enumerate(floors):
        if floor is not None:
            axes.hlines(floor, place - 0.45, place + 0.45, INK, "--", label=label)
            drawn.append(floor)
    name_axis(axes, places, place_title)
    value_axis(axes, drawn, title, **axis)


def stacks(
    axes: Axes,
    places: Sequence[str],
    place_title: str,
    parts: Sequence[tuple[str, Style]],
    groups: Sequence[Sequence[tuple[str, Sequence[float] | str, str]]],
    title: str,
) -> None:
    """Bars made of parts (a label and a style), in groups.

    `groups` are for each place all bars: the name, the height of each part, in percent (or why there
    is none), and what stands above it.
    """
    width, ticks = 0.8 / max(map(len, groups)), {}
    for place, group in enumerate(groups):
        for number, (name, heights, text) in enumerate(group):
            at = place + (number - (len(group) - 1) / 2) * width
            ticks[at] = name
            if isinstance(heights, str):
                absence(axes, at, heights)
                continue
            for part, (label, fill) in enumerate(parts):
                axes.bar(at, heights[part], width * 0.88, sum(heights[:part]), label=label, **fill)
            note(axes, at, sum(heights), text, width * 5.5 / len(places))
    name_axis(axes, places, "")
    axes.set_xticks(list(ticks), ticks.values(), rotation=90, fontsize=8)
    # Below the names of the bars, those of the groups.
    below = axes.secondary_xaxis("bottom")
    below.set_xticks(range(len(places)), places)
    below.tick_params(length=0, pad=8 + 5 * max(map(len, ticks.values())))
    below.set_xlabel(place_title)
    # Room for notes above what comes to 100 %.
    value_axis(axes, [100], title, logarithmic=False)
    axes.set(ylim=(0, 130), yticks=range(0, 101, 20))


def lines(
    axes: Axes,
    series: Sequence[tuple[str, Style, dict[int, list[float]]]],
    place_title: str,
    title: str,
    **axis: Any,
) -> None:
    """Lines through medians: `series` are a label, keywords of the line, and the values by place."""
    drawn = []
    for label, look, points in series:
        middle, down, up = zip(*(spread(points[place]) for place in sorted(points)))
        axes.errorbar(sorted(points), middle, (down, up), label=label, **look)
        drawn += [value for of in points.values() for value in of]
    axes.set_xlabel(place_title)
    value_axis(axes, drawn, title, **axis)


def boxes(
    axes: Axes,
    names: Sequence[str],
    values: Sequence[Sequence[float]],
    place_title: str,
    title: str,
    **axis: Any,
) -> None:
    """A box from quartile to quartile, with lines to the least and the greatest."""
    drawn = axes.boxplot(values, whis=(0, 100), positions=range(len(values)), patch_artist=True)
    for number, box in enumerate(drawn["boxes"]):
        box.set(facecolor=PALETTE[number % 8], alpha=0.5)
    for line in drawn["medians"]:
        line.set_color(INK)
    name_axis(axes, names, place_title)
    value_axis(axes, [value for row in values for value in row], title, **axis)
