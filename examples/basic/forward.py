"""Checkpoints of each state of a forward pass, and the states in reverse."""

import numpy
import veloc

STEPS = 100
state = numpy.zeros(100_000)
total = 0.0
with veloc.Job("veloc.cfg") as job:
    job.protect(0, state)
    for step in range(STEPS):
        state += numpy.arange(state.size) % 3
        job.checkpoint("forward", step)
    for step in reversed(range(STEPS)):
        job.restart("forward", step)
        total += state[2]
print(f"sum {total:g}")
