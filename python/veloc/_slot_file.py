"""States in a file without a name."""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ._library import Error
from ._snapshots import Layout


class SlotFile:
    """The slots of a computation in a file that nobody else has, and that is gone with its owner,
    also if that is killed. The states are in it alone, not in memory."""

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self._folder = os.fspath(folder or ".")
        self._file: Any = None
        self._layout = Layout()

    def store(self, slot: int, state: int, arrays: Sequence[Any]) -> None:
        """Writes a state to a slot."""
        if self._file is None:
            os.makedirs(self._folder, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)
            # Also where it is dropped.
            weakref.finalize(self, self._file.close)
        self._move(os.pwritev, slot, state, self._layout.whole(arrays))

    def restore(self, slot: int, state: int, arrays: Sequence[Any], again: bool) -> None:
        """Reads a state from a slot."""
        buffers = self._layout.whole(arrays)
        self._move(os.preadv, slot, state, buffers)
        for array, buffer in zip(arrays, buffers):
            if array is not buffer:
                array[...] = buffer

    def close(self) -> None:
        """Gives back what the file has."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _move(self, call: Callable[..., int], slot: int, state: int, arrays: Sequence[Any]) -> None:
        ranges = self._layout.of(state, arrays)
        at = slot * self._layout.bytes
        for id, range in enumerate(ranges):
            address, length = range.place()
            rest = memoryview((ctypes.c_char * length).from_address(address)).cast("B")
            while rest:
                try:
                    moved = call(self._file.fileno(), [rest], at)
                except OSError as error:
                    if error.errno == errno.EFAULT:
                        raise TypeError(
                            f"array {id} is not in memory of the host, or cannot be written to; arrays "
                            "of a GPU need a Revolver with directory=..."
                        ) from None
                    error.filename = self._folder
                    raise
                if moved == 0:
                    raise Error(f"{self._folder}: the file of the snapshots was cut off")
                rest, at = rest[moved:], at + moved
