"""Hooks on the gradients that pass through a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mica._mica import Tensor, is_grad_enabled
from mica._mica import nn as _nn
from mica.autograd import Function


class _Pass(Function):
    """Tensors as they are; their gradients go through a function."""

    @staticmethod
    def forward(ctx: Any, change: Callable[[tuple[Any, ...]], Any], *tensors: Tensor) -> Any:
        ctx.change = change
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, *ctx.change(grads))


def _through(change: Callable[[tuple[Any, ...]], Any], values: Any) -> Any:
    """A tensor or tuple of values with its floating tensors passed through _Pass."""
    single = isinstance(values, Tensor)
    given = (values,) if single else tuple(values)
    at = [i for i, v in enumerate(given) if isinstance(v, Tensor) and v.requires_grad]
    if not at:
        return values
    passed = _Pass.apply(change, *(given[i] for i in at))
    passed = passed if isinstance(passed, tuple) else (passed,)
    made = list(given)
    for i, value in zip(at, passed, strict=True):
        made[i] = value
    return made[0] if single else tuple(made)


class _Handle:
    def __init__(self, *handles: Any) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Takes the hook away."""
        for handle in self._handles:
            handle.remove()


def _register(module: _nn.Module, hook: Callable[..., Any], before: bool) -> _Handle:
    waiting: list[tuple[Any, ...]] = []

    def of_output(grads: tuple[Any, ...]) -> Any:
        if before:
            changed = hook(module, grads)
            return grads if changed is None else changed
        waiting.append(grads)
        if not had_input[0]:
            hook(module, (), waiting.pop())
        return grads

    def of_input(grads: tuple[Any, ...]) -> Any:
        changed = hook(module, grads, waiting.pop() if waiting else ())
        return grads if changed is None else changed

    had_input = [False]

    def on_input(_: Any, args: tuple[Any, ...]) -> Any:
        had_input[0] = any(isinstance(a, Tensor) and a.requires_grad for a in args)
        return _through(of_input, args) if is_grad_enabled() and had_input[0] else None

    def on_output(_: Any, args: Any, output: Any) -> Any:
        many = isinstance(output, Tensor | tuple | list)
        return _through(of_output, output) if is_grad_enabled() and many else None

    after = module.register_forward_hook(on_output)
    return _Handle(after) if before else _Handle(after, module.register_forward_pre_hook(on_input))


def register_full_backward_hook(self: Any, hook: Callable[..., Any], prepend: bool = False) -> Any:
    """Calls hook(module, grad_input, grad_output) when the gradients of the module's inputs are
    there; what it returns takes the place of grad_input, None leaves it."""
    return _register(self, hook, before=False)


def register_full_backward_pre_hook(
    self: Any, hook: Callable[..., Any], prepend: bool = False
) -> Any:
    """Calls hook(module, grad_output) before them; what it returns takes its place."""
    return _register(self, hook, before=True)


def add_methods() -> None:
    """Gives Module the methods."""
    for name, method in (
        ("register_full_backward_hook", register_full_backward_hook),
        ("register_backward_hook", register_full_backward_hook),
        ("register_full_backward_pre_hook", register_full_backward_pre_hook),
    ):
        setattr(_nn.Module, name, method)
