"""veloc.torch: what autograd saves, and time loops. Without PyTorch, on a stand-in for it."""

import contextlib
import gc
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import types
import unittest

import numpy

PAGE = pathlib.Path(__file__).parents[2] / "docs/guide/pytorch.md"
STANDIN = str(pathlib.Path(__file__).parent / "standin")
try:
    import torch
except ImportError:
    sys.path.append(STANDIN)
    import torch

import veloc
import veloc.torch
from veloc.torch import saved_tensors, time_loop

IS_REAL = torch.__version__ != "stand-in"
if IS_REAL:
    # A forked process would wait for threads that it does not have.
    torch.set_num_threads(1)
#: Elements of a tensor that is stored, of 4 bytes each.
MANY = 1 << 18


def values(count=MANY, **more):
    return torch.tensor(numpy.linspace(0.1, 3, count, dtype="float32"), **more)


def bits(tensor):
    return numpy.array(tensor.tolist(), dtype="float32").tobytes()


def counts():
    """Checkpoints and restores of the job that is alive."""
    metrics = veloc.Job.alive().metrics()
    return metrics["checkpoints"], metrics["restores"]


class Case(unittest.TestCase):
    def tearDown(self):
        gc.collect()
        self.assertIsNone(veloc.Job.alive(), "the job outlives the last graph")


class SavedTensors(Case):
    def gradient(self, context, compute):
        """The bits of the gradient of `compute`, whose forward pass runs in the context."""
        x = values(requires_grad=True)
        with context:
            end = compute(x).sum()
        end.backward()
        return bits(x.grad)

    def test_a_gradient_has_the_bits_of_a_plain_one(self):
        """Catches tensors that come back for one another, with other bytes, or not at all."""
        x = values(requires_grad=True)
        wave = lambda: (x * x).sin().exp() * x.exp()  # noqa: E731
        wave().sum().backward()
        plain, x.grad = bits(x.grad), None
        with saved_tensors():
            end = wave().sum()
        # x * x for sin, and what exp gives, twice, each for exp and for the product. x stays.
        self.assertEqual(counts()[0], 3)
        end.backward()
        self.assertEqual(bits(x.grad), plain)

    def test_views_come_back_as_they_are(self):
        """Catches gaps and repetitions that are stored, or that come back as other elements."""
        turns = (
            lambda x: x * values(1).expand(MANY),
            lambda x: (x * 2)[::2].exp() * (x * 2)[1::2].sin(),
            lambda x: (x * 2)[8:].sin(),
        )
        for compute in turns:
            with self.subTest():
                plain = self.gradient(threading.Lock(), compute)
                self.assertEqual(self.gradient(saved_tensors(above=1 << 16), compute), plain)

    def test_what_is_small_or_a_parameter_stays(self):
        """Catches a job for nothing, and parameters that are copied for each operation."""
        x = values(requires_grad=True)
        small = values(1000, requires_grad=True)
        with saved_tensors():
            end = (x.sin().sum() * small.sum()) + small.exp().sum()
            self.assertIsNone(veloc.Job.alive())
        end.backward()

    def test_a_tensor_is_stored_once(self):
        """Catches a copy for each operation that saves a tensor, and one stored tensor for two of the same memory."""
        x = values(requires_grad=True)
        with saved_tensors():
            y = x * 2
            end = y.sin() + y.sin() + y.exp().sin()
            first = counts()[0]
            more = y.sin()
            self.assertEqual(counts()[0], first)
            # In its own memory, or that of a tensor that is gone: another tensor all the same.
            end = end + more
            del y, more
            end = end + (x * 3).sin()
            self.assertEqual(counts()[0], first + 1)
        end.sum().backward()
        expected = values(requires_grad=True)
        y = expected * 2
        (y.sin() + y.sin() + y.exp().sin() + y.sin() + (expected * 3).sin()).sum().backward()
        self.assertEqual(bits(x.grad), bits(expected.grad))

    def test_a_change_in_place_is_an_error(self):
        """Catches a gradient of what a tensor was, where autograd without hooks refuses one."""
        for count in MANY, 100:
            with self.subTest(count=count):
                x = values(count, requires_grad=True)
                with saved_tensors():
                    y = x * 2
                    end = y.sin().sum()
                    with torch.no_grad():
                        y.add_(1)
                with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation.*is at version 1"):
                    end.backward()

    def test_a_parameter_that_an_optimizer_changed_is_an_error(self):
        x, weight = values(requires_grad=True), values(requires_grad=True)
        with saved_tensors():
            end = (x * 2 * weight).sum()
        with torch.no_grad():
            weight.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            end.backward()

    def test_what_is_freed_makes_room(self):
        """Catches tensors of graphs that were dropped and keep their room, and a wait for room that never comes."""
        x = values(requires_grad=True)
        with veloc.Job(mode="async", ephemeral=True, host_cache_size="8M", gpu_cache_size="0") as job:
            with saved_tensors(job):
                for _ in range(30):
                    end = (x * 2).sin().sum()
                kept = [end]
                with self.assertRaisesRegex(veloc.Error, "room"):
                    for _ in range(30):
                        kept.append((x * 2).sin().sum())
                with self.assertRaisesRegex(veloc.Error, "room"):
                    (x * 2).sin()
            # What one block frees makes room for another.
            kept.clear()
            with saved_tensors(job):
                later = [(x * 2).sin().sum() for _ in range(5)]
            end.backward()
            later[0].backward()
        del end, later

    def test_graphs_live_side_by_side(self):
        """Catches checkpoints of one graph that another replaces, and names that are used again too early."""
        alone = [self.gradient(threading.Lock(), lambda x, n=n: (x * n).sin().exp()) for n in range(1, 5)]
        leaves, ends = [], []
        for n in range(1, 5):
            leaves.append(values(requires_grad=True))
            with saved_tensors():
                ends.append((leaves[-1] * n).sin().exp().sum())
        for n in (1, 3, 0, 2):
            ends[n].backward()
            ends[n] = None
        self.assertEqual([bits(leaf.grad) for leaf in leaves], alone)

    def test_a_graph_that_is_kept_is_read_again(self):
        """Catches a stored tensor that is gone once it was read."""
        x = values(requires_grad=True)
        with saved_tensors():
            end = (x * 2).sin().sum()
        end.backward(retain_graph=True)
        first, x.grad = bits(x.grad), None
        end.backward()
        self.assertEqual(bits(x.grad), first)

    def test_threads_have_their_own(self):
        """Catches a region that one thread protects, and the checkpoint of another takes."""
        expected = self.gradient(threading.Lock(), lambda x: (x * 2).sin().exp())
        found = []

        def work():
            for _ in range(5):
                found.append(self.gradient(saved_tensors(), lambda x: (x * 2).sin().exp()))

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [expected] * 15)

    def test_bits_keep_the_bound(self):
        """Catches a bound that is not handed on, and integers or a result that are taken for floats."""
        with saved_tensors(bits=16, bound=1e-3):
            x = values(requires_grad=True)
            end = (x * 2).sin().sum()
            self.assertEqual(veloc.Job.alive().metrics()["compress"]["count"], 1)
        end.backward()
        expected = 2 * numpy.cos(2 * numpy.array(values().tolist()))
        off = numpy.abs(numpy.array(x.grad.tolist()) - expected).max()
        self.assertTrue(0 < off < 3e-3, off)
        with self.assertRaisesRegex(ValueError, "bits"):
            saved_tensors(bits=9)

    def test_a_forked_process_has_none_of_it(self):
        """Catches a child that reads, or frees, what its parent has stored."""
        x = values(requires_grad=True)
        with saved_tensors():
            end = (x * 2).sin().sum()
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    y = values(requires_grad=True)
                    (y * 2).sin().sum().backward()
                    code = 2 if y.grad is None else 3
                    end.backward()
                except veloc.Error as error:
                    code += 10 * ("forked" in str(error))
                del end
                gc.collect()
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 13)
        end.backward()
        self.assertIsNotNone(x.grad)

    def test_a_job_that_is_given_keeps_its_own(self):
        """Catches regions and checkpoints of the program's that tensors are mixed with."""
        state = numpy.arange(10.0)
        x = values(requires_grad=True)
        with veloc.Job(mode="async", ephemeral=True, host_cache_size="32M", gpu_cache_size="0") as job:
            job.protect(0, state)
            job.checkpoint("state", 1)
            with saved_tensors(job):
                end = (x * 2).sin().sum()
            state[:] = 0
            job.restart("state", 1)
            end.backward()
            with saved_tensors(job):
                late = (x * 2).sin().sum()
        self.assertEqual(state[9], 9)
        with self.assertRaisesRegex(veloc.Error, "has ended"):
            late.backward()

    def test_what_cannot_be_is_refused(self):
        with veloc.Job(mode="async", ephemeral=True, host_cache_size="8M", gpu_cache_size="0") as job:
            with self.assertRaisesRegex(ValueError, "own options"):
                saved_tensors(job, options={"host_cache_size": "1G"})
            with self.assertRaisesRegex(veloc.Error, "has a job|has not ended"), saved_tensors():
                (values(requires_grad=True) * 2).sin()
        with self.assertRaisesRegex(ValueError, "collective"):
            saved_tensors(types.SimpleNamespace(_comm=object()))


@unittest.skipUnless(IS_REAL, "PyTorch is not installed")
class OfPyTorch(Case):
    def both(self, compute):
        """What `compute` returns plainly and with saved tensors, as bits."""
        found = []
        for context in threading.Lock(), saved_tensors(above=1 << 12):
            torch.manual_seed(0)
            found.append([part.numpy().tobytes() for part in compute(context)])
        return found

    def test_a_network(self):
        """Catches masks, results in place, batches that are transposed, and halves that come back otherwise."""

        def compute(context):
            layers = []
            for _ in range(4):
                layers += [torch.nn.Linear(128, 128), torch.nn.ReLU(inplace=True), torch.nn.Dropout(0.2)]
            model = torch.nn.Sequential(torch.nn.Conv1d(8, 8, 3, padding=1), *layers, torch.nn.LayerNorm(128))
            x = torch.randn(64, 128, 8).transpose(1, 2)
            with context:
                y = model(x)
                end = torch.nn.functional.cross_entropy(y.flatten(0, 1).bfloat16().float(), torch.arange(512) % 128)
            end.backward()
            return [part.grad for part in model.parameters()]

        plain, stored = self.both(compute)
        self.assertEqual(plain, stored)

    def test_double_backward(self):
        def compute(context):
            x = torch.randn(100_000, dtype=torch.float64, requires_grad=True)
            with context:
                y = (x * 2).sin().pow(3)
                (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
                second = (first * first).sum()
            second.backward()
            return [x.grad]

        plain, stored = self.both(compute)
        self.assertEqual(plain, stored)

    def test_a_function_of_the_program(self):
        class Cube(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x * x
                ctx.save_for_backward(x, y)
                return x * y

            @staticmethod
            def backward(ctx, given):
                x, y = ctx.saved_tensors
                return given * (2 * x * x + y)

        def compute(context):
            x = torch.randn(100_000, requires_grad=True)
            with context:
                end = Cube.apply(x * 2).sum()
            end.backward()
            return [x.grad]

        plain, stored = self.both(compute)
        self.assertEqual(plain, stored)

    def test_an_exception_in_the_backward_pass(self):
        """Catches a graph that is lost by an exception, and a job that never ends after it."""
        x = torch.randn(MANY, requires_grad=True)
        with saved_tensors():
            y = (x * 2).sin()
            handle = y.register_hook(lambda given: 1 / 0)
            end = y.exp().sum()
        with self.assertRaises(ZeroDivisionError):
            end.backward(retain_graph=True)
        handle.remove()
        end.backward()
        self.assertIsNotNone(x.grad)

    def test_workers_of_a_data_loader(self):
        """Catches a worker that ends its parent's job as it ends."""
        x = torch.randn(MANY, requires_grad=True)
        loader = torch.utils.data.DataLoader(torch.arange(8.0), batch_size=2, num_workers=2)
        with saved_tensors():
            end = sum((x * factor.sum()).sin().sum() for factor in loader)
        end.backward()
        self.assertIsNotNone(x.grad)

    def test_weights_stay_where_they_are(self):
        """Catches views of parameters that are stored, and come back as they were before a fused optimizer's step."""
        model = torch.nn.Linear(1024, 1024)
        x = torch.randn(8, 1024, requires_grad=True)
        with saved_tensors():
            end = model(x).sum()
            self.assertIsNone(veloc.Job.alive())
        end.backward()

    def test_complex_states(self):
        """Catches cotangents of complex states that are left out."""

        def step(number, state, parameters):
            return state * torch.exp(1j * parameters[0]) + 0.1 * state.roll(1)

        found = []
        for way in "loop", "plain":
            torch.manual_seed(0)
            now = torch.randn(50, dtype=torch.complex64, requires_grad=True)
            first, turn = now, torch.randn(50, requires_grad=True)
            if way == "loop":
                now = time_loop(step, now, [turn], steps=20, slots=4)
            else:
                for number in range(20):
                    now = step(number, now, [turn])
            (now.abs() ** 2 * torch.arange(50)).sum().backward()
            found.append((first.grad, turn.grad))
        for mine, plain in zip(*found):
            self.assertTrue(torch.allclose(mine, plain), (mine - plain).abs().max())

    def test_autocast_is_refused(self):
        x = torch.randn(10, requires_grad=True)
        with torch.autocast("cpu"), self.assertRaisesRegex(ValueError, "autocast"):
            time_loop(lambda number, state, parameters: state.sin(), x, steps=3, slots=2)

    @unittest.skipUnless(PAGE.exists(), "the guide is not here")
    def test_the_guide(self):
        """Catches a program of the guide that fails, or does something else than it says."""
        printed = io.StringIO()
        for block in PAGE.read_text().split("```python\n")[1:]:
            with contextlib.redirect_stdout(printed):
                exec(block.split("```")[0], {})
        self.assertEqual(printed.getvalue().split("\n")[:2], ["torch.Size([512, 512])", "torch.Size([200, 200])"])

    def test_what_is_no_dense_tensor_stays(self):
        x = torch.randn(300, 300, requires_grad=True)
        matrix = (torch.rand(300, 300) > 0.9).float().to_sparse()
        z = torch.randn(300, 300, dtype=torch.complex64, requires_grad=True)
        with saved_tensors(above=1):
            end = torch.sparse.mm(matrix, x).sum() + (z * 2).conj().exp().abs().sum()
            end = end + torch.mm(matrix.to_sparse_csr(), x).sum()
        end.backward()
        self.assertIsNotNone(x.grad)


#: A wave whose state is two tensors, its source and the receivers. `fore` and `back`: where to die.
PROGRAM = """
import glob, os, signal, sys, time
import numpy, torch, veloc
from veloc.torch import time_loop
STEPS, CELLS = 120, 500
speed = torch.tensor(numpy.linspace(0.1, 0.4, CELLS), requires_grad=True)
zero = torch.tensor(numpy.linspace(0, 1e-3, CELLS), requires_grad=True)
computed, dies = 0, dict(zip(sys.argv[2::2], map(int, sys.argv[3::2])))
turns = 0

def step(number, state, parameters):
    global computed, turns
    before, now = state
    computed += 1
    turns += now.requires_grad
    if number == dies.get("back" if now.requires_grad else "fore"):
        # Files are written beside the steps, which are quicker than any loop's: an adjoint is one by now.
        while now.requires_grad and number < 100 and not glob.glob(f"{sys.argv[1]}/*.adjoint-*.dat"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    after = (now + before * parameters[0]).sin() + source[number]
    return (now, after), after[10:20]

source = torch.tensor(numpy.sin(numpy.arange(STEPS) * 0.3))

def gradients(result):
    (before, now), rows = result
    (rows.sin().sum() + now.exp().sum()).backward()
    return [numpy.array(part.grad.tolist()) for part in (speed, zero)]

def plain():
    state, rows = (zero, zero), []
    for number in range(STEPS):
        state, row = step(number, state, [speed])
        rows.append(row)
    return state, torch.stack(rows)
"""


class TimeLoops(Case):
    def program(self, text, *arguments, fails=False):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(PROGRAM + text)
            file.flush()
            environment = dict(os.environ)
            if not IS_REAL:
                environment["PYTHONPATH"] = os.pathsep.join([environment.get("PYTHONPATH", ""), STANDIN])
            command = [sys.executable, file.name, *map(str, arguments)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode != 0, fails, done.stderr)
        return done.stdout

    @staticmethod
    def loop(step, state, parameters=(), **more):
        return time_loop(step, state, parameters, **{"steps": 30, "slots": 4, **more})

    @staticmethod
    def wave(number, state, parameters):
        return state.sin() * parameters[0]

    def plain(self, field, speed, steps=30):
        for number in range(steps):
            field = self.wave(number, field, [speed])
        return field

    def test_a_gradient_has_the_bits_of_a_plain_loop(self):
        """Catches states of other steps, cotangents that are mixed, and a parameter's sum in another order."""
        for slots in 1, 3, 30, 40:
            with self.subTest(slots=slots):
                mine, plain = (
                    [values(1000, requires_grad=True), values(1000, requires_grad=True)] for _ in range(2)
                )
                self.loop(self.wave, mine[0], mine[1:], slots=slots).exp().sum().backward()
                self.plain(*plain).exp().sum().backward()
                self.assertEqual(*([bits(part.grad) for part in parts] for parts in (mine, plain)))

    def test_a_state_whose_parts_change_places(self):
        """Catches a cotangent that is written over before its other place has it."""
        for step in (
            lambda number, state, parameters: state[::-1],
            lambda number, state, parameters: (state[1], state[0] * state[1]),
        ):
            a, b = values(10, requires_grad=True), values(10, requires_grad=True)
            first, second = self.loop(step, (a, b), steps=3)
            (first * 2 + second * 3).sum().backward()
            c, d = values(10, requires_grad=True), values(10, requires_grad=True)
            now = c, d
            for number in range(3):
                now = step(number, now, ())
            (now[0] * 2 + now[1] * 3).sum().backward()
            self.assertEqual([bits(a.grad), bits(b.grad)], [bits(c.grad), bits(d.grad)])

    def test_a_parameter_that_is_added(self):
        """Catches a parameter's gradient that is the cotangent itself, and is written over before it is added."""
        for step in (
            lambda number, state, parameters: state * 0.5 + parameters[0],
            lambda number, state, parameters: state.sin() + parameters[0],
        ):
            mine, plain = ([values(10, requires_grad=True), values(10, requires_grad=True)] for _ in range(2))
            self.loop(step, mine[0], mine[1:], steps=3).sum().backward()
            now = plain[0]
            for number in range(3):
                now = step(number, now, plain[1:])
            now.sum().backward()
            self.assertEqual(*([bits(part.grad) for part in parts] for parts in (mine, plain)))

    def test_a_loop_that_is_dropped_leaves_nothing(self):
        """Catches states of loops without a backward pass that fill the job."""
        x = values(requires_grad=True)
        with veloc.Job(mode="async", ephemeral=True, host_cache_size="8M", gpu_cache_size="0") as job:
            for number in range(6):
                self.loop(self.wave, x, [x], job=job, name=f"dropped{number}")
                gc.collect()

    def test_outputs_and_a_state_of_two(self):
        self.program(
            """
(_, now), rows = time_loop(step, (zero, zero), [speed], steps=STEPS, slots=8, outputs=True)
assert rows.shape == (STEPS, 10)
"""
        )

    def test_without_a_gradient_it_just_runs(self):
        """Catches a job, and steps that are computed twice, where nobody goes back."""
        steps, jobs = [], []

        def step(number, state, parameters):
            steps.append(number)
            jobs.append(veloc.Job.alive())
            return state * 2

        with torch.no_grad():
            last = self.loop(step, values(10, requires_grad=True), steps=5)
        self.assertEqual(last.tolist()[0], numpy.float32(0.1) * 32)
        self.assertEqual(jobs, [None] * 5)
        self.loop(step, values(10), steps=5)
        self.assertEqual(steps, [0, 1, 2, 3, 4] * 2)

    def test_it_computes_what_the_schedule_says(self):
        """Catches the step before a turn that is computed twice: without its graph, and with it."""
        steps = []

        def step(number, state, parameters):
            steps.append(number)
            return state.sin()

        for slots in 5, 100:
            steps.clear()
            x = values(10, requires_grad=True)
            self.loop(step, x, steps=100, slots=slots).sum().backward()
            least = veloc.Schedule(100, slots).cost().forward_evaluations
            # One step more: the last, which the forward pass has to give.
            self.assertLessEqual(len(steps), least + 1)

    def test_killed_anywhere_it_goes_on(self):
        """Catches outputs, cotangents or gradients that a restart lacks, and a pass that begins anew."""
        compare = """
folder = sys.argv[1]
found = gradients(time_loop(step, (zero, zero), [speed], steps=STEPS, slots=8, outputs=True, directory=folder))
print(computed, turns)
dies = {}
speed.grad = zero.grad = None
expected = gradients(plain())
same = [numpy.abs(a - b).max() for a, b in zip(found, expected)]
assert same == [0, 0], same
assert not [name for name in os.listdir(folder) if name.endswith(".dat")], os.listdir(folder)
"""
        whole = None
        for deaths in [], ["fore", 60], ["fore", 119], ["back", 119], ["back", 70], ["back", 3]:
            with self.subTest(deaths=deaths), tempfile.TemporaryDirectory() as folder:
                if deaths:
                    self.program(compare, folder, *deaths, fails=True)
                computed, turns = map(int, self.program(compare, folder).split())
                whole = whole or computed
                self.assertLessEqual(computed, whole)
                if deaths and deaths[0] == "back" and deaths[1] < 100:
                    self.assertLess(turns, 120)

    def test_a_tensor_that_is_no_argument_is_an_error(self):
        """Catches a gradient that is missing in silence."""
        hidden = values(10, requires_grad=True)
        last = self.loop(lambda number, state, parameters: state * hidden, values(10, requires_grad=True))
        with self.assertRaisesRegex(veloc.Error, r"shape \(10,\).*not in state or parameters"):
            last.sum().backward()
        # In one step of many, and as what it gives out.
        for step, outputs in (
            (lambda number, state, parameters: state * (hidden if number == 3 else 1), False),
            (lambda number, state, parameters: (state.sin(), hidden), True),
        ):
            result = self.loop(step, values(10, requires_grad=True), outputs=outputs)
            end = result[0].sum() + result[1].sum() if outputs else result.sum()
            with self.assertRaisesRegex(veloc.Error, "not in state or parameters"):
                end.backward()
        # Where nothing else requires a gradient, the loop is a plain one.
        self.loop(lambda number, state, parameters: state * hidden, values(10)).sum().backward()
        self.assertIsNotNone(hidden.grad)

    def test_one_tensor_is_a_list_of_one(self):
        """Catches a parameter whose rows are taken for parameters."""
        x, factor = values(10), values(10, requires_grad=True)
        self.loop(lambda number, state, parameters: state * parameters[0], x, factor).sum().backward()
        found, factor.grad = factor.grad, None
        self.loop(lambda number, state, parameters: state * parameters[0], x, [factor]).sum().backward()
        self.assertTrue(torch.equal(found, factor.grad))

    def test_what_a_step_may_not_do(self):
        """Catches states that a step has changed below the loop, or that come back in the memory of others."""

        def changes(number, state, parameters):
            with torch.no_grad():
                state.add_(1)
            return state * 1

        x = values(10, requires_grad=True)
        with self.assertRaisesRegex(ValueError, "step 0 has changed one of its arguments in place"):
            self.loop(changes, x)
        with self.assertRaisesRegex(ValueError, "step 0: the next state"):
            self.loop(lambda number, state, parameters: state[:5], x)
        drawn = lambda number, state, parameters: state * torch.rand(10) if number else state * 2  # noqa: E731
        with self.assertRaisesRegex(ValueError, "step 1 has drawn random numbers"):
            self.loop(drawn, x)
        rows = lambda number, state, parameters: (state.sin(), state[: 1 + number])  # noqa: E731
        with self.assertRaisesRegex(ValueError, "step 1: what it gives out"):
            self.loop(rows, x, outputs=True)
        with self.assertRaisesRegex(ValueError, "steps is 0"):
            self.loop(self.wave, x, steps=0)

    def test_a_second_backward_pass_is_an_error(self):
        x = values(10, requires_grad=True)
        end = self.loop(lambda number, state, parameters: state.sin(), x).sum()
        end.backward(retain_graph=True)
        with self.assertRaisesRegex(veloc.Error, "backward"):
            end.backward()

    def test_a_parameter_that_has_changed_is_an_error(self):
        speed = values(10, requires_grad=True)
        last = self.loop(self.wave, values(10), [speed])
        with torch.no_grad():
            speed.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            last.sum().backward()

    def test_files_of_other_values(self):
        """Catches a loop that goes on from states of another model, or for another loss, and files that cannot be removed."""
        with tempfile.TemporaryDirectory() as folder:
            text = """
last, rows = time_loop(step, (zero, zero), [speed], steps=STEPS, slots=8, outputs=True, directory=sys.argv[1])
rows.sum().backward()
"""
            self.program(text, folder, "back", 60, fails=True)
            other = "\nspeed = torch.tensor(numpy.linspace(0.2, 0.4, CELLS), requires_grad=True)\n" + text
            other = f"try:\n    {other.strip().replace(chr(10), chr(10) + '    ')}\nexcept veloc.Error as e: print(e)"
            self.assertIn("computation with", self.program(other, folder))
            # The same values with another loss.
            loss = f"try:\n    {text.strip().replace('rows.sum()', '(rows * 2).sum()').replace(chr(10), chr(10) + '    ')}"
            loss += "\nexcept veloc.Error as e: print(e)"
            self.assertIn("other cotangents", self.program(loss, folder))
            veloc.torch.discard(folder)
            self.assertNotIn("computation with", self.program(other, folder))
            speed = values(10, requires_grad=True)
            place = pathlib.Path(folder) / "own"
            last = self.loop(self.wave, values(10), [speed], directory=place)
            del last
            gc.collect()
            with self.assertRaisesRegex(veloc.Error, "computation with"):
                self.loop(self.wave, values(10) * 2, [speed], directory=place)
            gc.collect()
            veloc.torch.discard(place)
            last = self.loop(self.wave, values(10) * 2, [speed], directory=place)
            last.sum().backward()
            self.assertIsNotNone(speed.grad)
            del last


if __name__ == "__main__":
    unittest.main()
