"""Parametrizations by name: weight_norm, spectral_norm and orthogonal."""

from __future__ import annotations

from typing import Any

import mica._mica as m
from mica._grad_mode import no_grad
from mica._mica import Tensor
from mica._mica import nn as _nn
from mica.nn import functional as F
from mica.nn.utils.parametrize import register_parametrization


def norm_except_dim(v: Tensor, dim: int | None) -> Tensor:
    """The norm over all axes but one; -1 or None: over all."""
    if dim is None or dim == -1:
        return v.square().sum().sqrt()
    others = [axis for axis in range(v.dim()) if axis != dim]
    return v.square().sum(others, keepdim=True).sqrt()


class _WeightNorm(_nn.Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Length and direction of a weight are trained apart: original0 is its norm over all axes but
    `dim`, original1 the direction."""
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


def matrix_of(weight: Tensor, dim: int) -> Tensor:
    """A weight as a matrix whose rows are along `dim`."""
    if dim != 0:
        weight = weight.permute(dim, *(axis for axis in range(weight.dim()) if axis != dim))
    return weight.reshape(weight.shape[0], -1)


def power_iterations(matrix: Tensor, u: Tensor, v: Tensor, steps: int, eps: float) -> None:
    """Brings u and v, which are written to, nearer to the first singular vectors."""
    with no_grad():
        for _ in range(steps):
            u.copy_(F.normalize(matrix @ v, dim=0, eps=eps))
            v.copy_(F.normalize(matrix.t() @ u, dim=0, eps=eps))


def rows_of(module: Any) -> int:
    """The axis of a layer's outputs: 1 of transposed convolutions."""
    kinds = (_nn.ConvTranspose1d, _nn.ConvTranspose2d, _nn.ConvTranspose3d)
    return 1 if isinstance(module, kinds) else 0


class _SpectralNorm(_nn.Module):
    def __init__(self, weight: Tensor, steps: int, dim: int, eps: float) -> None:
        super().__init__()
        self.dim = dim if dim >= 0 else dim + weight.dim()
        self.eps, self.n_power_iterations = eps, steps
        if weight.dim() > 1:
            with no_grad():
                matrix = matrix_of(weight, self.dim)
                u, v = (
                    F.normalize(
                        m.randn(n, dtype=weight.dtype, device=weight.device), dim=0, eps=eps
                    )
                    for n in matrix.shape
                )
                self.register_buffer("_u", u)
                self.register_buffer("_v", v)
                power_iterations(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = matrix_of(weight, self.dim)
        if self.training:
            power_iterations(matrix, self._u, self._v, self.n_power_iterations, self.eps)
        sigma: Tensor = self._u.clone() @ (matrix @ self._v.clone())
        return weight / sigma

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """A weight divided by its largest singular value, which a step of the power method follows at
    each call in training."""
    weight = getattr(module, name)
    rows = rows_of(module) if dim is None else dim
    made = _SpectralNorm(weight, n_power_iterations, rows, eps)
    return register_parametrization(module, name, made)


class _Orthogonal(_nn.Module):
    """`base` times a map of the skew-symmetric matrices, made of the lower triangle of X, to the
    orthogonal ones. A wide matrix is made as the transposed of a tall one."""

    base: Tensor

    def __init__(self, weight: Tensor, cayley: bool) -> None:
        super().__init__()
        self.cayley = cayley
        with no_grad():
            tall = weight if weight.shape[-2] >= weight.shape[-1] else weight.mT
            q, r = m.linalg.qr(tall, mode="complete")
            k = tall.shape[-1]
            signs = r.diagonal(0, -2, -1).sign().unsqueeze(-2)  # nearest to a weight that is one
            self.register_buffer("base", m.cat([q[..., :k] * signs, q[..., k:]], -1))

    def forward(self, weight: Tensor) -> Tensor:
        wide = weight.shape[-2] < weight.shape[-1]
        x = (weight.mT if wide else weight).tril()
        n, k = x.shape[-2:]
        if n != k:
            x = m.cat([x, x.new_zeros([*x.shape[:-1], n - k])], -1)
        skew = x - x.mT
        if self.cayley:
            one = m.eye(n, dtype=x.dtype, device=x.device)
            q = m.linalg.solve(one - skew / 2, one + skew / 2)
        else:
            q = m.linalg.matrix_exp(skew)
        q = (self.base @ q)[..., :k]
        return q.mT if wide else q

    def right_inverse(self, value: Tensor) -> Tensor:
        """What gives `base`, which was made of the value."""
        return value.new_zeros(value.shape)


def orthogonal(
    module: Any,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Any:
    """A matrix with orthogonal columns, or rows where it is wide: by the exponential of a matrix
    unless orthogonal_map is "cayley". It begins as the orthogonal factor of what is there."""
    weight = getattr(module, name)
    if weight.dim() < 2:
        raise ValueError(
            f"orthogonal: expected a matrix or several, got a tensor of shape {tuple(weight.shape)}"
        )
    if orthogonal_map not in (None, "matrix_exp", "cayley") or not use_trivialization:
        raise m.Unsupported(
            "orthogonal: orthogonal_map may be 'matrix_exp' or 'cayley', with use_trivialization, "
            f"got {orthogonal_map!r} and {use_trivialization}"
        )
    made = _Orthogonal(weight, orthogonal_map == "cayley")
    return register_parametrization(module, name, made, unsafe=True)
