#!/usr/bin/env python3
"""Writes a model, shots and a configuration for Velocity-Bench's reverse time migration.

    workload.py SIZE DIR      SIZE: mini, tiny, large

The model has layers, a lens and point scatterers. The shots are not modelled: a trace has wavelets at the times at
which the reflections would come in a medium of one velocity, which is all that is needed for an image.
"""

import json
import sys
from pathlib import Path

import numpy

#        cells in x and z, time steps, shots
SIZES = {"mini": (76, 44, 230, 2), "tiny": (220, 140, 350, 2), "large": (1000, 900, 2050, 3)}

FREQUENCY = 20.0
CELL = 1500 / FREQUENCY / 3.2 * 0.9  # the program's own choice of a cell, whatever the model's
# Of the model's samples across and down. No two receivers share a cell. Intervals (25100 mm, 4100 us) need a clear bit 7:
# the program's reader swaps the bytes of others wrongly.
ACROSS, DOWN = 25.0, 25.1
SLOWEST, FASTEST = 1500.0, 4500.0
SAMPLE = 0.0041  # seconds
ORDER, BOUNDARY, BLOCK = 16, 20, (64, 8)
RING = 100  # frames that the program keeps on the device


def step_seconds():
    """The program's time step: 0.9 of what is stable."""
    n = ORDER // 2
    k = numpy.arange(1, n + 1)
    powers = (k[None, :] ** (2.0 * k[:, None]))
    weights = numpy.linalg.solve(powers, numpy.eye(n)[0])  # of the second derivative, at distance k
    total = 2 * abs(weights).sum() + abs(2 * weights.sum())
    return 0.9 * numpy.sqrt(4 / total) * CELL / numpy.sqrt(2) / FASTEST


def padded(cells):
    """Points of a wavefield: cells, boundaries, and what makes the inner part a multiple of a block."""
    sides = []
    for count, block in zip(cells, BLOCK):
        inner = count + 2 * BOUNDARY
        sides.append(-(-inner // block) * block + ORDER)
    return sides


def ibm(values):
    """IEEE floats as big-endian IBM floats; no tiny ones, which the program's reader takes for huge ones."""
    values = numpy.where(abs(values) < 1e-20, 0, numpy.asarray(values, numpy.float64))
    mantissa, exponent = numpy.frexp(abs(values))
    hexadecimal = -(-exponent // 4)
    fraction = numpy.rint(numpy.ldexp(mantissa, exponent - 4 * hexadecimal + 24)).astype(numpy.int64)
    over = fraction >= 1 << 24
    fraction, hexadecimal = numpy.where(over, fraction >> 4, fraction), numpy.where(over, hexadecimal + 1, hexadecimal)
    bits = (hexadecimal + 64) << 24 | fraction | numpy.where(values < 0, 1 << 31, 0)
    return numpy.where(fraction == 0, 0, bits).astype(">u4")


def segy(path, traces, interval, record, source, receiver):
    """A SEG-Y file; a row of `traces` is a trace."""
    count, samples = traces.shape
    header = numpy.zeros(200, ">i2")  # of the file, 400 bytes
    header[[8, 10, 12]] = interval, samples, 1
    line = numpy.zeros(count, [("id", ">i4", 7), ("a", ">i2", 4), ("b", ">i4", 8), ("scale", ">i2", 2),
                               ("place", ">i4", 4), ("c", ">i2", 13), ("samples", ">u2"), ("interval", ">u2"),
                               ("d", "V122"), ("data", ">u4", samples)])
    line["id"][:, 0] = line["id"][:, 1] = numpy.arange(1, count + 1)
    line["id"][:, 2] = record
    line["scale"] = 1
    line["place"][:, 0], line["place"][:, 2] = source, receiver
    line["samples"], line["interval"] = samples, interval
    line["data"] = ibm(traces)
    path.write_bytes(b" " * 3200 + header.tobytes() + line.tobytes())


def velocities(width, depth):
    x, z = numpy.meshgrid(numpy.linspace(0, 1, width), numpy.linspace(0, 1, depth), indexing="ij")
    layer = numpy.floor(7 * (z + 0.04 * numpy.sin(6 * x)))
    speed = SLOWEST + 350 * numpy.clip(layer, 0, 7)
    lens = numpy.exp(-((x - 0.55) ** 2 + (z - 0.5) ** 2) / 0.02)
    speed = numpy.clip(speed + 700 * lens, SLOWEST, FASTEST)
    speed[-1, -1] = FASTEST  # so that the time step is the one computed here
    return speed


def shot(source, receivers, samples, width, depth):
    time = numpy.arange(samples) * SAMPLE

    def wavelet(arrival):
        square = (numpy.pi * FREQUENCY * (time[None, :] - arrival[:, None] - 1 / FREQUENCY)) ** 2
        return (1 - 2 * square) * numpy.exp(-square)

    traces = numpy.zeros((len(receivers), samples))
    for place in range(1, 7):
        far = numpy.hypot(receivers - source, 2 * depth * place / 7)
        traces += (0.4 if place % 2 else -0.3) * wavelet(far / 2200)
    for x, z in (0.2, 0.3), (0.4, 0.6), (0.6, 0.25), (0.8, 0.5):
        down = numpy.hypot(width * x - source, depth * z)
        traces += 0.5 * wavelet((down + numpy.hypot(receivers - width * x, depth * z)) / 2200)
    return traces


def main(size, folder):
    cells_x, cells_z, steps, shots = SIZES[size]
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    columns, rows = int(numpy.ceil(cells_x * CELL / ACROSS)), int(numpy.ceil(cells_z * CELL / DOWN))
    cells_x, cells_z = int(columns * ACROSS / CELL), int(rows * DOWN / CELL)  # as the program computes them
    nx, nz = padded((cells_x, cells_z))
    if (cells_x + 2 * BOUNDARY) % BLOCK[0] == 0 or (cells_z + 2 * BOUNDARY) % BLOCK[1] == 0:
        sys.exit("workload.py: the program handles only sizes that it has to pad")
    for what, frames in ("a frame", 1), ("the ring", RING):
        room = -(4 * nx * nz * frames) % (2 << 20)  # up to the end of the last page of the allocation
        if 4 * nx * nz > 1 << 20 and room < 16 * nx:
            sys.exit(f"workload.py: the kernel reads a row behind {what}, which ends at a page's end")

    width, depth = cells_x * CELL, cells_z * CELL
    speed = velocities(columns, rows)
    places = ACROSS * numpy.arange(columns)
    segy(folder / "velocity.segy", speed, round(DOWN * 1000), 1, places, places)
    samples = int(numpy.ceil(steps * step_seconds() / SAMPLE))
    names = []
    for number in range(shots):
        source = int(width * (number + 1) / (shots + 1))
        receivers = places[1:-1]
        names.append(str(folder / f"shot{number + 1}.segy"))
        segy(Path(names[-1]), shot(source, receivers, samples, width, depth), round(SAMPLE * 1e6), number + 1, source,
             receivers)

    off = {"enable": False, "show-each": 200}
    callbacks = {key: dict(off) for key in ("su", "csv", "image", "norm", "bin", "segy")}
    callbacks["su"]["little-endian"], callbacks["image"]["percentile"] = False, 98.5
    callbacks["writers"] = {key: {"enable": False} for key in (
        "migration", "traces-raw", "traces-preprocessed", "each-stacked-shot", "single-shot-correlation", "backward",
        "forward", "reverse")}
    callbacks["writers"] |= {key: {"enable": False, "output": []} for key in ("parameters", "re-extended-parameters")}
    files = {
        "callback_configuration": {"callbacks": callbacks},
        "computation_parameters": {"computation-parameters": {
            "stencil-order": ORDER, "boundary-length": BOUNDARY, "source-frequency": FREQUENCY, "isotropic-radius": 5,
            "dt-relax": 0.9, "algorithm": "gpu", "device": "gpu",
            "cache-blocking": {"block-x": BLOCK[0], "block-z": BLOCK[1], "block-y": 1, "cor-block": 1024},
            "window": {"enable": False, "left": 0, "right": 0, "depth": 0, "front": 0, "back": 0}}},
        "engine_configuration": {
            "traces": {"min": 1, "max": shots, "sort-type": "CSR", "paths": names},
            "models": {"velocity": str(folder / "velocity.segy")},
            "wave": {"physics": "acoustic", "approximation": "isotropic", "equation-order": "second",
                     "grid-sampling": "uniform"},
            "components": {
                "boundary-manager": {"type": "none", "properties": {"use-top-layer": False}},
                "migration-accommodator": {"type": "cross-correlation", "properties": {"compensation": "none"}},
                "forward-collector": {"type": "two"},
                "trace-manager": {"type": "segy", "properties": {"shot-stride": 1, "interpolation": "none"}},
                "source-injector": {"type": "ricker"},
                "model-handler": {"type": "segy"}}},
        "pipeline": {"pipeline": {"agent": {"type": "normal"}, "writer": {"type": "normal"}}},
    }
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1))
    steps = int(samples * SAMPLE / step_seconds())
    facts = {"size": size, "points": [nx, nz], "steps": steps, "shots": shots, "frames": RING,
             "ring_bytes": 4 * nx * nz * RING, "rings": steps // RING, "shot_bytes": 4 * nx * nz * RING * (steps // RING)}
    (folder / "facts.json").write_text(json.dumps(facts))
    print(json.dumps(facts))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in SIZES:
        sys.exit(__doc__)
    main(*sys.argv[1:])
