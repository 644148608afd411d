"""Reductions, orders and counts, made of other functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mica._mica as m
from mica._composed.shapes import _axis
from mica._mica import Tensor, ValuesIndices
from mica.autograd import Function


def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, ...]:
    """(min, max) over an axis, or over all for None."""
    return m.amin(input, dim, keepdim), m.amax(input, dim, keepdim)


def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum over dim of the elements that are not NaN."""
    x = input if dtype is None else input.to(dtype)
    return m.sum(m.where(m.isnan(x), 0, x) if x.is_floating_point() else x, dim, keepdim)


def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean over dim of the elements that are not NaN."""
    x = input if dtype is None else input.to(dtype)
    count = m.sum(m.logical_not(m.isnan(x)), dim, keepdim)
    return nansum(x, dim, keepdim) / count.to(x.dtype)


def _quantile(x: Tensor, q: Tensor, dim: int, how: str, count: Tensor) -> Tensor:
    """Of sorted x along dim, of which `count` are numbers; (number of q, …, 1, …)."""
    rank = (q.reshape([-1] + [1] * x.dim()) * (count - 1).to(x.dtype)).clamp_min(0)
    low, high = m.floor(rank), m.ceil(rank)
    wide = x.unsqueeze(0).expand([q.numel(), *x.shape])

    def at(place: Tensor) -> Tensor:
        return m.gather(wide, dim + 1, place.long().expand([q.numel(), *place.shape[1:]]))

    if how == "lower":
        return at(low)
    if how == "higher":
        return at(high)
    if how == "nearest":
        return at(m.round(rank))
    below, above = at(low), at(high)
    weight = 0.5 if how == "midpoint" else rank - low
    return m.lerp(below, above, weight * m.ones_like(below))


def _quantiles(
    name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, how: str, skip_nan: bool
) -> Tensor:
    if how not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise ValueError(f"{name}: interpolation must be linear, lower, higher, …, got {how!r}")
    points = q if isinstance(q, Tensor) else m.tensor(q, dtype=input.dtype, device=input.device)
    if bool(m.logical_or(points < 0, points > 1).any()):
        raise ValueError(f"{name}: q must be between 0 and 1")
    x = input.reshape(-1) if dim is None else input
    axis = _axis(0 if dim is None else dim, x.dim(), name)
    ordered = m.sort(x, axis)[0]  # NaN is last
    missing = m.isnan(x)
    there = m.sum(m.logical_not(missing), axis, keepdim=True)
    count = there if skip_nan else m.full_like(there, x.shape[axis])
    made = _quantile(ordered, points.reshape(-1), axis, how, count)
    gone = (there == 0) if skip_nan else missing.any(axis, keepdim=True)
    made = m.where(gone.unsqueeze(0), float("nan"), made)
    if dim is None:
        made = made.reshape([-1] + [1] * input.dim()) if keepdim else made.reshape(-1)
    elif not keepdim:
        made = m.squeeze(made, axis + 1)
    return made if points.dim() else made[0]


def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Tensor:  # fmt: skip
    """The values below which fractions q of the elements along dim are, or of all for None."""
    return _quantiles("quantile", input, q, dim, keepdim, interpolation, False)


def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Tensor:  # fmt: skip
    """quantile of the elements that are not NaN."""
    return _quantiles("nanquantile", input, q, dim, keepdim, interpolation, True)


def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of the elements that are not NaN, the lower of two; with dim also where it is."""
    x = input.reshape(-1) if dim is None else input
    axis = _axis(0 if dim is None else dim, x.dim(), "nanmedian")
    ordered, order = m.sort(x, axis)
    count = m.sum(m.logical_not(m.isnan(x)), axis, keepdim=True)
    at = m.floor_divide(m.clamp_min(count - 1, 0), 2)
    values, indices = m.gather(ordered, axis, at), m.gather(order, axis, at)
    if dim is None:
        return values.reshape(())
    if not keepdim:
        values, indices = m.squeeze(values, axis), m.squeeze(indices, axis)
    return ValuesIndices(values, indices)


def _taking_no_axes(f: Callable[..., ValuesIndices]) -> Callable[..., ValuesIndices]:
    """f, which works along an axis; a tensor without any is taken as one of a single element."""

    @functools.wraps(f)
    def taking(input: Tensor, *args: Any, **kwargs: Any) -> ValuesIndices:
        if input.dim():
            return f(input, *args, **kwargs)
        values, indices = f(input.reshape(1), *args, **kwargs)
        return ValuesIndices(values.reshape(()), indices.reshape(()))

    return taking


@_taking_no_axes
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest along dim, counted from 1, and where it is."""
    axis = _axis(dim, input.dim(), "kthvalue")
    if not 1 <= k <= input.shape[axis]:
        raise ValueError(f"kthvalue: k must be from 1 to {input.shape[axis]}, got {k}")
    ordered, order = m.sort(input, axis)
    values, indices = m.narrow(ordered, axis, k - 1, 1), m.narrow(order, axis, k - 1, 1)
    if not keepdim:
        values, indices = m.squeeze(values, axis), m.squeeze(indices, axis)
    return ValuesIndices(values, indices)


@_taking_no_axes
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The most frequent value along dim, the smallest of several, and where it is last."""
    axis = _axis(dim, input.dim(), "mode")
    x = m.movedim(input, axis, -1)
    equal = (x.unsqueeze(-1) == x.unsqueeze(-2)).sum(-1)
    often = equal == m.amax(equal, -1, True)
    least = m.amin(m.where(often, x, m.amax(x, -1, True)), -1, True)
    places = m.arange(x.shape[-1], device=x.device)
    at = m.amax(m.where(x == least, places, -1), -1, True)
    values, indices = m.gather(x, -1, at), at
    values, indices = m.movedim(values, -1, axis), m.movedim(indices, -1, axis)
    if not keepdim:
        values, indices = m.squeeze(values, axis), m.squeeze(indices, axis)
    return ValuesIndices(values, indices)


def msort(input: Tensor) -> Tensor:
    """Sorted along the first axis."""
    return m.sort(input, 0)[0]


def _running(input: Tensor, dim: int, larger: bool, name: str) -> ValuesIndices:
    """The extreme so far along dim and where it is, the last of equals."""
    axis = _axis(dim, input.dim(), name)
    x = m.movedim(input, axis, 0)
    best = m.zeros_like(x, dtype=m.int64)
    rows = []
    at = m.zeros(x.shape[1:], dtype=m.int64, device=x.device)
    value = x[0].detach() if x.shape[0] else x
    for i in range(x.shape[0]):
        row = x[i].detach()
        wins = m.logical_or(row >= value if larger else row <= value, m.isnan(row))
        wins = m.logical_and(wins, m.logical_or(m.logical_not(m.isnan(value)), m.isnan(row)))
        at = m.where(wins, i, at)
        value = m.where(wins, row, value)
        rows.append(at)
    best = m.stack(rows) if rows else best
    return ValuesIndices(m.movedim(m.gather(x, 0, best), 0, axis), m.movedim(best, 0, axis))


@_taking_no_axes
def cummax(input: Tensor, dim: int) -> ValuesIndices:
    """The largest value so far along dim, and where it is."""
    return _running(input, dim, True, "cummax")


@_taking_no_axes
def cummin(input: Tensor, dim: int) -> ValuesIndices:
    """The smallest value so far along dim, and where it is."""
    return _running(input, dim, False, "cummin")


def _scan(x: Tensor, axis: int, reverse: bool = False) -> Tensor:
    """logcumsumexp by steps that double in reach."""
    n, reach = x.shape[axis], 1
    while reach < n:
        first, last = x.narrow(axis, 0, n - reach), x.narrow(axis, reach, n - reach)
        both = m.logaddexp(first, last)
        kept = x.narrow(axis, n - reach if reverse else 0, reach)
        x = m.cat([both, kept] if reverse else [kept, both], axis)
        reach *= 2
    return x


class _LogCumSumExp(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int) -> Any:
        ctx.axis = axis
        y = _scan(x, axis)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        # exp(x_i) times the sum of grad_t / exp(y_t) over t from i on, for either sign of grad.
        x, y = ctx.saved_tensors
        total = m.zeros_like(x)
        for sign in (1, -1):
            part = (grads[0] * sign).clamp_min(0).log() - y
            total = total + sign * m.exp(x + _scan(part, ctx.axis, reverse=True))
        return total, None


def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log of the running sum of exp(input) along dim, without overflow."""
    axis = _axis(dim, max(input.dim(), 1), "logcumsumexp")
    if input.dim() == 0:
        return input
    made: Tensor = _LogCumSumExp.apply(input, axis)
    return made


def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Between which of the rising boundaries each element is."""
    x = input if isinstance(input, Tensor) else m.tensor(input, device=boundaries.device)
    at = m.searchsorted(boundaries, x.to(boundaries.dtype), right=right)
    return at.int() if out_int32 else at


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element is one of test_elements."""
    like = elements if isinstance(elements, Tensor) else test_elements
    x = elements if isinstance(elements, Tensor) else m.tensor(elements, device=like.device)
    among = (
        test_elements if isinstance(test_elements, Tensor) else m.tensor([test_elements])
    ).reshape(-1)
    found = (x.unsqueeze(-1) == among.to(x.device)).any(-1)
    return m.logical_not(found) if invert else found


def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """input with the elements of src reduced into the places that index says along dim: sum, prod,
    mean, amax or amin, together with what was there unless include_self is False."""
    axis = _axis(dim, input.dim(), "scatter_reduce")
    part = src[tuple(slice(n) for n in index.shape)]
    touched = m.zeros_like(input).scatter_add(axis, index, m.ones_like(part))
    empty = touched == 0
    if reduce in ("sum", "mean"):
        base = input if include_self else m.where(empty, input, m.zeros_like(input))
        made = m.scatter_add(base, axis, index, part)
        if reduce == "sum":
            return made
        count = m.where(empty, 1, touched + (1 if include_self else 0))
        if input.is_floating_point():
            return made / count
        return m.floor_divide(made, count)
    if reduce not in ("prod", "amax", "amin"):
        raise ValueError(
            f"scatter_reduce: reduce must be sum, prod, mean, amax or amin, got {reduce!r}"
        )
    # One element of src after the other along dim, each of which goes to places of its own.
    join = {"prod": m.mul, "amax": m.maximum, "amin": m.minimum}[reduce]
    made, seen = input, m.full_like(input, include_self, dtype=m.bool)
    for i in range(index.shape[axis]):
        at, value = m.narrow(index, axis, i, 1), m.narrow(part, axis, i, 1)
        now = m.gather(made, axis, at)
        fresh = m.logical_not(m.gather(seen, axis, at))
        made = m.scatter(made, axis, at, m.where(fresh, value, join(now, value)))
        seen = m.scatter(seen, axis, at, m.ones_like(at, dtype=m.bool))
    return made


def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *,
    include_self: bool = True,
) -> Tensor:  # fmt: skip
    """input with the slices of source reduced into the places that index says along dim."""
    axis = _axis(dim, input.dim(), "index_reduce")
    shape = [1] * input.dim()
    shape[axis] = -1
    at = index.reshape(shape).expand(source.shape)
    return scatter_reduce(input, axis, at, source, reduce, include_self=include_self)


def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The covariances of the rows of input, whose columns are observations."""
    x = input.reshape(1, -1) if input.dim() < 2 else input
    weights = m.ones(x.shape[1], dtype=x.dtype, device=x.device)
    if fweights is not None:
        weights = weights * fweights
    total = weights.sum()
    if aweights is not None:
        squares = (weights * aweights * aweights).sum()
        weights = weights * aweights
        total = weights.sum()
        norm = total - correction * squares / total
    else:
        norm = total - correction
    centred = x - (x * weights).sum(1, keepdim=True) / total
    made = (centred * weights) @ centred.T / norm
    return made.reshape(()) if input.dim() < 2 else made


def corrcoef(input: Tensor) -> Tensor:
    """The correlations of the rows of input, whose columns are observations."""
    c = cov(input)
    if c.dim() == 0:
        return c / c
    deviation = m.sqrt(c.diagonal())
    return m.clamp(c / deviation.unsqueeze(1) / deviation, -1, 1)


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1) -> Tensor:
    """The integral of y along dim by the trapezoidal rule."""
    return _trapezoids(y, x, dx, dim).sum(dim)


def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1
) -> Tensor:
    """The integral of y along dim up to each point but the first."""
    return m.cumsum(_trapezoids(y, x, dx, dim), dim)


def _trapezoids(y: Tensor, x: Tensor | None, dx: float, dim: int) -> Tensor:
    n = y.shape[dim]
    middle = (m.narrow(y, dim, 1, n - 1) + m.narrow(y, dim, 0, n - 1)) / 2
    if x is None:
        return middle * dx
    if x.dim() == 1:
        shape = [1] * y.dim()
        shape[dim] = -1
        return middle * m.diff(x).reshape(shape)
    return middle * m.diff(x, dim=dim)


def _gradient_along(x: Tensor, dim: int, at: Tensor, edge_order: int) -> Tensor:
    """By differences of second order inside, of the order that is said at both ends."""
    n = x.shape[dim]
    shape = [1] * x.dim()
    shape[dim] = -1
    step = (at[1:] - at[:-1]).reshape(shape)
    slope = m.diff(x, dim=dim) / step
    before, after = step.narrow(dim, 0, n - 2), step.narrow(dim, 1, n - 2)
    left, right = slope.narrow(dim, 0, n - 2), slope.narrow(dim, 1, n - 2)
    inner = (left * after + right * before) / (before + after)
    first, last = slope.narrow(dim, 0, 1), slope.narrow(dim, n - 2, 1)
    if edge_order == 2:
        first, last = _edge(slope, step, dim, False), _edge(slope, step, dim, True)
    return m.cat([first, inner, last], dim)


def _edge(slope: Tensor, step: Tensor, dim: int, last: bool) -> Tensor:
    n = slope.shape[dim]
    outer, next = (n - 1, n - 2) if last else (0, 1)
    a, b = slope.narrow(dim, outer, 1), slope.narrow(dim, next, 1)
    h, k = step.narrow(dim, outer, 1), step.narrow(dim, next, 1)
    return a + (a - b) * h / (h + k)


def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> list[Tensor]:
    """The slope along each axis (or those of dim), by differences: spacing is a step, a step for
    each axis, or the coordinates of each axis's points."""
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    axes = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    steps = list(spacing) if isinstance(spacing, tuple | list) else [spacing] * len(axes)
    if len(steps) != len(axes):
        raise ValueError(f"gradient: expected {len(axes)} spacings, got {len(steps)}")
    made = []
    for axis, step in zip(axes, steps, strict=True):
        n = input.shape[axis]
        if n < edge_order + 1:
            raise m.ShapeError(
                f"gradient: axis {axis} must have {edge_order + 1} or more elements, got {n}"
            )
        if isinstance(step, Tensor):
            places = step
        else:
            places = m.arange(n, dtype=input.dtype, device=input.device) * step
        made.append(_gradient_along(input, axis % input.dim(), places.to(input.dtype), edge_order))
    return made
