"""The tensors that autograd saves, as checkpoints of a job."""

from __future__ import annotations

import collections
import os
import types
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .. import _hidden
from .._job import Job
from .._library import Error, Library, check
from .._options import Value
from .._regions import Range, compression_mode, is_one_range
from .._restore import restore

#: The region of a checkpoint that is the tensor.
_REGION = 0
#: Held over calls that belong together: that of the job, as garbage that is collected under it comes here.
_lock = _hidden.lock
#: Versions that nobody will read any more: the block, the version, and its key in `_found`.
_gone: collections.deque[tuple[weakref.ref[_Block], int, Any]] = collections.deque()
#: Names of checkpoints that no block uses now, and how many there are in all.
_names: list[str] = []
_made = 0


class saved_tensors:
    """A context in which the tensors that autograd saves for the backward pass go into a job's levels.

    They come back in the backward pass, wherever that runs. A checkpoint of each tensor is taken as the forward
    pass saves it: the copy of device memory is in the order of PyTorch's current stream, and the tensor's own
    memory is free for others as soon as the program needs it no longer.

    Tensors of fewer bytes than `above` stay in memory, as do parameters (leaves that require a gradient), views of
    them, and what is no dense tensor of the host or of CUDA. A tensor that several operations save is stored once.
    `bits`, `bound`, `relative` and `lossless` are those of `Job.compress`, for tensors of float32 and float64.

    `job` is an open `veloc.Job` without other ranks, best with `ephemeral=True`. Without it, all these contexts
    share a job of their own, which gets `options` and ends with the last graph.

    As without this context, the backward pass raises RuntimeError if a saved tensor was changed in place. The
    gradient's bits are those of a plain backward pass, unless `bits` are given.

    Raises `veloc.Error` where the levels have no room for a tensor.
    """

    def __init__(
        self,
        job: Job | None = None,
        *,
        above: int = 1 << 20,
        bits: int | None = None,
        bound: float = 0.0,
        relative: bool = False,
        lossless: bool = False,
        options: Mapping[str, Value] | None = None,
    ) -> None:
        if job is not None and options:
            raise ValueError("a job is given: it has its own options")
        if job is not None and job._comm is not None:
            raise ValueError(
                "the job has a communicator, over which restores are collective: give saved_tensors a job of "
                "this process alone"
            )
        self._job, self._options = job, dict(options or {})
        self._above = max(1, above)
        self._compression = compression_mode(bits, bound, relative, lossless), bound
        self._entered: list[Any] = []

    def __enter__(self) -> saved_tensors:
        block = _Block(self._job, self._options, self._above, self._compression)
        hooks = torch.autograd.graph.saved_tensors_hooks(block.pack, block.unpack)
        hooks.__enter__()
        self._entered.append(hooks)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._entered.pop().__exit__(kind, value, trace)


class _Versioned:
    """A tensor's version, which counts its changes in place; `counter` shares it."""

    def __init__(self, tensor: Any, counter: Any) -> None:
        self._counter, self.version = counter, tensor._version
        self._what = f"{tensor.dtype} {list(tensor.shape)}"

    def check(self) -> None:
        """Raises what autograd itself raises of a tensor that has changed; with hooks it does not look."""
        if self._counter._version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{self._what}] is at version {self._counter._version}; expected version {self.version} instead"
            )


class _Kept(_Versioned):
    """A tensor that stays in memory."""

    def __init__(self, tensor: Any) -> None:
        # Without its graph, which would refer to itself.
        self.tensor = tensor.detach()
        super().__init__(tensor, self.tensor)


class _Stored(_Versioned):
    """A tensor that is a checkpoint: `number` of the block's name."""

    def __init__(self, block: _Block, number: int, key: Any, tensor: Any, whole: Any) -> None:
        counter = tensor.detach()
        # Of the tensor it keeps the counter alone.
        counter.data = tensor.new_empty(0)
        super().__init__(tensor, counter)
        self._block, self.number, self.key = block, number, key
        #: The checkpoint was taken.
        self.is_there = False
        #: What the checkpoint has, and how often the tensor repeats it.
        self.layout = tuple(whole.shape), whole.stride(), whole.dtype, whole.device
        self.shape = tensor.shape
        #: As long as there is this, no other storage is at its place.
        self.storage = StorageWeakRef(tensor.untyped_storage())

    def __del__(self) -> None:
        if self.is_there:
            _gone.append((weakref.ref(self._block), self.number, self.key))


class _Block:
    """What one context has stored: checkpoints of one name. It lasts as long as autograd has any of it."""

    def __init__(
        self, job: Job | None, options: Mapping[str, Value], above: int, compression: tuple[int, float]
    ) -> None:
        self._given, self._options, self._above = job, options, above
        self._mode, self._bound = compression
        self._process = os.getpid()
        self._job: Job | None = None
        self._name = b""
        self._next = 0
        self._found: dict[Any, weakref.ref[_Stored]] = {}

    # --- autograd's hooks ---

    def pack(self, tensor: Any) -> _Versioned:
        """Called with each tensor that autograd saves."""
        whole = self._whole(tensor)
        if whole is None:
            return _Kept(tensor)
        key = (
            tensor.untyped_storage()._cdata,
            tensor.storage_offset(),
            tensor.shape,
            tensor.stride(),
            tensor.dtype,
            tensor._version,
        )
        with _lock:
            there = self._found.get(key, lambda: None)()
            if there is not None and not there.storage.expired():
                return there
            if not _is_dense(whole):
                whole = whole.contiguous()
            _forget()
            stored = _Stored(self, self._next, key, tensor, whole)
            self._next += 1
            self._store(stored.number, whole)
            stored.is_there = True
            self._found[key] = weakref.ref(stored)
        return stored

    def unpack(self, packed: _Versioned) -> Any:
        """Called as the backward pass needs the tensor."""
        packed.check()
        if isinstance(packed, _Kept):
            return packed.tensor
        assert isinstance(packed, _Stored)
        if os.getpid() != self._process:
            raise Error("a backward pass in a forked process: its saved tensors are those of the other process")
        shape, stride, dtype, device = packed.layout
        whole = torch.empty_strided(shape, stride, dtype=dtype, device=device)
        with _lock:
            calls = self._calls(whole)
            restore(calls, (self._name, packed.number), [(_REGION, _range(whole))], consumed=False)
        return whole.expand(packed.shape)

    # --- within ---

    def _whole(self, tensor: Any) -> Any:
        """The elements that are stored; None for a tensor that stays in memory."""
        if (
            type(tensor) is not torch.Tensor
            or tensor.layout is not torch.strided
            or tensor.device.type not in ("cpu", "cuda")
            or _is_parameter(tensor)
            or (tensor._base is not None and _is_parameter(tensor._base))
            or tensor._is_zerotensor()
            or tensor.is_conj()
            or tensor.is_neg()
            or tensor.is_quantized
            or os.getpid() != self._process
        ):
            return None
        whole = tensor.detach()
        for dimension, (extent, stride) in enumerate(zip(tensor.shape, tensor.stride())):
            if stride == 0 and extent > 1:
                whole = whole.narrow(dimension, 0, 1)
        return whole if whole.numel() * whole.element_size() >= self._above else None

    def _store(self, number: int, whole: Any) -> None:
        calls = self._calls(whole)
        address, elements, size, *_ = _range(whole)
        check(calls.VELOC_Region_protect(_REGION, address, elements, size, self._name))
        if self._mode and size > 1:
            check(calls.VELOC_Region_compress(_REGION, self._mode, self._bound, self._name))
        check(calls.VELOC_Checkpoint(self._name, number))

    def forget(self, number: int, key: Any) -> None:
        """Has a version that nobody will read any more make room."""
        if self._job is not None and self._job._end.alive and os.getpid() == self._process:
            restore(self._job._calls(), (self._name, number), [], consumed=True)
        if self._found.get(key, lambda: None)() is None:
            self._found.pop(key, None)

    def _calls(self, whole: Any) -> Library:
        """The library, in the order of the stream in which the tensor is."""
        on_device = whole.device.type == "cuda"
        if self._job is None:
            self._open(on_device)
        assert self._job is not None
        if on_device:
            self._job.set_stream(torch.cuda.current_stream(whole.device))
        return self._job._calls()

    def _open(self, on_device: bool) -> None:
        """Begins the job, or joins that of the others, unless one was given."""
        global _made
        leave = None
        job = self._given
        if job is None:
            options: dict[str, Value] = {"mode": "async", "ephemeral": True}
            options |= {"stream_ordered": True} if on_device else {"gpu_cache_size": "0"}
            job, leave = _hidden.join(self, {**options, **self._options}, "auto")
        if not _names:
            _made += 1
            _names.append(f"torch.{_made}")
        name = _names.pop()
        self._job, self._name = job, name.encode()
        weakref.finalize(self, _end, job, name, leave, self._process)


def _end(job: Job, name: str, leave: Any, process: int) -> None:
    """Frees what a block has stored."""
    # A forked process has copies of all this, and no job.
    if os.getpid() != process:
        return
    try:
        with _lock:
            if job._end.alive:
                calls = job._calls()
                check(calls.VELOC_Cleanup(name.encode()))
                check(calls.VELOC_Region_clear(name.encode()))
            _names.append(name)
    finally:
        if leave is not None:
            leave()


def _forget() -> None:
    """Has all that nobody will read any more, of any block, make room."""
    while _gone:
        block, number, key = _gone.popleft()
        there = block()
        if there is not None:
            there.forget(number, key)


def _is_parameter(tensor: Any) -> bool:
    return bool(tensor.is_leaf and tensor.requires_grad)


def _is_dense(tensor: Any) -> bool:
    return is_one_range(tensor.shape, tensor.stride(), 1)


def _range(whole: Any) -> Range:
    """The memory of a dense tensor: floats that can be compressed, or bytes."""
    size = whole.element_size() if whole.dtype in (torch.float32, torch.float64) else 1
    return Range(whole.data_ptr(), whole.numel() * whole.element_size() // size, size)
