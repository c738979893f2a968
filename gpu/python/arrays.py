"""Arrays in a GPU's memory that PyTorch, CuPy, Numba and JAX have made, as regions of checkpoints.

    VELOC_LIBRARY=BUNDLE/lib/libveloc-client.so PYTHONPATH=python python3 gpu/python/arrays.py

It needs a GPU and PyTorch; what else is not there is skipped. Each case is a process of its own, since an allocator
is chosen once in each. The last line is `done` if all went well.
"""

import os
import subprocess
import sys
import traceback

import numpy
import veloc

STEPS = 12
ELEMENTS = 1 << 22

#: Room for 4 of the 12 checkpoints in the device cache and for 6 in the host buffer: others go to files.
ROOM = {"mode": "async", "ephemeral": True, "scratch": "scratch", "gpu_cache_size": "64M", "host_cache_size": "96M"}


def backwards(protect, fill, spoil, read, stream=None):
    """Takes checkpoints of memory that kernels are filling, which is overwritten at once, and restores them in reverse."""
    with veloc.Job(ROOM) as job:
        protect(job)
        if stream is not None:
            job.set_stream(stream)
        for step in range(STEPS):
            fill(step)
            job.checkpoint("forward", step)
            spoil()
        for step in reversed(range(STEPS)):
            spoil()
            job.restart("forward", step)
            got, want = read(), numpy.arange(ELEMENTS, dtype=numpy.float32) * (step + 1)
            assert numpy.array_equal(got, want), f"step {step}: {numpy.count_nonzero(got != want)} elements differ"
        hops = job.metrics()["hops"]
        return ", ".join(f"{hop} {sums['bytes'] >> 20} MiB" for hop, sums in hops.items() if sums["bytes"])


# --- PyTorch ---


def torch_backwards(stream=None):
    import torch

    base = torch.arange(ELEMENTS, dtype=torch.float32, device="cuda")
    state = torch.empty_like(base)
    slow = torch.ones(4096, 4096, device="cuda")

    def fill(step):
        # Work for some milliseconds is before it.
        state.copy_(base * (step + 1) + 0 * (slow @ slow)[0, 0].clamp(max=1))

    return backwards(
        lambda job: job.protect(0, state),
        fill,
        lambda: state.fill_(-1),
        lambda: state.cpu().numpy(),
        stream,
    )


def torch_default():
    return torch_backwards()


def torch_stream():
    import torch

    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        return torch_backwards(stream)


def torch_training():
    """A training that is stopped in the middle goes on with the same bits."""
    import torch

    torch.use_deterministic_algorithms(True)

    def make():
        torch.manual_seed(7)
        model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8)).cuda()
        return model, torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(model, optimizer, number):
        generator = torch.Generator(device="cuda").manual_seed(number)
        data = torch.randn(128, 256, device="cuda", generator=generator)
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    def tensors(model, optimizer):
        yield from model.state_dict().values()
        for state in optimizer.state_dict()["state"].values():
            yield from state.values()

    model, optimizer = make()
    for number in range(20):
        step(model, optimizer, number)
    want = [tensor.clone() for tensor in tensors(model, optimizer)]

    model, optimizer = make()
    step(model, optimizer, 0)
    with veloc.Job(mode="async", scratch="scratch") as job:
        for id, tensor in enumerate(tensors(model, optimizer)):
            job.protect(id, tensor)
        for number in range(1, 12):
            step(model, optimizer, number)
            job.checkpoint("training", number)
        kinds = {tensor.device.type for tensor in tensors(model, optimizer)}
    # As a new process would.
    model, optimizer = make()
    step(model, optimizer, 0)
    with veloc.Job(mode="async", scratch="scratch") as job:
        for id, tensor in enumerate(tensors(model, optimizer)):
            job.protect(id, tensor)
        last = job.latest("training")
        assert last == 11, last
        job.restart("training", last)
        for number in range(last + 1, 20):
            step(model, optimizer, number)
    for got, expected in zip(tensors(model, optimizer), want, strict=True):
        assert torch.equal(got, expected)
    return f"{len(want)} tensors on {' and '.join(sorted(kinds))}"


def torch_kinds():
    """Types of elements, orders of dimensions, tensors that moved, tensors with gaps."""
    import torch

    with veloc.Job(ROOM) as job:
        half = torch.randn(1000, 7, device="cuda").to(torch.bfloat16)
        image = torch.randn(2, 3, 16, 16, device="cuda").to(memory_format=torch.channels_last)
        flags = torch.rand(1 << 20, device="cuda") > 0.5
        wave = torch.randn(513, dtype=torch.complex64, device="cuda")
        pinned = torch.randn(4096).pin_memory()
        part = torch.randn(100, 64, device="cuda")[10:20]
        tracked = torch.randn(999, device="cuda", requires_grad=True)
        regions = [half, image, flags, wave, pinned, part, tracked]
        for id, tensor in enumerate(regions):
            job.protect(id, tensor)
        want = [tensor.detach().clone() for tensor in regions]
        job.checkpoint("kinds", 1)
        with torch.no_grad():
            for tensor in regions:
                tensor.zero_()
        job.restart("kinds", 1)
        for tensor, expected in zip(regions, want, strict=True):
            assert torch.equal(tensor.detach(), expected)
        for bad in (torch.randn(10, 10, device="cuda")[:, :5], torch.randn(3, device="meta")):
            try:
                job.protect(50, bad)
            except (TypeError, ValueError) as error:
                assert "50" in str(error), error
            else:
                raise AssertionError(f"{bad.shape} was taken")
        half.resize_(4000, 7)
        try:
            job.checkpoint("kinds", 2)
        except ValueError as error:
            assert "region 0" in str(error), error
        else:
            raise AssertionError("a tensor that moved was taken")
    return f"{len(regions)} tensors"


def torch_adjoint():
    """The gradient of a heat equation by adjoint_run, against autograd's."""
    import torch

    steps, size = 120, 1 << 20
    start = torch.randn(size, device="cuda", dtype=torch.float64)
    state, gradient = start.clone(), torch.zeros_like(start)

    def step(u):
        return u + 0.1 * (torch.roll(u, 1) - 2 * u + torch.roll(u, -1)) - 0.01 * u**3

    def forward(first, stop):
        for _ in range(first, stop):
            state.copy_(step(state))

    def adjoint(number):
        before = state.detach().clone().requires_grad_()
        after = step(before)
        if number == steps:
            gradient.copy_(2 * after.detach())
        after.backward(gradient)
        gradient.copy_(before.grad)

    with veloc.Job(mode="async", ephemeral=True, gpu_cache_size="32M", host_cache_size="96M"):
        finished = veloc.adjoint_run(
            "heat", steps, 8, state=state, gradient=gradient, forward=forward, adjoint=adjoint,
            verify_replay=True, hash=lambda: int(state.view(torch.int64).sum()) % 2**64,
        )
    assert finished
    leaf = start.clone().requires_grad_()
    u = leaf
    for _ in range(steps):
        u = step(u)
    u.square().sum().backward()
    off = ((gradient - leaf.grad).norm() / leaf.grad.norm()).item()
    assert off < 1e-13, off
    return f"off by {off:.1e}"


def torch_revolver():
    """pyrevolve's interface with tensors of the device."""
    import torch
    from veloc.revolve import Revolver

    steps = 60
    state, gradient = torch.zeros(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    state.fill_(1.0)

    class Checkpoint:
        size, dtype = state.numel(), numpy.float32

        def get_data(self, timestep):
            return [state]

        def get_data_location(self, timestep):
            return [state]

    class Forward:
        def apply(self, t_start, t_end):
            for _ in range(t_start, t_end):
                state.mul_(1.01)

    class Reverse:
        def apply(self, t_start, t_end):
            for step in range(t_end - 1, t_start - 1, -1):
                gradient.add_(state / 1.01 ** (step + 1))

    revolver = Revolver(Checkpoint(), Forward(), Reverse(), 5, steps)
    revolver.apply_forward()
    revolver.apply_reverse()
    off = (gradient - steps).abs().max().item()
    assert off < 1e-3, off
    return f"off by {off:.1e}"


# --- others ---


def cupy_backwards(allocator=None, stream=None):
    import cupy

    if allocator is not None:
        cupy.cuda.set_allocator(allocator)
    base = cupy.arange(ELEMENTS, dtype=cupy.float32)
    state = cupy.empty_like(base)
    return backwards(
        lambda job: job.protect(0, state),
        lambda step: cupy.multiply(base, numpy.float32(step + 1), out=state),
        lambda: state.fill(-1),
        lambda: cupy.asnumpy(state),
        stream,
    )


def cupy_default():
    return cupy_backwards()


def cupy_stream():
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        return cupy_backwards(stream=stream)


def cupy_async():
    """Memory of cudaMallocAsync's pool."""
    import cupy

    return cupy_backwards(cupy.cuda.MemoryAsyncPool().malloc)


def cupy_managed():
    import cupy

    return cupy_backwards(cupy.cuda.malloc_managed)


def numba_default():
    from numba import cuda

    try:
        import numba.cuda.np.arrayobj
    except AttributeError as error:
        raise ImportError(f"this Numba and this NumPy do not fit: {error}") from None

    @cuda.jit
    def set(state, factor):
        i = cuda.grid(1)
        if i < state.size:
            state[i] = i * factor

    state = cuda.device_array(ELEMENTS, dtype=numpy.float32)
    blocks = ELEMENTS // 256

    def spoil():
        set[blocks, 256](state, numpy.float32(-3))

    return backwards(
        lambda job: job.protect(0, state),
        lambda step: set[blocks, 256](state, numpy.float32(step + 1)),
        spoil,
        lambda: state.copy_to_host(),
    )


def jax_refused():
    """Arrays of JAX do not change: a restart cannot write to them, and says so."""
    import jax.numpy

    state = jax.numpy.arange(ELEMENTS, dtype=jax.numpy.float32)
    with veloc.Job(ROOM) as job:
        job.protect(0, state)
        job.checkpoint("forward", 1)
        try:
            job.restart("forward", 1)
        except ValueError as error:
            return str(error)
    raise AssertionError("an array of JAX was written to")


CASES = {
    torch_default: {},
    torch_stream: {},
    torch_training: {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
    torch_kinds: {},
    torch_adjoint: {},
    torch_revolver: {},
    cupy_default: {},
    cupy_stream: {},
    cupy_async: {},
    cupy_managed: {},
    numba_default: {},
    jax_refused: {},
}

#: PyTorch's other allocators: mapped step by step, and CUDA's own pool.
for conf in ("expandable_segments:True", "backend:cudaMallocAsync"):
    for case in (torch_default, torch_stream):
        CASES[conf.split(":")[0] + " " + case.__name__] = {"PYTORCH_CUDA_ALLOC_CONF": conf, "CASE": case.__name__}


def main():
    import tempfile

    wrong = 0
    for case, environment in CASES.items():
        name = case if isinstance(case, str) else case.__name__
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, os.path.abspath(__file__), environment.get("CASE", name)]
            try:
                ended = subprocess.run(
                    command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=60
                )
                status, said = ended.returncode, ended.stdout + ended.stderr
            except subprocess.TimeoutExpired as late:
                status, said = 1, f"not done in 60 s: {late.stdout} {late.stderr}"
        result = {0: "ok", 77: "skipped"}.get(status, "FAILED")
        wrong += result == "FAILED"
        print(f"{result:8}{name:40}", said.strip().replace("\n", "\n    "), flush=True)
    print("done" if not wrong else f"{wrong} FAILED")
    return min(wrong, 1)


def one(name):
    try:
        print(globals()[name]())
    except ImportError as error:
        print(error)
        return 77
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(one(sys.argv[1]) if len(sys.argv) > 1 else main())
