"""The class `Ckpt`, as VELOC has it: a `Job` with other names."""

from __future__ import annotations

import ctypes
from typing import Any

from ._job import Job
from ._library import Error, number, text
from ._regions import ObjectRegion, Pickled


class Ckpt(Job):
    """A job with the interface of VELOC's own Python classes, for scripts that use them.

    `id` is the number of this process in the names of files, or an mpi4py communicator; then the job is
    collective over it. `cfg` is the path of the configuration.

    As VELOC's classes, it has an attribute `protected`: an object that is pickled as region 0.
    """

    def __init__(self, id: Any, cfg: str) -> None:
        if hasattr(id, "py2f"):
            super().__init__(cfg, comm=id)
        else:
            super().__init__(cfg, rank=number("id", id, ctypes.c_uint))

    def __enter__(self) -> Ckpt:
        return self

    @property
    def protected(self) -> Any:
        """The object that is region 0, pickled; None if there is none."""
        region = self._groups[None].get(0)
        return region.pickled.value if isinstance(region, ObjectRegion) else None

    @protected.setter
    def protected(self, value: Any) -> None:
        region = self._groups[None].get(0)
        if not isinstance(region, ObjectRegion):
            if value is None:
                return
            if region is not None:
                raise Error("region 0 is an array; it cannot be the object `protected` as well")
            self._protect_object(value)
        elif value is None:
            self.unprotect(0)
        else:
            region.pickled.value = value

    def restart_test(self, name: str, version: int = 0) -> int:
        """The newest version that can be restored and is at most `version` (0: of all).

        Negative if there is none. Collective over MPI.
        """
        found: int = self._calls().VELOC_Restart_test(text("name", name), number("version", version))
        return found

    def restart(self, name: str, version: int) -> None:
        """Restores a checkpoint into the protected arrays and objects.

        If nothing is protected, region 0 of the checkpoint becomes `protected`. Collective over
        MPI.
        """
        if any(self._groups.values()):
            super().restart(name, version)
            return
        self._protect_object(None)
        try:
            super().restart(name, version)
        except BaseException:
            self.unprotect(0)
            raise

    def _protect_object(self, value: Any) -> None:
        # Held here, too: `protected` sets its value.
        self._object = Pickled(value)
        self.protect(0, self._object)

    #: The names of VELOC's class for arrays.
    get_version = restart_test
    restore = restart
