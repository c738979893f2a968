"""Finds libveloc-client.so and declares its functions."""

from __future__ import annotations

import ctypes
import functools
import numbers
import operator
import os
import pathlib
import re
import sys
import sysconfig
from collections.abc import Sequence
from typing import Any

NAME = "libveloc-client.so"

#: Of each function of the library that is used here its arguments and its result: without them
#: ctypes would cut a size to 32 bits.
_TYPES: dict[str, tuple[Sequence[Any], Any]] = {}


#: Functions of C that the library's reasons name, and what a program in Python has in their place. The
#: first is the call that has failed, which a traceback shows.
_NAMES = (
    (r"^VELOC_\w+: ", ""),
    (r"VELOC_Init\w*", "veloc.Job"),
    (r"VELOC_Finalize", "Job.finalize"),
    (r"VELOC_Adjoint_", "veloc.adjoint_"),
)


class Error(RuntimeError):
    """A call of the library failed. The text is the library's reason: it names the thing, the value and
    what helps."""


def declare(*functions: tuple[str, Sequence[Any], Any]) -> None:
    """Declares functions, each by its name without `VELOC_`, its arguments and its result.

    The library need not be loaded: a module declares what it uses as it is imported.
    """
    for name, arguments, result in functions:
        _TYPES[f"VELOC_{name}"] = arguments, result


class Library(ctypes.CDLL):
    """The library, whose functions get their types as they are first used."""

    def __getattr__(self, name: str) -> Any:
        if name not in _TYPES:
            raise AttributeError(f"{name} is not declared")
        try:
            function = super().__getattr__(name)
        except AttributeError:
            raise Error(f"{self._name} has no function {name}: it is of another version") from None
        function.argtypes, function.restype = _TYPES[name]
        return function


@functools.lru_cache(maxsize=None)
def library() -> Library:
    """The library, loaded once."""
    given = os.environ.get("VELOC_LIBRARY")
    path = given or _installed() or NAME
    try:
        loaded = Library(path)
    except OSError as error:
        where = "as VELOC_LIBRARY says" if given else "set VELOC_LIBRARY or LD_LIBRARY_PATH"
        raise Error(f"cannot load {path} ({where}): {error}") from None
    # Errors are exceptions here: once one is asked for, the library does not print them, too.
    loaded.VELOC_Last_error()
    return loaded


def bundled(name: str) -> pathlib.Path:
    """Where a wheel has a file of the library's, which need not be there."""
    return pathlib.Path(__file__).resolve().parent / "_native" / name


def _installed() -> str | None:
    """The library in this package, or else of the prefix that it, or this Python, is installed in."""
    machine = sysconfig.get_config_var("MULTIARCH") or ""
    folders = [*pathlib.Path(__file__).resolve().parents, pathlib.Path(sys.prefix)]
    found = [folder / lib / NAME for folder in folders for lib in ("lib", "lib64", f"lib/{machine}")]
    return next((str(path) for path in [bundled(NAME), *found] if path.is_file()), None)


def number(what: str, value: Any, kind: Any = ctypes.c_int) -> int:
    """The number as C's type `kind` can hold it: ctypes would cut off what does not fit."""
    bits = 8 * ctypes.sizeof(kind)
    # A type of ctypes is signed if -1 stays what it is.
    least = -(2 ** (bits - 1)) if kind(-1).value == -1 else 0
    most = least + 2**bits - 1
    try:
        given = operator.index(value)
    except TypeError:
        given = None
    # True is 1 to Python, and a slip here.
    if given is None or isinstance(value, bool):
        raise TypeError(f"{what} is {value!r}; it must be a whole number")
    if not least <= given <= most:
        raise ValueError(f"{what} is {given}; it must be from {least} to {most}")
    return given


def real(what: str, value: Any) -> float:
    """The number as a double: a text that has one is not meant."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{what} is {value!r}; it must be a number")
    return float(value)


def text(what: str, value: str | os.PathLike[str]) -> bytes:
    """The text as C has it: what stands behind a NUL would be cut off."""
    try:
        given = os.fsencode(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}; it must be a text or a path") from None
    if b"\0" in given:
        raise ValueError(f"{what} is {value!r}, with a NUL in it")
    return given


def last_error() -> Error:
    """The reason of this thread's last failure, as an exception to raise."""
    reason = library().VELOC_Last_error().decode(errors="replace")
    for pattern, name in _NAMES:
        reason = re.sub(pattern, name, reason)
    return Error(reason)


def check(status: int) -> None:
    """Raises the reason if a call has failed."""
    if status != 0:
        raise last_error()


declare(("Last_error", [], ctypes.c_char_p))
