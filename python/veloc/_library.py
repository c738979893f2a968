"""Finds libveloc-client.so and declares its functions."""

import ctypes
import functools
import operator
import os
import pathlib
import sys
import sysconfig

NAME = "libveloc-client.so"


class Error(RuntimeError):
    """A call of the library failed. The text is the library's: the call, the thing, the value."""


@functools.lru_cache(maxsize=None)
def library():
    """The library, loaded once."""
    given = os.environ.get("VELOC_LIBRARY")
    path = given or _installed() or NAME
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        where = "as VELOC_LIBRARY says" if given else "set VELOC_LIBRARY or LD_LIBRARY_PATH"
        raise Error(f"cannot load {path} ({where}): {error}") from None
    _declare(loaded)
    return loaded


def _installed():
    """The library of the prefix that this package, or else this Python, is installed in."""
    machine = sysconfig.get_config_var("MULTIARCH") or ""
    folders = [*pathlib.Path(__file__).resolve().parents, pathlib.Path(sys.prefix)]
    for folder in folders:
        for lib in ("lib", "lib64", f"lib/{machine}"):
            path = folder / lib / NAME
            if path.is_file():
                return str(path)
    return None


def _declare(loaded):
    """Gives the functions their types: without them a size would be cut to 32 bits."""
    name, version, id = ctypes.c_char_p, ctypes.c_int, ctypes.c_int
    address, size, status = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for function, arguments, result in (
        ("Init_single", [ctypes.c_uint, name], status),
        ("Init_fortran", [ctypes.c_int, name], status),
        ("Finalize", [ctypes.c_int], status),
        ("Last_error", [], ctypes.c_char_p),
        ("Set_stream", [address], status),
        ("Mem_protect", [id, address, size, size], status),
        ("Region_protect", [id, address, size, size, name], status),
        ("Mem_unprotect", [id], status),
        ("Region_unprotect", [id, name], status),
        ("Checkpoint", [name, version], status),
        ("Checkpoint_wait", [], status),
        ("Checkpoint_finished", [], status),
        ("Cleanup", [name], status),
        ("Restart_test", [name, version], ctypes.c_int),
        ("Restart_begin", [name, version], status),
        ("Recover_ckpt_size", [name, version, id], size),
        ("Recover_mem", [], status),
        ("Restart_end", [ctypes.c_int], status),
        ("Prefetch_enqueue", [name, version], status),
        ("Prefetch_start", [], status),
    ):
        declared = getattr(loaded, f"VELOC_{function}")
        declared.argtypes, declared.restype = arguments, result
    # Errors are exceptions here: once one is asked for, the library does not print them, too.
    loaded.VELOC_Last_error()


def number(what, value, kind=ctypes.c_int):
    """The number as C's type `kind` can hold it: ctypes would cut off what does not fit."""
    bits = 8 * ctypes.sizeof(kind)
    # A type of ctypes is signed if -1 stays what it is.
    least = -(2 ** (bits - 1)) if kind(-1).value == -1 else 0
    most = least + 2**bits - 1
    given = operator.index(value)
    if not least <= given <= most:
        raise ValueError(f"{what} is {given}; it must be from {least} to {most}")
    return given


def text(what, value):
    """The text as C has it: what stands behind a NUL would be cut off."""
    given = os.fsencode(value) if what == "cfg" else value.encode()
    if b"\0" in given:
        raise ValueError(f"{what} is {value!r}, with a NUL in it")
    return given


def last_error():
    """The reason of this thread's last failure, as an exception to raise."""
    return Error(library().VELOC_Last_error().decode(errors="replace"))


def check(status):
    """Raises the reason if a call has failed."""
    if status != 0:
        raise last_error()
