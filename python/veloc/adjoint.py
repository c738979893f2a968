"""Whole adjoint computations, which go on after a crash."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Literal, Union

from . import _alone
from ._library import Error, check, declare, last_error, library, number, real, text
from ._regions import ObjectRegion, Region, compression_mode, region_of
from .schedule import RULES, Failures, Rule, failure_times

#: Arrays of a state or of an adjoint: one, several (with the ids 0, 1, ...), or by their ids.
Arrays = Union[Any, Sequence[Any], Mapping[int, Any]]

_SUCCESS, _FAILURE, _STOPPED = 0, -1, 1
_VERIFY_REPLAY = 1
_PARTS = "state", "gradient"


def adjoint_run(
    name: str,
    steps: int,
    slots: int,
    *,
    state: Arrays,
    gradient: Arrays,
    forward: Callable[[int, int], object],
    adjoint: Callable[[int], object],
    hash: Callable[[], int] | None = None,
    resilience_distance: int = 0,
    adjoint_distance: int = 0,
    failures: Failures | None = None,
    rule: Rule = "optimal",
    verify_replay: bool = False,
    time_limit: float = 0.0,
    tag: int = 0,
    compress: Mapping[int, Mapping[str, Any]] | None = None,
) -> bool:
    """Computes an adjoint. True: it is finished; False: it was stopped.

    `state` and `gradient` are the arrays of the state and of the adjoint (with what the adjoint computes).
    The callbacks change them in place. `forward(start, stop)` computes the states from `start`, which is in
    `state`, to `stop`, without recording. `adjoint(step)` computes `step` from state `step - 1`, recording
    it, and takes the adjoint's step back; for the last step, it begins the adjoint before that. `hash`, if
    given, gives a number of 64 bits for the state. The other arguments are the members of VELOC_Adjoint;
    steps are numbered from 1, and the time limit is in seconds. `compress` has the arguments of
    `Job.compress` for arrays of the state, by their ids, as in `{0: {"bits": 8, "bound": 1e-3}}`. The run
    then keeps more states, in the room of `slots` uncompressed ones.

    Needs a job. Called again, also by a later job, it goes on from what is left with the least
    number of steps: after a crash, after a stop (`time_limit`, `adjoint_stop`), after an exception.

    An exception from a callback ends the run, and this call raises the same object. An interrupt (Ctrl-C,
    in the main thread and with Python's own handler) is a planned stop: the callback under way ends, what
    the next call needs is stored, and KeyboardInterrupt is raised. A second interrupt does not wait for the
    callback. If the library refuses something, `Error` is raised.
    """
    if rule not in RULES:
        raise ValueError(f"rule is {rule!r}, not one of {', '.join(RULES)}")
    for callback, call in (("forward", forward), ("adjoint", adjoint), ("hash", hash)):
        if not callable(call) and not (callback == "hash" and call is None):
            raise TypeError(f"{callback} is {call!r}; it must be a function")
    what = _Adjoint()
    what.size = ctypes.sizeof(what)
    what.name = text("name", name)
    for member, value in (
        ("steps", steps),
        ("slots", slots),
        ("resilience_distance", resilience_distance),
        ("adjoint_distance", adjoint_distance),
    ):
        setattr(what, member, number(member, value, ctypes.c_int64))
    what.rule = RULES.index(rule)
    what.flags = _VERIFY_REPLAY if verify_replay else 0
    what.time_limit = real("time_limit", time_limit)
    what.tag = number("tag", tag, ctypes.c_uint64)
    if failures is not None:
        what.mtbf, what.write_cost, what.turn_cost = failure_times(failures)
    parts = _regions("state", state), _regions("gradient", gradient)
    # What only the run has of them, no callback changes.
    del state, gradient
    return _Run(what, parts, forward, adjoint, hash, _compressions(compress, parts[0])).run()


def _compressions(
    compress: Mapping[int, Mapping[str, Any]] | None, state: Mapping[int, Region | ObjectRegion]
) -> list[tuple[int, int, float]]:
    """The arguments of VELOC_Adjoint_compress."""

    def arguments(
        id: int, bits: int | None = None, bound: float = 0.0, relative: bool = False, lossless: bool = False
    ) -> tuple[int, int, float]:
        mode, region = compression_mode(bits, bound, relative, lossless), state.get(id)
        if bits and isinstance(region, Region):
            region.check_floats(id)
        return number("id", id), mode, real("bound", bound)

    return [arguments(id, **how) for id, how in (compress or {}).items()]


def adjoint_protect(what: Literal["state", "gradient"], id: int, array: Any) -> None:
    """Tells the run, in a callback of `adjoint_run`, that an array has moved. `array` has the id from now
    on; it has the same size and order of dimensions."""
    if what not in _PARTS:
        raise ValueError(f"what is {what!r}, neither 'state' nor 'gradient'")
    run = _Run.under_way
    if run is None:
        raise Error("adjoint_protect: no adjoint_run is under way; it is for its callbacks")
    part, id, region = _PARTS.index(what), number("id", id), _region(what, id, array)
    before = run.parts[part].get(id)
    if before is not None and region.is_turned(before):
        raise ValueError(
            f"{what}, region {id}: the array has its dimensions in another order in memory than the one "
            "before it, and what is stored of that would come back permuted"
        )
    run.protect(part, id, region)


def adjoint_stop() -> None:
    """Asks the run under way, or the next one, to stop where a later call can go on.

    It may be called from any thread, from a callback, and from a signal handler.
    """
    check(library().VELOC_Adjoint_stop())


def adjoint_discard(name: str) -> None:
    """Removes all that runs of this name have stored, so that the next one begins anew."""
    check(library().VELOC_Adjoint_discard(text("name", name)))


class _Run:
    """A call of VELOC_Adjoint_run.

    An exception must not leave a callback: ctypes would print it, and tell the library that all is
    well.
    """

    under_way: _Run | None = None

    def __init__(
        self,
        what: _Adjoint,
        parts: tuple[dict[int, Region], dict[int, Region]],
        forward: Callable[[int, int], object],
        adjoint: Callable[[int], object],
        hash: Callable[[], int] | None,
        compressions: list[tuple[int, int, float]],
    ) -> None:
        self.what = what
        self.compressions = compressions
        self.parts = parts
        self.user = forward, adjoint, hash
        #: What has ended the run.
        self.error: BaseException | None = None
        #: A callback was not run although the library counts it as done.
        self.lost = False
        self.interrupted = False
        #: The program's own code is running.
        self.inside = False

    def run(self) -> bool:
        if _Run.under_way is not None:
            raise Error("adjoint_run: a run is under way; there is one at a time")
        what, calls = self.what, library()
        what.protect, what.forward = _PROTECT(self.on_protect), _FORWARD(self.on_forward)
        what.adjoint = _ADJOINT(self.on_adjoint)
        if self.user[2] is not None:
            what.hash = _HASH(self.on_hash)
        _Run.under_way = self
        try:
            with self.lost_exceptions(), self.interrupts():
                status = calls.VELOC_Adjoint_run(ctypes.byref(what))
                reason = last_error() if status == _FAILURE else None
        finally:
            _Run.under_way = None
            # They hold this object, and it holds them.
            for member in ("protect", "forward", "adjoint", "hash"):
                setattr(what, member, type(getattr(what, member))())
        error, self.error = self.error, None
        if self.lost:
            # A state may be stored that was not computed.
            check(calls.VELOC_Adjoint_discard(what.name))
        if error is not None:
            try:
                raise error
            finally:
                del error
        if self.interrupted:
            raise KeyboardInterrupt from reason
        if reason is not None:
            raise reason
        return bool(status == _SUCCESS)

    # --- what the library calls ---

    def on_protect(self, user: int | None) -> int:
        return self.guarded(self.protect_all)

    def on_forward(self, user: int | None, start: int, stop: int) -> int:
        return self.guarded(self.user[0], start, stop)

    def on_adjoint(self, user: int | None, step: int) -> int:
        return self.guarded(self.user[1], step, last=step == 1)

    def on_hash(self, user: int | None, hash: Any) -> int:
        def give() -> None:
            assert self.user[2] is not None
            hash[0] = number("hash", self.user[2](), ctypes.c_uint64)

        return self.guarded(give)

    def guarded(self, call: Callable[..., object], *arguments: int, last: bool = False) -> int:
        """Calls it, and keeps what it raises."""
        try:
            return self.called(call, arguments, last)
        except BaseException as error:
            # An interrupt while another exception was kept.
            self.error = error
            return _FAILURE

    def called(self, call: Callable[..., object], arguments: tuple[int, ...], last: bool) -> int:
        if self.error is not None:
            return _FAILURE
        try:
            self.inside = True
            call(*arguments)
            self.inside = False
            self.check_regions()
        except BaseException as error:
            self.inside = False
            self.error = error
            return _FAILURE
        # A request to stop that this run does not meet would stop the next one.
        if self.interrupted and not last:
            adjoint_stop()
        return _SUCCESS

    # --- regions ---

    def check_regions(self) -> None:
        """Raises ValueError if a callback has given an array another size or place; warns of one that no
        callback has."""
        everything = [region for regions in self.parts for region in regions.values()]
        for part, regions in zip(_PARTS, self.parts):
            for id, region in regions.items():
                try:
                    region.check(id)
                except ValueError as error:
                    raise ValueError(f"{part}, {error}") from None
            _alone.warn(regions, everything, level=8, part=f"{part}, ")

    def protect_all(self) -> None:
        for part, regions in enumerate(self.parts):
            for id, region in regions.items():
                self.protect(part, id, region)
        for compression in self.compressions:
            check(library().VELOC_Adjoint_compress(*compression))

    def protect(self, part: int, id: int, region: Region) -> None:
        address, elements, size, *_ = region.range
        check(library().VELOC_Adjoint_protect(part, id, address, elements, size))
        self.parts[part][id] = region

    # --- interrupts ---

    @contextlib.contextmanager
    def interrupts(self) -> Iterator[None]:
        """Takes interrupts over, where Python's own handler would have them."""
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self.interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted and self.inside:
            # Once: a second exception may come while the first is kept.
            self.inside = False
            raise KeyboardInterrupt
        self.interrupted = True

    @contextlib.contextmanager
    def lost_exceptions(self) -> Iterator[None]:
        """Learns of exceptions before the first line of a callback: from handlers of signals."""
        before = sys.unraisablehook
        callbacks = [
            call.__code__ for call in (_Run.on_protect, _Run.on_forward, _Run.on_adjoint, _Run.on_hash)
        ]

        def hook(lost: Any) -> None:
            trace = lost.exc_traceback
            if trace is not None and trace.tb_frame.f_code in callbacks:
                self.error, self.lost = lost.exc_value or lost.exc_type(), True
            else:
                before(lost)

        sys.unraisablehook = hook
        try:
            yield
        finally:
            sys.unraisablehook = before


def _regions(what: str, arrays: Arrays) -> dict[int, Region]:
    """The regions of a state or of an adjoint, by their ids."""
    if isinstance(arrays, Mapping):
        given = dict(arrays)
    elif isinstance(arrays, (list, tuple)):
        given = dict(enumerate(arrays))
    else:
        given = {0: arrays}
    if not given:
        raise ValueError(f"{what} has no array")
    return {number("id", id): _region(what, id, array) for id, array in given.items()}


def _region(what: str, id: int, array: Any) -> Region:
    try:
        region = region_of(id, array)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what}, {error}") from None
    if isinstance(region, ObjectRegion):
        raise TypeError(f"{what} {id}: a run keeps arrays, whose size stays; not what pickle makes")
    region.check_writable(id)
    return region


# --- the library's functions ---

_PROTECT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_FORWARD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_ADJOINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
_HASH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))


class _Adjoint(ctypes.Structure):
    """VELOC_Adjoint."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("steps", ctypes.c_int64),
        ("slots", ctypes.c_int64),
        ("resilience_distance", ctypes.c_int64),
        ("adjoint_distance", ctypes.c_int64),
        ("rule", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("time_limit", ctypes.c_double),
        ("tag", ctypes.c_uint64),
        ("user", ctypes.c_void_p),
        ("protect", _PROTECT),
        ("forward", _FORWARD),
        ("adjoint", _ADJOINT),
        ("hash", _HASH),
        ("mtbf", ctypes.c_double),
        ("write_cost", ctypes.c_double),
        ("turn_cost", ctypes.c_double),
    ]


declare(
    ("Adjoint_run", [ctypes.c_void_p], ctypes.c_int),
    ("Adjoint_protect", [ctypes.c_int] * 2 + [ctypes.c_void_p] + [ctypes.c_size_t] * 2, ctypes.c_int),
    ("Adjoint_compress", [ctypes.c_int, ctypes.c_int, ctypes.c_double], ctypes.c_int),
    ("Adjoint_stop", [], ctypes.c_int),
    ("Adjoint_discard", [ctypes.c_char_p], ctypes.c_int),
)
