"""Second forms of what tensors have as methods: functions that write over their first argument
(torch.exp_), and copies of views (torch.permute_copy)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mica

_IN_PLACE = (
    "abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_ "
    "asinh_ atan_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ cos_ cosh_ deg2rad_ detach_ erf_ "
    "erfc_ exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ index_put_ lcm_ ldexp_ log10_ log1p_ "
    "log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ resize_as_ round_ rsqrt_ "
    "sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_"
).split()
_VIEWS = (
    "as_strided detach diagonal expand permute select split split_with_sizes squeeze t transpose "
    "unbind unfold unsqueeze view"
).split()


def _method(name: str) -> Callable[..., Any]:
    def call(input: mica.Tensor, *args: Any, **kwargs: Any) -> Any:
        return getattr(input, name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def _copy(name: str) -> Callable[..., Any]:
    def call(input: mica.Tensor, *args: Any, **kwargs: Any) -> Any:
        made = getattr(input, name)(*args, **kwargs)
        return made.clone() if isinstance(made, mica.Tensor) else tuple(m.clone() for m in made)

    call.__name__ = call.__qualname__ = name + "_copy"
    return call


FORMS = {name: _method(name) for name in _IN_PLACE if hasattr(mica.Tensor, name)} | {
    f"{name}_copy": _copy(name) for name in _VIEWS if hasattr(mica.Tensor, name)
}


def dropout_(input: mica.Tensor, p: float, train: bool) -> mica.Tensor:
    return input.copy_(mica.nn.functional.dropout(input, p, train))


def alpha_dropout_(input: mica.Tensor, p: float, train: bool) -> mica.Tensor:
    return input.copy_(mica.nn.functional.alpha_dropout(input, p, train))


def slice_copy(
    input: mica.Tensor, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> mica.Tensor:  # fmt: skip
    index = [slice(None)] * (dim % input.dim()) + [slice(start, end, step)]
    return input[tuple(index)].clone()


def alias_copy(input: mica.Tensor) -> mica.Tensor:
    return input.clone()


def view_as_real_copy(input: mica.Tensor) -> mica.Tensor:
    return mica.view_as_real(input).clone()


def view_as_complex_copy(input: mica.Tensor) -> mica.Tensor:
    return mica.view_as_complex(input).clone()
