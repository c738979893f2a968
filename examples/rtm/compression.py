"""Draws how far images of states with fewer bits are from those of whole states: python3 compression.py OUT.png FILE...

Each FILE is what `rtm --bits BITS --bound BOUND --verify --json FILE` has written, or has several of them as "runs".
"""

import json
import pathlib
import sys

from matplotlib.figure import Figure

COLOURS = {8: "#b2182b", 12: "#e08214", 16: "#2166ac"}


def runs(path):
    found = json.loads(pathlib.Path(path).read_text())
    return found.get("runs", [found])


def main(out, *paths):
    all_runs = [run for path in paths for run in runs(path)]
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes = figure.subplots()
    for bits, colour in COLOURS.items():
        of_bits = sorted((run for run in all_runs if run["bits"] == bits), key=lambda run: run["bound"])
        whole = [run for run in of_bits if run["uncompressed_states"] == 0]
        if not whole:
            continue
        ratio = whole[0]["state_bytes"] * whole[0]["compressed_states"] / whole[0]["compressed_bytes"]
        bounds, differences = zip(*((run["bound"], run["image_difference"]) for run in of_bits))
        axes.plot(bounds, differences, color=colour, linewidth=1)
        axes.plot(*zip(*((run["bound"], run["image_difference"]) for run in whole)), "o", color=colour,
                  label=f"{bits} bits: {ratio:.2f} x as many states")
        # Of some states more blocks than have room are beyond the bound: these are kept as they are.
        mixed = [run for run in of_bits if run["uncompressed_states"] > 0]
        for run in mixed:
            part = run["uncompressed_states"] / run["checkpoints"]
            axes.plot(run["bound"], run["image_difference"], "o", color=colour, markerfacecolor="white")
            axes.annotate(f"{part:.0%} as they are", (run["bound"], run["image_difference"]), color=colour, fontsize=8,
                          xytext=(0, -14), textcoords="offset points", ha="center")
    axes.set(xscale="log", yscale="log", xlim=(1e-5, 2e-1), ylim=(5e-6, 2e-1))
    ends = [min(run["bound"] for run in all_runs), max(run["bound"] for run in all_runs)]
    axes.plot(ends, ends, color="grey", linewidth=1, linestyle=":", label="difference = bound")
    axes.set_xlabel("bound, as a part of a state's largest value")
    axes.set_ylabel("difference of the images, root mean square")
    axes.set_title(f"Image of {all_runs[0]['checkpoints']} states of {all_runs[0]['nx']} x {all_runs[0]['nz']} values",
                   loc="left", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
