"""Snapshots of the states and the adjoint of `veloc.revolve`, as checkpoints of the library."""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

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


class Snapshots:
    """The checkpoints of one computation: a slot is a version of `name`.

    Without `directory` they are in memory alone. With it they are files as well, and each has a
    mark, which says what it is to who comes after a crash. The last two adjoints are versions 0 and
    1 of `<name>.adjoint`, whichever is older being written next.
    """

    def __init__(
        self,
        name: str,
        computation: tuple[int, int, int, int],
        directory: str | os.PathLike[str] | None,
        job: Job | None,
        options: Mapping[str, Value],
    ) -> None:
        self.states, self.adjoints = text("name", name), text("name", f"{name}.adjoint")
        self._names = name, f"{name}.adjoint"
        self._computation = computation
        self._directory = directory
        self._given, self._options = job, dict(options)
        self._job: Job | None = None
        self._mark = _Mark(*computation, 0)
        #: For each array of a state, and of an adjoint, its bytes.
        self._sizes: dict[bytes, list[int]] = {}
        self._next_adjoint = 0

    # --- the job ---

    def open(self, states: int, state: Sequence[Any], adjoint: Sequence[Any]) -> None:
        """Begins the job, with room in memory for so many states and an adjoint, unless a job was
        given."""
        if self._given is not None:
            key = id(self._given), self._names[0]
            with _at_work_lock:
                if _at_work.setdefault(key, self) is not self:
                    raise Error(
                        f"another Revolver stores its snapshots under the name {self._names[0]!r} in this job: give "
                        "each its own (name=...)"
                    )
            self._job = self._given
            return
        if Job.alive():
            raise Error(
                "the program has a job that has not ended: end it first, or give it to the Revolver "
                "(job=...), which then stores its snapshots there"
            )
        room = states * _room(state) + _room(adjoint) + _LEAST_ROOM
        options: dict[str, Value] = {"mode": "async", "host_cache_size": f"{room}B"}
        if self._directory is None:
            options |= {"ephemeral": True, "gpu_cache_size": "0"}
        else:
            os.makedirs(self._directory, exist_ok=True)
            options |= {"scratch": self._directory, "threaded": True}
        self._job = Job({**options, **self._options})

    @property
    def calls(self) -> Library:
        if self._job is None:
            raise Error("this Revolver's computation has ended: its job is closed")
        return self._job._calls()

    def close(self, drain: bool) -> None:
        """Ends the job, if it is this object's own; `drain`: when all is in files."""
        job, self._job = self._job, None
        with _at_work_lock:
            if _at_work.get((id(self._given), self._names[0])) is self:
                del _at_work[id(self._given), self._names[0]]
        if job is not None and job is not self._given:
            job.finalize(drain)

    def remove(self) -> None:
        """Removes all snapshots."""
        for name in self.states, self.adjoints:
            check(self.calls.VELOC_Cleanup(name))

    # --- states ---

    def store(self, slot: int, state: int, arrays: Sequence[Any]) -> None:
        """Takes a snapshot of a state in a slot."""
        self._protect(self.states, arrays, state)
        check(self.calls.VELOC_Checkpoint(self.states, slot))

    def restore(self, slot: int, state: int, arrays: Sequence[Any], again: bool) -> None:
        """Reads a state from a slot; unless it is read `again`, its memory is free then."""
        self._restore(self.states, slot, state, arrays, again)

    # --- adjoints ---

    def store_adjoint(self, state: int, arrays: Sequence[Any]) -> None:
        """Takes a snapshot of the adjoint, which has come to this state."""
        self._protect(self.adjoints, arrays, state)
        check(self.calls.VELOC_Checkpoint(self.adjoints, self._next_adjoint))
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

    def _protect(self, name: bytes, arrays: Sequence[Any], state: int) -> None:
        calls = self.calls
        for id, (address, count, size, _) in self._regions(name, arrays, state):
            check(calls.VELOC_Region_protect(id, address, count, size, name))

    def _regions(self, name: bytes, arrays: Sequence[Any], state: int) -> list[tuple[int, Range]]:
        """What a snapshot of these arrays has."""
        sizes = self._sizes.get(name)
        ranges = [_range(id, array) for id, array in enumerate(arrays)]
        bytes = [range.place()[1] for range in ranges]
        if sizes is None:
            self._sizes[name] = bytes
        elif bytes != sizes:
            raise ValueError(
                f"state {state}: its arrays have {bytes} bytes; those of the states before it had "
                f"{sizes}, and arrays of a Revolver keep their sizes"
            )
        regions = list(enumerate(ranges))
        if self._directory is not None:
            self._mark[4] = state
            regions.append((_MARK, self._mark_range()))
        return regions

    def _mark_range(self) -> Range:
        return Range(ctypes.addressof(self._mark), len(self._mark), 8)

    def _restore(
        self, name: bytes, version: int, state: int, arrays: Sequence[Any], again: bool
    ) -> None:
        regions = self._regions(name, arrays, state)
        restore(self.calls, (name, version), regions, consumed=not again)
        if self._directory is not None and self._mark[4] != state:
            raise Error(
                f"slot {version} of {name.decode()} has state {self._mark[4]}, not {state}: does "
                "another program use this directory and name?"
            )


def _pass_over(error: Error) -> None:
    warnings.warn(f"passed over a snapshot: {error}", RuntimeWarning, stacklevel=7)


def _room(arrays: Sequence[Any]) -> int:
    ranges = [_range(id, array) for id, array in enumerate(arrays)]
    return _OVERHEAD + sum(range.place()[1] + _OVERHEAD for range in ranges)


def _range(id: int, array: Any) -> Range:
    region = region_of(id, array)
    if isinstance(region, ObjectRegion):
        raise TypeError(f"array {id} is a Pickled: a snapshot has arrays, whose size stays")
    return region.range
