"""What pyrevolve's own tests import, which its source package is without."""

import numpy
from pyrevolve import Checkpoint, Operator


class SimpleOperator(Operator):
    """Counts its steps, and computes nothing."""

    def __init__(self):
        self.counter = 0

    def apply(self, *, t_start, t_end):
        assert t_start <= t_end
        self.counter += t_end - t_start


class SimpleCheckpoint(Checkpoint):
    """Has no arrays, and counts how often it is asked for them."""

    dtype, size = numpy.float32, 1

    def __init__(self):
        self.save_counter = self.load_counter = 0

    def get_data(self, timestep):
        self.save_counter += 1
        return bytearray()

    def get_data_location(self, timestep):
        self.load_counter += 1
        return bytearray()


class IncrementCheckpoint(Checkpoint):
    """Has these arrays."""

    dtype = numpy.float32

    def __init__(self, arrays):
        self.arrays = arrays

    @property
    def size(self):
        return sum(array.size for array in self.arrays)

    def get_data(self, timestep):
        return self.arrays

    def get_data_location(self, timestep):
        return self.arrays


class YoCheckpoint(IncrementCheckpoint):
    """Has one."""

    def __init__(self, array):
        super().__init__([array])
        self.dtype = array.dtype


class IncrementOperator(Operator):
    """Adds `direction` to an array, for each step."""

    def __init__(self, direction, array):
        self.direction, self.array = direction, array

    def apply(self, *, t_start, t_end):
        self.array += self.direction * (t_end - t_start)


class IncOperator(SimpleOperator):
    """The same and counts. The adjoint's, which has an array of its own, puts there by how much the state
    differs from what it is behind the step."""

    def __init__(self, direction, array, adjoint=None):
        super().__init__()
        self.direction, self.array, self.adjoint = direction, array, adjoint

    def apply(self, *, t_start, t_end):
        super().apply(t_start=t_start, t_end=t_end)
        if self.adjoint is None:
            self.array += self.direction * (t_end - t_start)
        else:
            self.adjoint += abs(self.array + self.direction * t_end)
