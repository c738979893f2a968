"""For how long checkpoints of host memory stop the application, and what their files take: `veloc-bench snapshot`."""

from __future__ import annotations

import argparse
import json
import pathlib
import re
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from .chart import SETTINGS, bars, legend, style
from .results import machine_text

#: What was measured, and of what: "fork: blocked, 1 GiB, small pages".
NAME = re.compile(r"(?P<what>.*?), (?P<of>\d[\d.]* [KMGT]?i?B\b.*)")


def short(what: str) -> str:
    """What was measured, as it fits below a bar."""
    what = what.replace(", compress = none", "").replace(", compress = ", " + ")
    return what.replace(": ", "\n")


def panels_of(points: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """The points that are ratios, by unit, by what was measured, and by what it was measured of."""
    panels: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
    for point in points:
        name = NAME.fullmatch(point["what"])
        if name and point["unit"].startswith("x "):
            rows = panels.setdefault(point["unit"], {})
            rows.setdefault(name["what"], {})[name["of"]] = point
    return panels


@matplotlib.rc_context(SETTINGS)
def draw(asked: argparse.Namespace) -> tuple[Figure, list[str]]:
    """The figure of a file of `veloc-bench snapshot`, and what has to be said of it."""
    path = asked.files[0]
    try:
        found = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        panels = panels_of(found["points"])
        foot = f"{machine_text(found['machine'])}, commit {found['program']['commit']}"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is nothing that `veloc-bench snapshot` wrote: {error!r}") from None
    if not panels:
        raise ValueError(f"{path} holds no figures of `veloc-bench snapshot`")
    figure = Figure(figsize=(11, 1 + 4 * len(panels)), layout="constrained")
    for axes, (unit, rows) in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels.items()):
        subjects = list(dict.fromkeys(of for row in rows.values() for of in row))
        series = [
            (of, style(number), [row[of]["values"] if of in row else "" for row in rows.values()])
            for number, of in enumerate(subjects)
        ]
        goals = [
            next((goal["at-most"] for point in row.values() if (goal := point.get("goal")) and "at-most" in goal), None)
            for row in rows.values()
        ]
        names = [short(what) for what in rows]
        bars(axes, names, "", series, unit, floors=[("to reach, at most", goal) for goal in goals])
        axes.tick_params(axis="x", labelrotation=0 if len(rows) < 5 else 90)
    title = asked.title or "Checkpoints of host memory"
    figure.suptitle(f"{title}\n{foot}", x=0.01, ha="left", fontsize=9)
    legend(figure, 11, "lower")
    return figure, []
