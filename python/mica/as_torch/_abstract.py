"""Modules that are abstract: `class Net(nn.Module, abc.ABC)`.

The classes of mica's modules have a metaclass that ABCMeta does not go with. So in programs that
run by this package `abc.ABC` is an object that stands for the class: where it is named beside a
module, what is derived from is AbstractModule, and the real ABC otherwise.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import mica


class AbstractModule:
    """What stands in ABC's place: a class with abstract methods left cannot be made."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        names = {name for base in cls.__mro__[1:] for name in base.__dict__.get("_abstract", ())}
        names |= set(vars(cls))
        left = sorted(
            name for name in names if getattr(getattr(cls, name, None), "__isabstractmethod__", 0)
        )
        cls._abstract = left
        if not left:
            return
        make = cls.__init__

        def make_if_whole(self: Any, *args: Any, **kwargs: Any) -> None:
            if type(self)._abstract:
                raise TypeError(
                    f"Can't instantiate abstract class {type(self).__name__} with abstract "
                    f"methods {', '.join(type(self)._abstract)}"
                )
            make(self, *args, **kwargs)

        cls.__init__ = make_if_whole  # type: ignore[method-assign]

    _abstract: ClassVar[list[str]] = []


class _ABC:
    """abc.ABC, as programs name it."""

    def __init__(self, real: type) -> None:
        self._real = real

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        module = mica.nn.Module
        with_module = any(isinstance(base, type) and issubclass(base, module) for base in bases)
        return (AbstractModule,) if with_module else (self._real,)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._real | AbstractModule)

    def __subclasscheck__(self, subclass: type) -> bool:
        return issubclass(subclass, self._real | AbstractModule)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def install() -> None:
    """Puts the object into the module abc."""
    if isinstance(abc.ABC, type):
        setattr(abc, "ABC", _ABC(abc.ABC))  # noqa: B010
