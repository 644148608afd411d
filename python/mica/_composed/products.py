"""Products, distances and series, made of other functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mica._mica as m
from mica._composed.shapes import _axis
from mica._composed.special import i0
from mica._mica import Tensor, functional, linalg


def _added(input: Tensor, made: Tensor, beta: float, alpha: float) -> Tensor:
    made = made if alpha == 1 else made * alpha
    return made if beta == 0 else input * beta + made if beta != 1 else input + made


def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta · input + alpha · the sum of the products of two batches of matrices."""
    return _added(input, m.bmm(batch1, batch2).sum(0), beta, alpha)


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta · input + alpha · mat @ vec."""
    return _added(input, m.mv(mat, vec), beta, alpha)


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta · input + alpha · the outer product of two vectors."""
    return _added(input, m.outer(vec1, vec2), beta, alpha)


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The dot product of input's conjugate with other."""
    return m.dot(input.conj(), other)


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product along an axis of 3, the first such axis unless dim names one."""
    if dim is None:
        dim = next((i for i, n in enumerate(input.shape) if n == 3), -1)
    a, b = m.broadcast_tensors(input, other)
    axis = _axis(dim, a.dim(), "cross")
    if a.shape[axis] != 3:
        raise ValueError(f"cross: axis {dim} of {a.shape} must have a size of 3")
    next1, next2 = (m.roll(a, s, axis) for s in (-1, -2))
    other1, other2 = (m.roll(b, s, axis) for s in (-1, -2))
    return next1 * other2 - next2 * other1


def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: every element of input times the whole of other."""
    rank = max(input.dim(), other.dim())
    a = input.reshape([1] * (rank - input.dim()) + list(input.shape))
    b = other.reshape([1] * (rank - other.dim()) + list(other.shape))
    shape = [x * y for x, y in zip(a.shape, b.shape, strict=True)]
    a = a.reshape([n for size in a.shape for n in (size, 1)])
    b = b.reshape([n for size in b.shape for n in (1, size)])
    return (a * b).reshape(shape)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices, from left to right."""
    made = matrices[0]
    for each in matrices[1:]:
        made = m.matmul(made, each)
    return made


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input - other."""
    return m.norm((input - other).reshape(-1), p=float(p))


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """(…, P, R): the distances between the rows of x1 (…, P, M) and of x2 (…, R, M)."""
    apart = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    return m.norm(apart, p=float(p), dim=-1)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances between every two rows of input (N, M), each once."""
    n = input.shape[0]
    rows = [i for i in range(n) for _ in range(i + 1, n)]
    others = [j for i in range(n) for j in range(i + 1, n)]
    at = m.tensor([rows, others], dtype=m.int64, device=input.device).reshape(2, -1)
    return m.norm(input[at[0]] - input[at[1]], p=float(p), dim=-1)


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices along dim, scaled down to a p-norm of maxnorm where theirs is larger."""
    axis = _axis(dim, input.dim(), "renorm")
    others = [i for i in range(input.dim()) if i != axis]
    size = m.norm(input, p=float(p), dim=others, keepdim=True)
    return input * m.where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)


def frobenius_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The root of the sum of squares over dim, or over all."""
    return m.norm(input, dim=dim if dim else None, keepdim=keepdim)


def logspace(
    start: float, end: float, steps: int, base: float = 10.0, *, dtype: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """base^start … base^end in `steps` steps; float32 unless dtype says otherwise."""
    exponents = m.linspace(start, end, steps, dtype=m.float64, device=device)
    made = m.exp(exponents * math.log(base)).to(dtype or m.float32)
    return made.requires_grad_(requires_grad)


def _window(n: int, periodic: bool, dtype: Any, device: Any, terms: Sequence[float]) -> Tensor:
    """A sum of cosines over a period."""
    if n == 1:
        return m.ones(1, dtype=dtype or m.float32, device=device)
    turn = m.arange(n, dtype=m.float64, device=device) * (2 * math.pi / (n if periodic else n - 1))
    made = m.zeros_like(turn)
    for i, term in enumerate(terms):
        made = made + term * m.cos(turn * i)
    return made.to(dtype or m.float32)


def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, **_: Any
) -> Tensor:
    """Hann's window."""
    return _window(window_length, periodic, dtype, device, (0.5, -0.5))


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
    dtype: Any = None, device: Any = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Hamming's window."""
    return _window(window_length, periodic, dtype, device, (alpha, -beta))


def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, **_: Any
) -> Tensor:
    """Blackman's window."""
    return _window(window_length, periodic, dtype, device, (0.42, -0.5, 0.08))


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, **_: Any
) -> Tensor:
    """Bartlett's window, a triangle."""
    if window_length == 1:
        return m.ones(1, dtype=dtype or m.float32, device=device)
    n = window_length if periodic else window_length - 1
    at = m.arange(window_length, dtype=m.float64, device=device) * (2 / n)
    return (1 - m.abs(at - 1)).to(dtype or m.float32)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None,
    device: Any = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Kaiser's window; a larger beta makes it narrower."""
    if window_length <= 1:
        return m.ones(window_length, dtype=dtype or m.float32, device=device)
    n = window_length if periodic else window_length - 1
    at = m.arange(window_length, dtype=m.float64, device=device) * (2 / n) - 1
    inside = m.clamp_min(1 - at * at, 0)
    top = i0(m.tensor(beta, dtype=m.float64, device=device))
    return (i0(beta * m.sqrt(inside)) / top).to(dtype or m.float32)


def nuclear_norm(input: Tensor, dim: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """The sum of the singular values of matrices: of the two axes `dim`, by default the last."""
    return linalg.matrix_norm(input, "nuc", dim=tuple(dim or (-2, -1)), keepdim=keepdim)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution over the first axis of (T, N, C) with weights (K, C, C_out)."""
    made = functional.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return made.permute(2, 0, 1)
