"""Arrays in persistent memory, and the newest iteration in which what must hold between them does.

    import numpy, veloc

    file = veloc.Pmem("state.pm", 1 << 30)
    p = file.array("p", numpy.float64, 1000, slots=3)
    file.invariant("sum", lambda iteration, scalars: p[iteration].sum() == scalars[0])
    found = file.recover()                   # None: nothing was marked yet; file.scalars() are those of its mark
    for i in range(0 if found is None else found + 1, 100):
        p[i][:] = i                          # compute
        file.mark(i, p[i].sum())

The next process finds what was stored, after a crash of this process, or of the machine if the file was
opened for that. Nothing is logged or copied. The guide says when this beats checkpoints.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ._job import Job
from ._library import Error, check, declare, last_error, library, number, real, text

Crash = Literal["process", "power", "page"]
#: An invariant's answer: whether it holds; None: it cannot tell.
Invariant = Callable[[int, tuple[float, ...]], "bool | None"]

_CRASHES: tuple[Crash, ...] = ("process", "power", "page")
_HOLDS, _FAILS, _UNKNOWN = 1, 0, -1
_MOST_SCALARS = 5
_Function = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int64, ctypes.POINTER(ctypes.c_double), ctypes.c_int, ctypes.c_void_p
)


class _Domain(ctypes.Structure):
    _fields_ = [("crash", ctypes.c_int), ("granularity", ctypes.c_int), ("why", ctypes.c_char_p)]


class _Tried(ctypes.Structure):
    _fields_ = [
        ("iteration", ctypes.c_int64),
        ("answer", ctypes.c_int),
        ("invariant", ctypes.c_char_p),
    ]


@dataclass(frozen=True, slots=True)
class Domain:
    """What a crash leaves of a file: the worst crash that flushed and drained data survive, how many bytes
    reach the file together, and why a worse crash is not survived."""

    crash: Crash
    granularity: int
    why: str


@dataclass(frozen=True, slots=True)
class Tried:
    """An iteration that was tried: whether it is consistent (None: an invariant cannot tell), and the
    invariant that did not hold."""

    iteration: int
    consistent: bool | None
    invariant: str


class _Open:
    """An open file, for as long as it or one of its arrays is in use."""

    def __init__(self, path: bytes, size: int, crash: int) -> None:
        self.handle = ctypes.c_void_p()
        check(library().VELOC_Pmem_open(path, size, crash, ctypes.byref(self.handle)))
        self._close = library().VELOC_Pmem_close

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._close(self.handle)


class PmemArray:
    """An array of a file of arrays: `array[i]` is a NumPy array on the slot of iteration i."""

    def __init__(self, file: _Open, handle: ctypes.c_void_p, dtype: Any, shape: tuple[int, ...]):
        self._file, self._handle, self._dtype, self._shape = file, handle, dtype, shape

    def __getitem__(self, iteration: int) -> Any:
        import numpy

        at = library().VELOC_Pmem_at(self._handle, number("iteration", iteration, ctypes.c_int64))
        if at is None:
            raise IndexError(f"iteration {iteration} is negative")
        size = self._dtype.itemsize
        for extent in self._shape:
            size *= extent
        memory = (ctypes.c_char * size).from_address(at)
        # The file stays open as long as NumPy has the memory.
        memory._file = self._file
        return numpy.frombuffer(memory, self._dtype).reshape(self._shape)


class Pmem:
    """A file of arrays in persistent memory (`VELOC_Pmem_open`), which one process has open at a time.

    `bytes` is the room for all slots, each of which takes a multiple of 4096. `crash` is the crash that the
    file is to survive. "process": a crash of the process. "power": a crash of the machine, with persistent
    memory. "page": a crash of the machine, also with an ordinary file, where each flush writes to the disk.
    """

    def __init__(
        self, path: str | os.PathLike[str], bytes: int, crash: Crash = "process"
    ) -> None:
        if crash not in _CRASHES:
            raise ValueError(f"crash is {crash!r}; it must be one of {', '.join(_CRASHES)}")
        size = number("bytes", bytes, ctypes.c_size_t)
        self._open: _Open | None = _Open(text("path", path), size, _CRASHES.index(crash))
        self._functions: dict[str, Any] = {}
        #: What invariants have raised since the last search. No reference to this object: it is closed once it is gone.
        self._raised: list[BaseException] = []

    def close(self) -> None:
        """Closes the file. If arrays are still in use, it closes once the last of them is gone."""
        self._open = None

    def __enter__(self) -> Pmem:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def domain(self) -> Domain:
        """What a crash leaves of the file, as the library has found out."""
        found = _Domain()
        check(library().VELOC_Pmem_domain(self._handle, ctypes.byref(found)))
        return Domain(_CRASHES[found.crash], found.granularity, found.why.decode(errors="replace"))

    def array(
        self, name: str, dtype: Any, shape: int | tuple[int, ...], slots: int = 2
    ) -> PmemArray:
        """Finds an array by its name, or adds one, full of zeros: iteration i is in slot i modulo `slots`.

        With one slot each iteration overwrites the one before. Use that for data that do not change, or
        with an invariant that tells whether an iteration is whole.
        """
        import numpy

        kind = numpy.dtype(dtype)
        if kind.hasobject:
            raise TypeError(f"{name}: an array of objects ({kind}) would be lost with this process; use numbers")
        extents = tuple(shape) if isinstance(shape, tuple) else (shape,)
        count = 1
        for extent in extents:
            count *= number("shape", extent, ctypes.c_size_t)
        array = ctypes.c_void_p()
        check(
            library().VELOC_Pmem_array_of(
                self._handle,
                text("name", name),
                kind.kind.encode(),
                kind.itemsize,
                number("elements", count, ctypes.c_size_t),
                number("slots", slots),
                ctypes.byref(array),
            )
        )
        return PmemArray(self._file, array, kind, extents)

    def mark(self, iteration: int, *scalars: float) -> None:
        """Says that an iteration is done, with up to 5 numbers for the invariants."""
        given = [real("a scalar", scalar) for scalar in scalars]
        values = (ctypes.c_double * len(given))(*given)
        at = number("iteration", iteration, ctypes.c_int64)
        check(library().VELOC_Pmem_mark(self._handle, at, values, len(given)))

    def flush(self, array: Any) -> None:
        """Has an array, or a contiguous part of one, written back. It survives a crash after `drain` or
        `mark`."""
        memory = memoryview(array)
        if not memory.contiguous:
            raise ValueError("the part is not contiguous: flush its rows, or all of it")
        at = ctypes.addressof((ctypes.c_char * memory.nbytes).from_buffer(memory.cast("B")))
        check(library().VELOC_Pmem_flush(self._handle, at, memory.nbytes))

    def drain(self) -> None:
        """Waits until everything that this thread has flushed survives a crash."""
        check(library().VELOC_Pmem_drain(self._handle))

    def invariant(self, name: str, function: Invariant) -> None:
        """Adds an invariant: `function(iteration, scalars)` is True, False, or None if it cannot tell.

        If it raises, `recover` or `restart` raises the same exception.
        """
        raised = self._raised

        def call(iteration: int, scalars: Any, n: int, _: Any) -> int:
            try:
                answer = function(iteration, tuple(scalars[:n]))
                return _UNKNOWN if answer is None else _HOLDS if answer else _FAILS
            except BaseException as error:
                raised.append(error)
                return _UNKNOWN

        called = _Function(call)
        check(library().VELOC_Pmem_invariant(self._handle, text("name", name), called, None))
        self._functions[name] = called

    def recover(self) -> int | None:
        """The newest marked iteration in which all invariants hold; None: nothing was marked yet."""
        iteration = ctypes.c_int64()
        self._checked(library().VELOC_Pmem_recover(self._handle, ctypes.byref(iteration)))
        return None if iteration.value < 0 else iteration.value

    def restart(self, name: str) -> tuple[int | None, int | None]:
        """Finds the iteration after which to go on (None: there is none), and the version of the checkpoint
        to restore for that (None: the arrays have it). Needs a job; collective under MPI
        (`VELOC_Pmem_restart`)."""
        if not Job.alive():
            raise Error("there is no job: open the veloc.Job that has the checkpoints")
        iteration, version = ctypes.c_int64(), ctypes.c_int()
        self._checked(
            library().VELOC_Pmem_restart(
                self._handle, text("name", name), ctypes.byref(iteration), ctypes.byref(version)
            )
        )
        found = [None if one.value < 0 else one.value for one in (iteration, version)]
        return found[0], found[1]

    def scalars(self) -> tuple[float, ...]:
        """The numbers that were marked with the iteration that was found or marked last."""
        values = (ctypes.c_double * _MOST_SCALARS)()
        found = library().VELOC_Pmem_scalars(self._handle, values, _MOST_SCALARS)
        if found < 0:
            raise last_error()
        return tuple(values[:found])

    def report(self) -> list[Tried]:
        """What the last search has tried, the newest iteration first."""
        found = library().VELOC_Pmem_report(self._handle, None, 0)
        if found < 0:
            raise last_error()
        tried = (_Tried * found)()
        library().VELOC_Pmem_report(self._handle, tried, found)
        answers = {_HOLDS: True, _FAILS: False, _UNKNOWN: None}
        return [
            Tried(one.iteration, answers[one.answer], one.invariant.decode(errors="replace"))
            for one in tried
        ]

    def forget(self) -> None:
        """Forgets all marks, so that iterations begin anew."""
        check(library().VELOC_Pmem_forget(self._handle))

    @property
    def _file(self) -> _Open:
        if self._open is None:
            raise Error("the file of arrays is closed")
        return self._open

    @property
    def _handle(self) -> ctypes.c_void_p:
        return self._file.handle

    def _checked(self, status: int) -> None:
        if self._raised:
            first = self._raised[0]
            self._raised.clear()
            raise first
        check(status)


declare(
    ("Pmem_open", [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p], ctypes.c_int),
    ("Pmem_close", [ctypes.c_void_p], ctypes.c_int),
    ("Pmem_domain", [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int),
    (
        "Pmem_array_of",
        [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_char,
            ctypes.c_size_t,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.c_void_p,
        ],
        ctypes.c_int,
    ),
    ("Pmem_at", [ctypes.c_void_p, ctypes.c_int64], ctypes.c_void_p),
    (
        "Pmem_mark",
        [ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_double), ctypes.c_int],
        ctypes.c_int,
    ),
    ("Pmem_flush", [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int),
    ("Pmem_drain", [ctypes.c_void_p], ctypes.c_int),
    (
        "Pmem_invariant",
        [ctypes.c_void_p, ctypes.c_char_p, _Function, ctypes.c_void_p],
        ctypes.c_int,
    ),
    ("Pmem_recover", [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int),
    (
        "Pmem_scalars",
        [ctypes.c_void_p, ctypes.POINTER(ctypes.c_double), ctypes.c_int],
        ctypes.c_int,
    ),
    ("Pmem_report", [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int], ctypes.c_int),
    ("Pmem_forget", [ctypes.c_void_p], ctypes.c_int),
    (
        "Pmem_restart",
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p],
        ctypes.c_int,
    ),
)
