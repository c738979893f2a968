"""The class `Ckpt`."""

import ctypes
import weakref

from ._library import Error, check, last_error, library, number, text
from ._regions import ObjectRegion, Pickled, region_of


class Ckpt:
    """The job of this process: what is protected, and its checkpoints.

    `id` is the number of this process in the names of files, or an mpi4py communicator, over which
    the job is then collective. `cfg` is the path of the configuration. A process has one job at a
    time. What the library refuses raises `Error`; a number or a text that C cannot have, ValueError.

    As VELOC's classes do, it has an attribute `protected`: an object that is pickled as region 0.
    """

    def __init__(self, id, cfg):
        calls, cfg = library(), text("cfg", cfg)
        if hasattr(id, "py2f"):
            check(calls.VELOC_Init_fortran(id.py2f(), cfg))
        else:
            check(calls.VELOC_Init_single(number("id", id, ctypes.c_uint), cfg))
        # The regions of each name that has its own, and under None those of all others.
        self._groups = {None: {}}
        self._end = weakref.finalize(self, calls.VELOC_Finalize, 0)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.finalize(drain=kind is None)

    def finalize(self, drain=False):
        """Ends the job; `drain` waits until everything is in files.

        Happens by itself, without `drain`, when the object is no longer used.
        """
        if self._end.detach():
            check(library().VELOC_Finalize(int(bool(drain))))

    # --- regions ---

    @property
    def protected(self):
        """The object that is region 0, pickled; None if there is none."""
        region = self._groups[None].get(0)
        return region.pickled.value if isinstance(region, ObjectRegion) else None

    @protected.setter
    def protected(self, value):
        region = self._groups[None].get(0)
        if not isinstance(region, ObjectRegion):
            if value is None:
                return
            if region is not None:
                raise Error("region 0 is an array; it cannot be the object `protected` as well")
            self.protect(0, Pickled(value))
        elif value is None:
            self.unprotect(0)
        else:
            region.pickled.value = value

    def protect(self, id, what, name=None):
        """Makes an array or a `Pickled` part of checkpoints, in place of what has this id.

        With `name`, of the checkpoints of that name alone, which then has no others. An array must
        be one range of memory; it is kept alive until `unprotect`.
        """
        id, group = number("id", id), self._groups.get(name, {})
        if name is not None:
            text("name", name)
        region = region_of(id, what)
        if not isinstance(region, ObjectRegion):
            self._protect(id, region, name)
        elif id in group:
            self.unprotect(id, name)
        group[id] = region
        self._groups[name] = group

    def unprotect(self, id, name=None):
        """Ends the protection of a region."""
        group = self._groups.get(name, {})
        region = group.get(id)
        # The library has met an object if it has been in memory.
        if not isinstance(region, ObjectRegion) or region.memory is not None:
            if name is None:
                check(library().VELOC_Mem_unprotect(number("id", id)))
            else:
                check(library().VELOC_Region_unprotect(number("id", id), text("name", name)))
        del group[id]

    def set_stream(self, stream):
        """Hands over the stream in which the program computes: the address of a CUstream."""
        check(library().VELOC_Set_stream(number("stream", stream, ctypes.c_size_t)))

    # --- checkpoints ---

    def checkpoint(self, name, version):
        """Takes a checkpoint of everything that is protected."""
        which = text("name", name), number("version", version)
        for id, region, group in self._objects(name):
            region.write()
            self._protect(id, region.memory, group)
        check(library().VELOC_Checkpoint(*which))

    def wait(self):
        """Waits until every checkpoint has come as far down as the configuration asks for."""
        check(library().VELOC_Checkpoint_wait())

    def finished(self):
        """Whether every checkpoint has come as far down as the configuration asks for."""
        found = library().VELOC_Checkpoint_finished()
        if found < 0:
            raise last_error()
        return found == 1

    def cleanup(self, name):
        """Removes the checkpoints of a name from memory and scratch."""
        check(library().VELOC_Cleanup(text("name", name)))

    # --- restarts ---

    def restart_test(self, name, version=0):
        """The newest version that can be restored and is at most `version` (0: of all).

        Negative if there is none. Collective over MPI.
        """
        return library().VELOC_Restart_test(text("name", name), number("version", version))

    def restart(self, name, version):
        """Restores a checkpoint into the protected arrays and objects.

        If nothing is protected, region 0 of the checkpoint becomes `protected`. Collective over
        MPI.
        """
        if not any(self._groups.values()):
            self.protect(0, Pickled())
            try:
                self._restart(name, version)
            except BaseException:
                self.unprotect(0)
                raise
        else:
            self._restart(name, version)

    def prefetch(self, name, versions):
        """Hints that these checkpoints will be restored, in this order."""
        for version in versions:
            which = text("name", name), number("version", version)
            check(library().VELOC_Prefetch_enqueue(*which))
        check(library().VELOC_Prefetch_start())

    #: The names of VELOC's class for arrays.
    get_version = restart_test
    restore = restart

    # --- within ---

    def _restart(self, name, version):
        which = text("name", name), number("version", version)
        for id, region in self._regions(name)[1].items():
            if not isinstance(region, ObjectRegion):
                region.check(id)
        calls = library()
        check(calls.VELOC_Restart_begin(*which))
        try:
            for id, region, group in self._objects(name):
                length = calls.VELOC_Recover_ckpt_size(*which, id)
                if length == 0:
                    raise last_error()
                region.make_room(length)
                self._protect(id, region.memory, group)
            check(calls.VELOC_Recover_mem())
        except BaseException:
            calls.VELOC_Restart_end(0)
            raise
        check(calls.VELOC_Restart_end(1))
        for _, region, _ in self._objects(name):
            region.read()

    def _protect(self, id, region, name):
        range = id, region.address, region.count, region.size
        if name is None:
            check(library().VELOC_Mem_protect(*range))
        else:
            check(library().VELOC_Region_protect(*range, text("name", name)))

    def _regions(self, name):
        """The group that the checkpoints of a name have, and its regions."""
        group = name if self._groups.get(name) else None
        return group, self._groups[group]

    def _objects(self, name):
        """Of those, the objects: their ids, themselves, and the group."""
        group, regions = self._regions(name)
        objects = regions.items()
        return [(id, region, group) for id, region in objects if isinstance(region, ObjectRegion)]
