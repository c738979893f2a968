"""veloc.revolve: pyrevolve's interface in memory, on disk and on both; restarts; what is refused."""

import errno
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
import warnings
from unittest import mock

import numpy
import veloc
from veloc.revolve import (
    Checkpoint,
    DiskRevolver,
    DiskStorage,
    MemoryRevolver,
    MultiLevelRevolver,
    NumpyStorage,
    Operator,
    Revolver,
    SingleLevelRevolver,
)

STEPS = 100

#: Two time buffers that rotate, as those of codes with a second derivative in time.
PROBLEM = """
import numpy, veloc
from veloc.revolve import *

class State(Checkpoint):
    dtype = numpy.float64
    size = 2000

    def __init__(self):
        self.fields = numpy.zeros((3, 1000))
        self.fields[1] = numpy.linspace(0, 1, 1000)

    def get_data(self, timestep):
        return [self.fields[timestep % 3], self.fields[(timestep + 1) % 3]]

class Forward(Operator):
    def __init__(self, state):
        self.state, self.steps = state, 0

    def apply(self, *, t_start, t_end):
        for step in range(t_start, t_end):
            self.steps += 1
            before, now = self.state.get_data(step)
            after = self.state.fields[(step + 2) % 3]
            after[:] = 1.9 * now - 0.9 * before + 0.01 * numpy.sin(now)

class Backward(Operator):
    def __init__(self, state, hook=lambda step: None):
        self.state, self.steps, self.hook = state, [], hook
        self.adjoint, self.gradient = numpy.zeros(1000), numpy.zeros(1000)

    def apply(self, *, t_start, t_end):
        self.hook(t_start)
        self.steps.append(t_start)
        assert t_end == t_start + 1
        now = self.state.fields[(t_start + 1) % 3]
        self.adjoint[:] = 0.5 * self.adjoint + numpy.cos(now)
        self.gradient += self.adjoint * now

def problem(hook=lambda step: None):
    state = State()
    return state, Forward(state), Backward(state, hook)
"""
exec(PROBLEM)


def wanted(steps=STEPS):
    """The gradient, with all states kept."""
    state, forward, backward = problem()
    states = []
    for step in range(steps):
        states.append(state.fields.copy())
        forward.apply(t_start=step, t_end=step + 1)
    for step in reversed(range(steps)):
        state.fields[:] = states[step]
        backward.apply(t_start=step, t_end=step + 1)
    return backward.gradient


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Results(WithFolder):
    def check(self, slots, steps=STEPS, kind=Revolver, **more):
        state, forward, backward = problem()
        revolver = kind(state, forward, backward, slots, steps, **more)
        revolver.apply_forward()
        self.assertEqual(forward.steps, steps)
        revolver.apply_reverse()
        self.assertEqual(backward.steps, list(reversed(range(steps))))
        numpy.testing.assert_array_equal(backward.gradient, wanted(steps))
        return revolver, forward

    def test_in_memory_with_the_fewest_steps(self):
        for slots in (1, 2, 5, 30, STEPS, None):
            with self.subTest(slots=slots):
                revolver, forward = self.check(slots, kind=MemoryRevolver)
                cost = veloc.Schedule(STEPS, revolver.n_checkpoints).cost()
                self.assertEqual(forward.steps, cost.forward_evaluations)
                self.assertEqual(revolver.ratio, cost.forward_evaluations / STEPS)
        for steps in (1, 2, 3):
            self.check(2, steps=steps)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_two_in_one_directory(self):
        """Catches a directory that only one may have at a time."""
        parts = [problem(), problem()]
        revolvers = [
            Revolver(*part, 5, STEPS, directory=self.folder, name=name) for part, name in zip(parts, "ab")
        ]
        for revolver in revolvers:
            revolver.apply_forward()
        for revolver, (_, _, backward) in zip(revolvers, parts):
            revolver.apply_reverse()
            numpy.testing.assert_array_equal(backward.gradient, wanted())
        self.assertIsNone(veloc.Job.alive())

    def test_on_disk_and_on_both(self):
        self.check(5, kind=DiskRevolver, filedir=self.folder)
        self.check(4, directory=self.folder, n_disk_checkpoints=4, disk_write=0.5)
        # Nothing is left, so nothing is gone on with.
        self.assertEqual(list(self.folder.rglob("*revolve*.dat")), [])
        self.check(5, directory=self.folder)

    def test_in_a_job_that_is_open(self):
        with veloc.Job(mode="async", ephemeral=True, host_cache_size="1M") as job:
            mine = numpy.arange(5.0)
            job.protect(0, mine)
            job.checkpoint("mine", 1)
            self.check(5, job=job)
            self.check(5, job=job)
            mine[:] = 0
            job.restart("mine", 1)
            numpy.testing.assert_array_equal(mine, numpy.arange(5.0))

    def test_threads_in_one_job(self):
        """Catches a restore between whose steps another thread's calls come: wrong gradients, or errors."""
        found = []

        def compute(number, job):
            for turn in range(3):
                state, forward, backward = problem()
                revolver = Revolver(state, forward, backward, 5, STEPS, name=f"thread{number}", job=job)
                revolver.apply_forward()
                revolver.apply_reverse()
                found.append(numpy.array_equal(backward.gradient, right))

        right = wanted()
        with veloc.Job(mode="async", ephemeral=True, host_cache_size="4M") as job:
            threads = [threading.Thread(target=compute, args=(number, job)) for number in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(found, [True] * 18)

    def test_one_name_for_two(self):
        """Catches two passes that overwrite each other's snapshots, and a name that stays taken."""
        with veloc.Job(mode="async", ephemeral=True, host_cache_size="4M") as job:
            first = Revolver(*problem(), 5, STEPS, job=job)
            first.apply_forward()
            state, forward, backward = problem()
            second = Revolver(state, forward, backward, 5, STEPS, job=job)
            with self.assertRaisesRegex(veloc.Error, "another Revolver .* 'revolve' .*name="):
                second.apply_forward()
            first.apply_reverse()
            self.check(5, job=job)
            left = Revolver(*problem(), 5, STEPS, job=job)
            left.apply_forward()
            del left
            self.check(5, job=job)

    def test_a_damaged_snapshot_is_named(self):
        """Catches snapshots that are passed over in silence, and one that is read all the same."""

        def fail(step):
            if step == 70:
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            revolver = Revolver(*problem(fail), 5, STEPS, directory=self.folder)
            revolver.apply_forward()
            revolver.apply_reverse()
        *_, damaged = sorted(self.folder.rglob("revolve-*.dat"))
        content = bytearray(damaged.read_bytes())
        content[-5] ^= 1
        damaged.write_bytes(content)
        state, forward, backward = problem()
        revolver = Revolver(state, forward, backward, 5, STEPS, directory=self.folder)
        with self.assertWarnsRegex(RuntimeWarning, f"passed over a snapshot: .*{damaged.name}"):
            revolver.apply_forward()
        revolver.apply_reverse()
        numpy.testing.assert_array_equal(backward.gradient, wanted())

    def test_a_profiler_hears_of_all_parts(self):
        class Profiler:
            def __init__(self):
                self.heard = []

            def get_timer(self, section, action):
                self.heard.append((section, action))
                return warnings.catch_warnings()

        profiler = Profiler()
        self.check(5, profiler=profiler)
        parts = {("forward", "advance"), ("forward", "takeshot"), ("reverse", "restore")}
        self.assertLessEqual(parts, {*profiler.heard})
        self.assertEqual(profiler.heard.count(("reverse", "reverse")), STEPS)


def over_levels(*levels, **costs):
    """A function with MultiLevelRevolver's arguments as the others have them."""
    return lambda *parts, **more: MultiLevelRevolver(*parts[:3], parts[4], levels, **costs, **more)


class AsPyrevolve(WithFolder):
    """What pyrevolve's own tests ask for, and programs that were written for it do."""

    def test_a_checkpoint_without_arrays_and_how_often_it_is_asked(self):
        """Catches a state without arrays that is refused, and a call of get_data that stores nothing."""

        class Counts(Checkpoint):
            dtype, size = numpy.float32, 1

            def __init__(self):
                self.saves = self.loads = 0

            def get_data(self, timestep):
                self.saves += 1
                return bytearray()

            def get_data_location(self, timestep):
                self.loads += 1
                return bytearray()

        steps = 10
        for slots in (2, 4, 6, 8, 9, 10, 11, 12):
            for disk in (False, True):
                with self.subTest(slots=slots, disk=disk):
                    counts, forward, backward = Counts(), mock.Mock(), mock.Mock()
                    revolver = SingleLevelRevolver(
                        counts, forward, backward, slots, steps, diskstorage=disk, filedir=self.folder
                    )
                    revolver.apply_forward()
                    self.assertEqual((counts.saves, counts.loads), (min(slots, steps - 1), 0))
                    self.assertEqual(counts.saves, len(revolver.storage_ckps()))
                    computed = [call.kwargs for call in forward.apply.call_args_list]
                    self.assertEqual(sum(step["t_end"] - step["t_start"] for step in computed), steps)
                    revolver.apply_reverse()
                    self.assertGreaterEqual(counts.loads, counts.saves)
                    self.assertEqual(backward.apply.call_count, steps)
                    self.assertEqual(counts.nbytes, 4)

    def test_levels(self):
        """Catches a slot of one level that is in the other, and an order of levels that matters."""
        memory, disk = NumpyStorage(2000, 3, float), DiskStorage(2000, 4, float, None, self.folder, wd=2, rd=1)
        for levels in ([memory, disk], [disk, memory], [memory], [disk]):
            for steps in (1, 2, 10, STEPS):
                with self.subTest(levels=len(levels), steps=steps):
                    Results.check(self, 0, steps, over_levels(*levels, uf=2))
        state, forward, backward = problem()
        revolver = MultiLevelRevolver(state, forward, backward, STEPS, [disk, memory], uf=2, ub=3)
        revolver.apply_forward()
        self.assertEqual(revolver.n_checkpoints, 3)
        self.assertTrue(revolver.storage_ckps(0) and revolver.storage_ckps(1))
        # Those in memory are in it.
        self.assertIsNotNone(veloc.Job.alive())
        revolver.apply_reverse()
        self.assertGreater(revolver.makespan, 2 * forward.steps + 3 * STEPS)
        self.assertEqual(revolver.ratio, forward.steps / STEPS)
        for levels in ([], None, [memory, memory], [disk, disk, memory]):
            with self.assertRaisesRegex(ValueError, "storage_list has"):
                MultiLevelRevolver(*problem(), STEPS, levels)

    def test_several_at_once(self):
        """Catches states of one that another reads, a job of the first alone, and one that nobody ends."""
        disk = DiskStorage(2000, 4, float, filedir=self.folder)
        kinds = [
            MemoryRevolver,
            lambda *parts: DiskRevolver(*parts, filedir=self.folder),
            over_levels(NumpyStorage(2000, 3, float), disk),
            Revolver,
        ]
        parts = [problem() for _ in kinds]
        # Beside one another they have other states at the same steps.
        for scale, (state, _, _) in enumerate(parts):
            state.fields *= 1 + scale
        alone = []
        for part in parts:
            (state, forward, backward), kept = problem(), part[0].fields
            state.fields[:] = kept
            revolver = Revolver(state, forward, backward, 5, STEPS)
            revolver.apply_forward()
            revolver.apply_reverse()
            alone.append(backward.gradient)
        self.assertIsNone(veloc.Job.alive())
        revolvers = [kind(*part, 5, STEPS) for kind, part in zip(kinds, parts)]
        dropped = Revolver(*problem(), 5, STEPS)
        for revolver in [*revolvers, dropped]:
            revolver.apply_forward()
        del dropped
        for revolver in revolvers:
            self.assertIsNotNone(veloc.Job.alive())
            revolver.apply_reverse()
        self.assertIsNone(veloc.Job.alive())
        for (_, _, backward), gradient in zip(parts, alone):
            numpy.testing.assert_array_equal(backward.gradient, gradient)
        left = Revolver(*problem(), 5, STEPS)
        left.apply_forward()
        del left, revolver
        self.assertIsNone(veloc.Job.alive())
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_larger_one_comes_later(self):
        """Catches a job that has room for the first alone."""
        first = Revolver(*problem(), 5, STEPS)
        first.apply_forward()
        state, forward, backward = problem()
        state.fields = numpy.zeros((3, 100_000))
        forward.apply = lambda t_start, t_end: state.fields.fill(t_end)
        seen = []
        backward.apply = lambda t_start, t_end: seen.append(state.fields[0, 0])
        second = Revolver(state, forward, backward, 20, STEPS)
        second.apply_forward()
        second.apply_reverse()
        self.assertEqual(seen, [STEPS, *range(STEPS - 1, 0, -1)])
        first.apply_reverse()

    def test_in_threads_without_a_job(self):
        """Catches a job that one thread ends while another begins with it."""
        found, right = [], wanted()

        def compute(kind):
            for turn in range(10):
                state, forward, backward = problem()
                revolver = kind(state, forward, backward, 5, STEPS)
                revolver.apply_forward()
                if turn % 3 == 2:
                    # Its job ends with it.
                    continue
                revolver.apply_reverse()
                found.append(numpy.array_equal(backward.gradient, right))

        disk = lambda *parts: DiskRevolver(*parts, filedir=self.folder)  # noqa: E731
        threads = [threading.Thread(target=compute, args=(kind,)) for kind in (Revolver, Revolver, Revolver, disk)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [True] * 28)
        self.assertIsNone(veloc.Job.alive())

    def test_arrays_with_gaps_between_their_rows(self):
        """Catches gaps that are read as elements, and a restore that does not reach the array."""
        for kind in (Revolver, lambda *parts: DiskRevolver(*parts, filedir=self.folder)):
            padded = numpy.zeros((6, 10))
            state = padded[1:-1, 1:-1]
            seen = []

            class Field(Checkpoint):
                dtype, size = numpy.float64, state.size

                def get_data(self, timestep):
                    return [state]

            forward, backward = mock.Mock(), mock.Mock()
            forward.apply = lambda t_start, t_end: state.__setitem__(..., state + (t_end - t_start))
            backward.apply = lambda t_start, t_end: seen.append({*state.flat} == {t_end})
            revolver = kind(Field(), forward, backward, 3, 20)
            revolver.apply_forward()
            padded[0] = 7
            revolver.apply_reverse()
            self.assertEqual(seen, [True] * 20)
            self.assertEqual({*padded[0]} | {*padded[-1]}, {0, 7})

    def test_arrays_whose_order_of_dimensions_changes(self):
        """Catches states that come back permuted: those of NumPy's results that are turned, as `A.T` is."""
        for kind in (Revolver, lambda *parts: DiskRevolver(*parts, filedir=self.folder)):
            for first in ("C", "F"):
                start = numpy.arange(12.0).reshape(3, 4)
                state, seen = [numpy.array(start, order=first)], []

                def forward(t_start, t_end):
                    for step in range(t_start, t_end):
                        state[0] = numpy.array(state[0] + 1, order="CF"[step % 2])

                checkpoint = mock.Mock(get_data=lambda step: state, get_data_location=lambda step: state)
                revolver = kind(checkpoint, mock.Mock(apply=forward), mock.Mock(), 3, 20)
                revolver.rev_operator.apply = lambda t_start, t_end: seen.append(
                    numpy.array_equal(state[0], start + t_end)
                )
                revolver.apply_forward()
                revolver.apply_reverse()
                self.assertEqual(seen, [True] * 20)

    def test_on_disk_nothing_outlives_it(self):
        """Catches a program that goes on from what one before it, of another model, has left."""
        for steps in (STEPS, STEPS + 1):
            revolver = DiskRevolver(*problem(), 5, steps, filedir=self.folder / "new")
            revolver.apply_forward()
            self.assertEqual(list((self.folder / "new").iterdir()), [])
        self.assertIsNone(veloc.Job.alive())
        for more in ({"directory": "x"}, {"job": object()}, {"options": {"mode": "sync"}}):
            with self.assertRaisesRegex(ValueError, "diskstorage is True"):
                Revolver(*problem(), 5, STEPS, diskstorage=True, **more)

    def test_on_disk_what_cannot_be_written(self):
        """Catches an array of a GPU that kills the program, and a full disk that nobody hears of."""

        class Elsewhere:
            __array_interface__ = {"data": (4096, False), "shape": (1000,), "typestr": "<f8", "version": 3}

        state = mock.Mock(get_data=lambda step: [Elsewhere()])
        revolver = DiskRevolver(state, mock.Mock(), mock.Mock(), 5, STEPS, filedir=self.folder)
        with self.assertRaisesRegex(TypeError, "array 0 is not in memory of the host.*directory="):
            revolver.apply_forward()
        revolver = DiskRevolver(*problem(), 5, STEPS, filedir=self.folder)
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with mock.patch("os.pwritev", side_effect=full), self.assertRaisesRegex(OSError, f"No space.*{self.folder}"):
            revolver.apply_forward()

    def test_on_disk_it_takes_little_memory(self):
        """Catches snapshots that are kept in memory as well, and a cache or a job of its own."""
        program = PROBLEM + textwrap.dedent(
            """
            import sys
            def anonymous():
                with open("/proc/self/status") as status:
                    return int(status.read().split("RssAnon:")[1].split()[0])

            state, forward, backward = problem()
            state.fields = numpy.ones((3, 100_000))
            forward.apply = backward.apply = lambda t_start, t_end: None
            before = anonymous()
            revolver = DiskRevolver(state, forward, backward, 20, 40, filedir=sys.argv[1])
            revolver.apply_forward()
            most = anonymous()
            revolver.apply_reverse()
            print(max(most, anonymous()) - before)
            """
        )
        arguments = [sys.executable, "-c", program, str(self.folder)]
        grown = int(subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True).stdout)
        self.assertLess(grown, 2048)


class Restarts(WithFolder):
    def run_killed(self, kill_at, more, name="revolve"):
        """Runs a program that is killed after so many forward and reverse steps."""
        program = PROBLEM + textwrap.dedent(
            f"""
            import os, signal, sys
            folder, left = sys.argv[1], int(sys.argv[2])

            def hook(step):
                global left
                left -= 1
                if left == 0:
                    # What was taken is in files.
                    while revolver._snapshots.calls.VELOC_Checkpoint_finished() == 0:
                        pass
                    os.kill(os.getpid(), signal.SIGKILL)

            state, forward, backward = problem(hook)
            advance = forward.apply

            def apply(t_start, t_end):
                for step in range(t_start, t_end):
                    hook(step)
                    advance(t_start=step, t_end=step + 1)

            forward.apply = apply
            arrays = [backward.adjoint, backward.gradient]
            revolver = Revolver(state, forward, backward, 4, {STEPS}, directory=folder, name="{name}", {more})
            revolver.apply_forward()
            revolver.apply_reverse()
            numpy.save(folder + "/gradient.npy", backward.gradient)
            print(forward.steps + len(backward.steps))
            """
        )
        arguments = [sys.executable, "-c", program, str(self.folder), str(kill_at)]
        run = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=False)
        self.assertIn(run.returncode, (0, -signal.SIGKILL))
        return int(run.stdout) if run.returncode == 0 else None

    def test_killed_at_random_steps_and_started_again(self):
        """Catches states in the wrong slots, an adjoint that is not that of its state, and a start from
        the beginning."""
        steps = random.Random(7)
        whole = veloc.Schedule(STEPS, 4).cost().forward_evaluations + STEPS
        for name, more, kills in (
            ("states", "", [60, 130, 250]),
            ("adjoints", "adjoint=arrays, adjoint_distance=10", [steps.randrange(30, 250) for _ in range(5)]),
            ("both", "adjoint=arrays, n_disk_checkpoints=3, disk_write=0.1, disk_read=0.1", [80, 150]),
        ):
            with self.subTest(name):
                for at in kills:
                    if self.run_killed(at, more, name) is not None:
                        break
                else:
                    self.assertLess(self.run_killed(0, more, name), whole)
                gradient = numpy.load(self.folder / "gradient.npy")
                numpy.testing.assert_array_equal(gradient, wanted())

    def test_another_computation_is_not_gone_on_with(self):
        self.assertIsNone(self.run_killed(90, ""))
        state, forward, backward = problem()
        for arguments, said in (
            ((4, STEPS + 1), "100 steps, 4 slots in memory.*101 steps, 4"),
            ((5, STEPS), "4 slots in memory.*5 slots in memory"),
        ):
            revolver = Revolver(state, forward, backward, *arguments, directory=self.folder)
            with self.assertRaisesRegex(veloc.Error, said):
                revolver.apply_forward()
        revolver = Revolver(state, forward, backward, 4, STEPS, directory=self.folder, tag=3)
        with self.assertRaisesRegex(veloc.Error, "0 tag.*3 tag"):
            revolver.apply_forward()
        revolver = Revolver(state, forward, backward, 4, STEPS, directory=self.folder, tag=3)
        revolver.discard()
        revolver.apply_forward()
        revolver.apply_reverse()
        self.assertEqual(forward.steps, veloc.Schedule(STEPS, 4).cost().forward_evaluations)
        numpy.testing.assert_array_equal(backward.gradient, wanted())

    def test_after_an_exception(self):
        """Catches a job that stays open, and snapshots that are gone."""

        def hook(step):
            if step == 40:
                raise KeyboardInterrupt

        state, forward, backward = problem(hook)
        more = {"directory": self.folder, "adjoint_distance": 5}
        arrays = [backward.adjoint, backward.gradient]
        revolver = Revolver(state, forward, backward, 4, STEPS, adjoint=arrays, **more)
        revolver.apply_forward()
        self.assertRaises(KeyboardInterrupt, revolver.apply_reverse)
        self.assertRaisesRegex(veloc.Error, "has ended", revolver.apply_reverse)
        state, forward, backward = problem()
        arrays = [backward.adjoint, backward.gradient]
        revolver = Revolver(state, forward, backward, 4, STEPS, adjoint=arrays, **more)
        revolver.apply_forward()
        self.assertEqual(forward.steps, 0)
        revolver.apply_reverse()
        self.assertLess(backward.steps[0], 45)
        numpy.testing.assert_array_equal(backward.gradient, wanted())


class Handed:
    """An array of another library than NumPy, of which there are no copies."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


class Refused(WithFolder):
    def test_arguments(self):
        parts = problem()
        for arguments, said in (
            ({"n_timesteps": None}, "n_timesteps is None"),
            ({"compression_params": {"scheme": "zfp"}}, "'zfp'"),
            ({"n_disk_checkpoints": 2}, "n_disk_checkpoints is 2, but directory is missing"),
            ({"adjoint": [numpy.zeros(3)]}, "adjoint is given, but directory is missing"),
            ({"job": object(), "directory": "x"}, "a job is given"),
            ({"tag": 2**70}, "tag is 1180591620717411303424"),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(ValueError, said):
                Revolver(*parts, **{"n_checkpoints": 3, "n_timesteps": 10, **arguments})
        self.assertRaises(veloc.Error, Revolver, *parts, 0, 10)
        self.assertRaises(veloc.Error, Revolver, *parts, 3, 0)

    def test_a_job_beside_it(self):
        """Catches a Revolver that says only that there is a job already."""
        with veloc.Job(mode="async", ephemeral=True, host_cache_size="1M"):
            with self.assertRaisesRegex(veloc.Error, "has a job.*job=..."):
                Revolver(*problem(), 3, 10).apply_forward()
        first = Revolver(*problem(), 3, 10, name="mine")
        first.apply_forward()
        with self.assertRaisesRegex(veloc.Error, "already.* Revolvers, .*job=..."):
            veloc.Job(mode="async", ephemeral=True)
        with self.assertRaisesRegex(veloc.Error, "under way with .*job=..."):
            Revolver(*problem(), 3, 10, directory=self.folder).apply_forward()
        with self.assertRaisesRegex(veloc.Error, "another Revolver .* 'mine' .*name="):
            Revolver(*problem(), 3, 10, name="mine").apply_forward()
        first.apply_reverse()

    def test_arrays_that_change_size_or_have_gaps(self):
        for arrays, error, said in (
            (lambda step: [numpy.zeros(10 if step < 5 else 11)], ValueError, r"state \d+: .*\[88\].*\[80\]"),
            (lambda step: [numpy.zeros(10)] * (1 if step < 5 else 2), ValueError, r"state \d+: .*80, 80"),
            (lambda step: [memoryview(bytearray(20))[::2]], ValueError, "gaps"),
            (lambda step: [Handed(numpy.zeros((3, 2), order="C" if step < 5 else "F"))], ValueError, "array 0 .*permuted"),
            (lambda step: [veloc.Pickled(5)], TypeError, "array 0 is a Pickled"),
            (lambda step: [5], TypeError, "is no array"),
        ):
            state, forward, backward = problem()
            state.get_data = arrays
            forward.apply = lambda t_start, t_end: None
            with self.subTest(said), self.assertRaisesRegex(error, said):
                revolver = Revolver(state, forward, backward, 3, 20)
                revolver.apply_forward()
        # The jobs have ended.
        with veloc.Job(mode="sync", scratch=self.folder):
            pass

    def test_passes_in_the_wrong_order(self):
        revolver = Revolver(*problem(), 3, 10)
        self.assertRaisesRegex(veloc.Error, "apply_forward comes first", revolver.apply_reverse)
        revolver.apply_forward()
        self.assertRaisesRegex(veloc.Error, "apply_forward was called", revolver.apply_forward)
        revolver = Revolver(*problem(), 3, 10)
        revolver.apply_forward()
        revolver.apply_reverse()
        self.assertRaisesRegex(veloc.Error, "has ended", revolver.apply_forward)


if __name__ == "__main__":
    unittest.main()
