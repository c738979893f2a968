"""The graph, and its hooks for what is saved."""

import itertools
import types

import numpy
import torch

_hooks = []
_numbers = itertools.count()


class saved_tensors_hooks:
    def __init__(self, pack, unpack):
        self._both = pack, unpack

    def __enter__(self):
        _hooks.append(self._both)

    def __exit__(self, *_):
        _hooks.pop()


graph = types.SimpleNamespace(saved_tensors_hooks=saved_tensors_hooks)


class _Leaf:
    """AccumulateGrad."""

    next_functions = ()

    def __init__(self, variable):
        self.variable = variable


class _Node:
    """An operation: where its inputs come from, and what its derivative needs."""

    def __init__(self, inputs, back):
        self.back, self.inputs = back, inputs
        self.next_functions = [(_source(part), 0) for part in inputs]
        self._saved, self.number = [], next(_numbers)

    def save(self, parts):
        for part in parts:
            pack, unpack = _hooks[-1] if _hooks and hasattr(part, "detach") else (lambda part: part, lambda part: part)
            self._saved.append((pack(part), unpack))

    def gradients(self, given, keep):
        if self._saved is None:
            raise RuntimeError("Trying to backward through the graph a second time")
        found = self.back(given, *(getattr(part, "_array", part) for part in (get(kept) for kept, get in self._saved)))
        if not keep:
            self._saved = None
        return found

    def leaves(self, seen):
        found = []
        for node, _ in self.next_functions:
            if node is None or node in seen:
                continue
            seen.add(node)
            found += [node.variable] if isinstance(node, _Leaf) else node.leaves(seen)
        return found


def _source(part):
    if part is None or not part.requires_grad:
        return None
    if part.grad_fn is None:
        part._leaf = part._leaf or _Leaf(part)
    return part.grad_fn or part._leaf


def grad(ends, inputs, given, allow_unused=True, retain_graph=False):
    """The gradients of the inputs: an operation comes once all that use its result have."""


    sums, order, seen = {}, [], set()

    def add(node, found):
        sums[node] = sums[node] + found if node in sums else found

    def visit(start):
        to_see = [start]
        while to_see:
            node = to_see.pop()
            if node is not None and node not in seen:
                seen.add(node)
                order.append(node)
                to_see.extend(below for below, _ in node.next_functions)

    for end, cotangent in zip(ends, given):
        node = _source(end)
        visit(node)
        add(node, cotangent._array)
    # The youngest first, as PyTorch has it.
    for node in sorted((node for node in order if isinstance(node, _Node)), key=lambda node: -node.number):
        if node not in sums:
            continue
        for (below, _), found in zip(node.next_functions, node.gradients(sums[node], retain_graph)):
            if below is not None:
                add(below, found)
    found = [sums.get(_source(part)) for part in inputs]
    return [None if part is None else torch.Tensor(numpy.asarray(part)) for part in found]


class _Context:
    def save_for_backward(self, *tensors):
        self._saved = [(tensor, tensor._version) for tensor in tensors]

    @property
    def saved_tensors(self):
        if any(tensor._version != version for tensor, version in self._saved):
            raise RuntimeError("modified by an inplace operation")
        return [tensor for tensor, _ in self._saved]


class Function:
    @classmethod
    def apply(cls, plan, *tensors):


        context = _Context()
        context.needs_input_grad = [False, *(torch._is_recording and tensor.requires_grad for tensor in tensors)]
        with torch.no_grad():
            results = cls.forward(context, plan, *tensors)
        if any(context.needs_input_grad):
            node = _Function(cls, context, tensors, results)
            for number, result in enumerate(results):
                result.requires_grad, result.grad_fn = True, node.result(number)
        return results


class _Function(_Node):
    """A function of the program's, whose results are nodes that all lead to it."""

    def __init__(self, function, context, inputs, results):
        super().__init__(inputs, None)
        self._function, self._context, self._results = function, context, results
        self._given = [numpy.zeros_like(result._array) for result in results]

    def result(self, number):
        def back(given):
            self._given[number] = self._given[number] + given
            return [0]

        node = _Node([], back)
        node.next_functions = [(self, 0)]
        return node

    def gradients(self, given, keep):


        found = self._function.backward(self._context, *map(torch.Tensor, self._given))[1:]
        return [0 if part is None else part._array for part in found]
