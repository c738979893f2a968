"""What is protected in place of what the program changes: it is told, and the right program is not."""

import array
import ctypes
import itertools
import mmap
import unittest
import warnings

import numpy
import veloc
from test_job import Dlpack, Interface, Tensor, WithFolder


class Copies(WithFolder):
    def setUp(self):
        super().setUp()
        self.versions = itertools.count()

    def said(self, job, name="x"):
        """What a checkpoint warns of."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            job.checkpoint(name, next(self.versions))
        # They are told of the program's own line.
        self.assertLessEqual({warning.filename for warning in caught}, {__file__})
        return [str(warning.message) for warning in caught]

    def test_a_copy_is_told_once(self):
        """Catches checkpoints of a copy that nobody can change: all are of the same, and nothing is said."""
        field = numpy.arange(12.0).reshape(4, 3)
        with self.job() as job:
            for make in (
                lambda: field[[0, 2]],
                lambda: field[field > 3],
                lambda: field.flatten(),
                lambda: field.astype("f4"),
                lambda: numpy.ascontiguousarray(field[:, 1]),
                lambda: field.copy()[1:3],
                lambda: field.copy().T,
            ):
                job.protect(0, make())
                said = self.said(job)
                self.assertEqual(len(said), 1)
                self.assertRegex(said[0], r"^region 0: nobody .* \(float\d\d, shape \(\d.*`a \+= 1` changes it")
                self.assertEqual(self.said(job), [])
                # Protected anew before each checkpoint, it is no other region.
                job.protect(0, make())
                self.assertEqual(self.said(job), [])
                job.unprotect(0)

    def test_a_variable_with_a_new_array_is_told(self):
        """Catches counts that take the job's own references, of other ids and names or of views, for the program's."""
        state, both = numpy.zeros(10), numpy.zeros((2, 5))
        with self.job() as job:
            for name in (None, "own"):
                job.protect(0, state, name=name)
                job.protect(1, both[0], name=name)
                job.protect(2, both[1], name=name)
            self.assertEqual(self.said(job) + self.said(job, "own"), [])
            state = state + 1
            self.assertRegex("".join(self.said(job)), r"^region 0: nobody .*shape \(10,\)[^(]*$")
            both = both + 1
            self.assertEqual([text[:9] for text in self.said(job)], ["region 1:", "region 2:"])
            self.assertEqual([text[:9] for text in self.said(job, "own")], ["region 0:", "region 1:", "region 2:"])

    def test_an_array_that_anybody_else_has_is_not(self):
        """Catches warnings of right programs."""

        class Model:
            def __init__(self):
                self.u = numpy.zeros(5)

        def closure():
            inner = numpy.zeros(5)
            job.protect(1, inner)
            return lambda: inner.sum()

        def loop():
            local = numpy.zeros(5)
            job.protect(2, local)
            while True:
                local += 1
                yield

        model, whole, rest, seen = Model(), numpy.zeros((6, 5)), numpy.zeros((6, 5)), numpy.zeros(5)
        masked = numpy.ma.zeros(5)
        buffer, numbers, mapped = bytearray(40), (ctypes.c_double * 5)(), mmap.mmap(-1, 4096)
        with self.job() as job:
            job.protect(0, model.u)
            held, running = closure(), loop()
            next(running)
            job.protect(3, whole[1:3])
            job.protect(4, whole.reshape(-1)[10:12])
            # Parts of what they have, and what is held in other ways.
            job.protect(5, rest)
            rest = rest[5:]
            job.protect(6, seen)
            seen = memoryview(seen)
            for id, make in enumerate((
                lambda: numpy.frombuffer(buffer),
                lambda: numpy.frombuffer(numbers),
                lambda: numpy.frombuffer(mapped),
                lambda: numpy.ctypeslib.as_array(ctypes.cast(numbers, ctypes.POINTER(ctypes.c_double)), (5,)),
                lambda: Dlpack(numpy.zeros(5)),
                lambda: Tensor(numpy.zeros(5)),
                lambda: Interface(numpy.zeros(5)),
                lambda: memoryview(whole),
                lambda: array.array("d", [1]),
                lambda: masked.data,
            ), 7):
                job.protect(id, make())
            self.assertEqual(self.said(job) + self.said(job), [])
            # A use for those that only look unused.
            self.assertTrue(all((held, running, rest.size, seen, model)))

    def test_objects_that_nobody_can_change(self):
        """Catches `Pickled(step)`, which has the number of the beginning in all checkpoints."""
        generator, kept = {"seed": 1}, veloc.Pickled(1)
        with self.job() as job:
            for make, is_told in (
                (lambda: veloc.Pickled(5), True),
                (lambda: veloc.Pickled("text"), True),
                (lambda: veloc.Pickled({"step": 5}), True),
                (lambda: veloc.Pickled([next(self.versions), 2.5]), True),
                (lambda: veloc.Pickled(generator), False),
                (lambda: veloc.Pickled({"generator": generator}), False),
                (lambda: veloc.Pickled([numpy.zeros(3)]), False),
                (lambda: kept, False),
            ):
                job.protect(0, make())
                said = self.said(job)
                self.assertEqual(len(said), is_told)
                if is_told:
                    self.assertRegex(said[0], r"^region 0: nobody .*Pickled, whose .*`p\.value`")
                self.assertEqual(self.said(job), [])
                job.unprotect(0)

    def test_a_mask_is_not_lost(self):
        """Catches a masked array of which the numbers alone come back, and an advice that does not help."""
        plain, masked = numpy.ma.arange(4.0), numpy.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
        with self.job() as job:
            for array in (plain, masked, numpy.ma.masked):
                with self.assertRaisesRegex(ValueError, "region 0: the mask .*`a.data` and `a.mask`"):
                    job.protect(0, array)
            plain.mask = numpy.ma.getmaskarray(plain)
            for id, array in enumerate((plain, masked)):
                job.protect(2 * id, array.data)
                job.protect(2 * id + 1, array.mask)
            plain[2] = numpy.ma.masked
            self.assertEqual(self.said(job), [])
            plain[:] = masked[:] = 7
            job.restart("x", 0)
        self.assertEqual((plain.tolist(), masked.tolist()), ([0.0, 1.0, None, 3.0], [1.0, None, 3.0]))

    def test_a_turned_array_comes_back_in_its_own_order(self):
        """Catches an array that comes back permuted in one of another order, of which nothing is said."""
        values = numpy.arange(6.0).reshape(3, 2)
        turned, plain, square = numpy.asfortranarray(values), numpy.zeros((3, 2)), numpy.zeros((2, 2))
        with warnings.catch_warnings(record=True) as caught, self.job() as job:
            warnings.simplefilter("always")
            # The same shape and order; another shape; the same memory.
            for same in (turned, numpy.zeros((3, 2), order="F"), turned, Tensor(turned), numpy.zeros((2, 3)), turned,
                         square, square.T, turned, turned.T):
                job.protect(0, same)
                if same is turned:
                    job.checkpoint("x", next(self.versions))
            job.protect(0, turned)
            turned[:] = 0
            job.restart("x", 0)
            numpy.testing.assert_array_equal(turned, values)
            self.assertEqual(caught, [])
            for another in (plain, Dlpack(turned), Tensor(plain)):
                job.protect(0, another)
            self.assertEqual(len(caught), 3)
            for warning in caught:
                self.assertRegex(str(warning.message), "region 0: .* another order .* permuted")
                self.assertEqual(warning.filename, __file__)


if __name__ == "__main__":
    unittest.main()
