import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from mica._mica import is_grad_enabled, set_grad_enabled

P = ParamSpec("P")
R = TypeVar("R")


class _GradMode:
    """Sets whether operators are recorded for backward: as a context manager or a decorator."""

    _mode: bool

    def __enter__(self) -> None:
        self._before = is_grad_enabled()
        set_grad_enabled(self._mode)

    def __exit__(self, *exception: object) -> None:
        set_grad_enabled(self._before)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            with type(self)():
                return function(*args, **kwargs)

        return wrapper


class no_grad(_GradMode):  # noqa: N801
    """`with mica.no_grad():` or `@mica.no_grad()`: nothing is recorded."""

    _mode = False


class enable_grad(_GradMode):  # noqa: N801
    """The opposite of no_grad, inside it."""

    _mode = True
