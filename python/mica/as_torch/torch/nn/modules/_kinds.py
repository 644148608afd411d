"""PyTorch's base classes that programs ask for with isinstance, and nothing derives from here."""

from __future__ import annotations

from typing import Any

import mica


def any_of(name: str, *layers: str) -> type:
    """A class whose objects are those of these layers."""
    classes = tuple(getattr(mica.nn, layer) for layer in layers)

    class Kind(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, classes)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, classes)

    return Kind(name, (), {})
