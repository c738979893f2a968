"""The command `python -m veloc.plot`."""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def arguments() -> argparse.ArgumentParser:
    """What can be asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m veloc.plot", description="Draws pictures, as SVG and PNG.")
    kinds = parser.add_subparsers(dest="kind", required=True)
    results = kinds.add_parser("results", help="what `veloc-bench` has measured")
    results.add_argument("files", nargs="+", metavar="FILE", help="files of results, or their folders")
    results.add_argument("--out", default="plots", metavar="DIR", help="the folder for the pictures")
    timeline = kinds.add_parser("timeline", help="what a job has recorded (VELOC_TRACE)")
    timeline.add_argument("files", nargs="+", metavar="FILE", help="traces of processes of a node")
    timeline.add_argument("--from", dest="begin", type=float, default=0, metavar="MS",
                          help="begin so many ms after the first event")
    timeline.add_argument("--to", dest="end", type=float, metavar="MS", help="end there")
    timeline.add_argument("--process", type=int, metavar="N", help="only this rank, or process id")
    timeline.add_argument("--compare", action="store_true", help="let every file begin at 0")
    timeline.add_argument("--title", metavar="TEXT", help="what to write above the picture")
    schedule = kinds.add_parser("schedule", help="a plan of `veloc schedule --out FILE`")
    schedule.add_argument("files", nargs=1, metavar="FILE")
    snapshot = kinds.add_parser("snapshot", help="what `veloc-bench snapshot` has measured")
    snapshot.add_argument("files", nargs=1, metavar="FILE")
    snapshot.add_argument("--title", metavar="TEXT", help="what to write above the picture")
    pmem = kinds.add_parser("pmem", help="what `veloc-bench pmem` has measured")
    pmem.add_argument("files", nargs=1, metavar="FILE")
    pmem.add_argument("--title", metavar="TEXT", help="what to write above the picture")
    for kind in (timeline, schedule, snapshot, pmem):
        kind.add_argument("--out", metavar="STEM", help="draw STEM.svg and STEM.png")
    return parser


def save(figure: Figure, stem: str | pathlib.Path) -> None:
    """Writes `stem`.svg and `stem`.png."""
    import matplotlib

    from .chart import SETTINGS

    with matplotlib.rc_context(SETTINGS):
        figure.savefig(f"{stem}.svg", metadata={"Date": None})
        figure.savefig(f"{stem}.png", dpi=150)
    print(f"{stem}.svg, .png")


def results(asked: argparse.Namespace) -> bool:
    """Draws results, and says what is in them and what is missing; whether all could be read."""
    from . import figures
    from .results import by_device, extent, read

    found, others, damaged = read(asked.files)
    folder, pools, drawn = pathlib.Path(asked.out), by_device(found), 0
    folder.mkdir(parents=True, exist_ok=True)
    for number, pool in enumerate(pools, 1):
        pages, missing = figures.pictures(pool)
        print(f"{pool.device}: {', '.join(pool.files)}", *pool.warnings, pool.foot()[-1],
              *extent(pool.points.values()), sep="\n  ")
        for text in pool.left_out:
            print(f"  left out: {text}")
        for text in missing:
            print(f"  not drawn: {text}")
        for name, page in pages.items():
            save(page, folder / (f"device-{number}-" * (len(pools) > 1) + name))
        drawn += len(pages)
    for text in others:
        print(f"not drawn: {text}")
    for text in damaged:
        print(f"not read: {text}", file=sys.stderr)
    if not drawn:
        print("error: there is nothing to draw in the files", file=sys.stderr)
    return not damaged and drawn > 0


def main(given: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    asked = arguments().parse_args(given)
    try:
        import matplotlib

        # It names places of a legend that older ones do not know.
        if matplotlib.__version_info__ < (3, 7):
            print(f"error: pictures need matplotlib 3.7, and this is {matplotlib.__version__}", file=sys.stderr)
            return 1
    except ImportError:
        print("error: pictures need matplotlib: pip install matplotlib (or veloc[plot])", file=sys.stderr)
        return 1
    try:
        if asked.kind == "results":
            return 0 if results(asked) else 1
        from . import pmem, schedule, snapshot, timeline

        drawing = {"timeline": timeline, "schedule": schedule, "snapshot": snapshot, "pmem": pmem}
        figure, told = drawing[asked.kind].draw(asked)
        for text in told:
            print(text, file=sys.stderr)
        suffix = "-timeline" * (asked.kind == "timeline")
        save(figure, asked.out or re.sub(r"\.json$", "", asked.files[0]) + suffix)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
