"""What can be protected, as ranges of memory."""

import ctypes
import math
import pickle
import re


class Pickled:
    """An object that is part of checkpoints as the bytes that pickle makes of it.

    Every checkpoint has the `value` of that moment, and a restart puts another object in its
    place. As with pickle itself: restore no files that others may have written.
    """

    def __init__(self, value=None):
        self.value = value

    def __repr__(self):
        return f"Pickled({self.value!r})"


class Region:
    """A range of memory, and the object that it lasts as long as."""

    def __init__(self, owner, address, count, size, readonly=False):
        self.owner = owner
        self.address = address
        self.count = count
        self.size = size
        self.readonly = readonly

    def check(self, id):
        """Raises ValueError if a restart could not write to it."""
        if self.readonly:
            raise ValueError(f"region {id}: the array cannot be written to")


class ObjectRegion:
    """A `Pickled`, and the memory that it had in its last checkpoint or restart, if any."""

    def __init__(self, pickled):
        self.pickled = pickled
        self.memory = None

    def write(self):
        """Puts the object into memory, for a checkpoint."""
        text = pickle.dumps(self.pickled.value)
        self.memory = Region(text, ctypes.cast(text, ctypes.c_void_p).value, len(text), 1)

    def make_room(self, length):
        """Makes memory of so many bytes, for a restart."""
        owner = bytearray(length)
        self.memory = Region(owner, _address(owner, length), length, 1)

    def read(self):
        """Puts what memory has into the object."""
        self.pickled.value = pickle.loads(self.memory.owner)


def region_of(id, what):
    """The region of an array of a GPU, of NumPy, of any other writable buffer, or of a `Pickled`.

    Raises TypeError if it is nothing of this, ValueError if it is no range of memory.
    """
    if isinstance(what, Pickled):
        return ObjectRegion(what)
    interface = getattr(what, "__cuda_array_interface__", None)
    # A scalar of NumPy's has one, too: for a copy that is gone as soon as it is made.
    if interface is None and hasattr(what, "__setitem__"):
        interface = getattr(what, "__array_interface__", None)
    if interface is not None:
        return _of_interface(id, what, interface)
    try:
        view = memoryview(what)
    except TypeError:
        raise TypeError(
            f"region {id}: a {type(what).__name__} is no array; to save it as what pickle makes of "
            "it, protect a veloc.Pickled"
        ) from None
    if view.readonly or not view.c_contiguous:
        why = "cannot be written to" if view.readonly else "has gaps between its elements"
        raise ValueError(f"region {id}: the {type(what).__name__} {why}")
    # The view stays: while it does, nobody can give the buffer another size.
    return Region(view, _address(view, view.nbytes), view.nbytes // view.itemsize, view.itemsize)


def _address(buffer, length):
    return ctypes.addressof((ctypes.c_char * length).from_buffer(buffer))


def _of_interface(id, what, interface):
    """The memory of an array with NumPy's interface or with CUDA's, which has the same members."""
    if interface.get("mask") is not None:
        raise ValueError(f"region {id}: the array has a mask")
    size = _element_size(id, what, interface["typestr"])
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    if strides is not None and not _is_one_range(shape, strides, size):
        raise ValueError(
            f"region {id}: an array of shape {shape} and strides {tuple(strides)} has gaps between "
            "its elements; protect the whole array, or a copy"
        )
    address, readonly = interface["data"]
    return Region(what, address, math.prod(shape), size, readonly)


def _element_size(id, what, typestr):
    """Bytes of an element."""
    kind, number = re.match(r"[<>|=]([A-Za-z])(\d*)", typestr).groups()
    if kind == "O" or getattr(getattr(what, "dtype", None), "hasobject", False):
        raise TypeError(
            f"region {id}: the elements of the array are references to objects; protect a "
            "veloc.Pickled"
        )
    # Of text, it is the number of letters.
    return int(number) * (4 if kind == "U" else 1)


def _is_one_range(shape, strides, size):
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
