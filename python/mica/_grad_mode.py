import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from mica._mica import _set_grad_enabled, is_grad_enabled
from mica._mica import autograd as _autograd

P = ParamSpec("P")
R = TypeVar("R")


class _Mode:
    """A switch of this thread: as a context manager or as a decorator."""

    _value: bool
    _read = staticmethod(is_grad_enabled)
    _write = staticmethod(_set_grad_enabled)

    def __enter__(self) -> None:
        self._before = self._read()
        self._write(self._value)

    def __exit__(self, *exception: object) -> None:
        self._write(self._before)

    def _again(self) -> "_Mode":
        return type(self)()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._again():
                return function(*args, **kwargs)

        return wrapper


class no_grad(_Mode):  # noqa: N801
    """`with mica.no_grad():` or `@mica.no_grad()`: nothing is recorded."""

    _value = False


inference_mode = no_grad


class enable_grad(_Mode):  # noqa: N801
    """The opposite of no_grad, inside it."""

    _value = True


class set_grad_enabled(_Mode):  # noqa: N801
    """Records or does not from here on, or, as a context manager or decorator, for a while."""

    def __init__(self, mode: bool) -> None:
        self._value = mode
        self._before = self._read()
        self._write(mode)

    def __enter__(self) -> None:
        self._write(self._value)

    def _again(self) -> _Mode:
        return type(self)(self._value)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        self._write(self._before)  # a decorator changes nothing outside the function
        return super().__call__(function)


class detect_anomaly(_Mode):  # noqa: N801
    """`with mica.autograd.detect_anomaly():` an operator that makes a NaN raises, with its name."""

    _value = True
    _read = staticmethod(_autograd.is_anomaly_enabled)
    _write = staticmethod(_autograd._set_detect_anomaly)


class set_detect_anomaly(set_grad_enabled):  # noqa: N801
    """The same from here on, or for a while."""

    _read = staticmethod(_autograd.is_anomaly_enabled)
    _write = staticmethod(_autograd._set_detect_anomaly)
