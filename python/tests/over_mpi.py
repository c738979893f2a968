"""Jobs over an mpi4py communicator: over_mpi.py <configuration> <scratch>. Rank 0 prints "done"."""

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

# By options, and with what one rank refuses: nobody waits for it, and no byte changes.
state[:] = world.rank
with veloc.Job(mode="async", scratch=sys.argv[2], comm=world) as job:
    job.protect(0, state)
    job.checkpoint("options", 1)
    state[:] = -1
    state.flags.writeable = world.rank != 1
    job.protect(0, state)
    try:
        job.restart("options", 1)
    except (ValueError, veloc.Error) as error:
        assert isinstance(error, ValueError) == (world.rank == 1), error
    else:
        raise AssertionError("restored")
    assert (state == -1).all(), f"rank {world.rank}: {state}"
    state.flags.writeable = True
    job.protect(0, state)
    job.restart("options", job.latest("options"))
    assert (state == world.rank).all(), f"rank {world.rank}: {state}"
if world.rank == 0:
    print("done")
