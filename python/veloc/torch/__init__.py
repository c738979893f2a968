"""PyTorch's autograd with the states that it keeps in the levels of a job.

    with veloc.torch.saved_tensors():
        loss = model(x)
    loss.backward()

keeps the tensors that autograd saves for the backward pass out of the program's memory;

    final = veloc.torch.time_loop(step, state, parameters, steps=2000, slots=40)

is a time loop whose backward pass computes most states again, and which survives kills with a directory.
PyTorch 2.1 or newer.
"""

from ._loop import discard, time_loop
from ._saved import saved_tensors

__all__ = ["discard", "saved_tensors", "time_loop"]

discard.__module__ = saved_tensors.__module__ = time_loop.__module__ = __name__
