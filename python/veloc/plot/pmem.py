"""Iterations that a crash loses, by the size of the cache, and what arrays that survive it cost: `veloc-bench pmem`."""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import textwrap

import matplotlib
from matplotlib.figure import Figure

from .chart import SETTINGS, bars, boxes, style
from .results import machine_text

#: The size of what an iteration reads and writes, by that of the cache.
LOST = re.compile(r"iterations lost, data of an iteration (?P<ratio>[\d.]+) caches")


@matplotlib.rc_context(SETTINGS)
def draw(asked: argparse.Namespace) -> tuple[Figure, list[str]]:
    """The figure of a file of `veloc-bench pmem`, and what has to be said of it."""
    path = asked.files[0]
    try:
        found = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        lost = {float(name["ratio"]): point["values"] for point in found["points"]
                if (name := LOST.fullmatch(point["what"])) and point["values"]}
        slower = [point for point in found["points"] if point["unit"] == "% slower" and point["values"]]
        goals = [point.get("goal", {}).get("at-most") for point in slower]
        foot = f"{machine_text(found['machine'])}, commit {found['program']['commit']}"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is nothing that `veloc-bench pmem` wrote: {error!r}") from None
    panels = bool(lost) + bool(slower)
    if not panels:
        raise ValueError(f"{path} holds no figures of `veloc-bench pmem`")
    figure = Figure(figsize=(11, 1 + 4.5 * panels), layout="constrained")
    axes = list(figure.subplots(panels, 1, squeeze=False)[:, 0])
    if lost:
        ratios = sorted(lost)
        boxes(axes.pop(0), [f"{ratio:g}" for ratio in ratios], [lost[ratio] for ratio in ratios],
              "bytes that an iteration reads and writes / bytes of the cache", "iterations lost", logarithmic=False)
    if slower:
        names = [textwrap.fill(point["what"], 28) for point in slower]
        values = [point["values"] for point in slower]
        bars(axes[0], names, "", [("", style(0), values)], "% slower than without",
             floors=[("to reach, at most", goal) for goal in goals], logarithmic=False)
        axes[0].tick_params(axis="x", labelrotation=90)
    title = asked.title or "Arrays that survive a crash"
    figure.suptitle(f"{title}\n{foot}", x=0.01, ha="left", fontsize=9)
    return figure, []
