"""torch.autograd.functional: derivatives of functions of one tensor or several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mica
from mica.autograd import grad

Tensors = tuple[mica.Tensor, ...]


def _inputs(inputs: Any, create_graph: bool) -> Tensors:
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    keep = [create_graph and x.requires_grad for x in given]
    return tuple(
        x if kept else x.detach().requires_grad_() for x, kept in zip(given, keep, strict=True)
    )


def _grads(output: mica.Tensor, inputs: Tensors, create_graph: bool, v: Any = None) -> Tensors:
    if not output.requires_grad:
        return tuple(mica.zeros_like(x) for x in inputs)
    made: Tensors = grad(
        output, inputs, v, retain_graph=True, create_graph=create_graph, materialize_grads=True
    )
    return made


def _like(inputs: Any, parts: Tensors) -> Any:
    return parts if isinstance(inputs, tuple) else parts[0]


def jacobian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The derivative of what func gives by its inputs, one backward pass for each number."""
    given = _inputs(inputs, create_graph)

    def of_one(output: mica.Tensor) -> Any:
        rows = [_grads(element, given, create_graph) for element in output.reshape(-1)]
        columns = [mica.stack(list(column)) for column in zip(*rows, strict=True)]
        shapes = [[*output.shape, *x.shape] for x in given]
        return _like(inputs, tuple(c.reshape(s) for c, s in zip(columns, shapes, strict=True)))

    outputs = func(*given)
    return tuple(map(of_one, outputs)) if isinstance(outputs, tuple) else of_one(outputs)


def hessian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The second derivative of a function that gives one number."""

    def first(*given: mica.Tensor) -> Any:
        return _like(inputs, _grads(func(*given), given, create_graph=True))

    return jacobian(first, inputs, create_graph)


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """What func gives, and v times its derivative."""
    given = _inputs(inputs, create_graph)
    output = func(*given)
    parts = _grads(output, given, create_graph, v)
    return output if create_graph else output.detach(), _like(inputs, parts)
