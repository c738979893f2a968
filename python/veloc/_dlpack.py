"""Reads where an array is that hands itself over by DLPack (dmlc.github.io/dlpack)."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

#: Kinds of devices whose memory the library can copy: the host's, CUDA's, the host's that CUDA has
#: registered, and managed memory.
_HOST, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_READ_ONLY, _IS_COPIED = 1, 2
#: The code of IEEE's floats.
_FLOAT = 2


class Tensor(NamedTuple):
    """What an array says of itself; strides are in bytes, None where there are no gaps."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    #: Bytes of an element.
    size: int
    readonly: bool
    #: Whether its elements are floats of the processor's kind.
    floats: bool


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


def is_on_device(what: Any) -> bool:
    """Whether an array, which need not know of DLPack, is on a device."""
    if hasattr(what, "__dlpack_device__"):
        return bool(what.__dlpack_device__()[0] != _HOST)
    return hasattr(what, "__cuda_array_interface__")


def describe(what: Any) -> Tensor:
    """Where the array's own memory is. It is not taken over: the array has to stay.

    Raises TypeError or ValueError for memory that the library cannot copy.
    """
    kind, _ = what.__dlpack_device__()
    if kind not in (_HOST, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise TypeError(
            f"a {type(what).__name__} on a device of DLPack's type {kind} is not in memory of the "
            "host or of CUDA"
        )
    # -1: without waiting for a stream. The library orders its copies itself.
    stream = {"stream": -1} if kind in (_CUDA, _CUDA_MANAGED) else {}
    try:
        capsule = what.__dlpack__(max_version=(1, 0), copy=False, **stream)
    except TypeError:
        # From before DLPack 1.0.
        capsule = what.__dlpack__(**stream)
    flags = 0
    # Dropped with its memory described and not taken, the capsule gives back what it holds.
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        tensor, flags = managed.tensor, managed.flags
    elif _is_valid(capsule, b"dltensor"):
        tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    else:
        raise TypeError(f"__dlpack__ of a {type(what).__name__} does not return a tensor")
    if flags & _IS_COPIED:
        raise ValueError(f"the {type(what).__name__} hands over a copy of its memory")
    bits = tensor.bits * tensor.lanes
    if bits % 8 != 0:
        raise TypeError(f"an element of the {type(what).__name__} has {bits} bits")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = None
    if tensor.strides:
        strides = tuple(tensor.strides[i] * (bits // 8) for i in range(tensor.ndim))
    address = (tensor.data or 0) + tensor.byte_offset
    floats = (tensor.code, tensor.lanes) == (_FLOAT, 1)
    return Tensor(address, shape, strides, bits // 8, bool(flags & _READ_ONLY), floats)
