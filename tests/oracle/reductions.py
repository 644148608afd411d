"""Reductions over sets of axes, scans, and order."""

import jax
import jax.numpy as jnp
import mica
import numpy as np
from check import FLOAT_DTYPES, INTEGERS, Call, Entry
from jax.scipy.special import logsumexp

TABLE = {}


def reduction(name, ours, theirs, low=-2.0, high=2.0, distinct=False, **options):
    def draw(d):
        shape = d.shape(max_rank=5, high=4) if d.flag(0.8) else (d.integer(1, 3), d.integer(50, 90))
        x = d.distinct(shape) if distinct else d.values(shape, low, high)
        return Call([x], {"dim": d.dim(len(shape)), "keepdim": d.flag()})

    def oracle(x, dim, keepdim):
        return theirs(x, axis=dim, keepdims=keepdim)

    TABLE[name] = Entry(draw, ours, oracle, **options)


reduction("sum", mica.sum, jnp.sum, cases=32)
reduction("mean", mica.mean, jnp.mean)
reduction("prod", mica.prod, jnp.prod, 0.5, 1.5)
reduction("max", mica.amax, jnp.max, distinct=True, repeats=False)
reduction("min", mica.amin, jnp.min, distinct=True, repeats=False)
reduction("logsumexp", mica.logsumexp, logsumexp, -4, 4)
reduction("sum of integers", mica.sum, np.sum, -9, 9, dtypes=(*INTEGERS, "bool"), cases=12)
reduction("prod of integers", mica.prod, np.prod, -3, 3, dtypes=INTEGERS, cases=12)
for _name in ("any", "all", "count_nonzero"):
    reduction(
        _name,
        getattr(mica, _name),
        getattr(jnp, _name),
        -1,
        1,
        gradient=False,
        dtypes=("bool", "int64", "uint8", "float32", "float64"),
    )


def draw_zeros(d):
    """A product with zeros in it, whose gradient must not divide by them."""
    shape = d.shape(min_rank=1, high=4)
    x = np.where(d.rng.random(shape) < 0.3, 0.0, d.values(shape, 0.5, 1.5))
    return Call([x], {"dim": d.dim(len(shape)), "keepdim": d.flag()})


TABLE["prod of zeros"] = Entry(
    draw_zeros, mica.prod, lambda x, dim, keepdim: jnp.prod(x, axis=dim, keepdims=keepdim)
)


def draw_moment(d):
    shape = d.shape(min_rank=1, low=2)
    params = {"dim": d.dim(len(shape)), "keepdim": d.flag(), "correction": d.choice([0, 1, 1, 0.5])}
    return Call([d.values(shape)], params)


for _name, _theirs in (("var", jnp.var), ("std", jnp.std)):
    TABLE[_name] = Entry(
        draw_moment,
        getattr(mica, _name),
        lambda x, dim, keepdim, correction, f=_theirs: f(
            x, axis=dim, keepdims=keepdim, correction=correction
        ),
        repeats=False,  # the root has no derivative where nothing varies
        tolerance=4,
    )


def draw_norm(d):
    shape = d.shape(min_rank=1)
    p = d.choice([2, 2, 1, 3, 1.5, 0.5, np.inf, -np.inf])
    x = d.distinct(shape, 0.2, 2) * d.rng.choice([-1, 1], shape)
    return Call([x], {"p": p, "dim": d.dim(len(shape)), "keepdim": d.flag()})


def jax_norm(x, p, dim, keepdim):
    if np.isinf(p):
        return (jnp.max if p > 0 else jnp.min)(jnp.abs(x), axis=dim, keepdims=keepdim)
    return jnp.sum(jnp.abs(x) ** p, axis=dim, keepdims=keepdim) ** (1 / p)


TABLE["norm"] = Entry(draw_norm, mica.norm, jax_norm, repeats=False, tolerance=2)


def draw_arg(d):
    shape = d.shape(min_rank=1)
    values = d.values(shape, -3, 3) if d.flag() else np.round(d.values(shape, -3, 3))
    dim = None if d.flag(0.2) else d.axis(len(shape))
    return Call([values], {"dim": dim, "keepdim": d.flag() and dim is not None})


for _name, _ours, _theirs in (
    ("argmax", mica.argmax, jnp.argmax),
    ("argmin", mica.argmin, jnp.argmin),
):
    TABLE[_name] = Entry(
        draw_arg,
        _ours,
        lambda x, dim, keepdim, f=_theirs: f(x, axis=dim, keepdims=keepdim),
        gradient=False,
        dtypes=(*FLOAT_DTYPES, *INTEGERS),
    )


def draw_scan(d, low, high):
    shape = d.shape(min_rank=1) if d.flag(0.8) else (d.integer(1, 3), d.integer(30, 70))
    return Call(
        [d.values(shape, low, high)],
        {"dim": d.axis(len(shape)), "exclusive": d.flag(0.3), "reverse": d.flag(0.3)},
    )


def jax_scan(scan, start):
    def oracle(x, dim, exclusive, reverse):
        x = jnp.flip(x, dim) if reverse else jnp.asarray(x)
        if exclusive:
            first = jnp.full_like(jax.lax.slice_in_dim(x, 0, 1, axis=dim), start)
            kept = jax.lax.slice_in_dim(x, 0, x.shape[dim] - 1, axis=dim)
            x = jnp.concatenate([first, kept], dim)
        y = scan(x, axis=dim)
        return jnp.flip(y, dim) if reverse else y

    return oracle


for _name, _theirs, _start in (("cumsum", jnp.cumsum, 0), ("cumprod", jnp.cumprod, 1)):
    TABLE[_name] = Entry(
        lambda d: draw_scan(d, 0.6, 1.4), getattr(mica, _name), jax_scan(_theirs, _start)
    )
    TABLE[f"{_name} of integers"] = Entry(
        lambda d: draw_scan(d, -2, 2),
        getattr(mica, _name),
        jax_scan(_theirs, _start),
        dtypes=INTEGERS[:2],
        cases=8,
    )
TABLE["cumprod of zeros"] = Entry(
    lambda d: Call([draw_zeros(d).inputs[0]], {"dim": 0}),
    mica.cumprod,
    lambda x, dim: jnp.cumprod(x, axis=dim),
    cases=12,
)


def draw_linear_scan(d):
    call = draw_scan(d, -1, 1)
    return Call([*call.inputs, d.values(call.inputs[0].shape)], call.params)


def jax_linear_scan(a, b, dim, exclusive, reverse):
    a, b = (jnp.moveaxis(v, dim, 0) for v in (a, b))
    if reverse:
        a, b = a[::-1], b[::-1]
    h, states = jnp.zeros(a.shape[1:]), []
    for i in range(a.shape[0]):
        before, h = h, a[i] * h + b[i]
        states.append(before if exclusive else h)
    y = jnp.stack(states[::-1] if reverse else states)
    return jnp.moveaxis(y, 0, dim)


TABLE["linear_scan"] = Entry(draw_linear_scan, mica.linear_scan, jax_linear_scan, cases=12)


def draw_sort(d):
    shape = d.shape(min_rank=1, high=6) if d.flag(0.7) else (d.integer(1, 3), d.integer(100, 300))
    x = d.distinct(shape) if d.is_float else d.values(shape)
    return Call([x], {"dim": d.axis(len(shape)), "descending": d.flag()})


def stable_order(x, dim, descending):
    """Concrete: JAX's own order of equals when descending is the reverse."""
    x = np.asarray(x)
    if not descending:
        return np.argsort(x, dim, kind="stable")
    return x.shape[dim] - 1 - np.flip(np.argsort(np.flip(x, dim), dim, kind="stable"), dim)


TABLE["sort"] = Entry(
    draw_sort,
    lambda x, dim, descending: mica.sort(x, dim, descending).values,
    lambda x, dim, descending: jnp.sort(x, dim, descending=descending),
    repeats=False,
)
TABLE["sort of equals"] = Entry(
    lambda d: Call(
        [np.round(d.values(s := d.shape(min_rank=1)))],
        {"dim": d.axis(len(s)), "descending": d.flag()},
    ),
    mica.sort,
    lambda x, dim, descending: (
        np.take_along_axis(np.asarray(x), stable_order(x, dim, descending), dim),
        stable_order(x, dim, descending),
    ),
    gradient=False,
    dtypes=(*FLOAT_DTYPES, *INTEGERS),
)
TABLE["argsort"] = Entry(
    draw_sort, mica.argsort, stable_order, gradient=False, dtypes=(*FLOAT_DTYPES, *INTEGERS)
)


def draw_topk(d):
    shape = d.shape(min_rank=1, high=7) if d.flag(0.7) else (d.integer(1, 3), d.integer(100, 300))
    dim = d.axis(len(shape))
    params = {"k": d.integer(0, min(shape[dim], 20)), "dim": dim, "largest": d.flag()}
    return Call([d.distinct(shape)], params)


def jax_topk(x, k, dim, largest):
    ordered = jnp.sort(x, dim, descending=largest)
    return jax.lax.slice_in_dim(ordered, 0, k, axis=dim)


TABLE["topk"] = Entry(
    draw_topk,
    lambda x, **params: mica.topk(x, **params).values,
    jax_topk,
    dtypes=("float32", "float64"),
    repeats=False,
)
TABLE["topk and its indices"] = Entry(
    draw_topk,
    lambda x, **params: mica.topk(x, **params).indices,
    lambda x, k, dim, largest: np.take(stable_order(x, dim, largest), range(k), dim),
    gradient=False,
    dtypes=("float32", "float64", "int64", "int32"),
    repeats=False,
    cases=12,
)
TABLE["unique"] = Entry(
    lambda d: Call([np.round(d.values(d.shape(), -3, 3))]),
    lambda x: mica.unique(x, return_inverse=True, return_counts=True),
    lambda x: np.unique(x, return_inverse=True, return_counts=True),
    gradient=False,
    dtypes=(*FLOAT_DTYPES, *INTEGERS),
)


def draw_search(d):
    n = d.integer(0, 9)
    values = d.shape(min_rank=1)
    ordered = np.sort(np.round(d.values((*values[:-1], n) if d.flag() else (n,), -4, 4)))
    return Call([ordered, np.round(d.values(values, -5, 5))], {"right": d.flag()})


def numpy_search(ordered, values, right):
    side = "right" if right else "left"
    if ordered.ndim == 1:
        return np.searchsorted(ordered, values, side)
    rows = ordered.reshape(int(np.prod(ordered.shape[:-1])), ordered.shape[-1])
    found = [
        np.searchsorted(r, v, side)
        for r, v in zip(rows, values.reshape(len(rows), values.shape[-1]), strict=True)
    ]
    return np.stack(found).reshape(values.shape)


TABLE["searchsorted"] = Entry(
    draw_search,
    mica.searchsorted,
    numpy_search,
    gradient=False,
    dtypes=(*FLOAT_DTYPES, *INTEGERS),
    repeats=False,
)
