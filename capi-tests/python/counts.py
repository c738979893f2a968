"""Counts of schedules against those of checkpoint_schedules, another implementation.

counts.py <libveloc-client.so>

Plays the actions of thousands of schedules and compares what they cost with what that package finds by
dynamic programming or does itself. Ends with how many were compared, and "done".
"""

import ctypes
import sys

from checkpoint_schedules import Forward, Revolve
from checkpoint_schedules.hrevolve_sequences.disk_revolve import get_opt_inf_table
from checkpoint_schedules.hrevolve_sequences.hrevolve import get_hopt_table
from checkpoint_schedules.multistage import optimal_extra_steps

ADVANCE, TAKESHOT, RESTORE, FIRSTURN, YOUTURN, TERMINATE = range(6)


class Action(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("read_again", ctypes.c_int)] + [
        (name, ctypes.c_int64) for name in ("start", "to", "slot")
    ]


library = ctypes.CDLL(sys.argv[1])
library.VELOC_Last_error.restype = ctypes.c_char_p
library.VELOC_Numforw.restype = ctypes.c_int64
library.VELOC_Numforw.argtypes = [ctypes.c_int64] * 2
library.VELOC_Schedule_create.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
library.VELOC_Schedule_set_disk.argtypes = [
    ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_double,
]
library.VELOC_Schedule_next.argtypes = [ctypes.c_void_p, ctypes.POINTER(Action)]
library.VELOC_Schedule_free.argtypes = [ctypes.c_void_p]


def check(status):
    if status != 0:
        raise RuntimeError(library.VELOC_Last_error().decode())


def play(steps, slots, disk=None):
    """Advances, and writes to and reads from disk, of the actions up to the end."""
    schedule, action = ctypes.c_void_p(), Action()
    check(library.VELOC_Schedule_create(steps, slots, ctypes.byref(schedule)))
    if disk is not None:
        check(library.VELOC_Schedule_set_disk(schedule, *disk))
    advances = writes = reads = 0
    at, fine, stored = 0, steps, {}
    while True:
        check(library.VELOC_Schedule_next(schedule, action))
        if action.kind == TERMINATE:
            break
        if action.kind == ADVANCE:
            assert action.start == at < action.to < fine
            advances += action.to - at
            at = action.to
        elif action.kind == TAKESHOT:
            stored[action.slot] = at
            writes += action.slot >= slots
        elif action.kind == RESTORE:
            at = stored[action.slot]
            reads += action.slot >= slots
        else:
            assert action.start == at == fine - 1
            fine, at = at, None
    assert fine == 0
    check(library.VELOC_Schedule_free(schedule))
    return advances, writes, reads


def forward_steps(schedule):
    """What the other implementation does: steps forward, recorded or not."""
    return sum(action.n1 - action.n0 for action in schedule if isinstance(action, Forward))


def equal(found, expected, *case):
    if found != expected:
        sys.exit(f"{case}: {found}, not {expected}")


compared = 0
for steps in range(2, 131):
    for slots in range(1, min(steps, 25)):
        least = optimal_extra_steps(steps, slots)
        equal(play(steps, slots)[0], least, "binomial", steps, slots)
        equal(library.VELOC_Numforw(steps, slots), least, "VELOC_Numforw", steps, slots)
        compared += 1

for steps in (10, 37, 100, 211):
    for slots in (1, 2, 3, 7, 20):
        if slots < steps:
            done = forward_steps(Revolve(steps, slots))
            equal(play(steps, slots)[0] + steps, done, "revolve", steps, slots)
            compared += 1

# In the tables indices are one less than the number of steps; a turn costs nothing.
LONGEST = 60
TRANSFERS = (0.5, 0.25), (2, 2), (5, 1), (1, 10)


def cost(steps, slots, disk):
    advances, writes, reads = play(steps, slots, disk)
    return advances + writes * disk[1] + reads * disk[2]


for slots in (1, 2, 3, 5):
    for write, read in TRANSFERS:
        for disk_slots in (1, 2, 4, 9):
            costs = (0, write), (0, read)
            _, table = get_hopt_table(LONGEST - 1, (slots, disk_slots), *costs, 0, 1)
            for steps in range(2, LONGEST + 1):
                found = cost(steps, slots, (disk_slots, write, read))
                case = "H-Revolve", steps, slots, disk_slots, write, read
                equal(found, table[1][steps - 1][disk_slots], *case)
                compared += 1
        # As many slots on disk as there are states.
        table = get_opt_inf_table(LONGEST - 1, slots, 1, 0, read, write, False)
        for steps in range(2, LONGEST + 1):
            found = cost(steps, slots, (steps, write, read))
            equal(found, table[steps - 1], "Disk-Revolve", steps, slots, write, read)
            compared += 1

print(compared, "compared")
print("done")
