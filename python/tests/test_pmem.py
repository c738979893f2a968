"""Arrays in persistent memory: what is found again, what is refused, and what an invariant raises."""

import os
import pathlib
import signal
import tempfile
import unittest

import veloc

try:
    import numpy
except ImportError:
    numpy = None


@unittest.skipUnless(numpy, "NumPy is not installed")
class Arrays(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "arrays"

    def open(self):
        file = veloc.Pmem(self.path, 100_000)
        x = file.array("x", numpy.float64, (10, 20), slots=3)
        file.invariant("sum", lambda iteration, scalars: x[iteration].sum() == scalars[0])
        return file, x

    def test_what_was_stored_is_found_again(self):
        """Catches slots of other iterations, other shapes, and marks that are lost."""
        file, x = self.open()
        self.assertIsNone(file.recover())
        for i in range(5):
            x[i][:] = i
            file.flush(x[i][2:5])
            file.flush(x[i])
            file.drain()
            file.mark(i, x[i].sum())
        self.assertEqual(file.domain, veloc.Domain("process", 1, file.domain.why))
        x[4][3, 7] = -1
        del file, x
        with self.open()[0] as file:
            self.assertEqual(file.recover(), 3)
            self.assertEqual(file.scalars(), (600.0,))
            failed, held = file.report()
            self.assertEqual(failed, veloc.Tried(4, False, "sum"))
            self.assertEqual(held, veloc.Tried(3, True, ""))
            file.forget()
            self.assertIsNone(file.recover())
            self.assertEqual(file.scalars(), ())

    def test_a_killed_process(self):
        """Catches what a process that is killed loses."""
        child = os.fork()
        if child == 0:
            file, x = self.open()
            for i in range(7):
                x[i][:] = i
                file.mark(i, x[i].sum())
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        file, x = self.open()
        self.assertEqual(file.recover(), 6)
        self.assertTrue((x[6] == 6).all())

    def test_arrays_keep_the_file_open(self):
        """Catches memory that is unmapped while it is in use, and a file that stays open without use."""
        file, x = self.open()
        slot = x[1]
        file.close()
        del file, x
        slot[:] = 9
        with self.assertRaisesRegex(veloc.Error, "it is open already"):
            self.open()
        del slot
        self.assertEqual(self.open()[1][1][0, 0], 9)

    def test_iterations_have_two_slots(self):
        """Catches an array that is written over in each iteration though nobody has asked for that."""
        file = veloc.Pmem(self.path, 100_000)
        x = file.array("x", numpy.float64, 10)
        for i in range(3):
            x[i][:] = i
            file.mark(i)
        self.assertEqual((x[2][0], x[1][0]), (2, 1))
        del file, x
        file = veloc.Pmem(self.path, 100_000)
        self.assertEqual(file.array("x", numpy.float64, 10, slots=2)[file.recover()][9], 2)

    def test_an_invariant_raises(self):
        """Catches an exception that is lost, or comes again."""
        file, x = self.open()
        x[0][:] = 1
        file.mark(0, x[0].sum())
        answers = [ValueError("cannot judge"), None, True]

        def judge(iteration, scalars):
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        file.invariant("judge", judge)
        with self.assertRaisesRegex(ValueError, "cannot judge"):
            file.recover()
        with self.assertRaisesRegex(veloc.Error, '0: "judge" cannot tell'):
            file.recover()
        self.assertEqual(file.recover(), 0)

    def test_what_is_refused(self):
        """Catches arguments that C would cut off, and errors that do not name them."""
        file, x = self.open()
        with self.assertRaisesRegex(veloc.Error, '"x" has 200 elements of 8 bytes in 3 slots'):
            file.array("x", numpy.float32, (10, 20), slots=3)
        file.array("i", numpy.int64, 5)
        with self.assertRaisesRegex(veloc.Error, "\"i\" has elements of the kind 'i', not 'f'"):
            file.array("i", numpy.float64, 5)
        with self.assertRaisesRegex(TypeError, "objects"):
            file.array("y", object, 10)
        with self.assertRaises(IndexError):
            x[-1]
        with self.assertRaisesRegex(ValueError, "not contiguous"):
            file.flush(x[0][:, 3])
        with self.assertRaisesRegex(veloc.Error, "not within"):
            file.flush(numpy.zeros(10))
        with self.assertRaisesRegex(ValueError, "crash is 'fire'"):
            veloc.Pmem(self.path, 1000, "fire")
        with self.assertRaises(ValueError):
            file.mark(2**63)
        with self.assertRaisesRegex(veloc.Error, "6 scalars"):
            file.mark(1, *range(6))
        with self.assertRaisesRegex(veloc.Error, "no job"):
            file.restart("x")
        file.close()
        with self.assertRaisesRegex(veloc.Error, "closed"):
            file.mark(1)
        with self.assertRaisesRegex(veloc.Error, "closed"):
            file.scalars()

    def test_the_newer_of_arrays_and_checkpoint(self):
        """Catches the older of the two."""
        scratch = self.path.with_name("scratch")
        with veloc.Job(mode="sync", scratch=scratch) as job:
            state = numpy.arange(5.0)
            job.protect(0, state)
            file, x = self.open()
            self.assertEqual(file.restart("x"), (None, None))
            job.checkpoint("x", 4)
            file.mark(3, x[0].sum())
            self.assertEqual(file.restart("x"), (4, 4))
            file.mark(5, x[0].sum())
            self.assertEqual(file.restart("x"), (5, None))


if __name__ == "__main__":
    unittest.main()
