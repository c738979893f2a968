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

# An array of all ranks, in C's order and in Fortran's. Rank 0 alone goes on with all of it, also without MPI.
shape = (2 * world.size, 5)
whole = numpy.arange(10.0 * world.size).reshape(shape)
first = 2 * world.rank
directories = {name: f"{sys.argv[2]}/{name}" for name in ("scratch", "persistent")}
with veloc.Job(mode="sync", **directories, comm=world) as job:
    part = whole[first : first + 2].copy()
    job.protect(0, part)
    job.decompose(0, shape, (first, 0))
    turned = numpy.asfortranarray(whole.T[:, first : first + 2])
    job.protect(1, turned)
    job.decompose(1, shape[::-1], (0, first))
    job.checkpoint("shared", 1)
    world.Barrier()
if world.rank == 0:
    for comm in (MPI.COMM_SELF, None):
        with veloc.Job(mode="sync", **directories, comm=comm) as job:
            one, other = numpy.zeros(shape), numpy.zeros(shape[::-1], order="F")
            for id, array in enumerate((one, other)):
                job.protect(id, array)
                job.decompose(id, array.shape, (0, 0))
            assert job.latest("shared") == 1
            job.restart("shared", 1)
            assert (one == whole).all() and (other == whole.T).all(), (comm, one, other)
if world.rank == 0:
    print("done")
