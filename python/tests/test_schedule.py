"""Schedules: their actions, settings, ends, and what they refuse."""

import copy
import doctest
import itertools
import pickle
import unittest

import veloc
import veloc.schedule
from veloc import Advance, FirstTurn, Restore, TakeShot, YouTurn


def load_tests(loader, tests, pattern):
    tests.addTests(doctest.DocTestSuite(veloc.schedule))
    return tests


def walk(test, actions, steps, slots, disk_slots=0, states=None, adjoint=None):
    """Does what the actions say, and checks that it can be done. Gives the steps that were computed."""
    stored, at, fine, computed = dict(states or {}), 0, adjoint, 0
    free = set()
    for action in actions:
        match action:
            case Advance(start=start, stop=stop):
                test.assertEqual(at, start)
                test.assertLess(start, stop)
                at, computed = stop, computed + stop - start
            case TakeShot(state=state, slot=slot, on_disk=on_disk, read_again=read_again):
                test.assertEqual(at, state)
                test.assertIn(slot, range(slots + disk_slots))
                test.assertEqual(on_disk, slot >= slots)
                stored[slot] = state
                (free.discard if read_again else free.add)(slot)
            case Restore(state=state, slot=slot, on_disk=on_disk, read_again=read_again):
                test.assertNotIn(slot, free)
                test.assertEqual(stored[slot], state)
                test.assertEqual(on_disk, slot >= slots)
                at = state
                if not read_again:
                    free.add(slot)
            case FirstTurn(step=step):
                test.assertIsNone(fine)
                test.assertEqual(at, step - 1)
                test.assertIn(steps, (step, None))
                fine, at, computed = step - 1, None, computed + 1
            case YouTurn(step=step):
                test.assertEqual((at, fine), (step - 1, step))
                fine, at, computed = step - 1, None, computed + 1
    test.assertEqual(fine, 0)
    # What is never read again was said to be so.
    test.assertEqual(set(stored) - free, set())
    return computed


class Actions(unittest.TestCase):
    def test_every_schedule_can_be_walked_at_its_cost(self):
        """Catches fields that are mixed up, and a last read that is not the last."""
        for steps, slots in itertools.product((1, 2, 3, 10, 57), (1, 2, 3, 9)):
            for more in (
                {},
                {"rule": "monotone"},
                {"disk_slots": 2, "disk_write": 0.5, "disk_read": 0.25},
                {"disk_slots": 3},
            ):
                with self.subTest(steps=steps, slots=slots, **more):
                    schedule = veloc.Schedule(steps, slots, **more)
                    cost = schedule.cost()
                    computed = walk(self, schedule, steps, slots, more.get("disk_slots", 0))
                    self.assertEqual(computed, cost.forward_evaluations)
                    self.assertTrue(schedule.ended)

    def test_the_adjoint_is_stored_where_it_was_asked_for(self):
        plain = [action for action in veloc.Schedule(10, 3) if hasattr(action, "step")]
        self.assertFalse(any(action.store_adjoint for action in plain))
        turns = [action for action in veloc.Schedule(10, 3, adjoint_distance=3) if hasattr(action, "step")]
        self.assertIsInstance(turns[0], FirstTurn)
        self.assertEqual([turn.step for turn in turns if turn.store_adjoint], [10, 8, 5, 2])
        failures = veloc.Failures(mtbf=50, write_cost=1, turn_cost=2)
        turns = [action for action in veloc.Schedule(100, 3, failures=failures) if hasattr(action, "step")]
        self.assertFalse(turns[0].store_adjoint)
        self.assertTrue(any(turn.store_adjoint for turn in turns))

    def test_a_resilience_distance_is_kept(self):
        schedule = veloc.Schedule(100, 20, resilience_distance=7)
        self.assertLessEqual(schedule.cost().max_gap, 7)
        self.assertLessEqual(veloc.Schedule(100, 20).least_distance(), 100)

    def test_an_end_that_is_told(self):
        """Catches an end that is taken for a step earlier or later, both ways of telling it."""
        for steps in (1, 2, 5, 30):
            for end in ("end", "end_after_next"):
                with self.subTest(steps=steps, end=end):
                    schedule = veloc.Schedule(None, 4)

                    def actions():
                        last = steps if end == "end" else steps - 1
                        if last == 0:
                            schedule.end_after_next()
                        for action in schedule:
                            yield action
                            if isinstance(action, Advance) and action.stop == last:
                                if action.start == last - 1 and not told:
                                    told.append(True)
                                    getattr(schedule, end)()

                    told = []
                    walk(self, actions(), steps, 4)

    def test_after_a_crash(self):
        for states, adjoint in (((0, 30, 50), None), ((None, 10, 20), 31), ((None,) * 3, 17)):
            schedule = veloc.Schedule(57, 3)
            schedule.resume(states, adjoint)
            left = {slot: state for slot, state in enumerate(states) if state is not None}
            actions = list(schedule)
            self.assertEqual(any(isinstance(action, FirstTurn) for action in actions), adjoint is None)
            if adjoint is not None:
                turn = next(action for action in actions if isinstance(action, YouTurn))
                self.assertEqual(turn.step, adjoint)
            computed = 57 if adjoint is None else adjoint
            self.assertGreaterEqual(walk_resumed(actions, left), computed)

    def test_copies_and_bytes_stand_where_the_schedule_does(self):
        schedule = veloc.Schedule(20, 3, disk_slots=2)
        for _ in range(7):
            next(schedule)
        copies = [schedule.copy(), copy.copy(schedule), copy.deepcopy(schedule)]
        copies.append(pickle.loads(pickle.dumps(schedule)))
        rest = list(schedule)
        for other in copies:
            self.assertEqual(list(other), rest)
            self.assertEqual(other.settings, schedule.settings)
        self.assertTrue(pickle.loads(pickle.dumps(schedule)).ended)


def walk_resumed(actions, stored):
    """The steps that are computed by actions that go on from these states."""
    computed = 0
    for action in actions:
        match action:
            case Advance(start=start, stop=stop):
                computed += stop - start
            case TakeShot(state=state, slot=slot):
                stored[slot] = state
            case Restore(state=state, slot=slot):
                assert stored[slot] == state, (stored, action)
            case FirstTurn() | YouTurn():
                computed += 1
    return computed


class Refused(unittest.TestCase):
    def test_a_schedule_that_is_used_after_its_end(self):
        """Catches a second loop that does nothing."""
        schedule = veloc.Schedule(3, 2)
        self.assertGreater(len(list(schedule)), 0)
        for use in (lambda: next(schedule), lambda: list(schedule), lambda: iter(schedule)):
            with self.assertRaisesRegex(veloc.Error, r"Schedule\(steps=3, slots=2.* has ended"):
                use()

    def test_arguments_that_are_wrong(self):
        for arguments, error, said in (
            ({"steps": 0, "slots": 1}, veloc.Error, "steps"),
            ({"steps": 2**49, "slots": 1}, veloc.Error, "steps"),
            ({"steps": 2**64, "slots": 1}, ValueError, "steps is 18446744073709551616"),
            ({"steps": 10, "slots": 0}, veloc.Error, "slots"),
            ({"steps": 10, "slots": -1}, veloc.Error, "slots"),
            ({"steps": 10, "slots": 1.5}, TypeError, "slots is 1.5; it must be a whole number"),
            ({"steps": True, "slots": 3}, TypeError, "steps is True; it must be a whole number"),
            (
                {"steps": 10, "slots": 2, "disk_slots": 1, "disk_write": "x"},
                TypeError,
                "disk_write is 'x'; it must be a number",
            ),
            ({"steps": 10, "slots": 2, "failures": (1,)}, TypeError, r"failures is \(1,\)"),
            ({"steps": 10, "slots": 2, "disk_slots": -1}, veloc.Error, "-1"),
            ({"steps": 10, "slots": 2, "disk_slots": 1, "disk_write": float("nan")}, veloc.Error, "NaN"),
            ({"steps": 10, "slots": 2, "resilience_distance": 4}, veloc.Error, "4"),
            ({"steps": 10, "slots": 2, "rule": "best"}, ValueError, "'best', not one of optimal"),
            ({"steps": None, "slots": 2, "rule": "monotone"}, veloc.Error, "rule"),
            (
                {"steps": 9, "slots": 2, "adjoint_distance": 1, "failures": veloc.Failures(1, 1, 1)},
                ValueError,
                "adjoint_distance and failures",
            ),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(error, f"(?i){said}"):
                veloc.Schedule(**arguments)

    def test_calls_at_the_wrong_time(self):
        schedule = veloc.Schedule(10, 2)
        for call, said in (
            (schedule.end, "known"),
            (schedule.end_after_next, "known"),
            (lambda: schedule.resume([0, 11]), "11"),
            (lambda: schedule.resume([0, None], 12), "12"),
            (lambda: schedule.resume([2**64]), "state is 18446744073709551616"),
        ):
            with self.assertRaisesRegex((veloc.Error, ValueError), said):
                call()
        next(schedule)
        self.assertRaises(veloc.Error, schedule.resume, [0, None])
        self.assertRaises(veloc.Error, veloc.Schedule(None, 2).cost)
        self.assertRaises(veloc.Error, veloc.Schedule(None, 2).end)

    def test_bytes_that_are_none_of_a_schedule(self):
        schedule = veloc.Schedule(10, 2)
        text = bytearray(schedule.pack())
        text[len(text) // 2] ^= 1
        with self.assertRaises(veloc.Error):
            veloc.schedule._unpack(bytes(text), schedule.settings, False)


if __name__ == "__main__":
    unittest.main()
