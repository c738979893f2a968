"""Heat spreads over a plate, as in plate.c, whose checkpoints this program takes up and which takes up those of this one.

mpirun -n 4 python3 plate.py [<configuration> [<steps>]]
"""

import sys

import numpy
import veloc
from mpi4py import MPI

ROWS, COLUMNS, EACH = 60, 44, 20


def main(config: str = "veloc.cfg", steps: str = "200") -> None:
    comm = MPI.COMM_WORLD
    first, end = (ROWS * number // comm.size for number in (comm.rank, comm.rank + 1))
    i, j = numpy.mgrid[first:end, 0:COLUMNS]
    u = (i * 7 % 11 * (j * 5 % 13)).astype(float)
    now = numpy.zeros(1, numpy.int32)
    above = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    below = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL

    with veloc.Job(config, comm=comm) as job:
        job.protect(0, now)
        job.protect(1, u)
        job.decompose(1, shape=(ROWS, COLUMNS), offsets=(first, 0))
        version = job.latest("plate")
        if version is not None:
            job.restart("plate", version)
            if comm.rank == 0:
                print("goes on at step", now[0])
        while now[0] < int(steps):
            wide = numpy.pad(u, 1)
            comm.Sendrecv(wide[1], above, 0, wide[-1], below, 0)
            comm.Sendrecv(wide[-2], below, 1, wide[0], above, 1)
            left, right, up, down = wide[1:-1, :-2], wide[1:-1, 2:], wide[:-2, 1:-1], wide[2:, 1:-1]
            u += 0.2 * (left + right + up + down - 4 * u)
            now += 1
            if now[0] % EACH == 0:
                job.checkpoint("plate", int(now[0]))

    blocks = comm.gather(u)
    if blocks is not None:
        numpy.concatenate(blocks).tofile("plate.bin")
        print("done")


main(*sys.argv[1:])
