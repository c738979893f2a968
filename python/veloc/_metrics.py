"""What the library has measured of a job (VELOC_Get_metrics)."""

from __future__ import annotations

import ctypes
from typing import Any

from ._library import check, declare, library

#: The indices of `hops`, A: the application's memory, D: device cache, H: host buffer, F: scratch
#: file, P: persistent file; and of `blocked`.
_HOPS = "AtoD AtoH AtoF DtoH DtoF HtoF FtoP PtoF FtoH HtoD DtoA HtoA FtoA".split()
_WAITS = "copy order map device_room host_room fetch file drain".split()


class _Sum(ctypes.Structure):
    """VELOC_Sum."""

    _fields_ = [("bytes", ctypes.c_uint64), ("nanoseconds", ctypes.c_uint64), ("count", ctypes.c_uint64)]


_sums = "map touch registration turn init".split()
_counts = (
    "device_capacity device_free host_capacity host_free host_touched host_registered checkpoints "
    "restores live device_evictions host_evictions discards spills fetches device_hits device_misses "
    "touch_mode touch_changes"
).split()


class _Metrics(ctypes.Structure):
    """VELOC_Metrics."""

    _fields_ = [
        ("hops", _Sum * len(_HOPS)),
        ("blocked", _Sum * len(_WAITS)),
        *[(name, _Sum) for name in _sums],
        *[(name, ctypes.c_uint64) for name in _counts],
        ("touch_rates", ctypes.c_double * 5),
        ("touch_checkpoint_bytes", ctypes.c_double),
        ("touch_interval", ctypes.c_double),
        ("touch_predictions", ctypes.c_double * 2),
        ("software_device", ctypes.c_uint64),
        ("encode", _Sum),
        ("encode_failures", ctypes.c_uint64),
        ("checkpoint_calls", _Sum),
        ("restart_calls", _Sum),
        ("compress", _Sum),
        ("decompress", _Sum),
        ("compressed_bytes", ctypes.c_uint64),
        ("compressed_whole", ctypes.c_uint64),
        ("uncompressed", ctypes.c_uint64),
    ]


def metrics() -> dict[str, Any]:
    """All of it, by the names of C; `hops` and `blocked` by what they are of."""
    found = _Metrics()
    check(library().VELOC_Get_metrics(ctypes.byref(found), ctypes.sizeof(found)))
    plain = {name: _plain(getattr(found, name)) for name, *_ in found._fields_}
    names = {"hops": _HOPS, "blocked": _WAITS}
    return {**plain, **{name: dict(zip(of, plain[name])) for name, of in names.items()}}


#: VELOC_CAPTURE_*, by their numbers.
CAPTURES = "auto", "copy", "protect", "fork"


class _Snapshot(ctypes.Structure):
    """VELOC_Snapshot."""

    _fields_ = [
        *[(name, ctypes.c_uint64) for name in "mode checkpoints bytes blocked copied_ahead failed".split()],
        ("reason", ctypes.c_char * 256),
    ]


def snapshots() -> dict[str, Any]:
    """How host memory was captured, by the names of C; the mode as the configuration has it."""
    found = _Snapshot()
    check(library().VELOC_Snapshot_stats(ctypes.byref(found), ctypes.sizeof(found)))
    plain = {name: getattr(found, name) for name, *_ in found._fields_}
    mode = CAPTURES[found.mode] if found.checkpoints else None
    return {**plain, "mode": mode, "reason": found.reason.decode(errors="replace")}


def _plain(value: Any) -> Any:
    """The value as Python has it."""
    if isinstance(value, _Sum):
        return {name: getattr(value, name) for name, *_ in value._fields_}
    return [_plain(one) for one in value] if isinstance(value, ctypes.Array) else value


declare(
    ("Get_metrics", [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int),
    ("Snapshot_stats", [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int),
)
