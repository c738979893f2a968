"""Starts a job, by a configuration file or by options."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Mapping
from typing import Any, Union

from ._library import check, declare, library, number, text

#: What an option can be: a text as in the file, or what stands for one; None: it is not given.
Value = Union[str, bool, int, float, "os.PathLike[str]", None]


def start(
    config: str | os.PathLike[str] | Mapping[str, Value] | None,
    options: Mapping[str, Value],
    comm: Any,
    rank: int | None,
) -> None:
    """Starts the job of `Job(config, comm=comm, rank=rank, **options)`."""
    if comm is not None and rank is not None:
        raise TypeError("comm and rank are given; over a communicator it says the rank")
    if comm is not None and not hasattr(comm, "py2f"):
        raise TypeError(f"comm is a {type(comm).__name__}; it must be a communicator of mpi4py (with py2f)")
    if isinstance(config, Mapping):
        options = {**config, **options}
        config = None
    if config is not None and options:
        raise TypeError(
            f"a configuration file, {os.fspath(config)}, and options ({', '.join(options)}) are given: "
            "write them into the file, or give options alone"
        )
    if config is None:
        # Until there is VELOC_Init_options.
        with tempfile.NamedTemporaryFile("w") as file:
            for key, value in options.items():
                if value is not None:
                    file.write(f"{key} = {as_text(key, value)}\n")
            file.flush()
            _start_by_file(file.name, comm, rank)
    else:
        _start_by_file(config, comm, rank)


def _start_by_file(config: str | os.PathLike[str], comm: Any, rank: int | None) -> None:
    cfg = text("cfg", config)
    if comm is None:
        check(library().VELOC_Init_single(number("rank", rank or 0, ctypes.c_uint), cfg))
    else:
        check(library().VELOC_Init_fortran(comm.py2f(), cfg))


def as_text(key: str, value: Value) -> str:
    """The value of an option as a configuration file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    raise TypeError(f"option {key} is {value!r}; it must be a text, a number, a bool or a path")


declare(
    ("Init_single", [ctypes.c_uint, ctypes.c_char_p], ctypes.c_int),
    ("Init_fortran", [ctypes.c_int, ctypes.c_char_p], ctypes.c_int),
)
