"""Mixed precision: autocast regions and the scaling of gradients."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from mica import _mica

P = ParamSpec("P")
R = TypeVar("R")

GradScaler = _mica.amp.GradScaler


class autocast:  # noqa: N801
    """`with mica.autocast("cuda", dtype=mica.bfloat16):` or `@mica.autocast("cuda")`.

    Products are computed in `dtype` (float16 on CUDA and bfloat16 on the CPU unless given), sums,
    norms and losses in float32, the rest in what comes in. Backward runs outside or inside.
    """

    def __init__(
        self,
        device_type: "str | _mica.device",
        dtype: _mica.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,  # taken for the sake of PyTorch's signature
    ) -> None:
        self._region = _mica._make_autocast(device_type, dtype, enabled)

    def __enter__(self) -> "autocast":
        self._region.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._region.__exit__()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return wrapper


__all__ = ["GradScaler", "autocast"]
