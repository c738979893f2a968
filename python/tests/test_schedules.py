"""veloc.schedules: valid by the rules of checkpoint_schedules, as good as that package's schedules,
and in pyadjoint programs."""

import contextlib
import importlib.util
import io
import itertools
import math
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import warnings

import numpy
import veloc

HAS_SCHEDULES = importlib.util.find_spec("checkpoint_schedules") is not None
HAS_PYADJOINT = importlib.util.find_spec("pyadjoint") is not None

if HAS_SCHEDULES:
    import checkpoint_schedules as package
    from checkpoint_schedules import StorageType
    from veloc import schedules

    RAM, DISK, WORK = StorageType.RAM, StorageType.DISK, StorageType.WORK


class Model:
    """Does what a schedule says with steps as its data, and checks what the package asks for.

    A snapshot, and the working memory, has the steps from which the forward can be computed
    (`restart`), and those whose adjoint can (`record`).
    """

    def __init__(self, test, schedule, steps, limits, snapshots=None, reversed=0, strict=True):
        self.test, self.schedule, self.steps, self.limits = test, schedule, steps, limits
        self.snapshots = snapshots or {RAM: {}, DISK: {}}
        self.at, self.reversed = 0, reversed
        #: The package's own schedules leave snapshots, and do not tell of all storage.
        self.strict = strict
        self.restart, self.record = set(), set()
        self.forwards = self.transfers = self.reads_in_memory = 0
        self.adjoints = 0

    def run(self, adjoints=1):
        for action in self.schedule:
            getattr(self, type(action).__name__.lower())(action)
            self.check()
            if isinstance(action, package.EndReverse) and self.adjoints == adjoints:
                return self
        raise AssertionError("the schedule has no end of the adjoint")

    def check(self):
        test, schedule = self.test, self.schedule
        if self.at is not None:
            test.assertEqual(schedule.n, self.at)
        test.assertEqual(schedule.r, self.reversed)
        test.assertIn(schedule.max_n, (None, self.steps))
        for storage, limit in self.limits.items():
            test.assertLessEqual(len(self.snapshots[storage]), limit)
        # One state or one step's record is in working memory.
        test.assertLessEqual(min(1, len(self.restart)) + len(self.record), 1)

    def forward(self, action):
        test = self.test
        test.assertEqual(action.n0, self.at)
        test.assertLess(action.n0, action.n1)
        if self.schedule.max_n is not None:
            test.assertLessEqual(action.n1, self.steps - self.reversed)
        stop = min(action.n1, self.steps)
        self.forwards += stop - action.n0
        self.at = stop
        covered = set(range(action.n0, stop))
        self.restart, self.record = set(), set()
        kept = (covered if action.write_ics else set(), covered if action.write_adj_deps else set())
        if action.storage is WORK:
            self.restart, self.record = kept
        else:
            test.assertTrue(any(kept))
            if self.strict:
                test.assertTrue(self.schedule.uses_storage_type(action.storage))
            test.assertNotIn(action.n0, self.snapshots[action.storage])
            self.snapshots[action.storage][action.n0] = kept
            self.transfers += action.storage is DISK
        if stop == self.steps:
            self.schedule.finalize(stop)

    def load(self, action, kept):
        test = self.test
        test.assertFalse(self.restart or self.record)
        test.assertLess(action.n, self.steps - self.reversed)
        test.assertIs(action.to_storage, WORK)
        self.restart, self.record = map(set, kept)
        self.at = action.n if self.restart else None
        if self.restart:
            test.assertLessEqual(set(range(action.n, self.steps - self.reversed)), self.restart)
        self.transfers += action.from_storage is DISK

    def copy(self, action):
        self.load(action, self.snapshots[action.from_storage][action.n])

    def move(self, action):
        kept = self.snapshots[action.from_storage].pop(action.n)
        if action.to_storage is not StorageType.NONE:
            self.load(action, kept)

    def reverse(self, action):
        test = self.test
        test.assertEqual(action.n1, self.steps - self.reversed)
        test.assertLess(action.n0, action.n1)
        test.assertLessEqual(set(range(action.n0, action.n1)), self.record)
        self.reversed += action.n1 - action.n0
        if action.clear_adj_deps:
            self.record = set()

    def endforward(self, action):
        self.test.assertEqual(self.at, self.steps)

    def endreverse(self, action):
        self.test.assertEqual(self.reversed, self.steps)
        self.adjoints += 1
        if self.schedule.is_exhausted:
            if self.strict:
                self.test.assertEqual(self.snapshots, {RAM: {}, DISK: {}})
            self.test.assertRaises(StopIteration, next, self.schedule)
        else:
            self.reversed = 0


#: The steps and numbers of snapshots of the package's own test, and all others for few steps.
CASES = [
    *((n, s) for n in range(1, 14) for s in range(1, n + 2)),
    *((100, s) for s in range(1, 100)),
    *((250, s) for s in range(25, 250, 25)),
]


@unittest.skipUnless(HAS_SCHEDULES, "checkpoint_schedules is not installed")
class Valid(unittest.TestCase):
    def valid(self, make, limits, cases=CASES, adjoints=1):
        for n, s in cases:
            with self.subTest(n=n, s=s):
                yield n, s, Model(self, make(n, s), n, limits(n, s)).run(adjoints)

    def test_revolve(self):
        for n, s, model in self.valid(lambda n, s: schedules.Revolve(n, s), lambda n, s: {RAM: s, DISK: 0}):
            self.assertEqual(model.forwards, least(n, s))
        one = Model(self, schedules.Revolve(1, 0), 1, {RAM: 0, DISK: 0}).run()
        self.assertEqual(one.forwards, 1)

    def test_revolve_with_a_resilience_distance(self):
        make = lambda n, s: schedules.Revolve(n, s, storage=DISK, resilience_distance=max(1, math.ceil(n / s)))
        for _ in self.valid(make, lambda n, s: {RAM: 0, DISK: s}):
            pass

    def test_multistage(self):
        make = lambda n, s: schedules.Multistage(n, s // 3, s - s // 3)
        for n, s, model in self.valid(make, lambda n, s: {RAM: s // 3, DISK: s - s // 3}):
            self.assertEqual(model.forwards, least(n, s))

    def test_hrevolve(self):
        cases = [(n, s) for n, s in CASES if s >= 3]
        make = lambda n, s: schedules.HRevolve(n, s // 3, s - s // 3)
        for _ in self.valid(make, lambda n, s: {RAM: s // 3, DISK: s - s // 3}, cases):
            pass

    def test_mixed(self):
        for n, s, model in self.valid(schedules.Mixed, lambda n, s: {RAM: 0, DISK: s}):
            if n <= s + 1:
                self.assertEqual(model.forwards, n)
            else:
                self.assertLess(model.forwards, least(n, s) if s < n - 1 else n + 1)

    def test_two_levels_with_an_end_that_is_told(self):
        for period in (1, 2, 7):
            make = lambda n, s: schedules.TwoLevel(period, s, binomial_storage=RAM)
            limits = lambda n, s: {RAM: s, DISK: 1 + (n - 1) // period}
            for _ in self.valid(make, limits, adjoints=2):
                pass
        for _ in self.valid(lambda n, s: schedules.TwoLevel(5, 0), lambda n, s: {RAM: 0, DISK: n}):
            pass

    def test_resumed(self):
        """Catches snapshots that are gone, and an adjoint that begins at another step."""
        for n, ram, disk, left, adjoint in itertools.product(
            (10, 57), (0, 3), (4,), ((0,), (0, 3, 8), (4, 0, 6)), (None, 9, 5)
        ):
            left = [state for state in left if adjoint is None or state < adjoint]
            with self.subTest(n=n, ram=ram, left=left, adjoint=adjoint):
                schedule = schedules.Resumed(n, ram, disk, left, adjoint)
                snapshots = {RAM: {}, DISK: {state: (set(range(state, n)), set()) for state in left}}
                reversed = 0 if adjoint is None else n - adjoint
                limits = {RAM: ram, DISK: disk}
                Model(self, schedule, n, limits, snapshots, reversed=reversed).run()

    def test_what_is_refused(self):
        for make, error, said in (
            (lambda: schedules.Revolve(10, 0), ValueError, "no snapshots, for 10 steps"),
            (lambda: schedules.Revolve(0, 3), veloc.Error, "steps = 0"),
            (lambda: schedules.Multistage(10, -1, 3), ValueError, "-1 snapshots"),
            (lambda: schedules.Mixed(10, 3, storage=WORK), ValueError, "WORK"),
            (lambda: schedules.Revolve(10, 3, storage="foo"), ValueError, "storage is 'foo'"),
            (lambda: schedules.TwoLevel(0, 3), ValueError, "period is 0"),
            (lambda: schedules.HRevolve(10, 3, 3, wd=-1), veloc.Error, "-1"),
            (lambda: schedules.Resumed(10, 3, 3, [0, 11]), veloc.Error, "11"),
            (lambda: schedules.Resumed(10, 3, 3, [4]), ValueError, r"\[4\], without step 0"),
            (lambda: schedules.Revolve(10, 3, resilience_distance=2), veloc.Error, "2"),
        ):
            with self.subTest(said), self.assertRaisesRegex(error, said):
                make()


def least(n, s):
    """The least number of forward steps: those that are not recorded, and each once more."""
    return veloc.Schedule(n, max(1, min(s, n))).cost().forward_evaluations


@unittest.skipUnless(HAS_SCHEDULES, "checkpoint_schedules is not installed")
class AsGoodAsThePackages(unittest.TestCase):
    def counts(self, schedule, n):
        """Forward steps, and writes to disk and reads."""
        ours = type(schedule).__module__ == "veloc.schedules"
        model = Model(self, schedule, n, {RAM: n, DISK: n}, strict=ours).run()
        return model.forwards, model.transfers

    @classmethod
    def setUpClass(cls):
        # It says that it would be faster with Numba.
        warnings.simplefilter("ignore", RuntimeWarning)

    def test_as_many_steps(self):
        for n in (1, 2, 3, 5, 10, 33, 100):
            for s in sorted({*range(1, min(n, 6)), *range(6, n, 13)}):
                with self.subTest(n=n, s=s):
                    ours = self.counts(schedules.Revolve(n, s), n)
                    self.assertEqual(ours, self.counts(package.Revolve(n, s), n))
                    ours = self.counts(schedules.Mixed(n, s), n)
                    theirs = self.counts(package.MixedCheckpointSchedule(n, s), n)
                    self.assertEqual(ours[0], theirs[0])
                    for ram in {0, 1, s // 2}:
                        ours = self.counts(schedules.Multistage(n, ram, s - ram), n)
                        theirs = self.counts(package.MultistageCheckpointSchedule(n, ram, s - ram), n)
                        self.assertEqual(ours[0], theirs[0])
                        self.assertLessEqual(ours[1], theirs[1])

    def test_hrevolve_takes_the_same_time(self):
        for n, s in ((3, 2), (10, 4), (33, 4), (60, 9), (60, 20)):
            ram = max(1, s // 3)
            steps, transfers = self.counts(schedules.HRevolve(n, ram, s - ram), n)
            theirs = self.counts(package.HRevolve(n, ram, s - ram), n)
            self.assertEqual(steps + 2 * transfers, theirs[0] + 2 * theirs[1])

    def test_their_names_and_arguments(self):
        """Catches a program that changes an import and fails."""
        for name, arguments, more in (
            ("Revolve", (20, 3, 1, 1, 2, 2), {}),
            ("HRevolve", (20, 3, 3), {"uf": 1, "ub": 1, "wd": 2, "rd": 2}),
            ("MultistageCheckpointSchedule", (20, 3, 3), {"trajectory": "revolve"}),
            ("MixedCheckpointSchedule", (20, 3), {"storage": RAM}),
            ("TwoLevelCheckpointSchedule", (5, 3), {"binomial_storage": RAM, "binomial_trajectory": "revolve"}),
        ):
            with self.subTest(name):
                ours, theirs = (getattr(one, name)(*arguments, **more) for one in (schedules, package))
                self.assertEqual(ours.max_n, theirs.max_n)
                self.assertEqual(self.counts(ours, 20)[0], self.counts(theirs, 20)[0])


@unittest.skipUnless(HAS_SCHEDULES, "checkpoint_schedules is not installed")
class Fast(unittest.TestCase):
    def test_construction_does_not_go_through_the_steps(self):
        """Catches tables that are made for a schedule that nobody has asked an action yet."""

        def took(steps):
            begun = time.perf_counter()
            for _ in range(20):
                schedules.Revolve(steps, 10)
                schedules.Mixed(steps, 10)
                schedules.Multistage(steps, 5, 5)
            return time.perf_counter() - begun

        few = min(took(10) for _ in range(5))
        many = min(took(10**9) for _ in range(5))
        self.assertLess(many, 20 * few)


@unittest.skipUnless(HAS_SCHEDULES, "checkpoint_schedules is not installed")
class Example(unittest.TestCase):
    """examples/disk_slots.py"""

    def run_it(self, *arguments):
        program = pathlib.Path(__file__).resolve().parents[1] / "examples" / "disk_slots.py"
        command = [sys.executable, str(program), *map(str, arguments)]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual(run.returncode, 0 if len(arguments) == 1 else -signal.SIGKILL)
        return run.stdout

    def test_killed_and_started_again_it_prints_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = self.run_it(folder)
            self.assertEqual(list(pathlib.Path(folder).glob("*.dat")), [])
            for step in (500, 431, 430, 120, 7):
                self.run_it(folder, step)
            self.assertEqual(self.run_it(folder), whole)
            self.assertEqual(float.fromhex(whole), self.wanted())

    @staticmethod
    def wanted():
        """The same with all states kept."""
        states, state = [], numpy.linspace(0, 1, 10_000)
        for _ in range(500):
            states.append(state.copy())
            state = state + 0.01 * state * (1 - state)
        adjoint = 2 * state
        for before in reversed(states):
            adjoint *= 1 + 0.01 * (1 - 2 * before)
        return adjoint.sum()


class WithoutThePackage(unittest.TestCase):
    def test_it_is_named(self):
        program = "import sys; sys.modules['checkpoint_schedules'] = None; import veloc, veloc.schedules"
        run = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("pip install checkpoint-schedules", run.stderr)


@unittest.skipUnless(HAS_SCHEDULES and HAS_PYADJOINT, "pyadjoint or checkpoint_schedules is not installed")
class Pyadjoint(unittest.TestCase):
    STEPS = 40

    def reduced(self, schedule):
        """The sum of the squares of a growing number, after some steps, as a function of the first."""
        import pyadjoint

        tape = pyadjoint.Tape()
        pyadjoint.set_working_tape(tape)
        pyadjoint.continue_annotation()
        # The line that a program changes.
        tape.enable_checkpointing(schedule)
        start = pyadjoint.AdjFloat(0.3)
        control, state, total = pyadjoint.Control(start), start, 0
        for _ in tape.timestepper(iter(range(self.STEPS))):
            state = state + 0.05 * state * (1.0 - state)
            total = total + state * state
        pyadjoint.pause_annotation()
        return pyadjoint.ReducedFunctional(total, control)

    def test_the_same_gradient_and_taylors_remainder(self):
        """Catches states that are given up too early, and those of another step."""
        import pyadjoint

        wanted = self.reduced(package.SingleMemoryStorageSchedule()).derivative()
        for schedule in (
            lambda: schedules.Revolve(self.STEPS, 5),
            lambda: schedules.Multistage(self.STEPS, 5, 0),
            lambda: schedules.HRevolve(self.STEPS, 3, 0),
            lambda: schedules.Mixed(self.STEPS, 5, storage=RAM),
            lambda: schedules.TwoLevel(10, 3, binomial_storage=RAM, period_storage=RAM),
        ):
            reduced = self.reduced(schedule())
            with self.subTest(type(reduced.tape._checkpoint_manager._schedule).__name__):
                self.assertEqual(reduced.derivative(), wanted)
                at, direction = pyadjoint.AdjFloat(0.3), pyadjoint.AdjFloat(0.1)
                with contextlib.redirect_stdout(io.StringIO()):
                    rate = pyadjoint.taylor_test(reduced, at, direction)
                self.assertGreater(rate, 1.99)


if __name__ == "__main__":
    unittest.main()
