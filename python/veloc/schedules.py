"""This library's schedules for programs that go by the package `checkpoint_schedules`: pyadjoint,
Firedrake, dolfinx-adjoint.

    import veloc.schedules

    tape.enable_checkpointing(veloc.schedules.Revolve(steps, 10))

The classes have the arguments of that package's, and its names as well:

- `Revolve`: snapshots in memory, the fewest forward steps.
- `Multistage` (`MultistageCheckpointSchedule`): in memory and on disk, the fewest forward steps.
- `HRevolve`: in memory and on disk, the least time.
- `Mixed` (`MixedCheckpointSchedule`): a snapshot has a state, or what the adjoint of a step needs,
  whichever takes fewer steps.
- `TwoLevel` (`TwoLevelCheckpointSchedule`): the number of steps is not known before.
- `Resumed` goes on after a crash, with the snapshots that are left on disk.

A schedule is made in microseconds, and gives its actions one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ._library import Error
from .schedule import Action, Advance, FirstTurn, Record, Restore, Schedule, TakeShot, YouTurn
from .schedule import Reverse as ReverseRecord

try:
    import checkpoint_schedules as package  # type: ignore[import-untyped,import-not-found,unused-ignore]
except ImportError as error:
    raise ImportError(
        "veloc.schedules needs the package checkpoint_schedules, which cannot be imported "
        f"({error}): pip install checkpoint-schedules",
        name="checkpoint_schedules",
    ) from error
if TYPE_CHECKING:
    # That package has no types.
    class Base:
        _n: int
        _r: int
        _max_n: Any

        def __init__(self, max_n: int | None = None) -> None: ...

else:
    Base = package.CheckpointSchedule

RAM, DISK, WORK = package.StorageType.RAM, package.StorageType.DISK, package.StorageType.WORK

__all__ = [
    "HRevolve",
    "Mixed",
    "MixedCheckpointSchedule",
    "Multistage",
    "MultistageCheckpointSchedule",
    "Resumed",
    "Revolve",
    "TwoLevel",
    "TwoLevelCheckpointSchedule",
]

class _Fixed(Base):
    """The actions of a `veloc.Schedule` whose number of steps is known, as the package's."""

    def __init__(self, max_n: int, schedule: Schedule, storage: Sequence[Any]) -> None:
        super().__init__(max_n)
        self._schedule = schedule
        #: Where each of its slots is.
        self._storage = storage
        self._exhausted = False

    @property
    def is_exhausted(self) -> bool:
        """Whether the adjoint calculation has ended; there is one."""
        return self._exhausted

    def uses_storage_type(self, storage_type: Any) -> bool:
        """Whether snapshots are stored there."""
        return self._max_n > 1 and storage_type in self._storage

    def _iterator(self) -> Iterator[Any]:
        yield from self._actions()
        self._exhausted = True
        yield package.EndReverse()

    def _actions(self) -> Iterator[Any]:
        records: set[int] = set()
        for action in _translated(self._schedule, self._storage):
            if isinstance(action, package.Forward):
                self._n = action.n1
                if action.write_adj_deps and action.storage is not WORK:
                    records.add(action.n0)
            elif isinstance(action, package.Reverse):
                if self._r == 0:
                    yield package.EndForward()
                self._r += 1
            elif action.n in records:
                # The forward cannot go on from a record: it counts as behind its step.
                records.remove(action.n)
                self._n = action.n + 1
            else:
                self._n = action.n
            yield action


def _translated(
    schedule: Iterable[Action], storage: Sequence[Any], offset: int = 0
) -> Iterator[Any]:
    """The package's actions of a schedule, whose state 0 is the package's step `offset`.

    In the package's words a step has the number of the state from which it begins, and a snapshot
    is written by the advance from it.
    """
    Forward, Reverse, Copy, Move = package.Forward, package.Reverse, package.Copy, package.Move
    kept = None
    for action in schedule:
        match action:
            case TakeShot(slot=slot, read_again=True):
                if kept is not None:
                    raise Error(f"{schedule!r} stores a state twice without an advance between")
                kept = storage[slot]
            case Advance(start=start, stop=stop):
                yield Forward(start + offset, stop + offset, kept is not None, False, kept or WORK)
                kept = None
            case Restore(state=state, slot=slot, read_again=read_again):
                kind = Copy if read_again else Move
                yield kind(state + offset, storage[slot], WORK)
            case Record(step=step, slot=slot):
                yield Forward(step - 1, step, False, True, storage[slot])
            case ReverseRecord(step=step, slot=slot):
                yield Move(step - 1, storage[slot], WORK)
                yield Reverse(step, step - 1, True)
            case FirstTurn(step=step) | YouTurn(step=step):
                if kept is not None:
                    raise Error(f"{schedule!r} stores state {step - 1}, and turns from it")
                step += offset
                yield Forward(step - 1, step, False, True, WORK)
                yield Reverse(step, step - 1, True)


def _check_storage(what: str, storage: Any) -> None:
    """Raises ValueError if snapshots cannot be there."""
    if storage not in (RAM, DISK):
        raise ValueError(f"{what} is {storage!r}, neither StorageType.RAM nor StorageType.DISK")


def _slots(max_n: int, *snapshots: int) -> list[int]:
    """How many of these can be of use."""
    for count in snapshots:
        if count < 0:
            raise ValueError(f"{count} snapshots: their number cannot be negative")
    if max_n > 1 and not any(snapshots):
        raise ValueError(f"no snapshots, for {max_n} steps: the first state must be kept")
    return [min(count, max(1, max_n)) for count in snapshots]


class Revolve(_Fixed):
    """Snapshots in memory, the fewest forward steps.

    `storage` says where the snapshots are, if not in memory. `resilience_distance` is how many steps
    snapshots may be apart in the first pass, so that no crash in it costs more; that is for snapshots on
    disk.
    """

    def __init__(
        self,
        max_n: int,
        snapshots_in_ram: int,
        uf: float = 1,
        ub: float = 1,
        wd: float = 2,
        rd: float = 2,
        *,
        storage: Any = RAM,
        resilience_distance: int | None = None,
    ) -> None:
        _check_storage("storage", storage)
        [slots] = _slots(max_n, snapshots_in_ram)
        slots = max(1, slots)
        schedule = Schedule(max_n, slots, resilience_distance=resilience_distance)
        super().__init__(max_n, schedule, [storage] * slots)


class HRevolve(_Fixed):
    """Snapshots in memory and on disk, the least time.

    `uf` is what a forward step takes, `wd` and `rd` what a write to disk and a read take.
    """

    def __init__(
        self,
        max_n: int,
        snapshots_in_ram: int,
        snapshots_on_disk: int,
        uf: float = 1,
        ub: float = 1,
        wd: float = 2,
        rd: float = 2,
    ) -> None:
        in_memory, on_disk = _slots(max_n, snapshots_in_ram, snapshots_on_disk)
        super().__init__(max_n, *_two_level(max_n, in_memory, on_disk, wd / uf, rd / uf))


class Multistage(_Fixed):
    """Snapshots in memory and on disk, the fewest forward steps. Those that are written and read
    most often are in memory.

    Source: Stumm, Walther, "MultiStage approaches for optimal offline checkpointing", SIAM J. Sci.
    Comput. 31 (2009). `trajectory` has no effect: of several schedules with as many steps, the library
    takes its own.
    """

    def __init__(
        self,
        max_n: int,
        snapshots_in_ram: int,
        snapshots_on_disk: int,
        *,
        trajectory: str = "maximum",
    ) -> None:
        in_memory, on_disk = _slots(max_n, snapshots_in_ram, snapshots_on_disk)
        slots = max(1, min(in_memory + on_disk, max_n - 1))
        in_memory = min(in_memory, slots)
        storage = [RAM] * in_memory + [DISK] * (slots - in_memory)
        super().__init__(max_n, Schedule(max_n, slots), storage)

    def _iterator(self) -> Iterator[Any]:
        uses = [0] * len(self._storage)
        if len({*self._storage}) > 1:
            for action in self._schedule.copy():
                if isinstance(action, (TakeShot, Restore)):
                    uses[action.slot] += 1
        most = sorted(range(len(uses)), key=uses.__getitem__, reverse=True)
        where = dict(zip(most, self._storage))
        self._storage = [where[slot] for slot in range(len(uses))]
        return super()._iterator()


class Mixed(_Fixed):
    """A snapshot has a state, or what the adjoint of one step needs, whichever takes fewer forward steps.
    Both count as equally large.

    Source: Maddison, "Step-based checkpointing with high-level algorithmic differentiation", J.
    Comput. Sci. 82 (2024).
    """

    def __init__(self, max_n: int, snapshots: int, *, storage: Any = DISK) -> None:
        _check_storage("storage", storage)
        [slots] = _slots(max_n, snapshots)
        slots = max(1, slots)
        super().__init__(max_n, Schedule(max_n, slots, rule="mixed"), [storage] * slots)


def _two_level(
    max_n: int, in_memory: int, on_disk: int, write: float, read: float
) -> tuple[Schedule, list[Any]]:
    """The schedule with these slots, and where each is."""
    storage = [RAM] * in_memory + [DISK] * on_disk or [RAM]
    if in_memory == 0 or on_disk == 0:
        return Schedule(max_n, len(storage)), storage
    return Schedule(max_n, in_memory, disk_slots=on_disk, disk_write=write, disk_read=read), storage


class TwoLevel(Base):
    """For a number of steps that is not known beforehand. It takes a snapshot every `period` steps, and
    `binomial_snapshots` more while the adjoint goes through a period.

    Any number of adjoint calculations is possible. `period_storage` says where the snapshots of the first
    pass are, which all stay; `binomial_storage` says where the others are.
    """

    def __init__(
        self,
        period: int,
        binomial_snapshots: int,
        *,
        binomial_storage: Any = DISK,
        binomial_trajectory: str = "maximum",
        period_storage: Any = DISK,
    ) -> None:
        super().__init__()
        if period < 1:
            raise ValueError(f"period is {period}; it must be 1 or more")
        _slots(1, binomial_snapshots)
        _check_storage("binomial_storage", binomial_storage)
        _check_storage("period_storage", period_storage)
        self._period, self._snapshots = period, binomial_snapshots
        #: The slots of a period, of which the first is that of the first pass.
        self._storage = [period_storage, *[binomial_storage] * binomial_snapshots]

    @property
    def is_exhausted(self) -> bool:
        """False: there may always be another adjoint calculation."""
        return False

    def uses_storage_type(self, storage_type: Any) -> bool:
        """Whether snapshots are stored there."""
        return storage_type in self._storage

    def _iterator(self) -> Iterator[Any]:
        while self._max_n is None:
            start, self._n = self._n, self._n + self._period
            yield package.Forward(start, self._n, True, False, self._storage[0])
        yield package.EndForward()
        while True:
            while self._r < self._max_n:
                yield from self._back_over_a_period()
            self._r = 0
            yield package.EndReverse()

    def _back_over_a_period(self) -> Iterator[Any]:
        stop = self._max_n - self._r
        start = (stop - 1) // self._period * self._period
        self._n = start
        yield package.Copy(start, self._storage[0], WORK)
        schedule = Schedule(stop - start, self._snapshots + 1)
        for action in _translated(_stored_at_0(schedule), self._storage, start):
            if isinstance(action, package.Forward):
                self._n = action.n1
            elif isinstance(action, package.Reverse):
                self._r += 1
            else:
                self._n = action.n
            yield action


def _stored_at_0(schedule: Schedule) -> Iterator[Action]:
    """The actions of a schedule whose state 0 is stored already, and stays."""
    for action in schedule:
        match action:
            case TakeShot(state=0):
                pass
            case Restore(state=0, slot=slot):
                yield Restore(0, slot, on_disk=False, read_again=True)
            case _:
                yield action


class Resumed(_Fixed):
    """Goes on after a crash with the snapshots that are left on disk, at the steps `on_disk`.

    `snapshots_in_ram` and `snapshots_on_disk` are as before the crash; those in memory are lost.
    Step 0 must be in `on_disk`: a program that has its state writes it first. `adjoint` is the step at
    whose start the adjoint was stored last, None if it was not; with it there is no EndForward, as the
    forward calculation has ended before the crash.
    """

    def __init__(
        self,
        max_n: int,
        snapshots_in_ram: int,
        snapshots_on_disk: int,
        on_disk: Iterable[int],
        adjoint: int | None = None,
        *,
        uf: float = 1,
        wd: float = 2,
        rd: float = 2,
    ) -> None:
        left: list[int | None] = [*on_disk]
        if 0 not in left:
            raise ValueError(f"on_disk is {left}, without step 0: nothing can be computed before the first")
        disks = max(1, snapshots_on_disk, len(left))
        in_memory = _slots(max_n, snapshots_in_ram, disks)[0]
        schedule, storage = _two_level(max_n, in_memory, disks, wd / uf, rd / uf)
        super().__init__(max_n, schedule, storage)
        schedule.resume([None] * in_memory + left, adjoint)
        self._left, self._adjoint = dict(enumerate(left, start=in_memory)), adjoint

    def _actions(self) -> Iterator[Any]:
        if self._adjoint is not None:
            self._r = self._max_n - self._adjoint
        first: dict[int, bool] = {}
        for action in self._schedule.copy():
            if isinstance(action, (TakeShot, Restore)):
                first.setdefault(action.slot, isinstance(action, Restore))
        for slot, state in self._left.items():
            if not first.get(slot):
                yield package.Move(state, DISK, package.StorageType.NONE)
        yield from super()._actions()


MixedCheckpointSchedule = Mixed
MultistageCheckpointSchedule = Multistage
TwoLevelCheckpointSchedule = TwoLevel
