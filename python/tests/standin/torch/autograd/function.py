"""What marks a derivative that has none itself."""


def once_differentiable(function):
    return function
