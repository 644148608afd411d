"""torch.library: what programs say of operators of their own. The functions run as they are
written; nothing is registered."""

from __future__ import annotations

from typing import Any


class Library:
    """Takes definitions, and keeps none."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind = ns, kind

    def define(self, schema: str, *args: Any, **options: Any) -> str:
        return schema

    def impl(self, op_name: Any, fn: Any = None, *args: Any, **options: Any) -> Any:
        return fn


def _same(*args: Any, **options: Any) -> Any:
    """Of `@f(…)` and `f(…, function)` the function itself."""
    given = [a for a in args if callable(a)]
    return given[-1] if given else lambda function: function


define = impl = register_fake = impl_abstract = register_kernel = register_autograd = _same


class CustomOpDef:
    """A function, and what is said of it for PyTorch's compiler."""

    def __init__(self, fn: Any) -> None:
        self._fn = fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._fn(*args, **kwargs)

    def register_fake(self, fn: Any) -> Any:
        return fn

    def register_autograd(self, backward: Any, *, setup_context: Any = None) -> None:
        raise NotImplementedError("register_autograd: use torch.autograd.Function with mica")


def custom_op(name: str, fn: Any = None, /, **options: Any) -> Any:
    return CustomOpDef(fn) if fn is not None else CustomOpDef
