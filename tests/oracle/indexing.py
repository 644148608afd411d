"""Reading and writing at indices."""

import jax
import jax.numpy as jnp
import mica
import mica.nn.functional as F
import numpy as np
from check import Call, Entry

TABLE = {}


def grid(index, dim):
    """The positions that an index of the operand's rank names along an axis."""
    positions = list(np.indices(index.shape))
    positions[dim] = index
    return tuple(positions)


def cut(x, shape):
    return x[tuple(slice(0, s) for s in shape)]


def written(x, positions, source):
    """x with source at positions; where one is named twice the last in row-major order stays."""
    if source.size == 0:
        return x
    winner = np.full(x.shape, -1)
    winner[positions] = np.arange(source.size).reshape(source.shape)
    return jnp.where(winner >= 0, source.ravel()[winner], x)


def draw_indexed(d):
    """An operand, an axis of it, and an index that is no larger off the axis."""
    shape = d.shape(min_rank=1)
    dim = d.axis(len(shape))
    size = [d.integer(1, s) if d.flag(0.3) else s for s in shape]
    size[dim] = d.integer(0, 6)
    return shape, dim, d.indices(tuple(size), shape[dim])


def draw_gather(d):
    shape, dim, index = draw_indexed(d)
    return Call([d.values(shape), index], {"dim": dim})


TABLE["gather"] = Entry(
    draw_gather,
    lambda x, index, dim: mica.gather(x, dim, index),
    lambda x, index, dim: x[grid(index, dim)],
)


def draw_scatter(d):
    shape, dim, index = draw_indexed(d)
    source = tuple(s + d.integer(0, 2) for s in index.shape)
    return Call([d.values(shape), index, d.values(source)], {"dim": dim})


TABLE["scatter"] = Entry(
    draw_scatter,
    lambda x, index, src, dim: mica.scatter(x, dim, index, src),
    lambda x, index, src, dim: written(x, grid(index, dim), cut(src, index.shape)),
    repeats=False,
)


def draw_scatter_number(d):
    call = draw_gather(d)
    return Call(call.inputs, {**call.params, "value": d.number(-2, 2)})


TABLE["scatter of a number"] = Entry(
    draw_scatter_number,
    lambda x, index, dim, value: mica.scatter(x, dim, index, value),
    lambda x, index, dim, value: x.at[grid(index, dim)].set(value),
    cases=8,
)
TABLE["scatter_add"] = Entry(
    draw_scatter,
    lambda x, index, src, dim: mica.scatter_add(x, dim, index, src),
    lambda x, index, src, dim: x.at[grid(index, dim)].add(cut(src, index.shape)),
)


def draw_rows(d, source):
    shape = list(d.shape(min_rank=1))
    dim = d.axis(len(shape))
    index = d.indices((d.integer(0, 7),), shape[dim])
    inputs = [d.values(shape), index]
    if source:
        shape[dim] = index.size
        inputs.append(d.values(shape))
    return Call(inputs, {"dim": dim})


def rows(x, index, dim):
    return (slice(None),) * (dim % x.ndim) + (index,)


TABLE["index_select"] = Entry(
    lambda d: draw_rows(d, source=False),
    lambda x, index, dim: mica.index_select(x, dim, index),
    lambda x, index, dim: x[rows(x, index, dim)],
)
TABLE["index_add"] = Entry(
    lambda d: draw_rows(d, source=True),
    lambda x, index, source, dim: mica.index_add(x, dim, index, source),
    lambda x, index, source, dim: x.at[rows(x, index, dim)].add(source),
)
TABLE["index_copy"] = Entry(
    lambda d: draw_rows(d, source=True),
    lambda x, index, source, dim: mica.index_copy(x, dim, index, source),
    lambda x, index, source, dim: written(
        x,
        np.ix_(*(index if a == dim % x.ndim else range(s) for a, s in enumerate(x.shape))),
        source,
    ),
)


def draw_take(d):
    shape, dim, index = draw_indexed(d)
    dim %= len(shape)
    size = [1 if d.flag(0.2) else s for s in shape]
    size[dim] = index.shape[dim]
    operand = tuple(s if i == dim or not d.flag(0.2) else 1 for i, s in enumerate(shape))
    return Call([d.values(operand), d.indices(tuple(size), shape[dim], wrap=True)], {"dim": dim})


TABLE["take_along_axis"] = Entry(
    draw_take,
    mica.take_along_dim,
    lambda x, index, dim: jnp.take_along_axis(x, index, dim),
)


def draw_key(d):
    """Arrays and masks among slices; no integers, which JAX broadcasts with the arrays."""
    shape = d.shape(min_rank=1)
    both = d.shape(max_rank=2, high=3)
    key, axis = [], 0
    while axis < len(shape) and d.flag(0.8):
        if d.flag(0.4):
            key.append(slice(None))
        elif d.flag(0.15) and not any(isinstance(k, np.ndarray) for k in key):
            rank = d.integer(1, len(shape) - axis)
            key.append(d.mask(shape[axis : axis + rank]))
            axis += rank - 1
            both = ()
        else:
            some = tuple(1 if d.flag(0.3) else s for s in both)
            key.append(d.indices(some, shape[axis], wrap=True))
        axis += 1
    if not any(isinstance(k, np.ndarray) for k in key):
        key = [d.indices(both, shape[0], wrap=True)]
    # An index that meets a mask has one element.
    if any(k.dtype == bool for k in key if isinstance(k, np.ndarray)):
        key = [k.ravel()[:1] if isinstance(k, np.ndarray) and k.dtype != bool else k for k in key]
    return shape, tuple(key)


def in_mica(key):
    return tuple(mica.tensor(k) if isinstance(k, np.ndarray) else k for k in key)


def draw_index(d):
    shape, key = draw_key(d)
    return Call([d.values(shape)], {"key": key})


TABLE["index"] = Entry(draw_index, lambda x, key: x[in_mica(key)], lambda x, key: x[key], cases=60)


def draw_put(d):
    shape, key = draw_key(d)
    values = np.zeros(shape)[key].shape
    kept = values[d.integer(0, len(values)) if d.flag(0.3) else 0 :]
    kept = tuple(1 if d.flag(0.2) else s for s in kept)
    return Call([d.values(shape), d.values(kept)], {"key": key, "accumulate": d.flag()})


def mica_put(x, values, key, accumulate):
    indices = [None if isinstance(k, slice) else k for k in in_mica(key)]
    return mica.index_put(x, indices, values, accumulate)


def jax_put(x, values, key, accumulate):
    if accumulate:
        return x.at[key].add(values)
    at = np.arange(x.size).reshape(x.shape)[key]
    return written(x.ravel(), at, jnp.broadcast_to(values, at.shape)).reshape(x.shape)


TABLE["index_put"] = Entry(draw_put, mica_put, jax_put, cases=60)


def draw_masked(d):
    a, b = d.broadcast(2)
    return Call([d.values(a), d.mask(b)])


TABLE["masked_fill"] = Entry(
    lambda d: Call(draw_masked(d).inputs, {"value": d.number(-2, 2)}),
    mica.masked_fill,
    lambda x, mask, value: jnp.where(mask, value, x),
    cases=16,
)


def jax_masked_select(x, mask):
    shape = np.broadcast_shapes(x.shape, mask.shape)
    return jnp.broadcast_to(x, shape)[np.broadcast_to(mask, shape)]


TABLE["masked_select"] = Entry(draw_masked, mica.masked_select, jax_masked_select)
TABLE["nonzero"] = Entry(
    lambda d: Call([np.round(d.values(d.shape(min_rank=1)))]),
    mica.nonzero,
    lambda x: np.argwhere(np.asarray(x)),
    gradient=False,
    dtypes=("float32", "float64", "bool", "int64", "uint8"),
    cases=16,
)


def draw_embedding(d):
    rows = d.integer(1, 9)
    padding = None if d.flag() else d.integer(-rows, rows - 1)
    return Call(
        [d.indices(d.shape(max_rank=3), rows), d.values((rows, d.integer(1, 6)))],
        {"padding_idx": padding},
    )


def jax_embedding(index, weight, padding_idx):
    if padding_idx is not None:
        row = np.arange(weight.shape[0])[:, None] == padding_idx % weight.shape[0]
        weight = jnp.where(row, jax.lax.stop_gradient(weight), weight)
    return weight[index]


TABLE["embedding"] = Entry(draw_embedding, F.embedding, jax_embedding)
TABLE["one_hot"] = Entry(
    lambda d: Call([d.indices(d.shape(), n := d.integer(1, 7))], {"num_classes": n}),
    F.one_hot,
    lambda index, num_classes: jax.nn.one_hot(index, num_classes),
    cases=12,
)
