"""The job of all Revolvers and saved tensors that were given none: from the first of them to the last."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from ._job import Job
from ._library import Error
from ._options import Value

class _Hidden(Job):
    _ending = (
        "it is that of Revolvers, or of saved tensors, and ends with the last of them: call apply_reverse or backward, or "
        "drop it, or begin a job before it and give it that (job=...)"
    )


#: Whoever has it may be collected, and leave, while the same thread is in here.
lock = threading.RLock()
_job: Job | None = None
_settings: dict[str, Value] = {}
_users = 0


def join(user: object, settings: Mapping[str, Value], room: str) -> tuple[Job, weakref.finalize[Any, Any]]:
    """The job, begun if there is none, with `room` in host memory; and what is to be called when
    `user` needs it no longer, which happens by itself when it is gone."""
    global _job, _settings, _users
    with lock:
        leave = weakref.finalize(user, _leave, os.getpid())
        _users += 1
        try:
            if _job is None:
                if Job.alive() is not None:
                    raise Error(
                        "the program has a job that has not ended: end it first, or give it to the "
                        "Revolver or saved_tensors (job=...), which then stores there what it has"
                    )
                _job, _settings = _Hidden({"host_cache_size": room, **settings}), dict(settings)
            elif _job._process != os.getpid():
                raise Error("the job of Revolvers and saved tensors is that of the process from which this one was forked")
            elif settings != _settings:
                raise Error(
                    f"another Revolver, or saved tensors, are under way with {_settings}, this has {settings}: end "
                    "that first, or open a veloc.Job and give it to both (job=...)"
                )
            return _job, leave
        except BaseException:
            leave()
            raise


def _leave(process: int) -> None:
    global _job, _users
    # A forked process has a copy of all this, and no job.
    if os.getpid() != process:
        return
    with lock:
        _users -= 1
        if _users == 0 and _job is not None:
            job, _job = _job, None
            job.finalize()
