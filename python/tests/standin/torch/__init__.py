"""A stand-in for PyTorch, as far as `veloc.torch` and its tests use it: arrays of NumPy's with a graph."""

import contextlib
import types

import numpy

__version__ = "stand-in"
float32, float64, int64, strided = *map(numpy.dtype, ("float32", "float64", "int64")), "strided"
_C = types.SimpleNamespace(_is_any_autocast_enabled=lambda: False)
_is_recording = True


class _Device(str):
    type = "cpu"


class _Storage:
    """The memory of an array that is no view."""

    def __init__(self, base):
        self.base, self._cdata = base, id(base)

    def data_ptr(self):
        return self.base.ctypes.data


class Tensor:
    layout, is_quantized, device, _base = strided, False, _Device("cpu"), None

    def __init__(self, array, requires_grad=False, grad_fn=None, counter=None):
        self._array, self.requires_grad, self.grad_fn = array, requires_grad, grad_fn
        self._counter, self.grad, self._leaf = counter or [0], None, None

    def _set_data(self, other):
        self._array = other._array

    data = property(lambda self: Tensor(self._array), _set_data)
    _version = property(lambda self: self._counter[0])
    is_leaf = property(lambda self: self.grad_fn is None)
    shape = property(lambda self: self._array.shape)
    dtype = property(lambda self: self._array.dtype)

    # --- memory ---

    def detach(self):
        return Tensor(self._array, counter=self._counter)

    def requires_grad_(self, wanted=True):
        self.requires_grad = wanted
        return self

    def stride(self):
        return tuple(step // self._array.itemsize for step in self._array.strides)

    def storage_offset(self):
        return (self.data_ptr() - _base(self._array).ctypes.data) // self.element_size()

    def untyped_storage(self):
        return _Storage(_base(self._array))

    def narrow(self, dimension, start, length):
        places = [slice(None)] * self._array.ndim
        places[dimension] = slice(start, start + length)
        return Tensor(self._array[tuple(places)], counter=self._counter)

    def expand(self, *shape):
        return Tensor(numpy.broadcast_to(self._array, shape[0] if isinstance(shape[0], tuple) else shape))

    def contiguous(self):
        return self if self._array.flags.c_contiguous else Tensor(self._array.copy())

    def clone(self):
        return Tensor(self._array.copy())

    def new_empty(self, *shape):
        return Tensor(numpy.empty(shape, self.dtype))

    def new_zeros(self, shape):
        return Tensor(numpy.zeros(shape, self.dtype))

    def data_ptr(self):
        return self._array.ctypes.data

    def numel(self):
        return self._array.size

    def element_size(self):
        return self._array.itemsize

    def is_floating_point(self):
        return self.dtype.kind == "f"

    def is_conj(self):
        return False

    is_neg = is_complex = _is_zerotensor = is_conj

    def cpu(self):
        return self

    def tolist(self):
        return self._array.tolist()

    def item(self):
        return self._array.item()

    # --- changes in place ---

    def _changed(self, value):
        self._array[...] = value
        self._counter[0] += 1
        return self

    def copy_(self, other):
        return self._changed(other._array)

    def add_(self, other):
        return self._changed(self._array + getattr(other, "_array", other))

    def zero_(self):
        return self._changed(0)

    # --- operations ---

    def __add__(self, other):
        return _result(self._array + _array(other), [self, other], [], lambda given: [given, given])

    def __mul__(self, other):
        return _result(
            self._array * _array(other), [self, other], [self, other], lambda given, a, b: [given * b, given * a]
        )

    def sin(self):
        return _result(numpy.sin(self._array), [self], [self], lambda given, a: [given * numpy.cos(a)])

    def exp(self):
        return _result(numpy.exp(self._array), [self], None, lambda given, result: [given * result])

    def sum(self):
        shape = self.shape
        return _result(self._array.sum(), [self], [], lambda given: [numpy.broadcast_to(given, shape)])

    def __getitem__(self, place):
        def back(given):
            whole = numpy.zeros(shape, given.dtype)
            whole[place] = given
            return [whole]

        shape = self.shape
        return _result(self._array[place], [self], [], back, self._counter)

    def backward(self, retain_graph=False):
        leaves = self.grad_fn.leaves(set())
        for leaf, found in zip(leaves, autograd.grad([self], leaves, [ones_like(self)], retain_graph=retain_graph)):
            leaf.grad = found if leaf.grad is None else Tensor(leaf.grad._array + found._array)


def _base(array):
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return array


def _array(value):
    return getattr(value, "_array", value)


def _result(array, inputs, saved, back, counter=None):
    """The result of an operation; `saved` is what its derivative needs, None for the result itself."""
    result = Tensor(numpy.asarray(array), counter=counter)
    inputs = [part if isinstance(part, Tensor) else None for part in inputs]
    if _is_recording and any(part is not None and part.requires_grad for part in inputs):
        result.requires_grad, result.grad_fn = True, autograd._Node(inputs, back)
        result.grad_fn.save([result] if saved is None else saved)
    return result


@contextlib.contextmanager
def _recording(wanted):
    global _is_recording
    before, _is_recording = _is_recording, wanted
    try:
        yield
    finally:
        _is_recording = before


def is_grad_enabled():
    return _is_recording


def no_grad():
    return _recording(False)


def enable_grad():
    return _recording(True)


def tensor(values, dtype=float32, requires_grad=False):
    return Tensor(numpy.array(values, dtype), requires_grad)


def empty_strided(shape, stride, dtype, device):
    order = sorted(range(len(shape)), key=lambda dimension: (-stride[dimension], dimension))
    array = numpy.empty([shape[dimension] for dimension in order], dtype)
    return Tensor(array.transpose(numpy.argsort(order)))


def zeros_like(other):
    return Tensor(numpy.zeros_like(other._array))


def empty_like(other):
    return Tensor(numpy.empty_like(other._array))


def ones_like(other):
    return Tensor(numpy.ones_like(other._array))


def stack(parts):
    return _result(numpy.stack([part._array for part in parts]), parts, [], list)


from . import autograd  # noqa: E402


_drawn = 0


def rand(count):
    global _drawn
    _drawn += 1
    return Tensor(numpy.random.default_rng(_drawn).random(count).astype(float32))


def get_rng_state():
    return Tensor(numpy.array([_drawn]))


def equal(one, other):
    return numpy.array_equal(one._array, other._array)
