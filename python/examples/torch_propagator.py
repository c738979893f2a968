"""The gradient of an acoustic propagator in PyTorch, by plain autograd and by ways that need less memory.

    python torch_propagator.py              # a table of all ways, each in a process of its own
    python torch_propagator.py WAY [SLOTS]  # one of them

Each way prints its time, the most memory beside PyTorch's own, and a digest of the gradient. The memory is that of the
process on the host, or what PyTorch has allocated on a GPU, if there is one. CELLS, STEPS and RUNS (variables of the
environment) choose the size. On the host, preload jemalloc: glibc keeps ten times what PyTorch uses.
"""

import contextlib
import hashlib
import os
import resource
import subprocess
import sys
import time

import torch
from torch.utils.checkpoint import checkpoint

from veloc.torch import saved_tensors, time_loop

CELLS, STEPS = int(os.environ.get("CELLS", 256)), int(os.environ.get("STEPS", 2000))
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
#: Each way, with the states that it may keep or the steps between those that it keeps.
WAYS = {
    "plain": None,
    "save_on_cpu": None,
    "saved_tensors": None,
    "saved_tensors in 8 bits": None,
    "saved_tensors on a drive": None,
    "torch.utils.checkpoint": 45,
    "time_loop": 45,
}


def laplacian(field):
    wide = torch.nn.functional.pad(field[None, None], (1, 1, 1, 1))[0, 0]
    return wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2] - 4 * field


def main(way, size):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    speed = (0.1 + 0.1 * torch.rand(CELLS, CELLS)).to(DEVICE).requires_grad_()
    wavelet = torch.sin(torch.arange(STEPS) * 0.05).to(DEVICE)
    source = torch.zeros(CELLS, CELLS, device=DEVICE)
    source[CELLS // 2, CELLS // 2] = 1
    zero = torch.zeros(CELLS, CELLS, device=DEVICE)

    def step(number, state, parameters):
        before, now = state
        after = 2 * now - before + parameters[0] * laplacian(now) + wavelet[number] * source
        return (now, after), after[3].clone()

    def steps(first, last, before, now, speed):
        rows = []
        for number in range(first, last):
            (before, now), row = step(number, (before, now), [speed])
            rows.append(row)
        return before, now, torch.stack(rows)

    contexts = {
        "save_on_cpu": lambda: torch.autograd.graph.save_on_cpu(pin_memory=DEVICE == "cuda"),
        "saved_tensors": lambda: saved_tensors(above=1 << 16),
        "saved_tensors in 8 bits": lambda: saved_tensors(above=1 << 16, bits=8, bound=0.01, relative=True),
        "saved_tensors on a drive": lambda: saved_tensors(
            above=1 << 16,
            options={"host_cache_size": "64M", "drive": os.environ.get("DRIVE", "."), "drive_size": "4G"},
        ),
    }
    base, start = used(), time.perf_counter()
    if way == "time_loop":
        rows = time_loop(step, (zero, zero), [speed], steps=STEPS, slots=size, outputs=True)[1]
    elif way == "torch.utils.checkpoint":
        state, parts = (zero, zero), []
        for first in range(0, STEPS, size):
            *state, part = checkpoint(steps, first, min(first + size, STEPS), *state, speed, use_reentrant=False)
            parts.append(part)
        rows = torch.cat(parts)
    else:
        with contexts.get(way, contextlib.nullcontext)():
            rows = steps(0, STEPS, zero, zero, speed)[2]
    rows.pow(2).sum().backward()
    digest = hashlib.sha256(speed.grad.cpu().numpy().tobytes()).hexdigest()[:8]
    print(time.perf_counter() - start, used() - base, digest)


def used():
    """The most memory so far, in MiB."""
    if DEVICE == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def table():
    found = {way: [] for way in WAYS}
    for _ in range(int(os.environ.get("RUNS", 3))):
        for way, size in WAYS.items():
            command = [sys.executable, __file__, way, str(size or 0)]
            time, memory, digest = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            found[way].append((float(time), float(memory), digest))
    print(f"{STEPS} steps of {CELLS} x {CELLS} floats, {DEVICE}; medians of {len(found['plain'])} runs")
    for way, runs in found.items():
        middle = len(runs) // 2
        seconds, memory = (sorted(column)[middle] for column in list(zip(*runs))[:2])
        all_seconds = " ".join(f"{run[0]:.2f}" for run in runs)
        same = "the same bits" if runs[0][2] == found["plain"][0][2] else "other bits"
        print(f"{way:26} {WAYS[way] or '':>4} {seconds:7.2f} s {memory:8.0f} MiB  {same} ({all_seconds})")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] not in WAYS:
        sys.exit(f"the first argument is {sys.argv[1]!r}, not one of: {', '.join(WAYS)}")
    if len(sys.argv) > 1:
        main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else WAYS[sys.argv[1]])
    else:
        with contextlib.suppress(KeyboardInterrupt):
            table()
