"""The package against the library, as a program uses it: `cargo xtask test --only package`.

Wants libveloc-client.so where the package finds it, and the software device's folder on
LD_LIBRARY_PATH.
"""

import array
import ctypes
import datetime
import gc
import pathlib
import pickle
import struct
import subprocess
import sys
import tempfile
import unittest
import warnings
import weakref

import numpy
import veloc


class WithJob(unittest.TestCase):
    """A test with directories and a configuration of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = str(self.folder / "veloc.cfg")
        self.configure("mode = sync\nscratch = DIR/scratch\n")

    def configure(self, text):
        pathlib.Path(self.config).write_text(text.replace("DIR", str(self.folder)))

    def job(self, kind=veloc.Ckpt):
        return kind(0, self.config)

    def regions(self, name, version):
        """The regions of a checkpoint's file, by VELOC's format."""
        text = (self.folder / "scratch" / f"{name}-0-{version}.dat").read_bytes()
        (count,) = struct.unpack_from("<Q", text)
        headers = [struct.unpack_from("<iQ", text, 8 + 12 * i) for i in range(count)]
        start, found = 8 + 12 * count, {}
        for id, size in headers:
            found[id] = text[start : start + size]
            start += size
        self.assertEqual(start, len(text))
        return found


class Objects(WithJob):
    def test_scripts_for_velocs_classes_run_unchanged(self):
        """Catches other names, results or files than VELOC's: both of its classes for objects."""
        for kind in (veloc.Ckpt, veloc.PickleCkpt):
            with self.job(kind) as ckpt:
                self.assertIsNone(ckpt.protected)
                ckpt.protected = ("abc", [1, 2, 3])
                self.assertIsNone(ckpt.checkpoint("objects", 100))
                ckpt.protected = None
                self.assertEqual(ckpt.restart_test("objects", 0), 100)
                self.assertIsNone(ckpt.restart("objects", 100))
                self.assertEqual(ckpt.protected, ("abc", [1, 2, 3]))
            self.assertEqual(self.regions("objects", 100)[0], pickle.dumps(("abc", [1, 2, 3])))

    def test_each_checkpoint_has_the_object_of_its_moment(self):
        """Catches memory of an older object, of another length, that is still protected."""
        with self.job() as ckpt:
            for version in range(1, 5):
                ckpt.protected = list(range(10 ** version))
                ckpt.checkpoint("growing", version)
            for version in (2, 4, 1, 3):
                ckpt.restart("growing", version)
                self.assertEqual(ckpt.protected, list(range(10 ** version)))

    def test_an_object_that_is_set_by_its_attribute_is_not_warned_of(self):
        """Catches a warning that nobody can set what only `protected` sets."""
        with self.job() as ckpt, warnings.catch_warnings():
            warnings.simplefilter("error")
            for version in range(2):
                ckpt.protected = version
                ckpt.checkpoint("set", version)
            ckpt.protected = None
            ckpt.restart("set", 1)
            ckpt.protected += 1
            ckpt.checkpoint("set", 2)
        self.assertEqual(self.regions("set", 2)[0], pickle.dumps(2))

    def test_objects_and_arrays_in_one_checkpoint(self):
        state, step = numpy.arange(1000.0), veloc.Pickled({"step": 1})
        with self.job() as ckpt:
            ckpt.protect(7, state)
            ckpt.protect(9, step)
            ckpt.checkpoint("both", 1)
            state[:] = 0
            step.value = None
            ckpt.restart("both", 1)
            numpy.testing.assert_array_equal(state, numpy.arange(1000.0))
            self.assertEqual(step.value, {"step": 1})

    def test_a_name_with_regions_of_its_own_has_no_others(self):
        mine, own, zeros = veloc.Pickled("mine"), veloc.Pickled("own"), numpy.zeros(5)
        with self.job() as ckpt:
            ckpt.protect(1, mine)
            ckpt.protect(2, own, name="special")
            ckpt.protect(3, zeros, name="special")
            ckpt.checkpoint("special", 1)
            ckpt.checkpoint("other", 1)
            mine.value = own.value = None
            ckpt.restart("special", 1)
            self.assertEqual((mine.value, own.value), (None, "own"))
            ckpt.restart("other", 1)
            self.assertEqual(mine.value, "mine")
            ckpt.unprotect(2, name="special")
            ckpt.unprotect(3, name="special")
            ckpt.checkpoint("special", 2)
        self.assertEqual(list(self.regions("special", 1)), [2, 3])
        self.assertEqual(list(self.regions("special", 2)), [1])

    def test_an_object_in_place_of_an_array_and_back(self):
        """Catches the array's memory, which may be gone, in later checkpoints."""
        with self.job() as ckpt:
            ckpt.protect(0, numpy.zeros(100))
            with self.assertRaisesRegex(veloc.Error, "region 0"):
                ckpt.protected = "x"
            text, ones = veloc.Pickled("x"), numpy.ones(3)
            ckpt.protect(0, text)
            self.assertEqual(ckpt.protected, "x")
            ckpt.checkpoint("turns", 1)
            ckpt.protect(0, ones)
            ckpt.checkpoint("turns", 2)
        self.assertEqual(self.regions("turns", 1)[0], pickle.dumps("x"))
        self.assertEqual(self.regions("turns", 2)[0], numpy.ones(3).tobytes())

    def test_what_cannot_be_restored_changes_nothing(self):
        with self.job() as ckpt:
            ckpt.protected = "x"
            ckpt.checkpoint("there", 1)
            more = veloc.Pickled("more")
            ckpt.protect(5, more)
            with self.assertRaisesRegex(veloc.Error, "5"):
                ckpt.restart("there", 1)
            self.assertEqual((ckpt.protected, more.value), ("x", "more"))
            ckpt.unprotect(5)
            # Nothing is left open.
            ckpt.restart("there", 1)
            ckpt.protected = None
            with self.assertRaises(veloc.Error):
                ckpt.restart("there", 9)
            with self.assertRaises(veloc.Error):
                ckpt.checkpoint("there", 2)


class Arrays(WithJob):
    def test_scripts_for_velocs_class_run_unchanged(self):
        x = numpy.array([[1.1, 2.2, 3.3], [4.4, 5.5, 6.6]], dtype=numpy.float32)
        y = numpy.array([2.2, 3.3, 4.4])
        z, t = numpy.zeros((2, 3), dtype=numpy.float32), numpy.zeros(3)
        with self.job(veloc.NumPyCkpt) as ckpt:
            self.assertIsNone(ckpt.protect(0, x))
            ckpt.protect(1, y)
            self.assertIsNone(ckpt.checkpoint("arrays", 100))
            self.assertEqual(ckpt.get_version("arrays", 0), 100)
            ckpt.protect(0, z)
            ckpt.protect(1, t)
            self.assertIsNone(ckpt.restore("arrays", 100))
            ckpt.unprotect(1)
        self.assertTrue(numpy.array_equal(x, z) and numpy.array_equal(y, t))
        self.assertEqual(self.regions("arrays", 100), {0: x.tobytes(), 1: y.tobytes()})

    def test_every_kind_of_array_that_is_a_range_of_memory(self):
        """Catches wrong sizes of elements, addresses of copies, and too strict a check."""
        kinds = {
            "fortran": numpy.asfortranarray(numpy.arange(24.0).reshape(4, 6)),
            "turned": numpy.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
            "part": numpy.arange(100)[20:30],
            "one column": numpy.arange(10.0)[:, numpy.newaxis],
            "zero dimensions": numpy.array(3.5),
            "nothing": numpy.zeros((0, 5)),
            "letters": numpy.array(["ab", "cdefg"]),
            "times": numpy.array([datetime.date(2026, 1, 2)], dtype="datetime64[D]"),
            "records": numpy.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
            "array": array.array("d", [1.0, 2.0]),
            "bytes": bytearray(b"0123456789"),
            "ctypes": (ctypes.c_int * 4)(1, 2, 3, 4),
        }
        wanted = {name: ctypes.string_at(*self.memory(kind)) for name, kind in kinds.items()}
        with self.job() as ckpt:
            for id, kind in enumerate(kinds.values()):
                ckpt.protect(id, kind)
            ckpt.checkpoint("kinds", 1)
            for kind in kinds.values():
                address, length = self.memory(kind)
                ctypes.memset(address, 0, length)
            ckpt.restart("kinds", 1)
        found = {name: ctypes.string_at(*self.memory(kind)) for name, kind in kinds.items()}
        self.assertEqual(found, wanted)

    @staticmethod
    def memory(kind):
        """Address and bytes, asked for in another way than by the package."""
        if isinstance(kind, numpy.ndarray):
            return kind.ctypes.data, kind.nbytes
        return ctypes.addressof(ctypes.c_char.from_buffer(kind)), memoryview(kind).nbytes

    def test_what_is_no_range_of_memory_is_refused(self):
        whole = numpy.zeros((10, 10))
        refused = {
            "gaps": (whole[:, ::2], ValueError),
            "backwards": (whole[::-1], ValueError),
            "repeated": (numpy.broadcast_to(numpy.zeros(1), 5), ValueError),
            "references": (numpy.array(["a", None], dtype=object), TypeError),
            "scalar": (numpy.float64(1), ValueError),
            "bytes": (b"123", ValueError),
            "text": ("123", TypeError),
            "number": (1, TypeError),
        }
        with self.job() as ckpt:
            for name, (what, error) in refused.items():
                with self.subTest(name), self.assertRaisesRegex(error, "region 4"):
                    ckpt.protect(4, what)
            with self.assertRaises(veloc.Error):
                ckpt.unprotect(4)

    def test_an_array_that_cannot_be_written_to_is_never_written_to(self):
        fixed = numpy.arange(5.0)
        fixed.flags.writeable = False
        with self.job() as ckpt:
            ckpt.protect(0, fixed)
            ckpt.checkpoint("fixed", 1)
            with self.assertRaisesRegex(ValueError, "region 0"):
                ckpt.restart("fixed", 1)

    def test_protected_arrays_live_on(self):
        """Catches checkpoints of memory that has been given back."""
        state = numpy.full(1000, 7.0)
        alive = weakref.ref(state)
        with self.job() as ckpt:
            ckpt.protect(0, state)
            del state
            gc.collect()
            self.assertIsNotNone(alive())
            with self.assertWarnsRegex(RuntimeWarning, "region 0: nobody"):
                ckpt.checkpoint("alive", 1)
            ckpt.unprotect(0)
            self.assertIsNone(alive())
        self.assertEqual(self.regions("alive", 1)[0], numpy.full(1000, 7.0).tobytes())


class Jobs(WithJob):
    def test_errors_say_what_the_library_says(self):
        with self.assertRaisesRegex(RuntimeError, "none.cfg"):
            veloc.Ckpt(0, str(self.folder / "none.cfg"))
        state = numpy.zeros(3)
        with self.job() as ckpt:
            ckpt.protect(0, state)
            with self.assertRaisesRegex(veloc.Error, "a/b"):
                ckpt.checkpoint("a/b", 1)
            self.assertLess(ckpt.restart_test("nothing", 0), 0)
            with self.assertRaisesRegex(veloc.Error, "already"):
                veloc.Ckpt(0, self.config)
        with self.assertRaises(veloc.Error):
            ckpt.checkpoint("late", 1)
        ckpt.finalize()

    def test_what_c_cannot_have_is_refused(self):
        """Catches numbers that are cut to 32 bits, and texts that are cut at a NUL."""
        state = numpy.arange(3.0)
        for id, cfg, said in (
            (-1, self.config, "id is -1"),
            (2**32, self.config, "id is 4294967296"),
            (0, self.config + "\0.more", "NUL"),
        ):
            with self.assertRaisesRegex(ValueError, said):
                veloc.Ckpt(id, cfg)
        with self.job() as ckpt:
            ckpt.protect(0, state)
            version, name = 2**32 + 1, "t\0x"
            for call in (
                lambda: ckpt.checkpoint("t", version),
                lambda: ckpt.restart_test("t", version),
                lambda: ckpt.restart("t", version),
                lambda: ckpt.prefetch("t", [version]),
                lambda: ckpt.checkpoint("t", -version),
            ):
                self.assertRaisesRegex(ValueError, "version is -?4294967297", call)
            for call in (
                lambda: ckpt.checkpoint(name, 1),
                lambda: ckpt.restart_test(name),
                lambda: ckpt.restart(name, 1),
                lambda: ckpt.prefetch(name, [1]),
                lambda: ckpt.cleanup(name),
                lambda: ckpt.protect(1, state, name),
                lambda: ckpt.protect(1, veloc.Pickled(), name),
            ):
                self.assertRaisesRegex(ValueError, r"name is 't\\x00x'", call)
            for region in (state, veloc.Pickled()):
                with self.assertRaisesRegex(ValueError, "id is 4294967296"):
                    ckpt.protect(2**32, region)
            with self.assertRaisesRegex(ValueError, "stream is 18446744073709551616"):
                ckpt.set_stream(2**64)
            self.assertRaises(TypeError, ckpt.checkpoint, "t", 1.5)
            # Those that fit are the library's to judge, and whole numbers of NumPy are as good.
            self.assertRaisesRegex(veloc.Error, "-1", ckpt.checkpoint, "t", -1)
            ckpt.protect(numpy.int64(0), state)
            ckpt.checkpoint("t", numpy.int64(2**31 - 1))
            self.assertEqual(ckpt.restart_test("t"), 2**31 - 1)
            self.assertEqual(set(self.regions("t", 2**31 - 1)), {0})

    def test_a_job_ends_with_its_object(self):
        """Catches a job that goes on with nobody to end it."""
        for _ in range(3):
            ckpt = veloc.Ckpt(0, self.config)
            ckpt.protected = 1
            ckpt.checkpoint("mine", 1)
            del ckpt
            gc.collect()
        with veloc.Ckpt(0, self.config) as ckpt:
            self.assertEqual(ckpt.restart_test("mine"), 1)

    def test_waiting_hints_and_cleanup(self):
        self.configure("mode = async\nthreaded = true\nscratch = DIR/s\npersistent = DIR/p\n")
        state = numpy.zeros(1000)
        with veloc.Ckpt(0, self.config) as ckpt:
            ckpt.protect(0, state)
            for version in range(3):
                state[:] = version
                ckpt.checkpoint("steps", version)
            ckpt.wait()
            self.assertTrue(ckpt.finished())
            self.assertTrue((self.folder / "p/steps-0-2.dat").is_file())
            ckpt.prefetch("steps", [2, 1, 0])
            for version in (2, 1, 0):
                ckpt.restart("steps", version)
                self.assertEqual(state[999], version)
            ckpt.cleanup("steps")
            self.assertEqual(list((self.folder / "s").glob("steps*.dat")), [])

    def test_a_library_that_is_not_there_is_named(self):
        script = "import veloc; veloc.Ckpt(0, 'veloc.cfg')"
        run = subprocess.run(
            [sys.executable, "-c", script],
            env={"VELOC_LIBRARY": "/nowhere/lib.so", "PYTHONPATH": ":".join(sys.path)},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("VELOC_LIBRARY", run.stderr)
        self.assertIn("/nowhere/lib.so", run.stderr)


class DeviceArray:
    """Memory of the device, as CuPy's arrays and others show it."""

    def __init__(self, driver, values):
        self.driver, self.values = driver, values
        self.address = ctypes.c_uint64()
        driver("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(values.nbytes))
        self.put(values)

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.values.shape,
            "typestr": self.values.dtype.str,
            "data": (self.address.value, False),
            "strides": None,
            "version": 3,
        }

    def put(self, values):
        source = ctypes.c_void_p(values.ctypes.data)
        self.driver("cuMemcpyHtoD_v2", self.address, source, ctypes.c_size_t(values.nbytes))

    def get(self):
        found = numpy.empty_like(self.values)
        target = ctypes.c_void_p(found.ctypes.data)
        self.driver("cuMemcpyDtoH_v2", target, self.address, ctypes.c_size_t(found.nbytes))
        return found


def driver():
    """The calls of the driver, with a context."""
    library = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        status = getattr(library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name}: {status}")

    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    return call


class DeviceArrays(WithJob):
    def test_beside_arrays_of_the_host(self):
        """Catches addresses of the device that are cut or read by the host."""
        device = DeviceArray(driver(), numpy.arange(100_000.0).reshape(100, 1000))
        host = numpy.arange(10)
        with self.job() as ckpt:
            ckpt.protect(0, device)
            ckpt.protect(1, host)
            ckpt.checkpoint("device", 1)
            device.put(numpy.zeros((100, 1000)))
            host[:] = 0
            ckpt.restart("device", 1)
            numpy.testing.assert_array_equal(device.get(), device.values)
            numpy.testing.assert_array_equal(host, numpy.arange(10))
        self.assertEqual(self.regions("device", 1)[0], device.values.tobytes())


if __name__ == "__main__":
    unittest.main()
