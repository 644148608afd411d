"""weight_norm and spectral_norm as PyTorch first had them: the same numbers under other keys,
`weight_g` and `weight_v`, or `weight_orig`, `weight_u` and `weight_v`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mica._mica as m
from mica._grad_mode import no_grad
from mica._mica import Tensor
from mica._mica import nn as _nn
from mica.nn import functional as F
from mica.nn.utils import _computed
from mica.nn.utils.parametrizations import (
    matrix_of,
    norm_except_dim,
    power_iterations,
    rows_of,
)


def _kept(module: Any, what: str) -> dict[str, Callable[[], Any]]:
    """What takes each of these back, by the name of the weight."""
    found: dict[str, Callable[[], Any]] = module.__dict__.setdefault(f"_{what}", {})
    return found


def _remove(module: Any, name: str, what: str) -> Any:
    if name not in _kept(module, what):
        raise ValueError(f"remove_{what}: {type(module).__name__}.{name} has none")
    _kept(module, what).pop(name)()
    return module


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Length and direction of a weight are trained apart, as name_g and name_v."""
    axis = -1 if dim is None else dim
    weight = getattr(module, name)

    def get(of: Any) -> Tensor:
        v = getattr(of, f"{name}_v")
        made: Tensor = v * (getattr(of, f"{name}_g") / norm_except_dim(v, axis))
        return made

    take_back = _computed.put(module, name, get)
    with no_grad():
        module.register_parameter(
            f"{name}_g", _nn.Parameter(norm_except_dim(weight, axis).detach())
        )
    module.register_parameter(f"{name}_v", weight)

    def remove() -> None:
        with no_grad():
            value = get(module).detach()
        take_back()
        delattr(module, f"{name}_g")
        delattr(module, f"{name}_v")
        setattr(module, name, _nn.Parameter(value))

    _kept(module, "weight_norm")[name] = remove
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """One parameter again."""
    return _remove(module, name, "weight_norm")


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """A weight divided by its largest singular value, which a step of the power method follows at
    each call in training. The weight itself is name_orig."""
    weight = getattr(module, name)
    axis = rows_of(module) if dim is None else dim

    def parts(of: Any) -> tuple[Tensor, Tensor, Tensor]:
        return tuple(getattr(of, f"{name}_{part}") for part in ("orig", "u", "v"))

    def get(of: Any) -> Tensor:
        weight, u, v = parts(of)
        return weight / (u.clone() @ (matrix_of(weight, axis) @ v.clone()))

    def for_a_call(of: Any) -> Tensor:
        weight, u, v = parts(of)
        if of.training:
            # PyTorch's first form begins with v.
            with no_grad():
                matrix = matrix_of(weight, axis)
                for _ in range(n_power_iterations):
                    v.copy_(F.normalize(matrix.t() @ u, dim=0, eps=eps))
                    u.copy_(F.normalize(matrix @ v, dim=0, eps=eps))
        return get(of)

    take_back = _computed.put(module, name, get, for_a_call=for_a_call)
    module.register_parameter(f"{name}_orig", weight)
    with no_grad():
        matrix = matrix_of(weight, axis)
        like = {"dtype": weight.dtype, "device": weight.device}
        u, v = (F.normalize(m.randn(n, **like), dim=0, eps=eps) for n in matrix.shape)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        power_iterations(matrix, u, v, 15, eps)

    def remove() -> None:
        with no_grad():
            value = get(module).detach()
        take_back()
        for part in ("orig", "u", "v"):
            delattr(module, f"{name}_{part}")
        setattr(module, name, _nn.Parameter(value))

    _kept(module, "spectral_norm")[name] = remove
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """One parameter again."""
    return _remove(module, name, "spectral_norm")
