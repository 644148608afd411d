"""Mixed precision: autocast regions and the scaling of gradients."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

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


def _cast(value: Any, device_type: str, dtype: _mica.dtype) -> Any:
    """The floating tensors of a device among arguments, but those of float64, in a dtype."""
    if isinstance(value, _mica.Tensor):
        floating = value.is_floating_point() and value.dtype != _mica.float64
        return value.to(dtype) if floating and value.device.type == device_type else value
    if isinstance(value, Mapping):
        return {k: _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    return value


def custom_fwd(
    fwd: Callable[..., R] | None = None,
    *,
    device_type: str = "cuda",
    cast_inputs: _mica.dtype | None = None,
) -> Any:
    """For `forward` of an `autograd.Function`: with `cast_inputs`, where autocast is on it gets its
    floating inputs in that dtype and runs with autocast off."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> R:
        low = _mica.is_autocast_enabled(device_type)
        ctx._autocast_dtype = _mica.get_autocast_dtype(device_type)
        ctx._forward_used_autocast = low and cast_inputs is None
        if not low or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            cast = _cast((args, kwargs), device_type, cast_inputs)
            return fwd(ctx, *cast[0], **cast[1])

    return forward


def custom_bwd(bwd: Callable[..., R] | None = None, *, device_type: str = "cuda") -> Any:
    """For `backward` of a function whose `forward` has `custom_fwd`: it runs with autocast as that
    did. Without it `backward` runs with autocast off."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *grads: Any) -> R:
        with autocast(device_type, ctx._autocast_dtype, ctx._forward_used_autocast):
            return bwd(ctx, *grads)

    return backward


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
