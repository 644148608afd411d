"""Tensors of a module that are computed anew when they are asked for, in a parameter's place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mica._mica as m
from mica._mica import Tensor
from mica._mica import nn as _nn

_BEFORE = "_class_before"


def class_before(module: _nn.Module) -> type:
    """The class that a module had before any of its tensors was computed."""
    return getattr(type(module), _BEFORE, type(module))


def _class_of_its_own(module: _nn.Module) -> type:
    own = type(module)
    if not hasattr(own, _BEFORE):
        own = type(f"Parametrized{own.__name__}", (own,), {_BEFORE: own})
        setattr(module, "__class__", own)  # noqa: B010
    return own


def _members(module: _nn.Module, name: str) -> Any:
    """The property by which a layer of C++ has that tensor; None for one that is an attribute."""
    found = getattr(class_before(module), name, None)
    return found if isinstance(found, property) else None


def put(
    module: Any,
    name: str,
    get: Callable[[Any], Tensor],
    set: Callable[[Any, Tensor], None] | None = None,
    for_a_call: Callable[[Any], Tensor] | None = None,
) -> Callable[[], None]:
    """From here on `module.name` is what `get` makes, and a call of the module computes with it
    (or with what `for_a_call` makes). What is returned takes that back and leaves the name free.
    """
    shape = getattr(module, name).shape
    delattr(module, name)
    own = _class_of_its_own(module)
    setattr(own, name, property(get, set))
    member = _members(module, name)
    if member is None:
        return lambda: _take_back(module, name, [])

    # A layer of C++ reads its own handle. It has a value during a call alone: one that stayed would
    # keep a history, or be a tensor of a captured function.
    def fill(called: Any, args: Any) -> None:
        member.fset(called, (for_a_call or get)(called))

    def empty(called: Any, args: Any, output: Any) -> None:
        member.fset(called, m.zeros(()).expand(shape))

    empty(module, None, None)
    hooks = [module.register_forward_pre_hook(fill), module.register_forward_hook(empty)]
    return lambda: _take_back(module, name, hooks)


def _take_back(module: Any, name: str, hooks: list[Any]) -> None:
    for hook in hooks:
        hook.remove()
    own = type(module)
    delattr(own, name)
    if not any(isinstance(value, property) for value in vars(own).values()):
        module.__class__ = class_before(module)
