"""Snapshots of the states and the adjoint of `veloc.revolve`, as checkpoints of the library."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from . import _hidden
from ._dlpack import is_on_device
from ._job import Job
from ._library import Error, Library, check, last_error, number, text
from ._options import Value
from ._regions import ObjectRegion, Range, region_of
from ._restore import restore

#: Of the mark: the computation's steps, slots in memory and on disk, the tag, and the state.
_Mark = ctypes.c_int64 * 5
#: The region that has it. The arrays have the numbers from 0 on.
_MARK = 2**31 - 1
#: What a snapshot takes in memory beside its arrays, and for each of them, at the most.
_OVERHEAD = 512
_LEAST_ROOM = 1 << 20
#: What the library says of a version that there never was.
_NONE = "there is no checkpoint"

#: Who stores snapshots under a name in a job that several share.
_at_work: weakref.WeakValueDictionary[tuple[int, str], Snapshots] = weakref.WeakValueDictionary()
_at_work_lock = threading.Lock()

#: Of those that were given no name, and have no use for one.
_numbers = itertools.count(1)


class Layout:
    """The arrays of all states of a computation, which keep their sizes and their order of dimensions."""

    def __init__(self) -> None:
        #: Of the first state's arrays.
        self._ranges: list[Range] | None = None

    @property
    def bytes(self) -> int:
        """Of a state."""
        return sum(_sizes(self._ranges or []))

    def whole(self, arrays: Sequence[Any]) -> list[Any]:
        """The arrays, or copies of NumPy's that have gaps between their rows, or another order than those of
        the first state."""
        firsts = self._ranges or []
        return [whole(array, *firsts[id : id + 1]) for id, array in enumerate(arrays)]

    def of(self, state: int, arrays: Sequence[Any]) -> list[Range]:
        """The ranges of memory that have this state."""
        ranges = [_range(id, array) for id, array in enumerate(arrays)]
        if self._ranges is None:
            self._ranges = ranges
        sizes, firsts = _sizes(ranges), _sizes(self._ranges)
        if sizes != firsts:
            raise ValueError(
                f"state {state}: its arrays have {sizes} bytes; those of the states before it had "
                f"{firsts}, and arrays of a Revolver keep their sizes"
            )
        for id, (range, first) in enumerate(zip(ranges, self._ranges)):
            if range.is_turned(first):
                raise ValueError(
                    f"state {state}: array {id} has its dimensions in another order in memory than in the "
                    "states before it, which would come back permuted in it"
                )
        return ranges


def whole(array: Any, first: Range | None = None) -> Any:
    """The array, or a copy of one of NumPy's that has gaps between its rows, or another order of dimensions
    than the first."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(array, numpy.ndarray):
        return array
    is_fortran = array.flags.fnc if first is None else first.order() != sorted(first.order())
    return numpy.asanyarray(array, order="F" if is_fortran else "C")


class Snapshots:
    """The checkpoints of one computation: a slot is a version of `name`.

    Without `directory` they are in memory alone. With it they are files as well, and each has a
    mark, which says what it is to who comes after a crash. The last two adjoints are versions 0 and
    1 of `<name>.adjoint`, whichever is older being written next.
    """

    def __init__(
        self,
        name: str | None,
        computation: tuple[int, int, int, int],
        directory: str | os.PathLike[str] | None,
        job: Job | None,
        options: Mapping[str, Value],
        slots: int,
    ) -> None:
        if name is None:
            unseen = job is None and directory is None
            name = f"revolve.{next(_numbers)}" if unseen else "revolve"
        self.states, self.adjoints = text("name", name), text("name", f"{name}.adjoint")
        self._names = name, f"{name}.adjoint"
        self._computation = computation
        self._directory = directory
        self._given, self._options = job, dict(options)
        self._job: Job | None = None
        #: To be called when the job is needed no longer.
        self._leave: weakref.finalize[Any, Any] | None = None
        #: So many have room in memory.
        self._slots = slots
        self._mark = _Mark(*computation, 0)
        self._layouts = {self.states: Layout(), self.adjoints: Layout()}
        self._next_adjoint = 0

    # --- the job ---

    def open(self, state: Sequence[Any], adjoint: Sequence[Any]) -> None:
        """Begins the job, or joins that of other Revolvers, unless one was given."""
        self._job = self._given
        if self._job is None:
            room = f"{self._slots * _room(state) + _room(adjoint) + _LEAST_ROOM}B"
            options: dict[str, Value] = {"mode": "async"}
            if self._directory is None:
                options |= {"ephemeral": True, "gpu_cache_size": "0"}
                if not any(map(is_on_device, state)):
                    # What is needed, by those that come later as well.
                    room = "auto"
            else:
                os.makedirs(self._directory, exist_ok=True)
                options |= {"scratch": os.path.abspath(self._directory), "threaded": True}
            self._job, self._leave = _hidden.join(self, options | self._options, room)
        with _at_work_lock:
            if _at_work.setdefault((id(self._job), self._names[0]), self) is not self:
                raise Error(
                    f"another Revolver stores its snapshots under the name {self._names[0]!r} in this job: give "
                    "each its own (name=...)"
                )

    @property
    def calls(self) -> Library:
        if self._job is None:
            raise Error("this Revolver's computation has ended: its job is closed")
        return self._job._calls()

    def close(self) -> None:
        """Leaves the job, which ends if nobody else has it; not one that was given."""
        key, self._job = (id(self._job), self._names[0]), None
        with _at_work_lock:
            if _at_work.get(key) is self:
                del _at_work[key]
        if self._leave is not None:
            self._leave()

    def remove(self) -> None:
        """Removes all snapshots."""
        if self._job is not None:
            for name in self.states, self.adjoints:
                check(self.calls.VELOC_Cleanup(name))

    # --- states ---

    def store(self, slot: int, state: int, arrays: Sequence[Any]) -> None:
        """Takes a snapshot of a state in a slot."""
        self._store(self.states, slot, state, arrays)

    def restore(self, slot: int, state: int, arrays: Sequence[Any], again: bool) -> None:
        """Reads a state from a slot; unless it is read `again`, its memory is free then."""
        self._restore(self.states, slot, state, arrays, again)

    # --- adjoints ---

    def store_adjoint(self, state: int, arrays: Sequence[Any]) -> None:
        """Takes a snapshot of the adjoint, which has come to this state."""
        self._store(self.adjoints, self._next_adjoint, state, arrays)
        self._next_adjoint = 1 - self._next_adjoint

    def restore_adjoint(self, state: int, arrays: Sequence[Any]) -> None:
        """Reads the newest adjoint, which `find_adjoint` has found."""
        self._restore(self.adjoints, 1 - self._next_adjoint, state, arrays, True)

    # --- what a crash has left ---

    def find_states(self, slots: int) -> list[int | None]:
        """For each slot the state that is in it."""
        if self._directory is None:
            return [None] * slots
        return [self._found(self.states, slot) for slot in range(slots)]

    def find_adjoint(self) -> int | None:
        """The state of the newest adjoint."""
        found = self._found(self.adjoints, 0), self._found(self.adjoints, 1)
        left = [(state, version) for version, state in enumerate(found) if state is not None]
        if not left:
            return None
        state, version = min(left)
        self._next_adjoint = 1 - version
        return state

    def _found(self, name: bytes, version: int) -> int | None:
        """The state of a version; None if there is none that is whole and of this computation."""
        calls, mark, which = self.calls, self._mark, (name, version)
        size = calls.VELOC_Recover_ckpt_size(*which, _MARK)
        if size != ctypes.sizeof(mark):
            error = last_error()
            if size == 0 and _NONE not in str(error):
                _pass_over(error)
            return None
        try:
            restore(calls, which, [(_MARK, self._mark_range())], consumed=False)
        except Error as error:
            _pass_over(error)
            return None
        *found, state = mark
        if tuple(found) != self._computation:
            names = "steps", "slots in memory", "slots on disk", "tag"
            has, wants = (
                ", ".join(f"{value} {name}" for name, value in zip(names, values))
                for values in (found, self._computation)
            )
            raise Error(
                f"{os.fspath(self._directory or '')} has snapshots {self._names[0]!r} of a "
                f"computation with {has}; this one has {wants}: go on with the same numbers, give "
                "another name, or remove them with Revolver.discard()"
            )
        return state

    # --- within ---

    def _store(self, name: bytes, version: int, state: int, arrays: Sequence[Any]) -> None:
        arrays = self._layouts[name].whole(arrays)
        regions = self._regions(name, arrays, state)
        # A state without arrays has nothing to store.
        if not regions:
            return
        if self._job is None:
            self.open(arrays, [])
        calls = self.calls
        for id, (address, count, size, *_) in regions:
            check(calls.VELOC_Region_protect(id, address, count, size, name))
        check(calls.VELOC_Checkpoint(name, version))

    def _regions(self, name: bytes, arrays: Sequence[Any], state: int) -> list[tuple[int, Range]]:
        """What a snapshot of these arrays has."""
        regions = list(enumerate(self._layouts[name].of(state, arrays)))
        if self._directory is not None:
            self._mark[4] = state
            regions.append((_MARK, self._mark_range()))
        return regions

    def _mark_range(self) -> Range:
        return Range(ctypes.addressof(self._mark), len(self._mark), 8)

    def _restore(
        self, name: bytes, version: int, state: int, arrays: Sequence[Any], again: bool
    ) -> None:
        buffers = self._layouts[name].whole(arrays)
        regions = self._regions(name, buffers, state)
        if not regions:
            return
        restore(self.calls, (name, version), regions, consumed=not again)
        if self._directory is not None and self._mark[4] != state:
            raise Error(
                f"slot {version} of {name.decode()} has state {self._mark[4]}, not {state}: does "
                "another program use this directory and name?"
            )
        for array, buffer in zip(arrays, buffers):
            if array is not buffer:
                array[...] = buffer


def _sizes(ranges: Sequence[Range]) -> list[int]:
    return [range.place()[1] for range in ranges]


def _pass_over(error: Error) -> None:
    warnings.warn(f"passed over a snapshot: {error}", RuntimeWarning, stacklevel=7)


def _room(arrays: Sequence[Any]) -> int:
    ranges = [_range(id, whole(array)) for id, array in enumerate(arrays)]
    return _OVERHEAD + sum(range.place()[1] + _OVERHEAD for range in ranges)


def _range(id: int, array: Any) -> Range:
    region = region_of(id, array)
    if isinstance(region, ObjectRegion):
        raise TypeError(f"array {id} is a Pickled: a snapshot has arrays, whose size stays")
    return region.range
