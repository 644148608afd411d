"""Functions that make tensors of others' elements in another order, made of views and indices."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import mica._mica as m
from mica._mica import Tensor


def _axis(dim: int, rank: int, op: str) -> int:
    if not -rank <= dim < rank:
        raise m.IndexError(f"{op}: axis {dim} is out of range for {rank} axes")
    return dim % rank


def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """The elements of input's memory at offset + the sum of index · stride, as a copy that
    gradients pass through. input lies in order, without gaps."""
    if m.optim._captures():
        raise m.Unsupported(
            "as_strided: a compiled function does not see how its arguments lie in memory"
        )
    if not input.is_contiguous():
        raise ValueError("as_strided: expected a contiguous tensor")
    at = m.tensor(storage_offset or 0)
    for n, step in zip(size, stride, strict=True):
        at = at.unsqueeze(-1) + m.arange(n) * step
    flat = input.reshape(-1)
    return flat[at.reshape(-1).to(input.device)].reshape(list(size))


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """(…, number of pieces, …, size): pieces of an axis, each `step` after the one before."""
    axis = _axis(dimension, max(input.dim(), 1), "unfold")
    whole = input.reshape(1) if input.dim() == 0 else input
    if size > whole.shape[axis] or size < 0 or step < 1:
        raise ValueError(f"unfold: size {size}, step {step} do not fit an axis of {input.shape}")
    count = (whole.shape[axis] - size) // step + 1
    at = m.arange(count).unsqueeze(1) * step + m.arange(size)
    picked = m.index_select(whole, axis, at.reshape(-1).to(input.device))
    pieces = picked.unflatten(axis, (count, size))
    return m.movedim(pieces, axis + 1, -1)


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of nearly equal size, or those between indices."""
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    n = input.shape[dim]
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if not 0 < count <= 2**20:
            raise ValueError(f"tensor_split: expected 1 to 1,048,576 parts, got {count}")
        size, larger = divmod(n, count)
        ends = itertools.accumulate(size + (i < larger) for i in range(count))
        places = list(ends)[:-1]
    else:
        places = [min(max(i + n if i < 0 else i, 0), n) for i in indices_or_sections]
    starts, stops = [0, *places], [*places, n]
    return tuple(m.narrow(input, dim, a, max(b - a, 0)) for a, b in zip(starts, stops, strict=True))


def _split_along(name: str, axis: int, least: int, input: Tensor, how: Any) -> tuple[Tensor, ...]:
    if input.dim() < least:
        raise ValueError(f"{name}: expected at least {least} axes, got shape {input.shape}")
    if isinstance(how, int) and input.shape[axis] % how:
        raise ValueError(f"{name}: {how} parts do not fit an axis of {input.shape[axis]}")
    return tensor_split(input, how, axis)


def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along the first axis."""
    return _split_along("vsplit", 0, 2, input, indices_or_sections)


def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along the second axis, or the only one."""
    return _split_along("hsplit", min(input.dim(), 2) - 1, 1, input, indices_or_sections)


def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along the third axis."""
    return _split_along("dsplit", 2, 3, input, indices_or_sections)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors side by side; one axis is a column."""
    return m.hstack([t.reshape(t.numel(), 1) if t.dim() <= 1 else t for t in tensors])


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """input turned by 90 degrees k times, from the first of two axes to the second."""
    a, b = dims
    k %= 4
    if k == 0:
        return m.clone(input) if hasattr(m, "clone") else input.clone()
    if k == 2:
        return m.flip(input, [a, b])
    turned = m.transpose(input, a, b)
    return m.flip(turned, [a] if k == 1 else [b])


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last axis of input on a diagonal and 0 elsewhere."""
    n = input.shape[-1] + abs(offset)
    rank = input.dim() + 1
    first, second = _axis(dim1, rank, "diag_embed"), _axis(dim2, rank, "diag_embed")
    at = m.arange(input.shape[-1], device=input.device)
    rows, columns = at + max(-offset, 0), at + max(offset, 0)
    flat = m.zeros([*input.shape[:-1], n * n], dtype=input.dtype, device=input.device)
    place = (rows * n + columns).expand(input.shape)
    made = m.scatter(flat, -1, place, input).unflatten(-1, (n, n))
    if first > second:
        made = m.transpose(made, -2, -1)
    low, high = sorted((first, second))
    return m.movedim(made, [-2, -1], [low, high])


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements of input on a diagonal."""
    return diag_embed(input.reshape(-1), offset)


def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along a diagonal, 0 elsewhere."""
    parts = [t.reshape(1, -1) if t.dim() < 2 else t for t in tensors]
    width = sum(t.shape[1] for t in parts)
    rows, left = [], 0
    for t in parts:
        right = width - left - t.shape[1]
        zeros = [m.zeros(t.shape[0], n, dtype=t.dtype, device=t.device) for n in (left, right)]
        rows.append(m.cat([zeros[0], t, zeros[1]], 1))
        left += t.shape[1]
    return m.cat(rows, 0)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that tensors of these shapes are broadcast to."""
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    made = [m.empty(s, device="null") for s in given]
    return tuple(m.broadcast_tensors(*made)[0].shape) if made else ()


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Every choice of one element of each tensor: (n1 · n2 · …, number of tensors)."""
    if len(tensors) == 1:
        return tensors[0]
    grids = m.meshgrid(list(tensors), indexing="ij")
    return m.stack([g.reshape(-1) for g in grids], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every choice of r elements of input, in their order."""
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(input.shape[0]), r))
    if not places:
        return input[:0].reshape(0, r)
    at = m.tensor(places, device=input.device)
    return input[at.reshape(-1)].reshape(len(places), r)


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of input with src in the place of input.select(dim, index)."""
    made = input.clone()
    made.select(dim, index).copy_(src)
    return made


def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Tensor:  # fmt: skip
    """A copy of input with src in the place of input[…, start:end:step, …]."""
    made = input.clone()
    key = [slice(None)] * _axis(dim, input.dim(), "slice_scatter") + [slice(start, end, step)]
    made[tuple(key)] = src
    return made


def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of input with src on a diagonal."""
    made = input.clone()
    made.diagonal(offset, dim1, dim2).copy_(src)
    return made


def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """narrow with memory of its own."""
    return m.narrow(input, dim, start, length).clone()


def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements of the flattened input at these places, in the shape of index."""
    return input.reshape(-1)[index.reshape(-1)].reshape(index.shape)


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of input with source at these places of the flattened one, or added there."""
    flat = input.reshape(-1)
    made = m.index_put(flat, [index.reshape(-1)], source.reshape(-1), accumulate)
    return made.reshape(input.shape)


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, **_: Any
) -> Tensor:  # fmt: skip
    """(2, n): the rows and columns of a matrix's lower triangle."""
    inside = m.tril(m.ones(row, col, dtype=m.bool, device=device), offset)
    return m.nonzero(inside).T.to(dtype or m.int64).contiguous()


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, **_: Any
) -> Tensor:  # fmt: skip
    """(2, n): the rows and columns of a matrix's upper triangle."""
    inside = m.triu(m.ones(row, col, dtype=m.bool, device=device), offset)
    return m.nonzero(inside).T.to(dtype or m.int64).contiguous()


def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """The sum over the axes along which `size` was broadcast to input's shape."""
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    extra = input.dim() - len(shape)
    summed = [i for i in range(input.dim()) if i < extra or shape[i - extra] != input.shape[i]]
    return (m.sum(input, summed, keepdim=True) if summed else input).reshape(shape)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803
    """(…, n, N): the powers of x."""
    n = x.shape[-1] if N is None else N
    powers = m.arange(n, device=x.device)
    made = m.pow(x.unsqueeze(-1), powers.to(x.dtype))
    return made if increasing else m.flip(made, [-1])


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The first of each run of equal elements, or of equal slices along dim."""
    x = input.reshape(-1) if dim is None else m.movedim(input, dim, 0)
    n = x.shape[0]
    rows = x.reshape(n, -1) if n else x.reshape(0, 1)
    changes = (rows[1:] != rows[:-1]).any(1) if n > 1 else m.zeros(0, dtype=m.bool)
    first = m.cat([m.ones(min(n, 1), dtype=m.bool, device=x.device), changes.to(x.device)])
    kept = x[first] if dim is None else m.movedim(x[first], 0, dim)
    inverse = m.cumsum(first.long(), 0) - 1
    if dim is None:
        inverse = inverse.reshape(input.shape)
    places = m.nonzero(first).reshape(-1)
    ends = m.cat([places[1:], m.tensor([n], device=places.device)])
    results = [kept] + [inverse] * return_inverse + [ends - places] * return_counts
    return results[0] if len(results) == 1 else tuple(results)


def fill_diagonal_(input: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Writes a value on the diagonal of input, where all indices are equal."""
    if input.dim() < 2:
        raise ValueError(f"fill_diagonal_: expected at least two axes, got shape {input.shape}")
    n = min(input.shape)
    at = m.arange(n, device=input.device)
    input[(at,) * input.dim()] = fill_value
    if wrap and input.dim() == 2:
        for start in range(n + 1, input.shape[0], n + 1):
            rows = m.arange(start, min(start + n, input.shape[0]), device=input.device)
            input[rows, rows - start] = fill_value
    return input


def detach(input: Tensor) -> Tensor:
    """input's elements without its history."""
    return input.detach()


def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of these sizes along dim."""
    return m.split(input, list(split_sizes), dim)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Numbers of elements in a tensor of that shape as one index for each axis."""
    sizes = [shape] if isinstance(shape, int) else list(shape)
    found: list[Tensor] = []
    for size in reversed(sizes):
        found.insert(0, indices % size)
        indices = indices // size
    return tuple(found)


def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """input with src where as_strided would read."""
    order = m.arange(input.numel(), device=input.device).reshape(input.shape)
    places = as_strided(order, size, stride, storage_offset).reshape(-1)
    flat = input.reshape(-1).index_copy(0, places, src.reshape(-1))
    return flat.reshape(input.shape)
