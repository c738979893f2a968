"""Warns of arrays and objects that nobody but the library has: no program can change them any more."""

from __future__ import annotations

import gc
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ._regions import ObjectRegion, Range, Region

#: What never changes, so that another object can only take its place.
_CONSTANTS = (int, float, complex, str, bytes, type(None))


def warn(
    regions: Mapping[int, Region | ObjectRegion],
    everything: Iterable[Region | ObjectRegion],
    level: int,
    part: str = "",
) -> None:
    """Warns, once of each, of those of `regions` whose arrays only `everything` has, which is all regions.

    Of other libraries' arrays and of foreign memory nobody knows who has them. `level` is that of the
    program's own code, as of `warnings.warn`.
    """
    links = _links_of(everything)
    for id, region in regions.items():
        if region.told or not _COUNTED:
            continue
        if isinstance(region, ObjectRegion):
            if not _is_constant(region):
                continue
            what = (
                f"this Pickled, whose {type(region.pickled.value).__name__} stays as it is; keep it in a "
                "variable, `p = veloc.Pickled(x)`, and set `p.value` to each new object"
            )
        else:
            if not _is_alone(region, links):
                continue
            what = (
                f"this array ({region.owner.dtype}, shape {region.owner.shape}), which stays as it is; protect "
                "the array that the program changes: `a = a + 1` makes a new array, `a += 1` changes it"
            )
        region.told = True
        text = f"{part}region {id}: nobody but the library has {what}"
        warnings.warn(text, RuntimeWarning, stacklevel=level)


def _links(region: Region | ObjectRegion) -> Iterator[tuple[Any, str]]:
    """What leads from a region to its array of NumPy's, and from a view on to the array with the memory."""
    numpy = sys.modules.get("numpy")
    holder: Any = region
    name = "owner"
    while numpy and isinstance(getattr(holder, name, None), numpy.ndarray):
        yield holder, name
        holder, name = getattr(holder, name), "base"


def _links_of(everything: Iterable[Region | ObjectRegion]) -> Counter[int]:
    """How many links lead to each array, by its `id`."""
    found: Counter[int] = Counter()
    for region in everything:
        for link in _links(region):
            array = id(getattr(*link))
            found[array] += 1
            # What it is a view of has been counted.
            if found[array] > 1:
                break
    return found


def _is_alone(region: Region, links: Counter[int]) -> bool:
    """Whether nothing but these links leads to its array, and to what that is a view of."""
    link = None
    for link in _links(region):
        if _references(*link) > links[id(getattr(*link))]:
            return False
    # Foreign memory may be changed by who it is of.
    return link is not None and bool(getattr(*link).flags.owndata)


def _is_constant(region: ObjectRegion) -> bool:
    """Whether nobody can set the value, nor change it or anything in it."""
    if _references(region, "pickled") > 1:
        return False
    pickled = region.pickled
    if isinstance(pickled.value, _CONSTANTS):
        return True
    return (
        type(pickled.value) in (dict, list, set, tuple)
        and _references(pickled, "value") == 1
        and all(isinstance(part, _CONSTANTS) for part in gc.get_referents(pickled.value))
    )


def _references(holder: Any, name: str) -> int:
    """The references to what `holder` has under this name, with its own."""
    return sys.getrefcount(getattr(holder, name)) - _COUNTING


#: The references that the line above has itself: of this object there is one.
_COUNTING = 0
_COUNTING = _references(Region(object(), Range(0, 0, 1)), "owner") - 1
#: Without a global lock, an interpreter counts otherwise.
_COUNTED = "t" not in sys.abiflags
