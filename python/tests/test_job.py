"""The class Job: how it is configured, what it takes, and what it refuses."""

import array
import ctypes
import doctest
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
import warnings
from unittest import mock

import numpy
import veloc
import veloc._job
import veloc._regions

#: For programs of their own.
PRELUDE = """
import os, pathlib, signal, sys, time
import numpy, veloc
# What a shell starts in the background ignores Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
folder = sys.argv[1]
options = {"mode": "async", "scratch": folder + "/s", "persistent": folder + "/p"}
state = numpy.zeros(100_000)
"""

# As in tools/xtask/src/said.rs.
SLOW_START = re.compile(
    r"veloc.*: warning: (waiting for veloc-backend \(process \d+\), which does not answer"
    r"|process \d+ was started as veloc-backend and serves nobody: it is ended)"
)


def load_tests(loader, tests, pattern):
    # Those of its classes, which are in other files.
    tests.addTests(doctest.DocTestSuite(veloc))
    return tests


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.options = {"mode": "async", "scratch": self.folder / "s", "persistent": self.folder / "p"}

    def job(self, **options):
        return veloc.Job(**{**self.options, **options})

    def program(self, text, status=0, interrupt=False):
        """Runs a program of its own; `interrupt` is Ctrl-C once it has said that it is ready."""
        program = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(text), str(self.folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if interrupt:
            program.stdout.readline()
            program.send_signal(signal.SIGINT)
        out, err = program.communicate()
        self.assertEqual(program.returncode, status, err)
        # Nothing is wrong where a busy machine starts a backend late.
        return out, "".join(line for line in err.splitlines(True) if not SLOW_START.fullmatch(line.strip()))


class Configured(WithFolder):
    def test_by_keywords_a_mapping_a_file_and_the_environment(self):
        """Catches options that do not arrive, bools and paths that are written as Python has them."""
        config = self.folder / "veloc.cfg"
        config.write_text(f"mode = sync\nscratch = {self.folder}/s\n")
        state = numpy.zeros(10)
        for version, job in enumerate((
            lambda: veloc.Job(mode="sync", scratch=self.folder / "s", aggregated=False, persistent=None),
            lambda: veloc.Job({"mode": "sync", "scratch": str(self.folder / "s")}, max_versions=0),
            lambda: veloc.Job(config),
            lambda: veloc.Job(config=str(config), rank=0),
        )):
            with job() as job:
                job.protect(0, state)
                job.checkpoint("ways", version)
                self.assertTrue((self.folder / f"s/ways-0-{version}.dat").is_file())
        with veloc.Job({"mode": "sync", "scratch": "/nowhere"}, scratch=self.folder / "s", rank=7) as job:
            job.protect(0, state)
            job.checkpoint("ways", 0)
        self.assertTrue((self.folder / "s/ways-7-0.dat").is_file())

    def test_what_is_no_configuration_is_refused_by_name(self):
        config = self.folder / "veloc.cfg"
        config.write_text("mode = sync\n")
        for error, said, call in (
            (veloc.Error, "scrach", lambda: self.job(scrach="/tmp")),
            (veloc.Error, "mode.*later", lambda: self.job(mode="later")),
            (veloc.Error, "host_cache_size.*plenty", lambda: self.job(host_cache_size="plenty")),
            (veloc.Error, "none.cfg", lambda: veloc.Job(self.folder / "none.cfg")),
            (TypeError, r"host_cache_size is \[1\]", lambda: self.job(host_cache_size=[1])),
            (TypeError, "veloc.cfg.*mode", lambda: veloc.Job(config, mode="sync")),
            (TypeError, "comm and rank", lambda: self.job(comm=object(), rank=1)),
            (TypeError, "comm is.*py2f", lambda: self.job(comm="world")),
            (ValueError, "rank is -1", lambda: self.job(rank=-1)),
            (TypeError, "rank is 'x'; it must be a whole number", lambda: self.job(rank="x")),
            (TypeError, "key of an option is 5; it must be a text", lambda: veloc.Job({5: "x"})),
            (ValueError, "persistent.*NUL", lambda: self.job(persistent="a\0b")),
        ):
            with self.subTest(said), self.assertRaisesRegex(error, said):
                call()
        # Nothing is left of them.
        self.job().finalize()

    def test_a_job_within_a_job_and_one_after_another(self):
        """Catches a job that has ended and acts on the next one."""
        state = numpy.zeros(10)
        with self.job() as first:
            with self.assertRaisesRegex(veloc.Error, r"already, <veloc\.Job.*job\.finalize\(\), or .*with veloc"):
                self.job()
            first.protect(0, state)
            first.checkpoint("x", 1)
            self.assertRegex(repr(first), r"^<veloc\.Job\(mode='async', scratch=.*\): 1 protected>$")
        with self.job() as second:
            second.protect(0, state)
            for call in (
                lambda: first.checkpoint("x", 2),
                lambda: first.restart("x", 1),
                lambda: first.latest("x"),
                lambda: first.unprotect(0),
                first.wait,
                first.finished,
                first.metrics,
            ):
                self.assertRaisesRegex(veloc.Error, r"<veloc\.Job\(.*\): ended> has ended", call)
            first.finalize()
            self.assertEqual(second.latest("x"), 1)


class Versions(WithFolder):
    def test_the_latest_before_another(self):
        """Catches 0, which is no bound to the library, and a wrong name that counts as none."""
        state = numpy.zeros(10)
        with self.job() as job:
            self.assertIsNone(job.latest("x"))
            job.protect(0, state)
            for version in (0, 1, 5):
                job.checkpoint("x", version)
                job.checkpoint("later", version + 3)
            found = [job.latest("x", before=before) for before in (9, 5, 2, 1, 0, -3)]
            self.assertEqual(found, [5, 1, 1, 0, None, None])
            self.assertEqual([job.latest("later", before=b) for b in (9, 4, 3, 1)], [8, 3, None, None])
            self.assertEqual(job.latest("x"), 5)
            for before in (None, 3):
                with self.assertRaisesRegex(veloc.Error, "a/b"):
                    job.latest("a/b", before=before)
            # Nothing is left open.
            job.checkpoint("x", 6)

    def test_several_names_waits_hints_and_figures(self):
        forward, adjoint = numpy.arange(1000.0), numpy.arange(10)
        with self.job(ephemeral=True, host_cache_size="64M", scratch=None, persistent=None) as job:
            job.protect(0, forward)
            job.protect(0, adjoint, name="adjoint")
            for version in range(4):
                forward[:] = adjoint[:] = version
                job.checkpoint("forward", version)
                job.checkpoint("adjoint", version)
            job.prefetch("forward", reversed(range(4)))
            for version in reversed(range(4)):
                job.restart("forward", version)
                self.assertEqual((forward[999], adjoint[9]), (version, 3))
            job.restart("adjoint", 1)
            self.assertEqual((forward[0], adjoint[0]), (0, 1))
            job.wait()
            self.assertTrue(job.finished())
            figures = job.metrics()
            self.assertEqual((figures["checkpoints"], figures["restores"]), (8, 5))
            self.assertEqual(figures["hops"]["AtoH"]["bytes"], 4 * (8000 + 80))


class Dlpack:
    """An array that hands itself over by DLPack alone."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.device


class Interface:
    """An array that has NumPy's interface and nothing else, no `__setitem__` either."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


class Capsule(ctypes.Structure):
    """DLManagedTensorVersioned of a range of bytes, and the DLManagedTensor that is in it behind its head."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("owner", ctypes.c_void_p * 2),
        ("flags", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("kind", ctypes.c_uint8 * 2),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class Bytes:
    """A range of bytes that hands itself over by DLPack: since 1.0 with flags, and before without."""

    def __init__(self, address, length, device=1, flags=None, bits=8):
        self.device, self.bits, self.stream = device, bits, "none"
        self.length = ctypes.c_int64(length)
        # The address is that of what the offset leads to.
        self.capsule = Capsule(version=(1, 0), flags=flags or 0, data=address - 64, device=(device, 0), ndim=1,
                               kind=(1, bits), lanes=1, shape=ctypes.addressof(self.length), byte_offset=64)
        self.versioned = flags is not None

    def __dlpack__(self, stream="none", max_version=None, copy=None):
        if max_version is not None and not self.versioned:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.stream = stream
        new = ctypes.pythonapi.PyCapsule_New
        new.argtypes, new.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
        address = ctypes.addressof(self.capsule)
        if self.versioned:
            return new(address, b"dltensor_versioned", None)
        return new(address + Capsule.data.offset, b"dltensor", None)

    def __dlpack_device__(self):
        return self.device, 0


class Tensor:
    """What PyTorch's tensors say of themselves: of one that autograd tracks nothing else can be asked."""

    class Device:
        type = "cpu"

    device = Device()

    def __init__(self, array):
        self.array = array

    def data_ptr(self):
        return self.array.ctypes.data

    def element_size(self):
        return self.array.itemsize

    @property
    def shape(self):
        return self.array.shape

    def stride(self):
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def is_floating_point(self):
        return self.array.dtype.kind == "f"

    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("use .detach()")


class Arrays(WithFolder):
    def test_of_every_library_into_the_same_memory(self):
        """Catches copies, addresses of something else, and strides that are taken for bytes."""
        whole = numpy.arange(24.0).reshape(4, 6)
        kinds = [numpy.arange(5), Dlpack(whole[1:3]), Dlpack(whole[3:].T), Tensor(numpy.arange(12.0).reshape(3, 4).T),
                 array.array("d", [1, 2]), bytearray(b"123"), Dlpack(numpy.zeros(0)),
                 Interface(numpy.arange(3.0))]
        arrays = [numpy.asarray(getattr(kind, "array", kind)) for kind in kinds]
        wanted = [values.copy() for values in arrays]
        with self.job() as job:
            for id, kind in enumerate(kinds):
                job.protect(id, kind)
            job.checkpoint("kinds", 1)
            kinds[4][:] = array.array("d", [0, 0])
            kinds[5][:] = b"000"
            for id in (0, 1, 2, 3):
                arrays[id][...] = 0
            job.restart("kinds", 1)
        for id, kind in enumerate(kinds):
            found = numpy.asarray(getattr(kind, "array", kind))
            self.assertEqual(found.tobytes(), wanted[id].tobytes(), id)
        self.assertEqual(whole[0].tolist(), [0, 1, 2, 3, 4, 5])

    def test_captured_as_is_asked_for(self):
        state = numpy.arange(1_000_000.0)
        with self.job(host_capture="auto") as job:
            job.protect(0, state)
            self.assertIsNone(job.snapshots()["mode"])
            for version, mode in enumerate(("copy", "fork", "protect", "auto")):
                job.capture(0, mode)
                job.checkpoint("modes", version)
                state += 1
                found = job.snapshots()
                self.assertEqual(found["checkpoints"], version + 1)
                self.assertTrue(found["reason"], found)
                if mode in ("copy", "fork"):
                    self.assertEqual(found["mode"], mode, found)
            for version in reversed(range(4)):
                job.restart("modes", version)
                self.assertEqual(state[5], 5 + version)
            with self.assertRaisesRegex(ValueError, "mode is 'cow', not one of auto, copy, protect, fork"):
                job.capture(0, "cow")
            with self.assertRaisesRegex(veloc.Error, "region 7 is not protected"):
                job.capture(7, "copy")

    def test_a_part_of_an_array(self):
        """Catches a part that is taken for another order's, and an error that does not say which number is wrong."""
        array = numpy.zeros((3, 4, 5))
        with self.job() as job:
            job.protect(0, array)
            job.protect(1, veloc.Pickled(1))
            job.decompose(0, shape=(9, 4, 5), offsets=(6, 0, 0))
            job.decompose(0, shape=(9, 4, 5), offsets=(6, 0, 0), order="C")
            for wrong, shape, offsets, order in (
                ("3 elements from 7 on are not within the 9 of dimension 0", (9, 4, 5), (7, 0, 0), None),
                ("the offsets", (9, 4, 5), (6, 0), None),
                ("order of dimensions is not F", (9, 4, 5), (6, 0, 0), "F"),
                ("order of dimensions is not Q", (9, 4, 5), (6, 0, 0), "Q"),
                ("size", (9, 4, 5), (-1, 0, 0), None),
            ):
                with self.assertRaisesRegex((ValueError, OverflowError, veloc.Error), wrong):
                    job.decompose(0, shape, offsets, order)
            with self.assertRaisesRegex(ValueError, "region 1 is no protected array"):
                job.decompose(1, (1,), (0,))
            job.protect(2, numpy.zeros((5, 4, 3)).T)
            job.decompose(2, (9, 4, 5), (6, 0, 0))
            job.protect(3, numpy.zeros((3, 5, 4)).transpose(0, 2, 1))
            with self.assertRaisesRegex(ValueError, "order of dimensions is not C or F"):
                job.decompose(3, (9, 4, 5), (6, 0, 0))

    def test_compressed_without_loss(self):
        wave = numpy.zeros(50_000)
        wave[20_000:] = numpy.sin(numpy.arange(30_000) * 0.01)
        was = wave.copy()
        with self.job() as job:
            job.protect(0, wave)
            job.compress(0, lossless=True)
            job.checkpoint("wave", 1)
            wave[:] = 7
            job.restart("wave", 1)
            self.assertEqual(wave.tobytes(), was.tobytes())
            self.assertLess(job.metrics()["compressed_bytes"], 400_000 * 7 / 8)

    def test_compressed_within_its_bound(self):
        wave = numpy.sin(numpy.arange(50_000) * 0.01).astype(numpy.float32)
        was = wave.copy()
        with self.job() as job:
            job.protect(0, wave)
            job.compress(0, bits=8, bound=0.02, relative=True)
            job.checkpoint("wave", 1)
            wave[:] = 7
            job.restart("wave", 1)
            differs = numpy.abs(wave - was).max()
            self.assertTrue(0 < differs <= 0.02, differs)
            found = job.metrics()
            self.assertEqual(found["compress"]["bytes"], 200_000)
            self.assertLess(found["compressed_bytes"], 200_000 / 3.7)
            with self.assertRaisesRegex(ValueError, "bits is 9, not None, 8, 12 or 16"):
                job.compress(0, bits=9, bound=1)
            with self.assertRaisesRegex(veloc.Error, "region 0: .*bound NaN"):
                job.compress(0, bits=16, bound=float("nan"))
            with self.assertRaisesRegex(ValueError, "lossless=True has no bits"):
                job.compress(0, bits=8, lossless=True)
            with self.assertRaisesRegex(veloc.Error, "region 0: .*bound is 0.5; with VELOC_COMPRESS_LOSSLESS it must be 0"):
                job.compress(0, bound=0.5, lossless=True)
            with self.assertRaisesRegex(ValueError, "bound is 0.5, and bits .* are missing"):
                job.compress(0, bound=0.5)
            job.compress(0, None)
            was = wave.copy()
            job.checkpoint("wave", 2)
            wave[:] = 7
            job.restart("wave", 2)
            self.assertEqual(wave.tobytes(), was.tobytes())

    def test_what_is_no_floats_has_no_fewer_bits(self):
        """Catches integers, complex numbers and others of the floats' size whose bits would be taken for floats."""
        other = [numpy.arange(9, dtype="i4"), numpy.arange(9, dtype="u8"), numpy.ones(9, dtype="c8"), array.array("i", [3])]
        other.append(numpy.ones(9, dtype=">f4"))
        for id, these in enumerate(other):
            with self.subTest(these), self.job() as job:
                job.protect(id, these)
                with self.assertRaisesRegex(TypeError, f"region {id}: the elements of the array are of the "):
                    job.compress(id, bits=8, bound=1)
                job.compress(id, lossless=True)
        for floats in numpy.ones(9), array.array("f", [1.0]), (ctypes.c_float * 3)(), Dlpack(numpy.ones(9, dtype="f4")):
            with self.subTest(floats), self.job() as job:
                job.protect(0, floats)
                job.compress(0, bits=8, bound=1)

    def test_what_is_no_memory_of_its_own_is_refused(self):
        whole = numpy.zeros((10, 10))
        tensor = Tensor(whole)
        tensor.device = type("Device", (), {"type": "mps", "__repr__": lambda self: "mps:0"})()
        with self.job() as job:
            with self.assertRaisesRegex(ValueError, "gaps .*; protect the whole array .*: a copy would not"):
                job.protect(3, whole[:, ::2])
            for name, what, error in (
                ("gaps", Dlpack(whole[:, ::2]), ValueError),
                ("gaps of a tensor", Tensor(whole[:, ::2]), ValueError),
                ("gaps of an array", whole[::2], ValueError),
                ("another device", Dlpack(whole, (8, 0)), TypeError),
                ("a tensor of another device", tensor, TypeError),
                ("a list", [1, 2], TypeError),
                ("a scalar", numpy.float64(1), ValueError),
            ):
                with self.subTest(name), self.assertRaisesRegex(error, "region 3"):
                    job.protect(3, what)

    def test_both_versions_of_dlpack_and_their_flags(self):
        """Catches restores into a copy or into memory that is read-only, offsets and devices that are ignored."""
        values = numpy.arange(100, dtype=numpy.uint8)
        address = values.ctypes.data
        with self.job() as job:
            for version, array in enumerate((Bytes(address, 100), Bytes(address, 100, flags=0))):
                job.protect(0, array)
                values[:] = version + 1
                job.checkpoint("bytes", version)
                values[:] = 0
                job.restart("bytes", version)
                self.assertEqual(values.tolist(), [version + 1] * 100)
                self.assertEqual(array.stream, "none")
            job.protect(0, Bytes(address, 100, flags=1))
            with self.assertRaisesRegex(ValueError, "region 0.*written"):
                job.restart("bytes", 1)
            with self.assertRaisesRegex(ValueError, "region 0.*copy"):
                job.protect(0, Bytes(address, 100, flags=2))
            with self.assertRaisesRegex(TypeError, "region 0.*4 bits"):
                job.protect(0, Bytes(address, 100, bits=4))
            # The stream of a device is not waited for: the library orders its copies itself.
            device = Bytes(address, 100, device=2)
            region = veloc._regions.region_of(0, device)
            self.assertEqual((region.range.place(), device.stream), ((address, 100), -1))

    def test_an_array_that_has_changed_since_is_refused_and_nothing_is_lost(self):
        """Catches checkpoints of memory that the array has not any more."""
        grows, moves = numpy.arange(10.0), Tensor(numpy.arange(10.0))
        with self.job() as job:
            job.protect(0, grows)
            job.protect(1, moves)
            job.checkpoint("x", 1)
            held = moves.array
            moves.array = numpy.zeros(10)
            for call in (lambda: job.checkpoint("x", 2), lambda: job.restart("x", 1)):
                self.assertRaisesRegex(ValueError, "region 1.*elsewhere.*again", call)
            self.assertEqual(held.tolist(), list(range(10)))
            moves.array = numpy.zeros(20)
            with self.assertRaisesRegex(ValueError, "region 1.*size.*80 bytes.*160 bytes"):
                job.checkpoint("x", 2)
            self.assertEqual(job.latest("x"), 1)
            moves.array = numpy.zeros(10)
            job.protect(1, moves)
            # NumPy's own way to say so: somebody else has it.
            self.assertRaises(ValueError, grows.resize, 100)
            job.restart("x", 1)
            self.assertEqual(moves.array.tolist(), list(range(10)))
            # A buffer cannot change its size while it is protected.
            buffer = bytearray(10)
            job.protect(2, buffer)
            self.assertRaises(BufferError, buffer.extend, b"x")

    def test_streams_by_the_objects_of_the_libraries(self):
        with self.job() as job:
            for stream in (0, type("S", (), {"cuda_stream": 0})(), type("S", (), {"ptr": 0})()):
                job.set_stream(stream)
            self.assertRaises(TypeError, job.set_stream, "stream")


class Ends(WithFolder):
    """Programs that end in the middle."""

    def is_there(self, version):
        """The newest version is whole: everything in it is its number."""
        state = numpy.zeros(100_000)
        with self.job() as job:
            job.protect(0, state)
            self.assertEqual(job.latest("x"), version)
            job.restart("x", version)
            numpy.testing.assert_array_equal(state, version)

    LOOP = """
        with veloc.Job(**options) as job:
            job.protect(0, state)
            for version in range({}):
                state[:] = version
                job.checkpoint("x", version)
            {}
        """

    def test_by_an_exception_an_exit_or_nothing(self):
        """Catches checkpoints that are lost because nobody has waited for them."""
        for last, (end, status, said) in enumerate((
            ("raise KeyError('own')", 1, "KeyError: 'own'"),
            ("sys.exit(3)", 3, ""),
            ("os._exit(4)", 4, ""),
            ("os.kill(os.getpid(), 9)", -9, ""),
        ), 5):
            with self.subTest(end):
                _, err = self.program(self.LOOP.format(last + 1, end), status)
                self.assertIn(said, err)
                self.is_there(last)
        for last, end in enumerate(("", "sys.exit(0)", "job.held = job", "sys.modules['held'] = job"), 20):
            with self.subTest(f"without with: {end}"):
                text = textwrap.dedent(self.LOOP.format(last + 1, end))
                text = text.replace("with veloc.Job(**options) as job:", "job = veloc.Job(**options)\nif True:")
                _, err = self.program(text)
                self.assertEqual(err, "")
                self.is_there(last)

    def test_names_are_those_that_a_program_imports(self):
        """Catches a traceback or a reason that names a file of the package, or a function of C."""
        for name in veloc.__all__:
            with self.subTest(name):
                self.assertIn(getattr(veloc, name).__module__, ("veloc", "typing"))
        with self.assertRaisesRegex(veloc.Error, "mode") as caught:
            veloc.Job(mode="neither")
        self.assertNotIn("VELOC_", str(caught.exception))

    def test_what_cannot_be_written_is_said_at_the_end(self):
        """Catches an end that is silent of a loss."""
        text = """
            job = veloc.Job(mode="async", threaded=True, scratch=folder + "/s", persistent=folder + "/p")
            job.protect(0, state)
            job.checkpoint("x", 1)
            job.wait()
            import shutil
            shutil.rmtree(folder)
            job.checkpoint("x", 2)
            """
        _, err = self.program(text)
        self.assertRegex(err, '\nveloc\\.Error: checkpoint "x" version 2: ')
        self.folder.mkdir()

    def test_by_a_keyboard_interrupt(self):
        """Catches waits that do not hear of Ctrl-C, and versions that it has made worthless."""
        out, err = self.program(
            """
            with veloc.Job(**options) as job:
                job.protect(0, state)
                job.checkpoint("x", 0)
                version = 0
                try:
                    print("ready", flush=True)
                    for version in range(500):
                        state[:] = version
                        job.checkpoint("x", version)
                    while True:
                        time.sleep(0.01)
                finally:
                    print(version, flush=True)
            """,
            status=-signal.SIGINT,
            interrupt=True,
        )
        self.assertIn("KeyboardInterrupt", err)
        state = numpy.zeros(100_000)
        with self.job() as job:
            job.protect(0, state)
            newest = job.latest("x")
            self.assertIn(newest, (int(out) - 1, int(out)))
            job.restart("x", newest)
            numpy.testing.assert_array_equal(state, newest)

    def test_a_wait_raises_what_cannot_be_tried_again(self):
        """Catches a failure that is used up between two looks, and one that is raised though the call
        that tries again has mended it."""

        class Calls:
            def __init__(self, found):
                self.VELOC_Checkpoint_finished = iter(found).__next__
                self.VELOC_Checkpoint_wait = lambda: 0

        with self.job() as job:
            for found, is_lost in (([0, -1, 0, 1], True), ([-1, -1], False), ([0, 1], False)):
                with mock.patch.object(job, "_calls", lambda: Calls(found)):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        if is_lost:
                            self.assertRaises(veloc.Error, job.wait)
                        else:
                            job.wait()

    def test_a_wait_hears_of_a_keyboard_interrupt(self):
        self.program(
            """
            job = veloc.Job(**options)
            # As while files are written that take long.
            class Busy:
                def __getattr__(self, name):
                    assert name == "VELOC_Checkpoint_finished"
                    return self.busy
                def busy(self):
                    print("ready", flush=True)
                    return 0
            job._calls = lambda: Busy()
            job.wait()
            """,
            status=-signal.SIGINT,
            interrupt=True,
        )


class Forks(WithFolder):
    def test_a_child_cannot_use_the_job_and_does_not_end_it(self):
        """Catches a child that ends the job of its parent, as its copy of the object goes."""
        out, err = self.program(
            """
            job = veloc.Job(**options)
            job.protect(0, state)
            job.checkpoint("x", 1)
            child = os.fork()
            if child == 0:
                for call in (
                    lambda: job.checkpoint("x", 2),
                    lambda: job.restart("x", 1),
                    lambda: job.latest("x"),
                    lambda: job.protect(1, state),
                    job.wait,
                    job.finished,
                    job.finalize,
                    lambda: veloc.Job(**options),
                ):
                    try:
                        call()
                    except veloc.Error as error:
                        assert "forked" in str(error), error
                    else:
                        raise SystemExit("the child had its way")
                # Both ways out.
                if sys.argv[1].endswith("hard"):
                    os._exit(0)
                del job
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            state[:] = 2
            job.checkpoint("x", 2)
            job.finalize(drain=True)
            print(sorted(path.name for path in pathlib.Path(folder, "p").glob("*.dat")))
            """
        )
        self.assertEqual((out, err), ("['x-0-1.dat', 'x-0-2.dat']\n", ""))

    def test_pools_of_processes_beside_a_job(self):
        state = numpy.zeros(10)
        for method in ("fork", "spawn"):
            with self.subTest(method), self.job() as job:
                job.protect(0, state)
                job.checkpoint("x", 1)
                with multiprocessing.get_context(method).Pool(2) as pool:
                    self.assertEqual(pool.map(abs, range(-4, 0)), [4, 3, 2, 1])
                job.checkpoint("x", 2)
                self.assertEqual(job.latest("x"), 2)


if __name__ == "__main__":
    unittest.main()
