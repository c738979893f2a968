"""Starts a job, by a configuration file or by options."""

from __future__ import annotations

import ctypes
import numbers
import os
from collections.abc import Mapping
from typing import Any, Union

from ._library import check, declare, library, number, text

#: What an option can be: a text as in the file, or what stands for one; None: it is not given.
Value = Union[str, bool, int, float, "os.PathLike[str]", None]


class _Option(ctypes.Structure):
    """VELOC_Option."""

    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


def start(
    config: str | os.PathLike[str] | Mapping[str, Value] | None,
    options: Mapping[str, Value],
    comm: Any,
    rank: int | None,
) -> None:
    """Starts the job of `Job(config, comm=comm, rank=rank, **options)`."""
    if comm is not None and rank is not None:
        raise TypeError("comm and rank are given; leave rank out, as the communicator says it")
    if comm is not None and not hasattr(comm, "py2f"):
        raise TypeError(f"comm is {comm!r}; it must be a communicator of mpi4py (with py2f)")
    if isinstance(config, Mapping):
        options = {**config, **options}
        config = None
    calls, rank = library(), number("rank", rank or 0, ctypes.c_uint)
    if config is None:
        given = [_option(key, value) for key, value in options.items() if value is not None]
        list = (_Option * len(given))(*given)
        if comm is None:
            check(calls.VELOC_Init_single_options(rank, list, len(given)))
        else:
            check(calls.VELOC_Init_options_fortran(comm.py2f(), list, len(given)))
        return
    if options:
        raise TypeError(
            f"a configuration file, {os.fspath(config)}, and options ({', '.join(options)}) are given: "
            "write them into the file, or give options alone"
        )
    cfg = text("config", config)
    check(
        calls.VELOC_Init_single(rank, cfg)
        if comm is None
        else calls.VELOC_Init_fortran(comm.py2f(), cfg)
    )


def _option(key: str, value: Value) -> _Option:
    """A key and its value as a configuration file has it."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, numbers.Real):
        value = str(value)
    elif not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"option {key} is {value!r}; it must be a text, a number, a bool or a path")
    return _Option(text("the key of an option", key), text(f"option {key}", value))


_options, _name, _status = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_char_p, ctypes.c_int
declare(
    ("Init_single", [ctypes.c_uint, _name], _status),
    ("Init_fortran", [ctypes.c_int, _name], _status),
    ("Init_single_options", [ctypes.c_uint, *_options], _status),
    ("Init_options_fortran", [ctypes.c_int, *_options], _status),
)
