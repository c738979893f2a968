"""The plan of an adjoint computation: which state is computed when, and how long it is stored."""

from __future__ import annotations

import argparse
import json
import pathlib

import matplotlib
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from .chart import SETTINGS, legend

#: What `veloc schedule --out FILE` calls its lines, and how they are drawn.
LINES = (("stored", "#2f9e57", 1.5), ("forward", "#2b6cb0", 1), ("adjoint", "#b42318", 1.5))


@matplotlib.rc_context(SETTINGS)
def draw(asked: argparse.Namespace) -> tuple[Figure, list[str]]:
    """The figure of a file of `veloc schedule --out FILE`, and what has to be said of it."""
    path = asked.files[0]
    try:
        found = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        plan, drawing = found["plan"], found["drawing"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is nothing that `veloc schedule --out` wrote: {error!r}") from None
    figure = Figure(figsize=(10, 6.5), layout="constrained")
    axes = figure.subplots()
    for name, colour, width in LINES:
        lines = [((x1, y1), (x2, y2)) for x1, y1, x2, y2 in drawing[name]]
        axes.add_collection(LineCollection(lines, colors=colour, linewidths=width, label=name))
    axes.autoscale_view()
    distance = f", at most {plan['resilience']} apart" if plan["resilience"] else ""
    axes.set_title(
        f"{plan['steps']} steps, {plan['slots']} states stored{distance}\n"
        f"{found['forward_evals']} forward steps, {found['forward_evals'] / plan['steps']:.2f} for "
        f"each; a step is repeated {found['repetition']} times at the most", loc="left"
    )
    axes.set(xlabel="steps, forward and adjoint", ylabel="state")
    axes.margins(0.01)
    legend(figure, 10, "lower")
    return figure, []
