"""Schedules of adjoint computations: which states are stored, which are computed again, and when.

>>> import veloc
>>> schedule = veloc.Schedule(steps=4, slots=2)
>>> for action in schedule:
...     match action:
...         case veloc.TakeShot(state=state, slot=slot):
...             print("store state", state, "in slot", slot)
...         case veloc.Restore(state=state, slot=slot):
...             print("read state", state, "from slot", slot)
...         case veloc.Advance(start=start, stop=stop):
...             print("compute from state", start, "to", stop)
...         case veloc.FirstTurn(step=step) | veloc.YouTurn(step=step):
...             print("record and reverse step", step)
store state 0 in slot 0
compute from state 0 to 1
store state 1 in slot 1
compute from state 1 to 3
record and reverse step 4
read state 1 from slot 1
compute from state 1 to 2
record and reverse step 3
read state 1 from slot 1
record and reverse step 2
read state 0 from slot 0
record and reverse step 1

States are numbered from 0 to `steps`; step `i` goes from state `i - 1` to state `i`. No job is
needed.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Union, get_args

from ._library import Error, check, declare, library, number, real


@dataclass(frozen=True, slots=True)
class Advance:
    """Compute the states from `start`, which the application has, to `stop`, without recording."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class TakeShot:
    """Store the state that the application has, `state`, in `slot`.

    The numbers of slots on disk (`on_disk`) follow those in memory. If `read_again` is False, the state
    need not be stored.
    """

    state: int
    slot: int
    on_disk: bool
    read_again: bool


@dataclass(frozen=True, slots=True)
class Restore:
    """Read the state `state` from `slot`. If `read_again` is False, the slot is free after that."""

    state: int
    slot: int
    on_disk: bool
    read_again: bool


@dataclass(frozen=True, slots=True)
class Record:
    """Compute `step` from state `step - 1`, recording it, and store the record in `slot`.

    The record is what the adjoint of the step needs; the application then has state `step`. Only
    with the rule "mixed".
    """

    step: int
    slot: int


@dataclass(frozen=True, slots=True)
class Reverse:
    """Read the record of `step` from `slot`, and take the adjoint's step back. The slot is free after that.

    The application then has no state. Only with the rule "mixed".
    """

    step: int
    slot: int


@dataclass(frozen=True, slots=True)
class FirstTurn:
    """Compute the last step, recording it, begin the adjoint, and take its first step.

    With `store_adjoint`, then store the adjoint, which has come to state `step - 1`.
    """

    step: int
    store_adjoint: bool


@dataclass(frozen=True, slots=True)
class YouTurn:
    """Compute `step` from state `step - 1`, recording it, and take the adjoint's step back.

    With `store_adjoint`, then store the adjoint, which has come to state `step - 1`.
    """

    step: int
    store_adjoint: bool


#: What the application does next: a `match` over these seven is exhaustive, and without the rule
#: "mixed" there are neither `Record` nor `Reverse`.
Action = Union[Advance, TakeShot, Restore, Record, Reverse, FirstTurn, YouTurn]

#: Where states are stored, see VELOC_Schedule_set_rule.
Rule = Literal["optimal", "resilient", "monotone", "shortest", "mixed"]

RULES: tuple[Rule, ...] = get_args(Rule)


@dataclass(frozen=True, slots=True)
class Failures:
    """What a failure costs, so that the adjoint is stored where a failure would cost more than the write.

    All times are in forward steps: the mean time between failures, how long it takes to store the adjoint,
    and how long it takes to record and reverse a step.
    """

    mtbf: float
    write_cost: float
    turn_cost: float


def failure_times(failures: Failures) -> tuple[float, float, float]:
    """Its three times, as doubles."""
    if not isinstance(failures, Failures):
        raise TypeError(f"failures is {failures!r}; it must be a veloc.Failures")
    return (
        real("mtbf", failures.mtbf),
        real("write_cost", failures.write_cost),
        real("turn_cost", failures.turn_cost),
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """What a schedule costs if nothing goes wrong."""

    #: Forward steps that are not recorded.
    advances: int
    #: All forward steps: these, and those that are recorded.
    forward_evaluations: int
    #: States that are stored, state 0 among them.
    takeshots: int
    #: How often any one step is computed without being recorded, at the most.
    repetition: int
    #: The largest distance between states stored in the first sweep, or from the last of them to the end.
    max_gap: int


class Schedule:
    """An iterator over the actions of an adjoint computation.

    `steps` is None if their number is not known: then each `Advance` is one step, until `end` or
    `end_after_next` is called. `slots` is how many states can be stored at a time, state 0 among
    them.

    `disk_slots` adds slots on disk; those of `slots` are then in memory, and their use costs nothing.
    `disk_write` and `disk_read` say how long a write to disk and a read take, in forward steps. With the
    rule "mixed" a slot has a state or the record of a step. `resilience_distance` is how many steps stored
    states may be apart in the first sweep, `adjoint_distance` after how many of its steps the adjoint is
    stored. With `failures` instead, it is stored where that pays.

    If the library refuses something, `Error` is raised; so it is if a schedule is used after its end.
    """

    def __init__(
        self,
        steps: int | None,
        slots: int,
        *,
        disk_slots: int = 0,
        disk_write: float = 1.0,
        disk_read: float = 1.0,
        resilience_distance: int | None = None,
        adjoint_distance: int | None = None,
        failures: Failures | None = None,
        rule: Rule = "optimal",
    ) -> None:
        if rule not in RULES:
            raise ValueError(f"rule is {rule!r}, not one of {', '.join(RULES)}")
        if adjoint_distance is not None and failures is not None:
            raise ValueError("adjoint_distance and failures are given: only one says where the adjoint is stored")
        calls, handle = library(), ctypes.c_void_p()
        count = _count("slots", slots)
        if steps is None:
            check(calls.VELOC_Schedule_create_online(count, ctypes.byref(handle)))
        else:
            length = _count("steps", steps)
            check(calls.VELOC_Schedule_create(length, count, ctypes.byref(handle)))
        #: How it was made, by the names of the arguments.
        self.settings: dict[str, Any] = {
            "steps": steps,
            "slots": slots,
            "disk_slots": disk_slots,
            "resilience_distance": resilience_distance,
            "adjoint_distance": adjoint_distance,
            "failures": failures,
            "rule": rule,
        }
        self._own(handle)
        if disk_slots != 0:
            self.settings |= {"disk_write": disk_write, "disk_read": disk_read}
            disks = _count("disk_slots", disk_slots)
            times = real("disk_write", disk_write), real("disk_read", disk_read)
            self._call("set_disk", disks, *times)
        if resilience_distance is not None:
            distance = _count("resilience_distance", resilience_distance)
            self._call("set_resilience_distance", distance)
        if adjoint_distance is not None:
            self._call("set_adjoint_distance", _count("adjoint_distance", adjoint_distance))
        if failures is not None:
            self._call("set_failures", *failure_times(failures))
        if rule != "optimal":
            self._call("set_rule", RULES.index(rule))

    def _own(self, handle: ctypes.c_void_p) -> None:
        self._handle = handle
        self._ended = False
        #: Slots from this one on are on disk.
        self._in_memory: int = self.settings["slots"]
        self._action = _Action()
        self._next = library().VELOC_Schedule_next
        self._at = ctypes.byref(self._action)
        weakref.finalize(self, library().VELOC_Schedule_free, handle)

    def _call(self, name: str, *arguments: Any) -> None:
        check(getattr(library(), f"VELOC_Schedule_{name}")(self._handle, *arguments))

    def __repr__(self) -> str:
        given = [f"{key}={value!r}" for key, value in self.settings.items() if value is not None]
        return f"Schedule({', '.join(given)})"

    # --- the actions ---

    def __iter__(self) -> Iterator[Action]:
        if self._ended:
            self._has_ended()
        return self

    def __next__(self) -> Action:
        """The next action. After the last one it raises StopIteration once, and from then on `Error`."""
        if self._ended:
            self._has_ended()
        check(self._next(self._handle, self._at))
        found = self._action
        kind: int = found.kind
        if kind == _ADVANCE:
            return Advance(found.start, found.stop)
        if kind == _TAKESHOT:
            slot = found.slot
            return TakeShot(found.start, slot, slot >= self._in_memory, found.read_again != 0)
        if kind == _RESTORE:
            slot = found.slot
            return Restore(found.start, slot, slot >= self._in_memory, found.read_again != 0)
        if kind == _FIRSTURN:
            return FirstTurn(found.stop, self.settings["adjoint_distance"] is not None)
        if kind in (_YOUTURN, _YOUTURN_WITH_CHECK):
            return YouTurn(found.stop, kind == _YOUTURN_WITH_CHECK)
        if kind == _RECORD:
            return Record(found.stop, found.slot)
        if kind == _REVERSE:
            return Reverse(found.stop, found.slot)
        if kind != _TERMINATE:
            raise Error(f"{self!r}: the library gave an action of the unknown kind {kind}")
        self._ended = True
        raise StopIteration

    def _has_ended(self) -> NoReturn:
        raise Error(f"{self!r} has ended: the adjoint has come to state 0; make another schedule")

    @property
    def ended(self) -> bool:
        """Whether the adjoint has come to state 0."""
        return self._ended

    # --- an end that is not known, and crashes ---

    def end(self) -> None:
        """Says that the state to which the last `Advance` went is the last one."""
        self._call("end")

    def end_after_next(self) -> None:
        """Says that the next step is the last: it is recorded at once, without an `Advance`."""
        self._call("end_after_next")

    def resume(self, states: Sequence[int | None], adjoint: int | None = None) -> None:
        """Goes on after a crash. Call it before the first action.

        `states` has for each slot the state that was stored there last, None if it has none that
        is whole; `adjoint` is the state that the last stored adjoint belongs to. If state 0 is not
        among them, the application must have it.
        """
        left = [-1 if state is None else number("state", state, ctypes.c_int64) for state in states]
        last = -1 if adjoint is None else number("adjoint", adjoint, ctypes.c_int64)
        self._call("resume", (ctypes.c_int64 * len(left))(*left), len(left), last)

    # --- figures, copies, bytes ---

    def cost(self) -> Cost:
        """What the whole schedule costs if nothing goes wrong."""
        figures = _Cost()
        self._call("cost", ctypes.byref(figures))
        return Cost(*(getattr(figures, name) for name in Cost.__slots__))

    def least_distance(self) -> int:
        """The least resilience distance that costs nothing: with a smaller one, more steps are computed."""
        distance = ctypes.c_int64()
        self._call("least_distance", ctypes.byref(distance))
        return distance.value

    def copy(self) -> Schedule:
        """Another schedule that stands where this one does."""
        handle = ctypes.c_void_p()
        self._call("clone", ctypes.byref(handle))
        return self._like(handle, self.settings, self._ended)

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> Schedule:
        return self.copy()

    def pack(self) -> bytes:
        """Where the schedule stands, for planned stops; `pickle` uses it as well."""
        size = ctypes.c_size_t()
        self._call("pack", None, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call("pack", text, ctypes.byref(size))
        return text.raw[: size.value]

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpack, (self.pack(), self.settings, self._ended)

    @classmethod
    def _like(cls, handle: ctypes.c_void_p, settings: dict[str, Any], ended: bool) -> Schedule:
        made = cls.__new__(cls)
        made.settings = dict(settings)
        made._own(handle)
        made._ended = ended
        return made


def _unpack(text: bytes, settings: dict[str, Any], ended: bool) -> Schedule:
    handle = ctypes.c_void_p()
    check(library().VELOC_Schedule_unpack(text, len(text), ctypes.byref(handle)))
    return Schedule._like(handle, settings, ended)


def maxrange(slots: int, repetitions: int) -> int:
    """The largest number of steps that so many slots and repetitions can reverse."""
    arguments = _count("slots", slots), _count("repetitions", repetitions)
    return _found("maxrange", arguments, library().VELOC_Maxrange(*arguments))


def adjust(steps: int) -> int:
    """A number of slots for which slots and repetitions are about as many."""
    length = _count("steps", steps)
    return _found("adjust", (length,), library().VELOC_Adjust(length))


def _found(what: str, arguments: tuple[int, ...], found: int) -> int:
    if found < 0:
        raise ValueError(f"{what}{arguments}: an argument is out of range, or the result is")
    return found


def _count(what: str, value: int) -> int:
    return int(number(what, value, ctypes.c_int64))


# --- the library's functions ---

_ADVANCE, _TAKESHOT, _RESTORE, _FIRSTURN, _YOUTURN, _TERMINATE = range(6)
_YOUTURN_WITH_CHECK, _RECORD, _REVERSE = 7, 8, 9


class _Action(ctypes.Structure):
    """VELOC_Action."""

    _fields_ = [
        ("kind", ctypes.c_int),
        ("read_again", ctypes.c_int),
        ("start", ctypes.c_int64),
        ("stop", ctypes.c_int64),
        ("slot", ctypes.c_int64),
    ]


class _Cost(ctypes.Structure):
    """VELOC_Cost."""

    _fields_ = [
        ("advances", ctypes.c_int64),
        ("forward_evaluations", ctypes.c_int64),
        ("takeshots", ctypes.c_int64),
        ("repetition", ctypes.c_int64),
        ("max_gap", ctypes.c_int64),
    ]


_handle, _count_t, _time, _size = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_size_t
_status, _result = ctypes.c_int, ctypes.POINTER(ctypes.c_void_p)
declare(
    ("Schedule_create", [_count_t, _count_t, _result], _status),
    ("Schedule_create_online", [_count_t, _result], _status),
    ("Schedule_free", [_handle], _status),
    ("Schedule_set_disk", [_handle, _count_t, _time, _time], _status),
    ("Schedule_set_resilience_distance", [_handle, _count_t], _status),
    ("Schedule_set_adjoint_distance", [_handle, _count_t], _status),
    ("Schedule_set_failures", [_handle, _time, _time, _time], _status),
    ("Schedule_set_rule", [_handle, ctypes.c_int], _status),
    ("Schedule_end", [_handle], _status),
    ("Schedule_end_after_next", [_handle], _status),
    ("Schedule_resume", [_handle, ctypes.POINTER(_count_t), _count_t, _count_t], _status),
    ("Schedule_next", [_handle, ctypes.c_void_p], _status),
    ("Schedule_cost", [_handle, ctypes.c_void_p], _status),
    ("Schedule_least_distance", [_handle, ctypes.POINTER(_count_t)], _status),
    ("Schedule_clone", [_handle, _result], _status),
    ("Schedule_pack", [_handle, ctypes.c_char_p, ctypes.POINTER(_size)], _status),
    ("Schedule_unpack", [ctypes.c_char_p, _size, _result], _status),
    ("Maxrange", [_count_t, _count_t], _count_t),
    ("Adjust", [_count_t], _count_t),
)
