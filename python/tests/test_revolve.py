"""veloc.revolve: pyrevolve's interface in memory, on disk and on both; restarts; what is refused."""

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

import numpy
import veloc
from veloc.revolve import Checkpoint, DiskRevolver, MemoryRevolver, Operator, Revolver

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


class Refused(WithFolder):
    def test_arguments(self):
        parts = problem()
        for arguments, said in (
            ({"n_timesteps": None}, "n_timesteps is None"),
            ({"compression_params": {"scheme": "zfp"}}, "'zfp'"),
            ({"n_disk_checkpoints": 2}, "no directory"),
            ({"adjoint": [numpy.zeros(3)]}, "no directory"),
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
        first = Revolver(*problem(), 3, 10)
        first.apply_forward()
        with self.assertRaisesRegex(veloc.Error, "has a job.*job=..."):
            Revolver(*problem(), 3, 10).apply_forward()
        first.apply_reverse()

    def test_arrays_that_change_size_or_have_gaps(self):
        for arrays, error, said in (
            (lambda step: [numpy.zeros(10 if step < 5 else 11)], ValueError, r"state \d+: .*\[88\].*\[80\]"),
            (lambda step: [numpy.zeros(10)] * (1 if step < 5 else 2), ValueError, r"state \d+: .*80, 80"),
            (lambda step: [numpy.zeros((5, 4))[:, ::2]], ValueError, "gaps"),
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
