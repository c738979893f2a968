"""Devito's own checkpointing through veloc.revolve: its acoustic gradient, from its own examples."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

import veloc

NEEDED = "devito", "pyrevolve"
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]

#: A small model, and its gradient by Devito's example solver with whatever Revolver it is given.
PROGRAM = """
import os, pathlib, random, signal, sys
os.environ["DEVITO_LOGGING"] = "ERROR"
os.environ["DEVITO_LANGUAGE"] = "C"
import numpy
from devito import CheckpointOperator, DevitoCheckpoint, Function, TimeFunction
from examples.seismic import AcquisitionGeometry, demo_model
from examples.seismic.acoustic import AcousticWaveSolver, wavesolver

folder = pathlib.Path(sys.argv[1])
model = demo_model("layers-isotropic", shape=(50, 40), spacing=(10.0, 10.0), nbl=5, space_order=4,
                   nlayers=2, dtype=numpy.float32)
source = numpy.array([[250.0, 20.0]])
receivers = numpy.array([[x, 20.0] for x in range(20, 480, 20)], dtype=numpy.float32)
geometry = AcquisitionGeometry(model, receivers, source, t0=0.0, tn=300.0, f0=0.02, src_type="Ricker")
solver = AcousticWaveSolver(model, geometry, space_order=4)
data, wavefield, _ = solver.forward(save=True)
steps = data.data.shape[0] - 2
full = numpy.array(solver.jacobian_adjoint(data, wavefield)[0].data)
assert steps > 100 and numpy.abs(full).max() > 0
"""


@unittest.skipIf(MISSING, f"{' and '.join(MISSING)}: not installed")
class Devito(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, text):
        program = PROGRAM + textwrap.dedent(text)
        arguments = [sys.executable, "-c", program, str(self.folder)]
        run = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def test_the_gradient_is_bit_identical_to_pyrevolves_and_to_full_storage(self):
        """Catches a state that is read into the wrong time buffer, or a bit too late."""
        self.program(
            """
            import veloc.revolve
            def gradient():
                return numpy.array(solver.jacobian_adjoint(data, None, checkpointing=True)[0].data)

            assert numpy.array_equal(gradient(), full)
            # The line that a program changes.
            wavesolver.Revolver = veloc.revolve.Revolver
            assert numpy.array_equal(gradient(), full)
            wavesolver.Revolver = veloc.revolve.DiskRevolver
            os.chdir(folder)
            assert numpy.array_equal(gradient(), full)
            """
        )

    def test_it_takes_as_much_memory_as_pyrevolve(self):
        """Catches snapshots that are kept twice, and memory that is made ready and not used."""
        said = self.program(
            """
            import pyrevolve
            def grown(kind):
                # In a process of its own, so that each begins with the same memory.
                read, write = os.pipe()
                child = os.fork()
                if child == 0:
                    import veloc.revolve
                    module = {"pyrevolve": pyrevolve, "veloc": veloc.revolve}[kind]
                    u = TimeFunction(name="u", grid=model.grid, time_order=2, space_order=4)
                    u.data[:] = 1
                    checkpoint = DevitoCheckpoint([u])

                    class Nothing:
                        def apply(self, t_start, t_end):
                            pass

                    revolver = module.Revolver(checkpoint, Nothing(), Nothing(), 2000, 4000)
                    revolver.apply_forward()
                    revolver.apply_reverse()
                    status = pathlib.Path("/proc/self/status").read_text()
                    os.write(write, status.split("VmHWM:")[1].split()[0].encode())
                    os._exit(0)
                os.close(write)
                assert os.waitpid(child, 0)[1] == 0
                return int(os.read(read, 100))

            print(grown("pyrevolve"), grown("veloc"))
            """
        )
        theirs, ours = map(int, said.split())
        self.assertLess(ours, 1.1 * theirs)

    def test_on_disk_it_takes_as_little_processor_time_as_pyrevolve(self):
        """Catches a copy more than pyrevolve makes, and work of threads beside it."""
        self.program(
            """
            import pyrevolve, time, veloc.revolve
            u = TimeFunction(name="u", grid=model.grid, time_order=2, space_order=4)
            u.data[:] = 1
            checkpoint = DevitoCheckpoint([u])

            class Nothing:
                def apply(self, t_start, t_end):
                    pass

            def taken(module):
                before = time.process_time()
                for _ in range(10):
                    revolver = module.DiskRevolver(checkpoint, Nothing(), Nothing(), 20, 200, filedir=f"{folder}/")
                    revolver.apply_forward()
                    revolver.apply_reverse()
                return time.process_time() - before

            # The least of several is that with which nothing has interfered.
            theirs, ours = zip(*[(taken(pyrevolve), taken(veloc.revolve)) for _ in range(5)])
            assert min(ours) < min(theirs), (ours, theirs)
            """
        )

    def test_killed_at_5_random_steps_and_started_again(self):
        """Catches a start from the beginning, and an adjoint that is not that of its state."""
        said = self.program(
            """
            def compute(kill_at):
                from veloc.revolve import Revolver
                # The parent has not touched its time buffers: they are as at a program's start.
                u = TimeFunction(name="u", grid=model.grid, time_order=2, space_order=4)
                v = TimeFunction(name="v", grid=model.grid, time_order=2, space_order=4)
                grad = Function(name="grad", grid=model.grid)
                more = model.physical_params()
                forward = CheckpointOperator(
                    solver.op_fwd(save=False), src=geometry.src, u=u, dt=solver.dt, **more)
                backward = CheckpointOperator(
                    solver.op_grad(save=False), u=u, v=v, rec=data, dt=solver.dt, grad=grad, **more)
                revolver = Revolver(
                    DevitoCheckpoint([u]), forward, backward, 6, steps, directory=folder,
                    resilience_distance=steps // 5, adjoint=[v._data, grad._data])
                done = 0
                apply = CheckpointOperator.apply

                def counted(operator, t_start, t_end):
                    nonlocal done
                    done += t_end - t_start
                    if 0 < kill_at <= done:
                        # What was taken is in files.
                        while revolver._snapshots.calls.VELOC_Checkpoint_finished() == 0:
                            pass
                        os.kill(os.getpid(), signal.SIGKILL)
                    apply(operator, t_start, t_end)

                CheckpointOperator.apply = counted
                revolver.apply_forward()
                revolver.apply_reverse()
                assert numpy.array_equal(grad.data, full)
                return done

            # Both are generated and compiled before any process is forked.
            solver.op_fwd(save=False).cfunction, solver.op_grad(save=False).cfunction
            chance = random.Random(3)
            for kill_at in [chance.randrange(steps // 4, steps // 2) for _ in range(5)] + [0]:
                child = os.fork()
                if child == 0:
                    print(kill_at, compute(kill_at), flush=True)
                    os._exit(0)
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                assert status == (-signal.SIGKILL if kill_at else 0), status
            print("steps", steps)
            """
        )
        last, steps = (int(line.split()[1]) for line in said.splitlines())
        # The last run had less to do than a whole one has.
        self.assertLess(last, veloc.Schedule(steps, 6).cost().forward_evaluations)


if __name__ == "__main__":
    unittest.main()
