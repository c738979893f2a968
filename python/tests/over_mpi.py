"""A job over an mpi4py communicator: over_mpi.py <configuration>. Rank 0 prints "done"."""

import sys

import numpy
import veloc
from mpi4py import MPI

world = MPI.COMM_WORLD
state = numpy.zeros(1000)
with veloc.Ckpt(world, sys.argv[1]) as ckpt:
    ckpt.protect(0, state)
    # The last version is of rank 0 alone: it is no version of the job's.
    for version in range(1, 5 if world.rank == 0 else 4):
        state[:] = 100 * world.rank + version
        ckpt.checkpoint("ranks", version)
    world.Barrier()
    latest = ckpt.restart_test("ranks")
    assert latest == 3, f"rank {world.rank}: {latest}"
    ckpt.restart("ranks", latest)
    assert (state == 100 * world.rank + 3).all(), f"rank {world.rank}: {state}"
if world.rank == 0:
    print("done")
