import functools

from mica._mica import is_grad_enabled, set_grad_enabled


class _GradMode:
    """Sets whether operators are recorded for backward: as a context manager or a decorator."""

    _mode: bool

    def __enter__(self):
        self._before = is_grad_enabled()
        set_grad_enabled(self._mode)

    def __exit__(self, *exception):
        set_grad_enabled(self._before)

    def __call__(self, function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with type(self)():
                return function(*args, **kwargs)

        return wrapper


class no_grad(_GradMode):  # noqa: N801
    """`with mica.no_grad():` or `@mica.no_grad()`: nothing is recorded."""

    _mode = False


class enable_grad(_GradMode):  # noqa: N801
    """The opposite of no_grad, inside it."""

    _mode = True
