"""How many elements are where: counts of numbers, histograms, and where numbers are not zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mica._mica as m
from mica._mica import Tensor


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 on is in input, or the sum of its weights."""
    if input.dim() != 1 or input.is_floating_point():
        raise ValueError(f"bincount: expected integers (n), got {input.dtype} {input.shape}")
    size = max(int(input.max()) + 1 if input.numel() else 0, minlength)
    if input.numel() and int(input.min()) < 0:
        raise ValueError("bincount: expected no number below 0")
    values = m.ones_like(input, dtype=m.int64) if weights is None else weights
    if not values.is_floating_point() and weights is not None:
        values = values.double()
    zeros = m.zeros(size, dtype=values.dtype, device=input.device)
    return m.scatter_add(zeros, 0, input.long(), values)


def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements are in each of `bins` equal parts of [min, max], by default from the
    smallest element to the largest."""
    x = input.reshape(-1)
    if min == 0 and max == 0 and x.numel():
        min, max = float(x.min()), float(x.max())
    if min == max:
        min, max = min - 1, max + 1
    inside = x[m.logical_and(x >= min, x <= max)]
    at = m.clamp(m.floor((inside - min) * (bins / (max - min))), 0, bins - 1).long()
    return bincount(at, minlength=bins).to(input.dtype)


def histogram(
    input: Tensor, bins: Any, *, range: Sequence[float] | None = None,
    weight: Tensor | None = None, density: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(counts, edges) of the elements between edges, or of so many equal parts."""
    x = input.reshape(-1)
    if isinstance(bins, Tensor):
        edges = bins
    else:
        low, high = range or ((float(x.min()), float(x.max())) if x.numel() else (0.0, 0.0))
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges = m.linspace(low, high, bins + 1, dtype=input.dtype, device=input.device)
    n = edges.numel() - 1
    inside = m.logical_and(x >= edges[0], x <= edges[-1])
    at = m.clamp(m.searchsorted(edges, x[inside], right=True) - 1, 0, n - 1)
    values = m.ones_like(x) if weight is None else weight.reshape(-1)
    counts = m.scatter_add(input.new_zeros(n), 0, at, values[inside])
    if density:
        counts = counts / counts.sum() / m.diff(edges)
    return counts, edges


def histogramdd(
    input: Tensor, bins: Any, *, range: Sequence[float] | None = None,
    weight: Tensor | None = None, density: bool = False,
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """(counts, edges of each axis) of points, which the last axis of input holds."""
    points = input.reshape(-1, input.shape[-1])
    axes = points.shape[1]
    each = [bins] * axes if isinstance(bins, int) else list(bins)
    values = m.ones_like(points[:, 0]) if weight is None else weight.reshape(-1)
    inside = m.ones(points.shape[0], dtype=m.bool, device=input.device)
    at = m.zeros(points.shape[0], dtype=m.int64, device=input.device)
    edges = []
    for axis, parts in enumerate(each):
        x = points[:, axis]
        limits = None if range is None else range[2 * axis : 2 * axis + 2]
        edges.append(histogram(x, parts, range=limits)[1])
        n = edges[-1].numel() - 1
        inside = inside & (x >= edges[-1][0]) & (x <= edges[-1][-1])
        at = at * n + m.clamp(m.searchsorted(edges[-1], x, right=True) - 1, 0, n - 1)
    shape = [e.numel() - 1 for e in edges]
    counts = m.scatter_add(input.new_zeros(math.prod(shape)), 0, at[inside], values[inside])
    counts = counts.reshape(shape)
    if density:
        counts = counts / counts.sum()
        for axis, edge in enumerate(edges):
            counts = counts / m.diff(edge).reshape([-1] + [1] * (axes - 1 - axis))
    return counts, edges


def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """nonzero's first `size` rows, and rows of fill_value where there are fewer."""
    found = m.nonzero(input)[:size]
    return m.cat([found, found.new_full([size - found.shape[0], input.dim()], fill_value)])
