"""Restoring a checkpoint by one call, between whose steps no other thread's calls come."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

from ._library import Library, check, declare
from ._regions import Range


class _Region(ctypes.Structure):
    """VELOC_Region."""

    _fields_ = [
        ("id", ctypes.c_int),
        ("ptr", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("base_size", ctypes.c_size_t),
    ]


def restore(
    calls: Library, which: tuple[bytes, int], regions: Iterable[tuple[int, Range]], consumed: bool
) -> None:
    """Restores these regions of a version, whatever is protected or open. `consumed`: for the last time."""
    entries = [_Region(id, range.address, range.elements, range.size) for id, range in regions]
    list = (_Region * len(entries))(*entries)
    check(calls.VELOC_Restart_list(*which, list, len(entries), int(consumed)))


declare(
    (
        "Restart_list",
        [ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(_Region), ctypes.c_size_t, ctypes.c_int],
        ctypes.c_int,
    ),
)
