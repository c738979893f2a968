"""The class `Job`."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
import types
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from . import _alone
from ._library import Error, Library, check, declare, last_error, library, number, text
from ._metrics import CAPTURES, metrics, snapshots
from ._options import Value, start
from ._regions import ObjectRegion, Region, compression_mode, region_of
from ._restore import restore

#: How the answer of VELOC_Restart_test begins where it has found none and nothing is wrong.
_NONE_FOUND = "there is no checkpoint "

#: Those of this process; one at the most has not ended.
_jobs: weakref.WeakSet[Job] = weakref.WeakSet()


class _Failure:
    """What has failed in the background."""

    def __init__(self, error: Error) -> None:
        self.error, self.can_be_tried_again = error, False

    def tell(self) -> None:
        """To be called when the call that tries again has succeeded: raises what is lost."""
        if not self.can_be_tried_again:
            raise self.error
        warnings.warn(f"{self.error}; a second attempt has succeeded", RuntimeWarning, stacklevel=3)


class Job:
    """The job of this process: what is protected, and its checkpoints.

    It is configured by keywords, by a mapping, or by the file `config`. The keys and their values are those
    of the file (`host_cache_size="2G"`); bools, numbers and paths can be given as such. A keyword overrides
    the mapping, and the environment (`VELOC_MODE`) overrides both. A process has one job at a time.

    `comm` is an mpi4py communicator; the job is collective over it. Without `comm`, `rank` is the number of
    this process in the names of files.

    The end of a `with` block waits until everything is in the files that the configuration asks for. If the
    block raises, or the interpreter ends inside it, no checkpoint is lost, but nothing waits for the files.
    If the library refuses something, `Error` is raised with its reason; a number, a text or an array that
    it cannot take raises ValueError or TypeError.

    >>> import numpy, veloc
    >>> state = numpy.zeros(1000)
    >>> with veloc.Job(mode="async", ephemeral=True, host_cache_size="64M") as job:
    ...     job.protect(0, state)
    ...     for step in range(3):
    ...         state += 1
    ...         job.checkpoint("forward", step)
    ...     job.latest("forward")
    ...     for step in reversed(range(3)):
    ...         job.restart("forward", step)
    ...         print(state[0])
    2
    3.0
    2.0
    1.0
    """

    #: What to do before the next one begins.
    _ending = "end it with job.finalize(), or begin it as `with veloc.Job(...) as job:`"

    def __init__(
        self,
        config: str | os.PathLike[str] | Mapping[str, Value] | None = None,
        *,
        comm: Any = None,
        rank: int | None = None,
        **options: Value,
    ) -> None:
        other = Job.alive()
        if other is not None:
            raise Error(f"this process has a job already, {other!r}: {other._ending}")
        try:
            start(config, options, comm, rank)
        except KeyboardInterrupt:
            # It may have begun all the same, and nobody would have it.
            if Job.alive() is None:
                library().VELOC_Finalize(0)
            raise
        self._process = os.getpid()
        self._config = config if isinstance(config, (str, os.PathLike)) else {**(config or {}), **options}
        # The regions of each name that has its own, and under None those of all others.
        self._groups: dict[str | None, dict[int, Region | ObjectRegion]] = {None: {}}
        self._comm = comm
        self._end: weakref.finalize[[int], Job] = weakref.finalize(self, _end, os.getpid())
        _jobs.add(self)

    def __repr__(self) -> str:
        if isinstance(self._config, dict):
            what = ", ".join(f"{key}={value!r}" for key, value in self._config.items())
        else:
            what = repr(os.fspath(self._config))
        regions = sum(map(len, self._groups.values()))
        state = f"{regions} protected" if self._end.alive else "ended"
        return f"<veloc.Job({what}): {state}>"

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        if kind is None:
            self.finalize(drain=True)
            return
        self._finalize_beside_an_error()

    def finalize(self, drain: bool = False) -> None:
        """Ends the job; `drain` waits until everything is in files.

        A job ends by itself, without `drain`, when its object is no longer used and when the interpreter
        ends. A second call does nothing.
        """
        if not self._end.alive:
            return
        failure = None
        try:
            if drain:
                failure = self._pause_until_finished()
        except BaseException:
            self._finalize_beside_an_error()
            raise
        self._end.detach()
        check(library().VELOC_Finalize(int(drain)))
        if failure is not None:
            failure.tell()

    # --- regions ---

    def protect(self, id: int, what: Any, name: str | None = None) -> None:
        """Makes an array or a `Pickled` part of checkpoints. It replaces what has this id.

        An array is one of NumPy, CuPy, Numba or PyTorch, or anything with
        `__cuda_array_interface__`, `__array_interface__`, a writable buffer or `__dlpack__`, in
        memory of the host or of a GPU. It must be one range of memory. It is not copied, and is kept alive
        until `unprotect`. Change it in place (`a += 1`, `a[:] = ...`): `a = a + 1` makes another array, as
        do `A[[0, 2]]`, `flatten` and `astype`. A checkpoint has the elements in the order of memory: if an
        array with another order of dimensions (`A.T`) is restored from it, they come back permuted.

        With `name`, it is part of the checkpoints of that name alone, and these have no regions without a
        name.
        """
        calls, id, group = self._calls(), number("id", id), self._groups.get(name, {})
        if name is not None:
            text("name", name)
        region = region_of(id, what)
        before = group.get(id)
        if before is not None:
            region.told = before.told
        if isinstance(before, Region) and isinstance(region, Region) and region.is_turned(before):
            warnings.warn(
                f"region {id}: the array has its dimensions in another order in memory than the one that was "
                "protected before, whose checkpoints come back permuted in it; protect arrays of one order "
                "(order='C')",
                RuntimeWarning,
                stacklevel=2,
            )
        if isinstance(region, ObjectRegion):
            if before is not None:
                self.unprotect(id, name)
        else:
            # From here on both are alive, whichever the library has if this is interrupted.
            region.before = before
            self._groups[name] = group
            group[id] = region
            try:
                self._protect(calls, id, region, name)
            except Error:
                del group[id]
                if before is not None:
                    group[id] = before
                raise
            region.before = None
        group[id] = region
        self._groups[name] = group

    def unprotect(self, id: int, name: str | None = None) -> None:
        """Ends the protection of a region."""
        calls, group = self._calls(), self._groups.get(name, {})
        region = group.get(id)
        # The library has met an object if it has been in memory.
        if not isinstance(region, ObjectRegion) or region.memory is not None:
            if name is None:
                check(calls.VELOC_Mem_unprotect(number("id", id)))
            else:
                check(calls.VELOC_Region_unprotect(number("id", id), text("name", name)))
        del group[id]

    def capture(self, id: int, mode: str) -> None:
        """Sets how checkpoints take an array in host memory, in place of the key `host_capture`.

        `mode` is "copy", "protect", "fork", or "auto" for what the key says.
        """
        if mode not in CAPTURES:
            raise ValueError(f"mode is {mode!r}, not one of {', '.join(CAPTURES)}")
        check(self._calls().VELOC_Mem_capture(number("id", id), CAPTURES.index(mode)))

    def compress(
        self,
        id: int,
        bits: int | None = None,
        bound: float = 0.0,
        relative: bool = False,
        lossless: bool = False,
        name: str | None = None,
    ) -> None:
        """Has checkpoints compress an array of floats, within a bound on the error or without loss.

        `bits` is 8, 12 or 16 for each value, or None, which ends the compression. `bound` is the most by
        which a value may differ after a restart; with `relative` it is a fraction of the array's largest
        absolute value. `lossless`, without these: all bits come back. `name` is that of `protect`.
        """
        mode, region = compression_mode(bits, bound, relative, lossless), self._groups.get(name, {}).get(id)
        if bits and isinstance(region, Region):
            region.check_floats(id)
        calls, id = self._calls(), number("id", id)
        if name is None:
            check(calls.VELOC_Mem_compress(id, mode, bound))
        else:
            check(calls.VELOC_Region_compress(id, mode, bound, text("name", name)))

    def decompose(
        self, id: int, shape: Sequence[int], offsets: Sequence[int], order: Literal["C", "F"] | None = None
    ) -> None:
        """Says which part of an array that the processes of the job share a protected array is.

        `shape` is that of the whole array, of one to three dimensions, and `offsets` the index of the part's
        first element in it. The parts of all processes make up the array. A job of any number of processes
        then finds such a version in persistent, and `restart` gives each the part that it says it has.
        Arrays and objects of which nothing is said have to be alike on all processes. `order` is that of the
        dimensions in memory, where the array itself does not say so: "F" if the first one changes fastest.
        """
        calls, region = self._calls(), self._groups[None].get(number("id", id))
        if not isinstance(region, Region):
            raise ValueError(f"region {id} is no protected array")
        range = region.range
        lists = [list(shape), list(offsets), list(range.shape)]
        if len({len(numbers) for numbers in lists}) > 1:
            raise ValueError(f"region {id}: the shape {lists[0]}, the offsets {lists[1]} and the array's shape {lists[2]}")
        axes = range.axes(id, order)
        sizes = [
            (ctypes.c_size_t * len(axes))(*(number(f"a size or offset of region {id}", numbers[axis], ctypes.c_size_t) for axis in axes))
            for numbers in lists
        ]
        check(calls.VELOC_Mem_decompose(id, len(axes), *sizes, range.size))

    def set_stream(self, stream: Any) -> None:
        """Tells the library in which stream the program computes.

        The stream is one of PyTorch or CuPy, or the address of a CUstream; with 0 there is none. Without a
        stream the library's copies come after the work of all streams.

        With `stream_ordered=True` the copies of device memory run in its order, and `checkpoint` and
        `restart` do not wait for them. Other streams must wait for an event of this one, and an array has
        to live until the stream was synchronized.
        """
        address = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))
        check(self._calls().VELOC_Set_stream(number("stream", address, ctypes.c_size_t)))

    # --- checkpoints ---

    def checkpoint(self, name: str, version: int) -> None:
        """Takes a checkpoint of everything that is protected.

        Returns when the arrays may be changed again; files are written in the background.
        """
        calls, which = self._calls(), (text("name", name), number("version", version))
        group, regions = self._regions(name)
        for id, region in regions.items():
            if isinstance(region, ObjectRegion):
                self._protect(calls, id, region.write(), group)
            else:
                region.check(id)
        everything = [region for group in self._groups.values() for region in group.values()]
        _alone.warn(regions, everything, level=3)
        check(calls.VELOC_Checkpoint(*which))

    def wait(self) -> None:
        """Waits until every checkpoint has reached the last level that the configuration asks for."""
        calls = self._calls()
        failure = self._pause_until_finished()
        check(calls.VELOC_Checkpoint_wait())
        if failure is not None:
            failure.tell()

    def finished(self) -> bool:
        """Whether every checkpoint has reached the last level that the configuration asks for."""
        found: int = self._calls().VELOC_Checkpoint_finished()
        if found < 0:
            raise last_error()
        return found == 1

    def cleanup(self, name: str) -> None:
        """Removes the checkpoints of a name from memory and scratch."""
        check(self._calls().VELOC_Cleanup(text("name", name)))

    def metrics(self) -> dict[str, Any]:
        """The library's figures of this job (`VELOC_Get_metrics`), by their names in C.

        Sums have `bytes`, `nanoseconds` and `count`. The keys of `hops` are the two levels of a transfer
        (`AtoH`: from the application's memory to the host buffer), those of `blocked` the causes of a wait.
        """
        self._calls()
        return metrics()

    def snapshots(self) -> dict[str, Any]:
        """How checkpoints took host memory, why, and what that cost (`VELOC_Snapshot_stats`)."""
        self._calls()
        return snapshots()

    # --- restarts ---

    def latest(self, name: str, before: int | None = None) -> int | None:
        """The newest version that can be restored and is less than `before`; None if there is none.

        Test it by `is not None`: the version may be 0. Collective over MPI.
        """
        calls, which = self._calls(), text("name", name)
        if before is None or before > 1:
            last = 0 if before is None else number("before", before) - 1
            found: int = calls.VELOC_Restart_test(which, last)
            if found >= 0:
                return found
            error = last_error()
            if not str(error).startswith(_NONE_FOUND):
                raise error
        # For the function above, 0 is no bound.
        elif before == 1:
            with contextlib.suppress(Error):
                restore(calls, (which, 0), [], consumed=False)
                return 0
        return None

    def restart(self, name: str, version: int) -> None:
        """Restores a checkpoint into the protected arrays and objects. Collective over MPI."""
        calls, which = self._calls(), (text("name", name), number("version", version))
        regions = self._regions(name)[1]
        try:
            for id, region in regions.items():
                if isinstance(region, Region):
                    region.check(id)
                    region.check_writable(id)
        except BaseException:
            if self._comm is not None:
                # The others are waiting, and hear of it: no checkpoint has an empty name.
                calls.VELOC_Restart_begin(b"", 0)
            raise
        if any(isinstance(region, ObjectRegion) for region in regions.values()):
            self._restart_objects(calls, name, which)
        else:
            check(calls.VELOC_Restart(*which))

    def prefetch(self, name: str, versions: Iterable[int]) -> None:
        """Hints that these checkpoints will be restored, in this order, after those hinted before."""
        calls, which = self._calls(), text("name", name)
        for version in versions:
            check(calls.VELOC_Prefetch_enqueue(which, number("version", version)))
        check(calls.VELOC_Prefetch_start())

    # --- within ---

    @staticmethod
    def alive() -> Job | None:
        """The job of this process that has not ended."""
        # A forked process has copies of its parent's.
        mine = [job for job in _jobs if job._end.alive and job._process == os.getpid()]
        return mine[0] if mine else None

    def _calls(self) -> Library:
        """The library, for this job: another may have begun since this one has ended."""
        if not self._end.alive:
            raise Error(f"{self!r} has ended: open another veloc.Job")
        return library()

    def _finalize_beside_an_error(self) -> None:
        """Ends the job while another exception is on its way, which goes on."""
        try:
            self.finalize()
        except Error as error:
            warnings.warn(str(error), RuntimeWarning, stacklevel=3)

    def _pause_until_finished(self) -> _Failure | None:
        """Waits in steps, between which the interpreter hears of Ctrl-C.

        Returns what has failed in the background. The call that follows tries again what it can.
        """
        calls, pause = self._calls(), 0.0001
        failure: _Failure | None = None
        while (found := calls.VELOC_Checkpoint_finished()) != 1:
            if found < 0 and failure is not None:
                # The library tells once of what is lost, and each time of what can be tried again.
                failure.can_be_tried_again = True
                return failure
            if found < 0:
                failure = _Failure(last_error())
                continue
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
        return failure

    def _restart_objects(self, calls: Library, name: str, which: tuple[bytes, int]) -> None:
        """The same where there are objects, whose sizes are known only from the checkpoint."""
        group, regions = self._regions(name)
        objects = [(id, found) for id, found in regions.items() if isinstance(found, ObjectRegion)]
        # Over MPI, the version may have to be rebuilt before its sizes are known.
        begun = self._comm is not None
        if begun:
            check(calls.VELOC_Restart_begin(*which))
        try:
            for id, region in objects:
                length = calls.VELOC_Recover_ckpt_size(*which, id)
                if length == 0:
                    raise last_error()
                self._protect(calls, id, region.make_room(length), group)
            if begun:
                check(calls.VELOC_Recover_mem())
        except BaseException:
            if begun:
                calls.VELOC_Restart_end(0)
            raise
        check(calls.VELOC_Restart_end(1) if begun else calls.VELOC_Restart(*which))
        for _, region in objects:
            region.read()

    def _protect(self, calls: Library, id: int, region: Region, name: str | None) -> None:
        address, count, size, *_ = region.range
        if name is None:
            check(calls.VELOC_Mem_protect(id, address, count, size))
        else:
            check(calls.VELOC_Region_protect(id, address, count, size, text("name", name)))

    def _regions(self, name: str) -> tuple[str | None, dict[int, Region | ObjectRegion]]:
        """The group that the checkpoints of a name have, and its regions."""
        group = name if self._groups.get(name) else None
        return group, self._groups[group]


def _end(process: int) -> None:
    """Ends a job that nobody has ended: its object is gone, or the interpreter ends."""
    # A forked process has a copy of the object, and no job.
    if os.getpid() == process:
        check(library().VELOC_Finalize(0))


_name, _version, _id, _status = ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_int
_address, _size = ctypes.c_void_p, ctypes.c_size_t
_sizes = ctypes.POINTER(ctypes.c_size_t)
declare(
    ("Finalize", [ctypes.c_int], _status),
    ("Set_stream", [_address], _status),
    ("Mem_protect", [_id, _address, _size, _size], _status),
    ("Region_protect", [_id, _address, _size, _size, _name], _status),
    ("Mem_unprotect", [_id], _status),
    ("Mem_capture", [_id, ctypes.c_int], _status),
    ("Mem_compress", [_id, ctypes.c_int, ctypes.c_double], _status),
    ("Mem_decompose", [_id, ctypes.c_int, _sizes, _sizes, _sizes, _size], _status),
    ("Region_compress", [_id, ctypes.c_int, ctypes.c_double, _name], _status),
    ("Region_clear", [_name], _status),
    ("Region_unprotect", [_id, _name], _status),
    ("Checkpoint", [_name, _version], _status),
    ("Checkpoint_wait", [], _status),
    ("Checkpoint_finished", [], ctypes.c_int),
    ("Cleanup", [_name], _status),
    ("Restart_test", [_name, _version], ctypes.c_int),
    ("Restart", [_name, _version], _status),
    ("Restart_begin", [_name, _version], _status),
    ("Recover_ckpt_size", [_name, _version, _id], _size),
    ("Recover_mem", [], _status),
    ("Restart_end", [ctypes.c_int], _status),
    ("Prefetch_enqueue", [_name, _version], _status),
    ("Prefetch_start", [], _status),
)
