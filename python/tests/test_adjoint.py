"""Adjoint runs: their result, exceptions in callbacks, interrupts, stops, and crashes."""

import gc
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import traceback
import unittest
import warnings
import weakref

import numpy
import veloc

STEPS = 300

#: The gradient of the sum of a field after many steps with respect to the field at the beginning.
PROBLEM = """
import numpy, veloc

class Growth:
    def __init__(self, steps):
        self.steps = steps
        self.field = (numpy.arange(100.0) + 1) / 100
        self.gradient = numpy.zeros(100)
        self.forwards = self.turns = 0

    def forward(self, start, stop):
        for _ in range(start, stop):
            self.forwards += 1
            self.field += 1e-3 * self.field * (1 - self.field)

    def adjoint(self, step):
        self.turns += 1
        if step == self.steps:
            self.gradient[:] = 1
        self.gradient *= 1 + 1e-3 * (1 - 2 * self.field)

    def run(self, **more):
        settings = dict(slots=5, state=self.field, gradient=self.gradient)
        settings |= dict(forward=self.forward, adjoint=self.adjoint, **more)
        return veloc.adjoint_run("growth", self.steps, **settings)
"""
exec(PROBLEM)


def wanted(steps=STEPS):
    """The gradient, with all states kept."""
    problem = Growth(steps)
    states = []
    for step in range(steps):
        states.append(problem.field.copy())
        problem.forward(step, step + 1)
    for step in range(steps, 0, -1):
        problem.field[:] = states[step - 1]
        problem.adjoint(step)
    return problem.gradient


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # What a shell starts in the background ignores Ctrl-C.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

    def job(self, **more):
        return veloc.Job(mode="async", threaded=True, scratch=self.folder / "s", **more)

    def memory(self):
        return veloc.Job(mode="async", ephemeral=True, host_cache_size="1M")

    def same(self, problem):
        numpy.testing.assert_array_equal(problem.gradient, wanted(problem.steps))


class Results(WithFolder):
    def test_in_memory_and_in_files(self):
        for job in self.memory, self.job:
            problem = Growth(STEPS)
            with job():
                self.assertIs(problem.run(), True)
            self.same(problem)
            self.assertEqual(problem.turns, STEPS)
            cost = veloc.Schedule(STEPS, 5).cost()
            # The first three are computed twice, and compared.
            self.assertEqual(problem.forwards, cost.advances + 3)

    def test_several_arrays_and_their_ids(self):
        """Catches states and adjoints whose arrays are exchanged."""
        for kind in (list, lambda arrays: {7 - id: array for id, array in enumerate(arrays)}):
            one, two = Growth(50), Growth(50)
            two.field *= 0.5

            def forward(start, stop):
                one.forward(start, stop)
                two.forward(start, stop)

            def adjoint(step):
                one.adjoint(step)
                two.adjoint(step)

            with self.job():
                finished = veloc.adjoint_run(
                    "two",
                    50,
                    3,
                    state=kind([one.field, two.field]),
                    gradient=kind([one.gradient, two.gradient]),
                    forward=forward,
                    adjoint=adjoint,
                    resilience_distance=20,
                    adjoint_distance=10,
                )
            self.assertTrue(finished)
            self.same(one)
            self.assertFalse(numpy.array_equal(two.gradient, one.gradient))

    def test_compressed_states(self):
        """Catches states that are compressed and no more of them kept, and arguments that are not looked at."""
        problem, exact = Growth(STEPS), Growth(STEPS)
        for one in problem, exact:
            one.field, one.gradient = numpy.linspace(0.2, 0.8, 4000), numpy.zeros(4000)
        with self.job():
            self.assertTrue(problem.run(compress={0: {"bits": 12, "bound": 1e-2, "relative": True}}))
            self.assertTrue(exact.run())
        numpy.testing.assert_allclose(problem.gradient, exact.gradient, rtol=2e-2)
        self.assertFalse(numpy.array_equal(problem.gradient, exact.gradient))
        self.assertLess(problem.forwards, exact.forwards * 0.7)
        lossless = Growth(STEPS)
        lossless.field, lossless.gradient = numpy.linspace(0.2, 0.8, 4000), numpy.zeros(4000)
        with self.job():
            self.assertTrue(lossless.run(compress={0: {"lossless": True}}))
        numpy.testing.assert_array_equal(lossless.gradient, exact.gradient)
        for how, error in ({"bits": 9}, ValueError), ({"bits": 8, "bound": -1}, veloc.Error), ({"size": 1}, TypeError):
            with self.subTest(how), self.job(), self.assertRaises(error):
                Growth(STEPS).run(compress={0: {"bits": 8, "bound": 1} | how})

    def test_arrays_that_move(self):
        """Catches states that are read into an array that the program does not use any more."""
        problem = Growth(60)

        def forward(start, stop):
            problem.field = problem.field.copy()
            problem.forward(start, stop)
            veloc.adjoint_protect("state", 0, problem.field)

        def adjoint(step):
            problem.adjoint(step)

        with self.memory():
            veloc.adjoint_run(
                "moves", 60, 4, state=problem.field, gradient=problem.gradient, forward=forward, adjoint=adjoint
            )
        self.same(problem)

    def test_an_array_that_no_callback_has_is_told(self):
        """Catches `u = u + 1` in a callback: all that is stored is the state of the beginning."""
        for is_wrong in (True, False):
            problem = Growth(10)

            def forward(start, stop):
                Growth.forward(problem, start, stop)
                if is_wrong:
                    problem.field = problem.field + 0

            with warnings.catch_warnings(record=True) as caught, self.memory():
                warnings.simplefilter("always")
                veloc.adjoint_run(
                    "new", 10, 3, state=problem.field, gradient=[problem.gradient], forward=forward,
                    adjoint=problem.adjoint,
                )
            # Before 3.11, the line that calls has what it hands over.
            self.assertEqual(len(caught), is_wrong and sys.version_info >= (3, 11))
            for warning in caught:
                self.assertRegex(str(warning.message), "^state, region 0: nobody ")
                self.assertEqual(warning.filename, __file__)

    def test_nothing_of_a_run_lives_on(self):
        """Catches callbacks that hold the arrays after the run."""
        with self.memory():
            problem = Growth(10)
            problem.run(hash=lambda: 5)
            alive = weakref.ref(problem)
            gc.disable()
            try:
                del problem
                self.assertIsNone(alive())
            finally:
                gc.enable()


class Stops(WithFolder):
    def test_a_time_limit(self):
        """Catches a stop that is taken for an end, and the other way round."""
        runs = 0
        while True:
            problem, runs = Growth(6), runs + 1
            with self.job():
                if problem.run(time_limit=1e-9):
                    break
        self.same(problem)
        self.assertGreater(runs, 3)

    def test_a_stop_that_is_asked_for(self):
        problem = Growth(STEPS)
        # The request is for the next run.
        veloc.adjoint_stop()
        with self.job():
            self.assertIs(problem.run(), False)
            self.assertIs(problem.run(), True)
        self.same(problem)

    def interrupted(self, at, times=1):
        """A problem whose adjoint has Ctrl-C at a step."""
        problem = Growth(STEPS)
        adjoint = problem.adjoint

        def interrupting(step):
            if step == at and problem.left:
                problem.left -= 1
                for _ in range(times):
                    signal.raise_signal(signal.SIGINT)
            adjoint(step)

        problem.left, problem.adjoint = 1, interrupting
        return problem

    def test_an_array_that_gets_another_size(self):
        """Catches a restore into memory that numpy has given back meanwhile."""
        for times in (2, 100_000):
            problem = Growth(STEPS)
            forward = problem.forward

            def resizing(start, stop):
                forward(start, stop)
                problem.field.resize(100 * times, refcheck=False)

            problem.forward = resizing
            said = "state, region 0: the array is of another size"
            with self.job(), self.assertRaisesRegex(ValueError, said):
                problem.run()

    def test_an_interrupt_is_a_planned_stop(self):
        """Catches an interrupt in the middle of a callback, which would leave a broken state, and a run
        that does not go on from there."""
        problem = self.interrupted(STEPS // 2)
        with self.job():
            with self.assertRaises(KeyboardInterrupt):
                problem.run()
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
            turns = problem.turns
            self.assertEqual(turns, STEPS - STEPS // 2 + 1)
        # In a later job, from where it was.
        later = Growth(STEPS)
        with self.job():
            self.assertTrue(later.run())
        self.same(later)
        self.assertEqual(later.turns + turns, STEPS)

    def test_an_interrupt_in_the_last_step_stops_no_other_run(self):
        problem = self.interrupted(1)
        with self.job():
            with self.assertRaises(KeyboardInterrupt):
                problem.run()
            self.same(problem)
            again = Growth(STEPS)
            self.assertIs(again.run(), True)

    def test_a_second_interrupt_does_not_wait_for_the_callback(self):
        problem = self.interrupted(STEPS // 2, times=2)
        with self.job():
            with self.assertRaises(KeyboardInterrupt):
                problem.run()
            self.assertEqual(problem.turns, STEPS - STEPS // 2)
            later = Growth(STEPS)
            self.assertTrue(later.run())
        self.same(later)

    def test_an_interrupt_where_nothing_outlives_the_job(self):
        problem = self.interrupted(STEPS // 2)
        with self.memory():
            with self.assertRaises(KeyboardInterrupt) as caught:
                problem.run()
            self.assertIn("ephemeral", str(caught.exception.__cause__))

    def test_in_another_thread_and_with_another_handler(self):
        """Catches a handler that is replaced where that is not Python's own, or cannot be."""
        heard = []
        before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
        try:
            problem = self.interrupted(STEPS // 2)
            with self.memory():
                self.assertTrue(problem.run())
            self.assertEqual(len(heard), 1)
        finally:
            signal.signal(signal.SIGINT, before)
        self.same(problem)
        problem, found = Growth(STEPS), []
        with self.memory():
            thread = threading.Thread(target=lambda: found.append(problem.run()))
            thread.start()
            thread.join()
        self.assertEqual(found, [True])
        self.same(problem)


class Exceptions(WithFolder):
    def test_exceptions_come_out_as_they_are(self):
        """Catches an exception that ctypes swallows: the gradient would be wrong."""

        class Mine(Exception):
            pass

        for callback in ("forward", "adjoint", "hash"):
            raised = Mine(callback)

            def failing(*arguments):
                if arguments in ((), (STEPS - 10,)) or arguments[0] > 200 and callback == "forward":
                    raise raised
                return original(*arguments)

            problem = Growth(STEPS)
            original = getattr(problem, callback, None)
            more = {"verify_replay": True} if callback == "hash" else {}
            if callback == "hash":
                more["hash"] = failing
            else:
                setattr(problem, callback, failing)
            with self.subTest(callback), self.job():
                try:
                    problem.run(**more)
                except Mine as caught:
                    self.assertIs(caught, raised)
                    frames = [frame.name for frame in traceback.extract_tb(caught.__traceback__)]
                    self.assertIn("failing", frames)
                    self.assertIsNone(caught.__context__)
                else:
                    self.fail("nothing came out")
                # What was stored stays, and the run can go on.
                later = Growth(STEPS)
                self.assertTrue(later.run())
                self.same(later)

    def test_a_handler_of_signals_that_raises_before_the_callback_begins(self):
        """Catches a callback that was not run and counts as done: a wrong gradient."""

        def handler(*_):
            raise SystemExit

        gradient = wanted(2000)

        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        for delay in range(1, 30):
            problem = Growth(2000)
            with self.job():
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-3 * delay)
                    problem.run()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except SystemExit:
                    problem = Growth(2000)
                    self.assertTrue(problem.run())
            numpy.testing.assert_array_equal(problem.gradient, gradient)

    def test_what_the_library_refuses(self):
        problem = Growth(10)
        with self.assertRaisesRegex(veloc.Error, "there is no job.*between veloc.Job and Job.finalize"):
            problem.run()
        with self.job():
            for more, error, said in (
                ({"resilience_distance": -1}, veloc.Error, "-1"),
                ({"tag": -1}, ValueError, "tag is -1"),
                ({"rule": "best"}, ValueError, "'best'"),
                ({"time_limit": -1.0}, veloc.Error, "-1"),
                ({"time_limit": "1"}, TypeError, "time_limit is '1'; it must be a number"),
                ({"failures": (1, 2, 3)}, TypeError, r"failures is \(1, 2, 3\); it must be a veloc.Fail"),
                ({"hash": 5}, TypeError, "hash is 5; it must be a function"),
                ({"hash": lambda: -1, "verify_replay": True}, ValueError, "hash is -1"),
            ):
                with self.subTest(more), self.assertRaisesRegex(error, said):
                    problem.run(**more)
            fixed = numpy.zeros(3)
            fixed.flags.writeable = False
            for state, error, said in (
                ([], ValueError, "state has no array"),
                (fixed, ValueError, "region 0"),
                (numpy.zeros((4, 4))[:, ::2], ValueError, "region 0"),
                ({1: numpy.zeros(1), 2: veloc.Pickled(1)}, TypeError, "state 2"),
                ({2**40: numpy.zeros(1)}, ValueError, "id is 1099511627776"),
            ):
                with self.subTest(said), self.assertRaisesRegex(error, said):
                    nothing = {"gradient": numpy.zeros(1), "forward": print, "adjoint": print}
                    veloc.adjoint_run("x", 10, 3, state=state, **nothing)
            nothing |= {"state": numpy.zeros(1), "forward": None}
            with self.assertRaisesRegex(TypeError, "forward is None; it must be a function"):
                veloc.adjoint_run("x", 10, 3, **nothing)

    def test_arrays_that_change_size_and_runs_within_runs(self):
        problem = Growth(10)
        said = []

        def forward(start, stop):
            for call in (
                lambda: veloc.adjoint_protect("state", 0, numpy.zeros(3)),
                lambda: veloc.adjoint_protect("state", 9, numpy.zeros(3)),
                lambda: veloc.adjoint_protect("both", 0, numpy.zeros(3)),
                lambda: problem.run(),
            ):
                try:
                    call()
                except (veloc.Error, ValueError) as error:
                    said.append(str(error))
            Growth.forward(problem, start, stop)

        problem.forward = forward
        with self.job():
            self.assertTrue(problem.run())
        self.same(problem)
        self.assertRegex(said[0], "region 0.* 24")
        self.assertRegex(said[1], "9")
        self.assertRegex(said[2], "'both'")
        self.assertRegex(said[3], "one at a time")
        with self.assertRaisesRegex(veloc.Error, "no adjoint_run is under way"):
            veloc.adjoint_protect("state", 0, problem.field)

    def test_an_array_of_another_order(self):
        """Catches states that come back permuted in an array that is turned, as `A.T` is."""
        state, gradient = numpy.zeros((3, 2)), numpy.zeros(3)
        turned = numpy.zeros((3, 2), order="F")

        def forward(start, stop):
            veloc.adjoint_protect("state", 0, turned)

        with self.memory(), self.assertRaisesRegex(ValueError, "state, region 0: .*another order .*permuted"):
            veloc.adjoint_run(
                "turned", 10, 3, state=state, gradient=gradient, forward=forward, adjoint=lambda step: None
            )

    def test_a_run_can_be_discarded(self):
        problem = Growth(STEPS)
        veloc.adjoint_stop()
        with self.job():
            problem.run(tag=1)
            with self.assertRaisesRegex(veloc.Error, "tag"):
                Growth(STEPS).run(tag=2)
            veloc.adjoint_discard("growth")
            problem = Growth(STEPS)
            self.assertTrue(problem.run(tag=2))
        self.same(problem)


class Crashes(WithFolder):
    def test_killed_anywhere_and_started_again(self):
        """Catches a run that goes on from the wrong state."""
        program = PROBLEM + textwrap.dedent(
            """
            import os, signal, sys
            folder, kill_at = sys.argv[1], int(sys.argv[2])
            problem = Growth(300)

            def forward(start, stop):
                for step in range(start, stop):
                    if problem.forwards == kill_at:
                        os.kill(os.getpid(), signal.SIGKILL)
                    Growth.forward(problem, step, step + 1)

            problem.forward = forward
            with veloc.Job(mode="async", threaded=True, scratch=folder):
                problem.run(resilience_distance=75, adjoint_distance=30)
            numpy.save(folder + "/gradient.npy", problem.gradient)
            """
        )
        left, killed = random.Random(5), 0
        while True:
            at = left.randrange(20, 300) if killed < 5 else -1
            arguments = [sys.executable, "-c", program, str(self.folder), str(at)]
            status = subprocess.run(arguments, check=False).returncode
            if status == 0:
                break
            self.assertEqual(status, -signal.SIGKILL)
            killed += 1
        self.assertGreater(killed, 2)
        numpy.testing.assert_array_equal(numpy.load(self.folder / "gradient.npy"), wanted(300))


if __name__ == "__main__":
    unittest.main()
