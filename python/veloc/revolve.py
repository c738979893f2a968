"""Checkpointing with the interface of pyrevolve, on the library's checkpoints.

    from veloc.revolve import Revolver

in place of `from pyrevolve import Revolver`, with the same arguments. `Checkpoint` and `Operator`
are pyrevolve's abstract classes; those of other packages (Devito's `DevitoCheckpoint` and
`CheckpointOperator`) are as good: nothing is asked of them but their methods.

A snapshot is a checkpoint of the arrays that `Checkpoint.get_data` gives, which the library copies
from where they are. In memory alone, that is all. With a directory, snapshots are files as well,
and a program that was killed goes on from them when it is started again.
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
from ._snapshots import Snapshots
from .schedule import Action, Advance, FirstTurn, Restore, Schedule, TakeShot, YouTurn, adjust

__all__ = ["Checkpoint", "MemoryRevolver", "DiskRevolver", "Operator", "Revolver"]


class Operator(ABC):
    """Computes steps, of the forward pass or of the adjoint."""

    @abstractmethod
    def apply(self, *, t_start: int, t_end: int) -> object:
        """Computes the steps from `t_start` to `t_end`; the adjoint's go back."""


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
        """The arrays that are the state at this time step. Each is one range of memory."""

    def get_data_location(self, timestep: int) -> Sequence[Any]:
        """The arrays that are to have that state when it is read."""
        return self.get_data(timestep)


class Revolver:
    """Goes through a forward pass and its adjoint, with pyrevolve's arguments and methods.

    `n_checkpoints` is how many states can be stored at a time (None: about as many as repetitions,
    pyrevolve's choice), `n_timesteps` the steps of the forward pass.

    What stands behind the star is this library's own:

    - `n_disk_checkpoints` states more are on disk, and those of `n_checkpoints` then in memory;
      `disk_write` and `disk_read` say how long a write and a read take, in forward steps.
    - `directory` has the snapshots as files, so that a program that was killed goes on when it runs
      again, with the least number of steps. `name` tells several computations in one directory
      apart, `tag` (a number) one computation from the next under the same name: the iteration of an
      optimisation. Without a directory nothing is written.
    - `resilience_distance`: how many steps snapshots may be apart in the forward pass, so that no
      crash in it costs more.
    - `adjoint`: the arrays of the adjoint (its state, and what it computes), which are then stored
      every `adjoint_distance` of its steps (default: a twentieth of all). Without them a program
      that was killed in the reverse pass begins that anew, from the states that are left.
    - `job`: a `veloc.Job` that is open, in which the snapshots are then taken. Else there is one
      from `apply_forward` to the end of `apply_reverse`, to which `options` go.

    In memory a snapshot is given back as soon as it is read for the last time.
    """

    #: Snapshots that have room in memory while they are written or read.
    _IN_FLIGHT = 2
    #: Whether there is no room in memory for others.
    _IN_FILES_ALONE = False

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
        *,
        n_disk_checkpoints: int = 0,
        disk_write: float = 1.0,
        disk_read: float = 1.0,
        name: str = "revolve",
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
        if n_disk_checkpoints and directory is None:
            raise ValueError(f"n_disk_checkpoints is {n_disk_checkpoints}, and there is no directory")
        if job is not None and (directory is not None or options):
            raise ValueError("a job is given: it has its own directories and options")
        if adjoint is not None and directory is None:
            raise ValueError("adjoint is given, and there is no directory to store it in")
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
        self._snapshots = Snapshots(name, computation, directory, job, options or {})
        self._adjoint = adjoint
        #: The adjoint that a crash has left, if it is to be read.
        self._left: int | None = None
        #: The first turn of the adjoint, whose step `apply_forward` has computed.
        self._turn: FirstTurn | None = None
        #: The state that the application has.
        self._at = 0
        #: What may be called next: apply_forward, apply_reverse, or nothing (None).
        self._next: str | None = "apply_forward"
        self._stored: list[int] = []

    @property
    def ratio(self) -> float:
        """All forward steps, for each step of the pass."""
        return self._schedule.cost().forward_evaluations / self.n_timesteps

    @property
    def makespan(self) -> int:
        """0, as pyrevolve has it for one level."""
        return 0

    def storage_ckps(self, k: int = 0) -> list[int]:
        """The states that were stored so far, in their order."""
        return self._stored

    # --- the passes ---

    def apply_forward(self) -> None:
        """Computes the forward pass, taking snapshots. After a crash, what is left of it."""
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
            if self._left is not None and self._adjoint is not None:
                self._snapshots.restore_adjoint(self._left, self._adjoint)
            if self._turn is not None:
                self._reverse(self._turn)
            for action in self._schedule:
                self._do(action, "reverse")
            self._snapshots.remove()
            self._snapshots.close(drain=False)

    def discard(self) -> None:
        """Removes all snapshots of this name, so that the computation begins anew."""
        if self._next == "apply_reverse":
            raise Error("discard: the computation is under way")
        self._snapshots.open(0, [], [])
        try:
            self._snapshots.remove()
        finally:
            self._snapshots.close(drain=False)

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
                self._snapshots.close(drain=True)
            raise
        self._next = then

    def _begin(self) -> None:
        """Begins the job, and goes on from what a crash has left."""
        in_memory = min(self._slots, self.n_checkpoints + self._IN_FLIGHT)
        if self._IN_FILES_ALONE:
            in_memory = self._IN_FLIGHT
        self._snapshots.open(in_memory, self.checkpoint.get_data(0), self._adjoint or [])
        states = self._snapshots.find_states(self._slots)
        if self._adjoint is not None:
            self._left = self._snapshots.find_adjoint()
        if self._left is not None or any(state is not None for state in states):
            self._schedule.resume(states, self._left)

    def _do(self, action: Action, part: str) -> None:
        match action:
            case Advance():
                # What follows computes, perhaps further: one call of the operator.
                pass
            case TakeShot(read_again=False):
                pass
            case TakeShot(state=state, slot=slot):
                self._compute(state, part)
                self._stored.append(state)
                with self._timer(part, "takeshot"):
                    self._snapshots.store(slot, state, self.checkpoint.get_data(state))
            case Restore(state=state, slot=slot):
                with self._timer(part, "restore"):
                    location = getattr(self.checkpoint, "get_data_location", self.checkpoint.get_data)
                    self._snapshots.restore(slot, state, location(state), action.read_again)
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


#: pyrevolve's name for it.
MemoryRevolver = Revolver


class DiskRevolver(Revolver):
    """A Revolver whose snapshots are files in `filedir`, of which two at a time are in memory."""

    _IN_FILES_ALONE = True

    def __init__(
        self,
        checkpoint: Any,
        fwd_operator: Any,
        rev_operator: Any,
        n_checkpoints: int | None,
        n_timesteps: int,
        timings: Any = None,
        profiler: Any = None,
        filedir: str | os.PathLike[str] = "./",
        singlefile: bool = True,
        **more: Any,
    ) -> None:
        super().__init__(
            checkpoint,
            fwd_operator,
            rev_operator,
            n_checkpoints,
            n_timesteps,
            timings,
            profiler,
            directory=filedir,
            **more,
        )
