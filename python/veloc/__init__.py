"""Checkpoints of arrays and objects, with the interface of VELOC.

    import numpy, veloc

    state = numpy.zeros(100_000)
    with veloc.Ckpt(0, "veloc.cfg") as ckpt:
        ckpt.protect(0, state)
        ckpt.checkpoint("forward", 1)
        ckpt.restart("forward", ckpt.restart_test("forward"))

A region of a checkpoint is an array of the host (of NumPy, or anything with a writable buffer), an
array of a GPU (CuPy, Numba, PyTorch: whatever has `__cuda_array_interface__`), or any object that
can be pickled, in a `Pickled`. Files are those of VELOC.
"""

from ._ckpt import Ckpt
from ._library import Error
from ._regions import Pickled

#: The names of VELOC's own two classes, which are one here.
NumPyCkpt = PickleCkpt = Ckpt

#: The version of this library; that of VELOC whose interface this is, is 1.8.
__version__ = "0.1.0"

__all__ = ["Ckpt", "Error", "NumPyCkpt", "PickleCkpt", "Pickled"]
