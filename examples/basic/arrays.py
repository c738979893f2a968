"""An iterative solver whose vector is in a file that survives a crash of the program."""

import sys

import numpy
import veloc

LAST = 60

file = veloc.Pmem("relax-py.pm", 1 << 20, "process")
x = file.array("x", numpy.float64, 4000, slots=3)
file.invariant("sum of x", lambda iteration, scalars: abs(x[iteration].sum() - scalars[0]) <= 1e-9 * scalars[0])
done = file.recover()
if done is not None:
    print(f"goes on behind iteration {done}", file=sys.stderr)
for i in range(0 if done is None else done + 1, LAST):
    x[i][:] = numpy.arange(4000) % 7 if i == 0 else (x[i - 1] + numpy.roll(x[i - 1], -1)) / 2
    file.mark(i, x[i].sum())
print(f"x[0] = {x[LAST - 1][0]:.12f}")
