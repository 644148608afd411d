"""Compiled functions as methods: each object has one of its own, bound to it."""

from __future__ import annotations

from types import MethodType
from typing import Any

from mica._mica import CompiledFunction


class Methods(dict[Any, CompiledFunction]):
    """The compiled methods of one object, which copies of it do not take along."""

    def __deepcopy__(self, memo: Any) -> Methods:
        return Methods()

    def __reduce__(self) -> Any:
        return Methods, ()


def bind(compiled: CompiledFunction, owner: Any) -> CompiledFunction:
    """What `owner.name` is where its class has the compiled function `name`."""
    try:
        kept = owner.__dict__
    except AttributeError:
        raise TypeError(
            f"compile: {compiled.__qualname__} is a method, and objects of "
            f"{type(owner).__name__} have no __dict__ in which the compiled method could be kept"
        ) from None
    methods: Methods = kept.setdefault("_compiled_methods", Methods())
    key = (compiled, id(owner))  # a shallow copy has the same dictionary
    method = methods.get(key)
    if method is None or method.__wrapped__.__self__ is not owner:
        method = compiled._like(MethodType(compiled.__wrapped__, owner))
        methods[key] = method
    return method
