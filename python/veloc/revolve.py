"""Checkpointing with the interface of pyrevolve, on the library's checkpoints.

    from veloc.revolve import Revolver

in place of `from pyrevolve import Revolver`, with the same arguments. `Checkpoint` and `Operator` are
pyrevolve's abstract classes. Classes of other packages (Devito's `DevitoCheckpoint` and
`CheckpointOperator`) work as well: they need only the same methods.

A snapshot in memory is a checkpoint of the arrays that `Checkpoint.get_data` gives, which the
library copies from where they are. With `directory`, snapshots are files as well, and a program that was
killed goes on from them when it is started again. A `DiskRevolver` has its snapshots in a file that is gone
with it, as in pyrevolve.

Any number of Revolvers may be under way at once, in any threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._job import Job
from ._library import Error, number
from ._options import Value
from ._slot_file import SlotFile
from ._snapshots import Snapshots
from .schedule import Action, Advance, FirstTurn, Restore, Schedule, TakeShot, YouTurn, adjust

__all__ = [
    "Checkpoint",
    "DiskRevolver",
    "DiskStorage",
    "MemoryRevolver",
    "MultiLevelRevolver",
    "NumpyStorage",
    "Operator",
    "Revolver",
    "SingleLevelRevolver",
]


class Operator(ABC):
    """Computes steps, of the forward pass or of the adjoint."""

    @abstractmethod
    def apply(self, *, t_start: int, t_end: int) -> object:
        """Computes the steps from `t_start` to `t_end`; the operator of the adjoint goes back from `t_end`."""


class Checkpoint(ABC):
    """Says what a snapshot has."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """The type of the elements."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of elements of a snapshot."""

    @abstractmethod
    def get_data(self, timestep: int) -> Sequence[Any]:
        """The arrays that are the state at this time step."""

    def get_data_location(self, timestep: int) -> Sequence[Any]:
        """The arrays into which that state is read."""
        return self.get_data(timestep)

    @property
    def nbytes(self) -> int:
        """The bytes of a snapshot."""
        import numpy

        return int(self.size * numpy.dtype(self.dtype).itemsize)


class Revolver:
    """Goes through a forward pass and its adjoint, with pyrevolve's arguments and methods.

    `n_checkpoints` is how many states can be stored at a time (None: about as many as repetitions,
    pyrevolve's choice), `n_timesteps` the steps of the forward pass. With `diskstorage` snapshots are not
    in memory, but in a file in `filedir`, which has no name and is gone with the Revolver. `singlefile` has
    no effect.

    The arguments after the star are this library's own:

    - `n_disk_checkpoints`: so many more states can be stored on disk; those of `n_checkpoints` are then in
      memory. `disk_write` and `disk_read` say how long a write and a read take, in forward steps.
    - `directory` gets the snapshots as files, so that a program that was killed goes on when it runs again,
      with the least number of steps. `name` tells computations in one directory apart. `tag` (a number)
      tells one computation from the next under the same name, for example the iteration of an optimisation.
    - `resilience_distance`: how many steps snapshots may be apart in the forward pass, so that no
      crash in it costs more.
    - `adjoint`: the arrays of the adjoint (its state, and what it computes), which are then stored
      every `adjoint_distance` of its steps (default: a twentieth of all). Without them a program that was
      killed in the reverse pass begins that pass anew, from the states that are left.
    - `job`: an open `veloc.Job`, in which the snapshots are taken; two Revolvers that are under way in it
      need two names. Without `job` all Revolvers that are under way share one job, which gets `options`. It
      lasts from the first snapshot of the first to the end of `apply_reverse` of the last.

    The memory of a snapshot is freed as soon as the snapshot is read for the last time.
    """

    #: Snapshots that have room in memory while they are written or read.
    _IN_FLIGHT = 2

    def __init__(
        self,
        checkpoint: Any,
        fwd_operator: Any,
        rev_operator: Any,
        n_checkpoints: int | None,
        n_timesteps: int,
        timings: Any = None,
        profiler: Any = None,
        compression_params: Mapping[str, Any] | None = None,
        diskstorage: bool = False,
        filedir: str | os.PathLike[str] | None = "./",
        singlefile: bool = True,
        *,
        n_disk_checkpoints: int = 0,
        disk_write: float = 1.0,
        disk_read: float = 1.0,
        name: str | None = None,
        directory: str | os.PathLike[str] | None = None,
        tag: int = 0,
        resilience_distance: int | None = None,
        adjoint: Sequence[Any] | None = None,
        adjoint_distance: int | None = None,
        job: Job | None = None,
        options: Mapping[str, Value] | None = None,
    ) -> None:
        if n_timesteps is None:
            raise ValueError("n_timesteps is None: a Revolver has to know the steps; veloc.Schedule need not")
        if compression_params is not None and compression_params.get("scheme") is not None:
            raise ValueError(
                f"compression_params asks for {compression_params['scheme']!r}: snapshots are not "
                "compressed here"
            )
        if diskstorage and (directory is not None or job is not None or options):
            raise ValueError(
                "diskstorage is True: there is no job, and the file is gone with the Revolver; directory=... "
                "alone has files that survive a crash"
            )
        if n_disk_checkpoints and directory is None and not diskstorage:
            raise ValueError(f"n_disk_checkpoints is {n_disk_checkpoints}, but directory is missing")
        if job is not None and (directory is not None or options):
            raise ValueError("a job is given: it has its own directories and options")
        if adjoint is not None and directory is None:
            raise ValueError("adjoint is given, but directory is missing, in which it is stored")
        self.checkpoint = checkpoint
        self.fwd_operator, self.rev_operator = fwd_operator, rev_operator
        self.n_timesteps = n_timesteps
        self.n_checkpoints = adjust(n_timesteps) if n_checkpoints is None else n_checkpoints
        self.timings, self.profiler = timings, profiler
        if adjoint is not None and adjoint_distance is None:
            adjoint_distance = max(1, n_timesteps // 20)
        self._schedule = Schedule(
            n_timesteps,
            self.n_checkpoints,
            disk_slots=n_disk_checkpoints,
            disk_write=disk_write,
            disk_read=disk_read,
            resilience_distance=resilience_distance,
            adjoint_distance=adjoint_distance if adjoint is not None else None,
        )
        self._slots = self.n_checkpoints + n_disk_checkpoints
        tag = number("tag", tag, ctypes.c_int64)
        computation = n_timesteps, self.n_checkpoints, n_disk_checkpoints, tag
        in_memory = min(self._slots, self.n_checkpoints + self._IN_FLIGHT)
        self._snapshots = Snapshots(name, computation, directory, job, options or {}, in_memory)
        self._lasts = directory is not None
        #: What has the slots that are on disk alone, and whether they are all.
        self._file = SlotFile(filedir) if diskstorage else None
        self._all_in_file = n_disk_checkpoints == 0
        self._adjoint = adjoint
        #: The adjoint that a crash has left, if it is to be read.
        self._left: int | None = None
        #: The first turn of the adjoint, whose step `apply_forward` has computed.
        self._turn: FirstTurn | None = None
        #: The state that the application has.
        self._at = 0
        #: What may be called next: apply_forward, apply_reverse, or nothing (None).
        self._next: str | None = "apply_forward"
        #: Those that were stored, in memory and on disk, or in one of both.
        self._stored: tuple[list[int], list[int]] = [], []

    @property
    def ratio(self) -> float:
        """All forward steps, divided by the steps of the pass."""
        return self._schedule.cost().forward_evaluations / self.n_timesteps

    @property
    def makespan(self) -> float:
        """0, as pyrevolve has it for one level."""
        return 0

    def storage_ckps(self, k: int = 0) -> list[int]:
        """The states that were stored so far in memory (or in the one level), in their order; with
        `k` = 1 those on disk."""
        return self._stored[k]

    # --- the passes ---

    def apply_forward(self) -> None:
        """Computes the forward pass and takes snapshots. After a crash it computes what is left of the
        pass."""
        with self._pass("apply_forward", then="apply_reverse"):
            self._begin()
            # A crash in the reverse pass has left nothing of this one.
            while self._left is None and self._turn is None:
                action = next(self._schedule)
                if isinstance(action, FirstTurn):
                    self._compute(action.step, "forward")
                    self._turn = action
                else:
                    self._do(action, "forward")

    def apply_reverse(self) -> None:
        """Computes the adjoint, and removes the snapshots at its end."""
        with self._pass("apply_reverse", then=None):
            self.read_left()
            if self._turn is not None:
                self._reverse(self._turn)
            for action in self._schedule:
                self._do(action, "reverse")
            self._snapshots.remove()
            self._close()

    def read_left(self) -> bool:
        """After `apply_forward`: reads the arrays of the adjoint if a crash has left them, as `apply_reverse` does
        later. Without a forward pass they alone have what its end gave."""
        if self._left is None or self._adjoint is None:
            return False
        self._snapshots.restore_adjoint(self._left, self._adjoint)
        return True

    def discard(self) -> None:
        """Removes all snapshots of this name, so that the computation begins anew."""
        if self._next == "apply_reverse":
            raise Error("discard: the computation is under way")
        self._snapshots.open([], [])
        try:
            self._snapshots.remove()
        finally:
            self._snapshots.close()

    # --- within ---

    @contextlib.contextmanager
    def _pass(self, name: str, then: str | None) -> Iterator[None]:
        """One of the two. An exception ends the computation and its job; what is in files stays."""
        if self._next != name:
            why = f"{self._next} comes first" if name == "apply_reverse" else f"{name} was called before"
            if self._next is None:
                why = "the computation has ended; make another Revolver"
            raise Error(f"{name}: {why}")
        try:
            yield
        except BaseException:
            self._next = None
            with contextlib.suppress(Error):
                self._close()
            raise
        self._next = then

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._snapshots.close()

    def _begin(self) -> None:
        """Goes on from what a crash has left. What has no files begins with the first snapshot."""
        if not self._lasts:
            return
        self._snapshots.open(self.checkpoint.get_data(0), self._adjoint or [])
        states = self._snapshots.find_states(self._slots)
        if self._adjoint is not None:
            self._left = self._snapshots.find_adjoint()
        if self._left is not None or any(state is not None for state in states):
            self._schedule.resume(states, self._left)

    def _has(self, on_disk: bool) -> Snapshots | SlotFile:
        """What has the slots of this kind."""
        return self._file if self._file is not None and (on_disk or self._all_in_file) else self._snapshots

    def _do(self, action: Action, part: str) -> None:
        match action:
            case Advance():
                # What follows computes, perhaps further: one call of the operator.
                pass
            case TakeShot(read_again=False):
                pass
            case TakeShot(state=state, slot=slot, on_disk=on_disk):
                self._compute(state, part)
                self._stored[on_disk].append(state)
                with self._timer(part, "takeshot"):
                    self._has(on_disk).store(slot, state, self.checkpoint.get_data(state))
            case Restore(state=state, slot=slot, on_disk=on_disk):
                with self._timer(part, "restore"):
                    location = getattr(self.checkpoint, "get_data_location", self.checkpoint.get_data)
                    self._has(on_disk).restore(slot, state, location(state), action.read_again)
                self._at = state
            case FirstTurn(step=step) | YouTurn(step=step):
                self._compute(step, part)
                self._reverse(action)

    def _compute(self, state: int, part: str) -> None:
        """Computes from the state that the application has to this one."""
        if self._at < state:
            with self._timer(part, "advance"):
                self.fwd_operator.apply(t_start=self._at, t_end=state)
            self._at = state

    def _reverse(self, turn: FirstTurn | YouTurn) -> None:
        with self._timer("reverse", "reverse"):
            self.rev_operator.apply(t_start=turn.step - 1, t_end=turn.step)
        if turn.store_adjoint and self._adjoint is not None:
            self._snapshots.store_adjoint(turn.step - 1, self._adjoint)

    def _timer(self, section: str, action: str) -> contextlib.AbstractContextManager[Any]:
        if self.profiler is None:
            return contextlib.nullcontext()
        timer: contextlib.AbstractContextManager[Any] = self.profiler.get_timer(section, action)
        return timer


#: pyrevolve's other names for it.
SingleLevelRevolver = MemoryRevolver = Revolver


class DiskRevolver(Revolver):
    """A Revolver whose snapshots are in a file in `filedir`, which is gone with it."""

    def __init__(
        self,
        checkpoint: Any,
        fwd_operator: Any,
        rev_operator: Any,
        n_checkpoints: int | None,
        n_timesteps: int,
        timings: Any = None,
        profiler: Any = None,
        filedir: str | os.PathLike[str] | None = "./",
        singlefile: bool = True,
    ) -> None:
        super().__init__(
            checkpoint,
            fwd_operator,
            rev_operator,
            n_checkpoints,
            n_timesteps,
            timings,
            profiler,
            diskstorage=True,
            filedir=filedir,
        )


class NumpyStorage:
    """Tells a MultiLevelRevolver how many snapshots it has in memory, `n_ckp`.

    `wd` and `rd` are how long a write and a read take. The other arguments have no effect.
    """

    def __init__(
        self,
        size_ckp: int,
        n_ckp: int,
        dtype: Any,
        profiler: Any = None,
        wd: float = 0,
        rd: float = 0,
        name: str = "MemoryStorage",
    ) -> None:
        self.n_ckp, self.wd, self.rd = n_ckp, wd, rd


class DiskStorage:
    """The same for snapshots on disk: they are in a file in `filedir` that is gone with the Revolver."""

    def __init__(
        self,
        size_ckp: int,
        n_ckp: int,
        dtype: Any,
        profiler: Any = None,
        filedir: str | os.PathLike[str] | None = "./",
        singlefile: bool = True,
        wd: float = 0,
        rd: float = 0,
        name: str = "DiskStorage",
        keepfiles: bool = False,
    ) -> None:
        if keepfiles:
            raise ValueError("keepfiles is True: the file has no name, and is gone with the Revolver")
        self.n_ckp, self.wd, self.rd, self.filedir = n_ckp, wd, rd, filedir


class MultiLevelRevolver(Revolver):
    """A Revolver over the levels of `storage_list`: a NumpyStorage, a DiskStorage, or one of each (or
    pyrevolve's).

    The schedule takes the least time if a forward step takes `uf`, a write to disk and a read take what the
    DiskStorage says, and those in memory take nothing. `ub` and `up`, the times of a step of the adjoint
    and of the turn, are the same in every schedule.
    """

    def __init__(
        self,
        checkpoint: Any,
        fwd_operator: Any,
        rev_operator: Any,
        n_timesteps: int,
        storage_list: Sequence[Any],
        timings: Any = None,
        profiler: Any = None,
        uf: float = 1,
        ub: float = 1,
        up: float = 1,
    ) -> None:
        disks = [level for level in storage_list or () if hasattr(level, "filedir")]
        memories = [level for level in storage_list or () if not hasattr(level, "filedir")]
        if len(disks) > 1 or len(memories) > 1 or not storage_list:
            raise ValueError(
                f"storage_list has {len(memories)} levels in memory and {len(disks)} on disk; it takes "
                "one of each, or one of both"
            )
        first, *second = [*memories, *disks]
        disk = disks[0] if disks else None
        super().__init__(
            checkpoint,
            fwd_operator,
            rev_operator,
            first.n_ckp,
            n_timesteps,
            timings,
            profiler,
            diskstorage=disk is not None,
            filedir=disk and disk.filedir,
            n_disk_checkpoints=sum(level.n_ckp for level in second),
            disk_write=second[0].wd / uf if second else 0,
            disk_read=second[0].rd / uf if second else 0,
        )
        self.storage_list, self.uf, self.ub, self.up = storage_list, uf, ub, up
        self._levels, self._whole = [*memories, *disks], self._schedule.copy()

    @property
    def makespan(self) -> float:
        """How long both passes take, by the costs of their parts."""
        time = self.uf * self._schedule.cost().forward_evaluations + self.ub * self.n_timesteps
        for action in self._whole.copy():
            match action:
                case TakeShot(on_disk=on_disk, read_again=True):
                    time += self._levels[on_disk].wd
                case Restore(on_disk=on_disk):
                    time += self._levels[on_disk].rd
        return time
