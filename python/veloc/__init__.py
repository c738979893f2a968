"""Checkpoints of arrays and objects, on the levels of VELOC.

    import numpy, veloc

    state = numpy.zeros(100_000)
    with veloc.Job(mode="async", scratch="/local/ckpt", persistent="/parallel/ckpt") as job:
        job.protect(0, state)
        first = job.latest("forward")          # None: there is none
        if first is not None:
            job.restart("forward", first)      # into state
        for step in range(0 if first is None else first + 1, 100):
            state += 1                         # compute
            job.checkpoint("forward", step)

A region of a checkpoint is an array on the host (of NumPy, PyTorch, or anything with a writable buffer), an
array on a GPU (of CuPy, Numba, PyTorch, or anything with `__cuda_array_interface__` or `__dlpack__`), or a
`Pickled`, which has any object that can be pickled. Files are those of VELOC, and `Ckpt` has the interface
of VELOC's own Python classes.
"""

import importlib
import types

from ._ckpt import Ckpt
from ._job import Job
from ._library import Error
from ._regions import Pickled
from .adjoint import adjoint_discard, adjoint_protect, adjoint_run, adjoint_stop
from .pmem import Domain, Pmem, PmemArray, Tried
from .schedule import (
    Action,
    Advance,
    Cost,
    Failures,
    FirstTurn,
    Record,
    Restore,
    Reverse,
    Schedule,
    TakeShot,
    YouTurn,
)


def __getattr__(name: str) -> types.ModuleType:
    """Loads modules when they are used: they need other packages."""
    if name in ("revolve", "schedules", "torch"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


#: The names of VELOC's own two classes, which are one here.
NumPyCkpt = PickleCkpt = Ckpt

#: The version of this library; that of VELOC whose interface this is, is 1.8.
__version__ = "0.2.0"

__all__ = [
    "Action",
    "Advance",
    "Ckpt",
    "Cost",
    "Domain",
    "Error",
    "Failures",
    "FirstTurn",
    "Job",
    "NumPyCkpt",
    "PickleCkpt",
    "Pickled",
    "Pmem",
    "PmemArray",
    "Record",
    "Restore",
    "Reverse",
    "Schedule",
    "TakeShot",
    "Tried",
    "YouTurn",
    "adjoint_discard",
    "adjoint_protect",
    "adjoint_run",
    "adjoint_stop",
]

# Tracebacks and reprs name what a program imports, not the file that it is in.
for _name in __all__:
    if hasattr(globals()[_name], "__qualname__"):
        globals()[_name].__module__ = __name__
del _name
