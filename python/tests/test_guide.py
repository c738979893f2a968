"""The guide's programs in Python, with what they leave out."""

import contextlib
import io
import os
import pathlib
import unittest

import numpy
import veloc
from test_job import WithFolder

PAGE = pathlib.Path(__file__).parents[2] / "docs/guide/python.md"


@unittest.skipUnless(PAGE.exists(), "the guide is not here")
class Guide(WithFolder):
    """Catches a program of the guide that fails, or does something else than it says."""

    def setUp(self):
        super().setUp()
        blocks = [text.split("```")[0] for text in PAGE.read_text().split("```python\n")[1:]]
        self.forward_and_backward, self.restarting, self.schedule, self.adjoint, self.devito = blocks
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)

    def run_block(self, block, **names):
        for place in "/local", "/parallel":
            block = block.replace(f'"{place}', f'"{self.folder}{place}')
        names |= {"veloc": veloc, "numpy": numpy}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, str(PAGE), "exec"), names)
        return names, printed.getvalue()

    def test_forward_and_backward(self):
        printed = self.run_block(self.forward_and_backward.replace("2G", "128M"))[1]
        self.assertEqual(printed.split(), [f"{step}.0" for step in reversed(range(100))])

    def test_restarting(self):
        class Killed(Exception):
            pass

        def compute(state):
            state += 1
            if state[0] == 60:
                raise Killed

        with self.assertRaises(Killed):
            self.run_block(self.restarting, compute=compute)
        found = self.run_block(self.restarting, compute=lambda state: numpy.add(state, 1, state))[0]
        self.assertEqual((found["state"][0], found["meta"].value), (100, {"step": 100}))

    def test_schedule(self):
        field, states, reversed_steps = numpy.zeros(1), {}, []

        def forward(start, stop):
            self.assertEqual(field[0], start)
            field[:] = stop

        def record_and_reverse(step):
            reversed_steps.append(step)

        self.run_block(self.schedule, field=field, states=states, forward=forward, record_and_reverse=record_and_reverse)
        self.assertEqual(reversed_steps, sorted(reversed_steps, reverse=True))
        self.assertEqual((len(reversed_steps), len(states)), (100, 5))

    def test_adjoint(self):
        field, gradient, steps = numpy.zeros(10), numpy.zeros(10), []

        def forward(start, stop):
            field.fill(stop)

        block = self.adjoint.replace("50_000", "500").replace("2500", "100").replace("1000,", "100,")
        names = {"field": field, "gradient": gradient, "forward": forward, "adjoint": steps.append}
        self.assertTrue(self.run_block(block, **names)[0]["finished"])
        self.assertEqual(steps, sorted(steps, reverse=True))
        self.assertEqual(len(steps), 500)

    def test_devito_and_pytorch(self):
        # `test_devito` and `test_torch` have them run.
        compile(self.devito, str(PAGE), "exec")
        for block in PAGE.with_name("pytorch.md").read_text().split("```python\n")[1:]:
            compile(block.split("```")[0], "pytorch.md", "exec")


if __name__ == "__main__":
    unittest.main()
