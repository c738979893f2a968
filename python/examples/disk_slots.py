"""A program that goes by checkpoint_schedules, whose snapshots on disk are checkpoints of the library.

    python disk_slots.py FOLDER [STEP]

It prints the gradient of a sum of squares after many steps with respect to the first state. Killed at
any moment (with STEP it kills itself in the adjoint of that step) and started again by the same
line, it goes on from what is in FOLDER, to the same gradient.
"""

import os
import signal
import sys

import numpy
import veloc
import veloc.schedules
from checkpoint_schedules import Copy, EndReverse, Forward, Move, Reverse, StorageType

STEPS, IN_MEMORY, ON_DISK = 500, 3, 5
CELLS = 10_000


def main() -> None:
    folder, kill_at = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None
    state = numpy.linspace(0, 1, CELLS)
    adjoint = numpy.zeros(CELLS)
    with veloc.Job(mode="async", scratch=folder, threaded=True) as job:
        # A slot is a name, and the version in it the step. The adjoint is counted up as it goes back.
        names = [f"slot{number}" for number in range(ON_DISK + 1)]
        for name in names:
            job.protect(0, state, name=name)
        job.protect(0, adjoint, name="adjoint")
        found = {name: job.latest(name) for name in names}
        on_disk = {step: name for name, step in found.items() if step is not None}
        if 0 not in on_disk:
            on_disk[0] = next(name for name in names if found[name] is None)
            job.checkpoint(on_disk[0], 0)
        newest = job.latest("adjoint")
        back_to = None if newest is None else STEPS - newest
        if newest is not None:
            job.restart("adjoint", newest)
        schedule = veloc.schedules.Resumed(STEPS, IN_MEMORY, ON_DISK, on_disk, back_to)
        in_memory: dict[int, numpy.ndarray] = {}
        record = numpy.zeros(CELLS)
        for action in schedule:
            match action:
                case Forward(n0=n0, n1=n1, write_ics=write, storage=storage):
                    if write and storage is StorageType.RAM:
                        in_memory[n0] = state.copy()
                    elif write:
                        on_disk[n0] = next(name for name in names if name not in on_disk.values())
                        job.checkpoint(on_disk[n0], n0)
                    for _ in range(n0, n1):
                        record[:] = state
                        state += 0.01 * state * (1 - state)
                case Copy(n=n, from_storage=storage) | Move(n=n, from_storage=storage):
                    if action.to_storage is StorageType.WORK and storage is StorageType.DISK:
                        job.restart(on_disk[n], n)
                    elif action.to_storage is StorageType.WORK:
                        state[:] = in_memory[n]
                    if isinstance(action, Move) and storage is StorageType.DISK:
                        job.cleanup(on_disk.pop(n))
                    elif isinstance(action, Move):
                        del in_memory[n]
                case Reverse(n0=n0, n1=n1):
                    if n1 == kill_at:
                        # What was taken is in files.
                        job.wait()
                        os.kill(os.getpid(), signal.SIGKILL)
                    if n1 == STEPS:
                        adjoint[:] = 2 * state
                    adjoint *= 1 + 0.01 * (1 - 2 * record)
                    if n0 % 50 == 0 and n0 > 0:
                        job.checkpoint("adjoint", STEPS - n0)
                case EndReverse():
                    break
        job.cleanup("adjoint")
    print(adjoint.sum().hex())


if __name__ == "__main__":
    main()
