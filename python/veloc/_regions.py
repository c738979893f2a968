"""What can be protected, as ranges of memory."""

from __future__ import annotations

import ctypes
import math
import pickle
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _dlpack


class Pickled:
    """An object that checkpoints hold as the bytes that pickle makes of it.

    A checkpoint holds the `value` of its moment; a restart sets `value` to another object. `Pickled(x)`
    does not follow the variable `x`: keep the Pickled, set its `value` to each new object, and read `value`
    after a restart. As with pickle itself, do not restore files that others may have written.

    >>> step = Pickled({"step": 1})
    >>> step.value = {"step": 2}
    >>> step.value["step"]
    2
    """

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Pickled({self.value!r})"


class Range(NamedTuple):
    """A range of memory."""

    address: int
    elements: int
    #: Bytes of each.
    size: int
    readonly: bool = False
    #: The array's, and its strides in bytes (None: those of C).
    shape: Sequence[int] = ()
    strides: Sequence[int] | None = None
    #: The type of its elements, if they are no floats.
    other: str | None = None

    def place(self) -> tuple[int, int]:
        """Its address and its bytes."""
        return self.address, self.elements * self.size

    def order(self) -> list[tuple[int, int]]:
        """The array's dimensions as they lie in memory, the slowest first: a number and the extent of each.

        Those that have but one element lie nowhere."""
        steps = range(len(self.shape), 0, -1) if self.strides is None else self.strides
        wide = [(extent, step) for extent, step in zip(self.shape, steps) if extent > 1]
        numbers = sorted(range(len(wide)), key=lambda number: -wide[number][1])
        return [(number, wide[number][0]) for number in numbers]

    def axes(self, id: int, order: str | None) -> list[int]:
        """Its dimensions, the slowest in memory first. Raises ValueError if that is neither C's nor Fortran's order."""
        numbers, dimensions = [number for number, _ in self.order()], list(range(len(self.shape)))
        turned = order == "F" if order else numbers != sorted(numbers)
        if order not in (None, "C", "F") or numbers != sorted(numbers, reverse=turned):
            raise ValueError(f"region {id}: the array's order of dimensions is not {order or 'C or F'}")
        return dimensions[::-1] if turned else dimensions

    def is_turned(self, other: Range) -> bool:
        """Whether the bytes of the other, which has the same shape, come back permuted in this."""
        mine, others = self.order(), other.order()
        return mine != others and sorted(mine) == sorted(others)


class Region:
    """An array, which lasts as long as this, and the range of memory that it has."""

    def __init__(self, owner: Any, range: Range) -> None:
        self.owner = owner
        self.range = range
        #: What was protected before, where an interrupt came between.
        self.before: object = None
        #: The program was warned that nobody else has the array.
        self.told = False

    def is_turned(self, before: Region) -> bool:
        """Whether what checkpoints have of the array that was there before comes back permuted in this."""
        return self.range.address != before.range.address and self.range.is_turned(before.range)

    def check(self, id: int) -> None:
        """Raises ValueError if the array has moved, or has another size than the library knows."""
        # While there is a memoryview, nobody can give the buffer another size.
        if isinstance(self.owner, memoryview):
            return
        now = _range_of(id, self.owner)
        if now is not None and now.place() == self.range.place():
            return
        bytes = self.range.place()[1]
        what = "elsewhere" if now and now.place()[1] == bytes else "of another size"
        raise ValueError(
            f"region {id}: the array is {what} since it was protected with {bytes} bytes at "
            f"{self.range.address:#x}"
            + (f": now {now.place()[1]} bytes at {now.address:#x}" if now else "")
            + "; protect it again"
        )

    def check_writable(self, id: int) -> None:
        """Raises ValueError if a restart could not write to it."""
        if self.range.readonly:
            raise ValueError(f"region {id}: the array cannot be written to")

    def check_floats(self, id: int) -> None:
        """Raises TypeError if its elements are no floats, which alone have fewer bits within a bound."""
        if self.range.other is not None:
            raise TypeError(
                f"region {id}: the elements of the array are {self.range.other}; only float32 and float64 in "
                "this machine's byte order can have fewer bits"
            )


class ObjectRegion:
    """A `Pickled`, and the memory that it had in its last checkpoint or restart, if any."""

    def __init__(self, pickled: Pickled) -> None:
        self.pickled = pickled
        self.memory: Region | None = None
        #: The program was warned that nobody can set the value.
        self.told = False

    def write(self) -> Region:
        """Puts the object into memory, for a checkpoint."""
        text = pickle.dumps(self.pickled.value)
        address = ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value or 0
        self.memory = Region(text, Range(address, len(text), 1))
        return self.memory

    def make_room(self, length: int) -> Region:
        """Makes memory of so many bytes, for a restart."""
        owner = bytearray(length)
        self.memory = Region(owner, Range(_address(owner, length), length, 1))
        return self.memory

    def read(self) -> None:
        """Puts what memory has into the object."""
        if self.memory is not None:
            self.pickled.value = pickle.loads(self.memory.owner)


def region_of(id: int, what: Any) -> Region | ObjectRegion:
    """The region of an array, of any writable buffer, or of a `Pickled`.

    Raises TypeError if it is nothing of this, ValueError if it is no range of memory.
    """
    if isinstance(what, Pickled):
        return ObjectRegion(what)
    range = _range_of(id, what)
    if range is not None:
        return Region(what, range)
    try:
        view = memoryview(what)
    except TypeError:
        raise TypeError(
            f"region {id}: an object of type {type(what).__name__} is no array; to save it as what "
            "pickle makes of it, protect a veloc.Pickled"
        ) from None
    if view.readonly or not view.c_contiguous:
        why = "cannot be written to" if view.readonly else "has gaps between its elements"
        raise ValueError(f"region {id}: the {type(what).__name__} {why}")
    address = _address(view, view.nbytes)
    # In the order of this machine: "<f" is that of ctypes.
    other = None if view.format.lstrip("@=<") in ("f", "d") else f"of the format {view.format!r}"
    return Region(view, Range(address, view.nbytes // view.itemsize, view.itemsize, other=other))


def _address(buffer: Any, length: int) -> int:
    return ctypes.addressof((ctypes.c_char * length).from_buffer(buffer))


def _range_of(id: int, what: Any) -> Range | None:
    """The memory that an array has now, by what it says itself; None for what has but a buffer."""
    if hasattr(what, "data_ptr") and hasattr(what, "element_size"):
        return _of_tensor(id, what)
    interface = getattr(what, "__cuda_array_interface__", None)
    # A scalar of NumPy's has one, too: for a copy that is gone as soon as it is made.
    numpy = sys.modules.get("numpy")
    if interface is None and not (numpy and isinstance(what, numpy.generic)):
        interface = getattr(what, "__array_interface__", None)
    if interface is not None:
        return _of_interface(id, what, interface)
    if hasattr(what, "__dlpack__") and hasattr(what, "__dlpack_device__"):
        return _of_dlpack(id, what)
    return None


def _of_tensor(id: int, what: Any) -> Range:
    """The memory of a tensor of PyTorch's: what autograd tracks has no interface but its own."""
    if what.device.type not in ("cpu", "cuda"):
        raise TypeError(f"region {id}: a tensor on {what.device} is not in memory of the host or of CUDA")
    size, shape = what.element_size(), tuple(what.shape)
    try:
        address, strides = what.data_ptr(), [stride * size for stride in what.stride()]
    except RuntimeError as error:
        raise TypeError(f"region {id}: the tensor has no range of memory: {error}") from None
    return _range(id, address, shape, strides, size, other=None if what.is_floating_point() else str(what.dtype))


def _of_interface(id: int, what: Any, interface: Mapping[str, Any]) -> Range:
    """The memory of an array with NumPy's interface or with CUDA's, which has the same members."""
    if interface.get("mask") is not None:
        raise ValueError(f"region {id}: the array has a mask")
    masked = sys.modules.get("numpy.ma")
    if masked and isinstance(what, masked.MaskedArray):
        raise ValueError(
            f"region {id}: the mask of a masked array is an array of its own; protect `a.data` and "
            "`a.mask` as two regions (first `a.mask = numpy.ma.getmaskarray(a)`, if it has no mask yet)"
        )
    size = _element_size(id, what, interface["typestr"])
    address, readonly = interface["data"]
    typestr = interface["typestr"]
    other = None if typestr[0] != ">" and typestr[1] == "f" else f"of the type {typestr!r}"
    return _range(id, address, interface["shape"], interface.get("strides"), size, readonly, other)


def _of_dlpack(id: int, what: Any) -> Range:
    """The memory of an array that hands itself over by DLPack."""
    try:
        tensor = _dlpack.describe(what)
    except (TypeError, ValueError, BufferError) as error:
        raise type(error)(f"region {id}: {error}") from None
    other = None if tensor.floats else "no floats"
    return _range(id, tensor.address, tensor.shape, tensor.strides, tensor.size, tensor.readonly, other)


def _range(
    id: int,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int] | None,
    size: int,
    readonly: bool = False,
    other: str | None = None,
) -> Range:
    """The range of an array with these strides in bytes (None: without gaps)."""
    if strides is not None and not is_one_range(shape, strides, size):
        raise ValueError(
            f"region {id}: an array of shape {tuple(shape)} and strides {tuple(strides)} (bytes) has "
            "gaps between its elements; protect the whole array that it is a part of: a copy would not "
            "change with it"
        )
    return Range(address, math.prod(shape), size, readonly, shape, strides, other)


def _element_size(id: int, what: Any, typestr: str) -> int:
    """Bytes of an element."""
    found = re.match(r"[<>|=]([A-Za-z])(\d*)", typestr)
    kind, number = found.groups() if found else ("", "")
    if kind == "O" or getattr(getattr(what, "dtype", None), "hasobject", False):
        raise TypeError(
            f"region {id}: the elements of the array are references to objects; protect a "
            "veloc.Pickled"
        )
    if not number:
        raise TypeError(f"region {id}: the elements of the array are of an unknown type, {typestr!r}")
    # Of text, it is the number of letters.
    return int(number) * (4 if kind == "U" else 1)


def is_one_range(shape: Sequence[int], strides: Sequence[int], size: int) -> bool:
    """Whether the elements, in whichever order of dimensions, follow one another without gaps."""
    if 0 in shape:
        return True
    follows = size
    for stride, extent in sorted(zip(strides, shape)):
        if extent > 1:
            if stride != follows:
                return False
            follows *= extent
    return True


def compression_mode(bits: int | None, bound: float, relative: bool, lossless: bool) -> int:
    """The mode of VELOC_Mem_compress for so many bits of a value, or for all."""
    if bits not in (None, 8, 12, 16):
        raise ValueError(f"bits is {bits!r}, not None, 8, 12 or 16")
    if lossless and (bits is not None or relative):
        raise ValueError("lossless=True has no bits, and no bound that is relative")
    if bits is None and not lossless and (bound or relative):
        raise ValueError(f"bound is {bound!r}, and bits (8, 12 or 16) are missing")
    return 64 if lossless else (bits or 0) + (256 if relative and bits else 0)
