"""A time loop as one operation of autograd."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from .._job import Job
from .._library import Error
from .._options import Value
from ..revolve import Revolver


def time_loop(
    step: Callable[..., Any],
    state: Any,
    parameters: Any = (),
    *,
    steps: int,
    slots: int,
    outputs: bool = False,
    name: str = "loop",
    directory: str | os.PathLike[str] | None = None,
    adjoint_distance: int | None = None,
    job: Job | None = None,
    options: Mapping[str, Value] | None = None,
) -> Any:
    """Computes `steps` steps from `state`, of which the backward pass needs room for `slots` states alone.

    `step(number, state, parameters)` returns the next state. A state is a tensor or a tuple of tensors, which
    keep their shapes and types; `parameters` are a list of tensors, of which `step` gets a tuple, or one tensor. With `outputs`, `step` returns the next state and a tensor (what receivers
    record), and `time_loop` the last state and all these tensors along a new first dimension.

    The backward pass computes states again by a binomial schedule (`veloc.Schedule`), each step once more with its
    graph. It has gradients for `state` and `parameters`: `step` has to get each tensor that requires a gradient as
    one of these, and to compute the same whenever it is called: one that draws random numbers of PyTorch is refused,
    counters and dropout of its own go unnoticed. It must not change its arguments in place. The
    gradient's bits are those of a plain loop if `step` uses each parameter once; else sums have another order.

    With `directory` the states are files, too, and the adjoint every `adjoint_distance` steps (default: a twentieth
    of all). A program that was killed calls `time_loop` and `backward` again, and they compute what is left. `name`
    tells loops in one directory apart. The files are those of the values in `state` and `parameters`: a loop with
    other values that finds them is an error, until `discard` removes them.

    `job` and `options` are those of `veloc.revolve.Revolver`. Where no gradient is asked for, the loop just runs.
    """
    is_tuple = isinstance(state, (tuple, list))
    states = tuple(state) if is_tuple else (state,)
    if isinstance(parameters, torch.Tensor):
        parameters = (parameters,)
    plan = _Plan(
        step,
        len(states),
        is_tuple,
        steps,
        slots,
        outputs,
        name,
        directory,
        {"adjoint_distance": adjoint_distance, "job": job, "options": options},
    )
    if steps < 1:
        raise ValueError(f"steps is {steps}; it must be at least 1")
    if not torch.is_grad_enabled() or not any(part.requires_grad for part in [*states, *parameters]):
        results = _plain(plan, states, parameters)
    elif torch._C._is_any_autocast_enabled():
        raise ValueError("time_loop inside torch.autocast: its backward pass is outside; put the autocast into step")
    else:
        results = _Loop.apply(plan, *states, *parameters)
    last = results[: len(states)] if is_tuple else results[0]
    return (last, results[-1]) if outputs else last


def discard(
    directory: str | os.PathLike[str], name: str = "loop", options: Mapping[str, Value] | None = None
) -> None:
    """Removes the files of a loop that was killed, or whose backward pass never came: the next one of this name begins
    anew."""
    Revolver(None, None, None, 1, 1, name=name, directory=directory, options=options).discard()


class _Plan:
    """The arguments of a loop, but for its tensors."""

    def __init__(
        self,
        step: Callable[..., Any],
        width: int,
        is_tuple: bool,
        steps: int,
        slots: int,
        outputs: bool,
        name: str,
        directory: str | os.PathLike[str] | None,
        more: Mapping[str, Any],
    ) -> None:
        self._step, self.width, self._is_tuple = step, width, is_tuple
        self.steps, self.slots, self.outputs = steps, slots, outputs
        self.name, self.directory, self.more = name, directory, more
        #: The shape and type of what each step gives out, once it is known.
        self.row: Any = None

    def step(self, number: int, state: Sequence[Any], parameters: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        """Computes a step: the next state, and what it gives out (or None)."""
        given = tuple(state) if self._is_tuple else state[0]
        found = self._step(number, given, tuple(parameters))
        output = None
        if self.outputs:
            found, output = found
            row = output.shape, output.dtype
            if self.row not in (None, row):
                raise ValueError(f"step {number}: what it gives out is {row}, at the first step it was {self.row}")
        after = tuple(found) if self._is_tuple else (found,)
        described = [[(part.shape, part.dtype, part.device) for part in parts] for parts in (state, after)]
        if described[0] != described[1]:
            raise ValueError(f"step {number}: the next state is {described[1]}, the state before was {described[0]}")
        return after, output


class _Run:
    """A loop under way, as a Revolver sees it: what a state has, and how steps are computed."""

    def __init__(self, plan: _Plan, state: Sequence[Any], parameters: Sequence[Any], wanted: Sequence[bool]) -> None:
        self.plan, self.parameters, self._wanted = plan, parameters, wanted
        self.state = [part.contiguous() for part in state]
        #: The step that `state` is before.
        self._at = 0
        self._is_reverse = self._goes_on = False
        self.outputs: list[Any] = []
        if plan.outputs:
            row = plan.step(0, self.state, parameters)[1]
            self.outputs = [row.new_zeros((plan.steps, *row.shape))]
            plan.row = row.shape, row.dtype
        #: Of the last state and of the outputs, then of the state that the adjoint is at.
        self.cotangents = [torch.zeros_like(part) for part in self.state]
        self._rows = [torch.zeros_like(part) for part in self.outputs]
        self.gradients = [torch.zeros_like(part) for part, wants in zip(parameters, wanted) if wants]
        self.last = [torch.empty_like(part) for part in self.state]
        #: A digest of the cotangents with which the backward pass began.
        self._began = torch.tensor([0], dtype=torch.int64)
        lasting: dict[str, Any] = {}
        if plan.directory is not None:
            lasting = {
                "directory": plan.directory,
                "tag": _digest([*self.state, *parameters], f"{plan.outputs} {len(self.state)} {plan.row}"),
                "adjoint": [*self.cotangents, *self.gradients, *self.last, *self.outputs, self._began],
            }
        # One that nobody else sees gets a name of its own.
        is_seen = plan.directory is not None or plan.more["job"] is not None
        self._revolver = Revolver(
            weakref.proxy(self),
            _Forward(self),
            _Reverse(self),
            plan.slots,
            plan.steps,
            name=plan.name if is_seen else None,
            **lasting,
            **plan.more,
        )
        weakref.finalize(self, _drop, self._revolver, plan.directory is not None, os.getpid())

    # --- the passes ---

    def forward(self) -> None:
        """Computes the last state and the outputs, or reads them if a crash in the backward pass has left them."""
        self._revolver.apply_forward()
        self._goes_on = self._revolver.read_left()
        if self._goes_on:
            return
        with torch.no_grad():
            self._advance(self.plan.steps - 1)
            after = self._compute(self._at, self.state)
        for part, found in zip(self.last, after):
            part.copy_(found)

    def backward(self, cotangents: Sequence[Any]) -> None:
        """Computes the cotangents of the first state and the gradients."""
        if self._is_reverse:
            raise Error(
                "a second backward pass through a time_loop, or one after an error: its states are gone; compute the "
                "loop again"
            )
        if self.plan.directory is not None:
            self._compare(_digest(cotangents))
        # An adjoint that a crash has left replaces those of the last state.
        for part, given in zip([*self.cotangents, *self._rows], cotangents):
            part.copy_(given)
        self._is_reverse = True
        self._revolver.apply_reverse()

    # --- what the Revolver asks for ---

    def get_data(self, timestep: int) -> list[Any]:
        """The state before a step."""
        self._advance(timestep)
        return [*self.state, *self._with_files()]

    def get_data_location(self, timestep: int) -> list[Any]:
        """Where the state before a step is read to."""
        self.state = [torch.empty_like(part) for part in self.state]
        self._at = timestep
        outputs = self._with_files()
        # The backward pass has all of them.
        return [*self.state, *(map(torch.empty_like, outputs) if self._is_reverse else outputs)]

    def approach(self, step: int) -> None:
        """Computes the state but one before a step: the last step follows if its state is asked for. A turn computes it
        with its graph, and need not compute it without."""
        self._advance(step - 1)

    def turn(self, step: int) -> None:
        """Takes the adjoint back over a step."""
        self._advance(step)
        with torch.enable_grad():
            state = [part.detach().requires_grad_(_is_real_or_complex(part)) for part in self.state]
            parameters = [part.detach().requires_grad_(wants) for part, wants in zip(self.parameters, self._wanted)]
            after, output = self.plan.step(step, state, parameters)
        ends, given = list(after), list(self.cotangents)
        if output is not None:
            ends.append(output)
            given.append(self._rows[0][step])
        inputs = [part for part in [*state, *parameters] if part.requires_grad]
        self._check(ends, inputs)
        reached = [(end, cotangent) for end, cotangent in zip(ends, given) if end.requires_grad]
        found: Iterator[Any] = iter(())
        if reached and inputs:
            outer, inner = [end for end, _ in reached], [cotangent for _, cotangent in reached]
            found = iter(torch.autograd.grad(outer, inputs, inner, allow_unused=True))
        gradients = [next(found, None) if part.requires_grad else None for part in state]
        # First, as a step may hand on a cotangent to a parameter.
        for gradient in self.gradients:
            more = next(found, None)
            if more is not None:
                gradient.add_(more)
        # A step that only moves a part hands on the cotangent itself.
        own = {part.untyped_storage().data_ptr() for part in self.cotangents}
        gradients = [
            part.clone() if part is not None and part.untyped_storage().data_ptr() in own else part
            for part in gradients
        ]
        for derivative, cotangent in zip(gradients, self.cotangents):
            if derivative is None:
                cotangent.zero_()
            else:
                cotangent.copy_(derivative)

    # --- within ---

    def _compare(self, began: int) -> None:
        """Raises if the backward pass that a crash has left had other cotangents; else notes these."""
        if self._goes_on and self._began.item() != began:
            raise Error(
                f"the backward pass that was killed had other cotangents (another loss) than this one: "
                f"veloc.torch.discard({os.fspath(self.plan.directory or '')!r}, {self.plan.name!r}) begins anew"
            )
        self._began.copy_(torch.tensor([began], dtype=torch.int64))

    def _with_files(self) -> list[Any]:
        """The outputs, where a later process has to find them beside a state."""
        return self.outputs if self.plan.directory is not None else []

    def _advance(self, step: int) -> None:
        """Computes the state before a step."""
        with torch.no_grad():
            while self._at < step:
                self.state = [part.contiguous() for part in self._compute(self._at, self.state)]
                self._at += 1

    def _compute(self, step: int, state: Sequence[Any]) -> tuple[Any, ...]:
        arguments = [*state, *self.parameters]
        versions, random = [part._version for part in arguments], _random(state)
        after, output = self.plan.step(step, state, self.parameters)
        if not all(map(torch.equal, random, _random(state))):
            raise ValueError(
                f"step {step} has drawn random numbers, and would draw others when it is computed again: draw them before "
                "the loop, and give them as parameters"
            )
        if versions != [part._version for part in arguments]:
            raise ValueError(f"step {step} has changed one of its arguments in place: return new tensors")
        if not self._is_reverse and output is not None:
            self.outputs[0][step].copy_(output)
        return after

    def _check(self, ends: Sequence[Any], inputs: Sequence[Any]) -> None:
        """Raises if a step uses a tensor that requires a gradient and is not one of its arguments."""
        known = {id(part) for part in inputs}
        for end in ends:
            if end.requires_grad and end.grad_fn is None and id(end) not in known:
                raise _no_argument(end)
        to_see = [end.grad_fn for end in ends if end.grad_fn is not None]
        seen = set(to_see)
        while to_see:
            node = to_see.pop()
            variable = getattr(node, "variable", None)
            if variable is not None and id(variable) not in known:
                raise _no_argument(variable)
            new = {next for next, _ in node.next_functions if next is not None} - seen
            seen |= new
            to_see.extend(new)


def _no_argument(variable: Any) -> Error:
    return Error(
        f"the step uses a tensor of shape {tuple(variable.shape)} that requires a gradient and is not in state or "
        "parameters: it would get no gradient; give it as one of the parameters"
    )


def _is_real_or_complex(part: Any) -> bool:
    return bool(part.is_floating_point() or part.is_complex())


def _drop(revolver: Revolver, lasts: bool, process: int) -> None:
    """Frees what a loop has in memory whose backward pass never came; files stay for a later process."""
    if os.getpid() == process:
        with contextlib.suppress(Error):
            if not lasts:
                revolver._snapshots.remove()
            revolver._close()


class _Forward:
    """The Revolver's forward operator."""

    def __init__(self, run: _Run) -> None:
        self._run = weakref.proxy(run)

    def apply(self, *, t_start: int, t_end: int) -> None:
        self._run.approach(t_end)


class _Reverse:
    """The Revolver's adjoint operator."""

    def __init__(self, run: _Run) -> None:
        self._run = weakref.proxy(run)

    def apply(self, *, t_start: int, t_end: int) -> None:
        self._run.turn(t_start)


class _Loop(torch.autograd.Function):  # type: ignore[misc]
    """The loop for autograd."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, *tensors: Any) -> tuple[Any, ...]:
        detached = [tensor.detach() for tensor in tensors]
        state, parameters = detached[: plan.width], detached[plan.width :]
        # Autograd then finds changes in place.
        ctx.save_for_backward(*tensors)
        ctx.run = _Run(plan, state, parameters, ctx.needs_input_grad[1 + plan.width :])
        ctx.run.forward()
        return *(part.clone() for part in ctx.run.last), *(part.clone() for part in ctx.run.outputs)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
        ctx.saved_tensors
        run = ctx.run
        run.backward(cotangents)
        gradients = iter(run.gradients)
        wanted = ctx.needs_input_grad[1:]
        states = [part if wants else None for part, wants in zip(run.cotangents, wanted)]
        return None, *states, *(next(gradients) if wants else None for wants in wanted[len(states) :])


def _random(state: Sequence[Any]) -> list[Any]:
    """The states of the generators that a step on these tensors draws from."""
    devices = sorted({part.device.index for part in state if part.device.type == "cuda"})
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in devices)]


def _plain(plan: _Plan, state: Sequence[Any], parameters: Sequence[Any]) -> tuple[Any, ...]:
    rows = []
    for number in range(plan.steps):
        state, output = plan.step(number, state, parameters)
        rows.append(output)
    return *state, *([torch.stack(rows)] if plan.outputs else [])


def _digest(tensors: Sequence[Any], text: str = "") -> int:
    """A number that tells these values from others."""
    digest = hashlib.blake2b(text.encode(), digest_size=8)
    for tensor in tensors:
        whole = tensor.detach().cpu().contiguous()
        bytes = whole.numel() * whole.element_size()
        digest.update(f"{tuple(whole.shape)} {whole.dtype}".encode())
        if bytes > 0:
            digest.update((ctypes.c_char * bytes).from_address(whole.data_ptr()))
    return int.from_bytes(digest.digest(), "little", signed=True)
