"""Views, rearrangements, joins and repetitions."""

import jax.numpy as jnp
import mica
import mica.nn.functional as F
import numpy as np
from check import Call, Entry

TABLE = {}


def entry(name, ours, theirs, **options):
    """For a function that draws: the table's row."""

    def add(draw):
        TABLE[name] = Entry(draw, ours, theirs, **{"cases": 16, **options})
        return draw

    return add


@entry("reshape", mica.reshape, jnp.reshape)
def draw_reshape(d):
    factors = d.shape(min_rank=1, max_rank=4, high=4)
    if d.flag(0.1):
        factors = (0, *factors)
    merged = [factors[0]]
    for f in factors[1:]:
        if d.flag():
            merged[-1] *= f
        else:
            merged.append(f)
    if d.flag(0.3) and 0 not in factors:
        merged[d.integer(0, len(merged) - 1)] = -1
    source = tuple(factors[i] for i in d.permutation(len(factors)))
    return Call([d.values(source)], {"shape": tuple(merged)})


@entry(
    "flatten",
    mica.flatten,
    lambda x, start_dim: x.reshape((*x.shape[: start_dim % max(x.ndim, 1)], -1)),
)
def draw_flatten(d):
    shape = d.shape(min_rank=1)
    return Call([d.values(shape)], {"start_dim": d.axis(len(shape))})


@entry("permute", lambda x, axes: mica.permute(x, axes), jnp.transpose)
def draw_permute(d):
    shape = d.shape()
    axes = tuple(a - (len(shape) if d.flag() else 0) for a in d.permutation(len(shape)))
    return Call([d.values(shape)], {"axes": axes})


def draw_two_axes(d):
    shape = d.shape(min_rank=1)
    return Call([d.values(shape)], {"a": d.axis(len(shape)), "b": d.axis(len(shape))})


entry("transpose", lambda x, a, b: x.transpose(a, b), lambda x, a, b: jnp.swapaxes(x, a, b))(
    draw_two_axes
)
entry("swapaxes", lambda x, a, b: x.swapaxes(a, b), lambda x, a, b: jnp.swapaxes(x, a, b))(
    draw_two_axes
)


@entry("movedim", mica.movedim, jnp.moveaxis)
def draw_movedim(d):
    rank = d.rank(1, 4)
    n = d.integer(1, rank)
    source, destination = d.permutation(rank)[:n], d.permutation(rank)[:n]
    return Call(
        [d.values(d.shape(rank))],
        {"source": tuple(a - rank for a in source), "destination": destination},
    )


@entry("expand", mica.expand, lambda x, size: jnp.broadcast_to(x, size))
def draw_expand(d):
    size = d.shape(max_rank=4)
    kept = size[d.integer(0, len(size)) :]
    return Call([d.values(tuple(1 if d.flag() else s for s in kept))], {"size": size})


@entry("squeeze", lambda x, dim: mica.squeeze(x, dim=dim), lambda x, dim: x.squeeze(dim))
def draw_squeeze(d):
    shape = tuple(1 if d.flag() else s for s in d.shape(min_rank=1))
    ones = tuple(i for i, s in enumerate(shape) if s == 1)
    dim = None if d.flag(0.3) or not ones else tuple(a for a in ones if d.flag()) or ones[0]
    return Call([d.values(shape)], {"dim": dim})


@entry("unsqueeze", mica.unsqueeze, lambda x, dim: jnp.expand_dims(x, dim))
def draw_unsqueeze(d):
    shape = d.shape()
    return Call([d.values(shape)], {"dim": d.axis(len(shape) + 1)})


@entry("slice", lambda x, key: x[key], lambda x, key: x[key], cases=40)
def draw_slice(d):
    """Any basic index."""
    shape = d.shape(min_rank=1, high=6)
    key = []
    for size in shape[: d.integer(0, len(shape))]:
        if d.flag(0.25):
            key.append(d.integer(-size, size - 1))
        else:
            ends = [None if d.flag(0.3) else d.integer(-size - 2, size + 2) for _ in range(2)]
            key.append(slice(*ends, d.choice([None, 1, 2, 3, -1, -2])))
    if d.flag(0.3):
        key.insert(d.integer(0, len(key)), None)
    if d.flag(0.3):
        key.append(...)
    return Call([d.values(shape)], {"key": tuple(key)})


@entry(
    "narrow",
    mica.narrow,
    lambda x, dim, start, length: x[
        (slice(None),) * (dim % x.ndim)
        + (slice(start % x.shape[dim], start % x.shape[dim] + length),)
    ],
)
def draw_narrow(d):
    shape = d.shape(min_rank=1)
    dim = d.axis(len(shape))
    start = d.integer(0, shape[dim] - 1)
    length = d.integer(0, shape[dim] - start)
    return Call([d.values(shape)], {"dim": dim, "start": start, "length": length})


@entry("select", mica.select, lambda x, dim, index: jnp.take(x, index % x.shape[dim], dim))
def draw_select(d):
    shape = d.shape(min_rank=1)
    dim = d.axis(len(shape))
    return Call([d.values(shape)], {"dim": dim, "index": d.axis(shape[dim])})


@entry(
    "diagonal",
    mica.diagonal,
    lambda x, offset, dim1, dim2: jnp.diagonal(x, offset, dim1, dim2),
)
def draw_diagonal(d):
    shape = d.shape(min_rank=2)
    dim1, dim2 = d.permutation(len(shape))[:2]
    offset = d.integer(-shape[dim1] + 1, shape[dim2] - 1)
    return Call([d.values(shape)], {"offset": offset, "dim1": dim1, "dim2": dim2 - len(shape)})


def draw_joined(d, same):
    shape = d.shape(min_rank=0 if same else 1)
    dim = d.axis(len(shape) + 1) if same else d.axis(len(shape))
    shapes = []
    for _ in range(d.integer(1, 4)):
        s = list(shape)
        if not same:
            s[dim] = d.integer(0, 4)
        shapes.append(tuple(s))
    return Call([d.values(s) for s in shapes], {"dim": dim})


entry("concat", lambda *t, dim: mica.cat(t, dim), lambda *t, dim: jnp.concatenate(t, dim))(
    lambda d: draw_joined(d, same=False)
)
entry("stack", lambda *t, dim: mica.stack(t, dim), lambda *t, dim: jnp.stack(t, dim))(
    lambda d: draw_joined(d, same=True)
)


def jax_split(x, sizes, dim):
    size = x.shape[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, size - i) for i in range(0, size, sizes)]
    return jnp.split(x, np.cumsum(sizes)[:-1], dim)


@entry("split", lambda x, sizes, dim: mica.split(x, sizes, dim), jax_split)
def draw_split(d):
    shape = d.shape(min_rank=1, high=7)
    dim = d.axis(len(shape))
    sizes = d.integer(1, shape[dim])
    if d.flag():
        cuts = sorted(d.integer(0, shape[dim]) for _ in range(d.integer(0, 3)))
        sizes = [int(n) for n in np.diff([0, *cuts, shape[dim]])]
    return Call([d.values(shape)], {"sizes": sizes, "dim": dim})


@entry("chunk", mica.chunk, lambda x, chunks, dim: jax_split(x, -(-x.shape[dim] // chunks), dim))
def draw_chunk(d):
    shape = d.shape(min_rank=1, high=7)
    return Call([d.values(shape)], {"chunks": d.integer(1, 5), "dim": d.axis(len(shape))})


@entry("flip", mica.flip, lambda x, dims: jnp.flip(x, dims))
def draw_flip(d):
    shape = d.shape()
    return Call([d.values(shape)], {"dims": d.axes(len(shape))})


@entry("roll", mica.roll, lambda x, shifts, dims: jnp.roll(x, shifts, dims))
def draw_roll(d):
    shape = d.shape(min_rank=1)
    if d.flag(0.3):
        return Call([d.values(shape)], {"shifts": d.integer(-9, 9), "dims": None})
    dims = d.axes(len(shape), at_least=1)
    return Call([d.values(shape)], {"shifts": tuple(d.integer(-7, 7) for _ in dims), "dims": dims})


entry("copy", lambda x: x.to(mica.float64), lambda x: x)(lambda d: Call([d.values(d.shape())]))
entry("copy to integers", lambda x: x.to(mica.int64), jnp.trunc, gradient=False)(
    lambda d: Call([d.values(d.shape(), -9, 9)])
)


@entry(
    "copy_into",
    lambda a, b: a.copy_(b),
    lambda a, b: jnp.broadcast_to(b, a.shape),
    gradient=False,
    repeats=False,
)
def draw_copy_into(d):
    shape = d.shape()
    kept = shape[d.integer(0, len(shape)) :]
    return Call([d.values(shape), d.values(tuple(1 if d.flag(0.3) else s for s in kept))])


entry("full", mica.full, lambda shape, fill_value: jnp.full(shape, fill_value), cases=6)(
    lambda d: Call([], {"shape": d.shape(), "fill_value": d.integer(-9, 9)})
)


@entry("pad", F.pad, lambda x, pad, mode, value: jax_pad(x, pad, mode, value), cases=40)
def draw_pad(d):
    shape = d.shape(min_rank=1, low=2)
    mode = d.choice(["constant", "reflect", "replicate", "circular"])
    pad = []
    for size in reversed(shape[d.integer(0, len(shape) - 1) :]):
        most = {"constant": 3, "reflect": size - 1, "replicate": 4, "circular": size}[mode]
        least = -1 if mode == "constant" and size > 2 else 0
        pad += [d.integer(least, most), d.integer(least if pad == [] else 0, most)]
    return Call(
        [d.values(shape)],
        {"pad": pad, "mode": mode, "value": d.number(-2, 2) if mode == "constant" else None},
    )


def jax_pad(x, pad, mode, value):
    pairs = list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    pairs = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    if mode == "constant":
        cut = tuple(
            slice(max(-b, 0), s - max(-a, 0)) for (b, a), s in zip(pairs, x.shape, strict=True)
        )
        kept = [(max(b, 0), max(a, 0)) for b, a in pairs]
        return jnp.pad(x[cut], kept, constant_values=value)
    names = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return jnp.pad(x, pairs, mode=names[mode])


@entry("tile", mica.tile, lambda x, dims: jnp.tile(x, dims))
def draw_tile(d):
    return Call([d.values(d.shape(max_rank=3))], {"dims": d.shape(max_rank=4, high=3)})


@entry("repeat", mica.repeat, lambda x, repeats: jnp.tile(x, repeats))
def draw_repeat(d):
    shape = d.shape(max_rank=3)
    more = d.shape(max_rank=1, high=3)
    return Call([d.values(shape)], {"repeats": (*more, *d.shape(len(shape), low=0, high=3))})


@entry(
    "repeat_interleave",
    mica.repeat_interleave,
    lambda x, repeats, dim: jnp.repeat(x, repeats, axis=dim),
)
def draw_interleave(d):
    shape = d.shape(min_rank=1)
    dim = None if d.flag(0.2) else d.axis(len(shape))
    return Call([d.values(shape)], {"repeats": d.integer(0, 3), "dim": dim})


@entry(
    "meshgrid",
    lambda *t, indexing: mica.meshgrid(*t, indexing=indexing),
    lambda *t, indexing: jnp.meshgrid(*t, indexing=indexing),
)
def draw_meshgrid(d):
    lines = [d.values(d.shape(1)) for _ in range(d.integer(2, 4))]
    return Call(lines, {"indexing": d.choice(["ij", "xy"])})


entry(
    "full_like",
    mica.full_like,
    lambda x, fill_value: jnp.full_like(x, fill_value),
    gradient=False,
    cases=6,
)(lambda d: Call([d.values(d.shape())], {"fill_value": d.integer(-9, 9)}))


@entry("arange", lambda a, b, c: mica.arange(a, b, c), lambda a, b, c: np.arange(a, b, c), cases=12)
def draw_arange(d):
    step = d.choice([1, 2, 3, 0.25, 0.5])
    start, length = d.integer(-9, 9), d.integer(0, 9)
    if d.flag():
        return Call([], {"a": start, "b": start + length, "c": step})
    return Call([], {"a": start, "b": start - length, "c": -step})


@entry(
    "linspace", mica.linspace, lambda start, end, steps: np.linspace(start, end, steps), cases=12
)
def draw_linspace(d):
    return Call([], {"start": d.number(-9, 9), "end": d.number(-9, 9), "steps": d.integer(0, 12)})


@entry("eye", mica.eye, lambda n, m: np.eye(n, m), cases=6)
def draw_eye(d):
    return Call([], {"n": d.integer(0, 5), "m": d.integer(0, 5)})
