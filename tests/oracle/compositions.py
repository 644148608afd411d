"""Functions that are made of others."""

import jax
import jax.numpy as jnp
import mica
import mica.nn.functional as F
import numpy as np
from check import FLOAT_DTYPES, Call, Entry

TABLE = {}
WIDE = ("float32", "float64")


def entry(name, draw, ours, theirs, **options):
    TABLE[name] = Entry(draw, ours, theirs, **{"cases": 12, "tolerance": 4, **options})


def of_one(name, theirs, kinks=(), low=-4.0, high=4.0, **params):
    """An activation, off its kinks."""

    def draw(d):
        return Call([d.away_from(kinks, d.shape(), low, high)], dict(params))

    entry(name, draw, getattr(F, name), lambda x, **_: theirs(x))


of_one("relu6", jax.nn.relu6, [0, 6], high=8.0)
of_one("softsign", jax.nn.soft_sign, [0])
of_one("tanhshrink", lambda x: x - jnp.tanh(x))
of_one("hardtanh", lambda x: jnp.clip(x, -0.5, 0.75), [-0.5, 0.75], min_val=-0.5, max_val=0.75)
of_one("celu", lambda x: jax.nn.celu(x, 0.75), [0], alpha=0.75)
of_one("hardshrink", lambda x: jnp.where(jnp.abs(x) > 0.5, x, 0), [-0.5, 0.5], lambd=0.5)
of_one("softshrink", lambda x: x - jnp.clip(x, -0.5, 0.5), [-0.5, 0.5], lambd=0.5)
of_one("threshold", lambda x: jnp.where(x > 0.25, x, 3.0), [0.25], threshold=0.25, value=3.0)


def draw_line(d):
    shape = d.shape(min_rank=1)
    return Call([d.values(shape)], {"dim": d.axis(len(shape))})


entry("softmin", draw_line, F.softmin, lambda x, dim: jax.nn.softmax(-x, axis=dim))


def draw_halves(d):
    shape = list(d.shape(min_rank=1, max_rank=3))
    dim = d.axis(len(shape))
    shape[dim] *= 2
    return Call([d.values(shape)], {"dim": dim})


entry("glu", draw_halves, F.glu, lambda x, dim: jax.nn.glu(x, axis=dim))


def draw_normalize(d):
    shape = d.shape(min_rank=1, low=2)
    return Call([d.values(shape)], {"dim": d.axis(len(shape))})


def jax_normalize(x, dim):
    return x / jnp.maximum(jnp.sqrt(jnp.sum(x * x, axis=dim, keepdims=True)), 1e-12)


entry("normalize", draw_normalize, F.normalize, jax_normalize, repeats=False)


def draw_attention(d):
    lead = d.shape(max_rank=2, high=3)
    queries, keys, e, v = (d.integer(1, 6) for _ in range(4))
    shapes = (*lead, queries, e), (*lead, keys, e), (*lead, keys, v)
    return Call([d.values(s) for s in shapes], {"is_causal": d.flag()})


def jax_attention(q, k, v, is_causal):
    scores = q @ jnp.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if is_causal:
        seen = np.arange(q.shape[-2])[:, None] >= np.arange(k.shape[-2])
        scores = jnp.where(seen, scores, -1e30)
    return jax.nn.softmax(scores, axis=-1) @ v


entry(
    "scaled_dot_product_attention",
    draw_attention,
    F.scaled_dot_product_attention,
    jax_attention,
    tolerance=8,
)


def draw_packed(d):
    batch, length, heads, e = (d.integer(1, 5) for _ in range(4))
    return Call([d.values((batch, length, 3 * heads * e))], {"heads": heads, "causal": d.flag()})


def jax_packed(qkv, heads, causal):
    batch, length, _ = qkv.shape
    split = jnp.reshape(qkv, (batch, length, 3, heads, -1))
    q, k, v = (jnp.swapaxes(split[:, :, i], 1, 2) for i in range(3))
    return jnp.reshape(jnp.swapaxes(jax_attention(q, k, v, causal), 1, 2), (batch, length, -1))


entry(
    "packed_attention",
    draw_packed,
    lambda qkv, heads, causal: F.packed_attention(qkv, heads, is_causal=causal),
    jax_packed,
    tolerance=8,
)


# Products.
def draw_product(*letters):
    def draw(d):
        sizes = {letter: d.integer(1, 6) for letter in "bmkn"}
        return Call([d.values([sizes[x] for x in each], -1, 1) for each in letters])

    return draw


def scaled_sum(x, a, b, beta, alpha):
    return beta * x + alpha * (a @ b)


def with_scales(draw):
    return lambda d: Call(draw(d).inputs, {"beta": d.number(-2, 2), "alpha": d.number(-2, 2)})


entry("mm", draw_product("mk", "kn"), mica.mm, jnp.matmul)
entry("bmm", draw_product("bmk", "bkn"), mica.bmm, jnp.matmul)
entry("mv", draw_product("mk", "k"), mica.mv, jnp.matmul)
entry("addmm", with_scales(draw_product("mn", "mk", "kn")), mica.addmm, scaled_sum)
entry("baddbmm", with_scales(draw_product("bmn", "bmk", "bkn")), mica.baddbmm, scaled_sum)
entry(
    "tensordot",
    draw_product("bmk", "nmb"),
    lambda a, b: mica.tensordot(a, b, ([0, 1], [2, 1])),
    lambda a, b: jnp.tensordot(a, b, ([0, 1], [2, 1])),
)


# Of three operands, and of two.
def draw_three(d):
    return Call([d.values(s, 0.5, 2) for s in d.broadcast(3)], {"value": d.number(-2, 2)})


entry("addcmul", draw_three, mica.addcmul, lambda x, a, b, value: x + value * a * b)
entry("addcdiv", draw_three, mica.addcdiv, lambda x, a, b, value: x + value * a / b)


def draw_xlogy(d):
    a, b = d.broadcast(2)
    return Call([d.values(a), d.values(b, 0.3, 3)])


entry("xlogy", draw_xlogy, mica.xlogy, lambda a, b: a * jnp.log(b))


def draw_near(d):
    a, b = d.broadcast(2)
    return Call([np.round(d.values(a) * 2), np.round(d.values(b) * 2)], {"atol": 0.75})


def near(a, b, atol):
    return jnp.isclose(a, b, rtol=1e-5, atol=atol)


def as_tensor(function):
    """A bool as a tensor, which is what is compared."""
    return lambda *inputs, **params: mica.tensor(function(*inputs, **params))


def draw_alike(d):
    x = np.round(d.values(d.shape(2)))
    return Call([x, x + d.choice([0.0, 1.0])])


entry("isclose", draw_near, mica.isclose, near, gradient=False)
entry("allclose", draw_alike, as_tensor(mica.allclose), jnp.allclose, gradient=False, repeats=False)
entry("equal", draw_alike, as_tensor(mica.equal), jnp.array_equal, gradient=False, repeats=False)


# Shapes.
def matrix(d):
    return Call([d.values(d.shape(2))])


entry("t", matrix, mica.t, jnp.transpose)
entry("trace", matrix, mica.trace, jnp.trace)
entry(
    "diag",
    lambda d: Call([d.values(d.shape(min_rank=1, max_rank=2, low=3))], {"k": d.integer(-2, 2)}),
    lambda x, k: mica.diag(x, k),
    lambda x, k: jnp.diag(x, k),
)
entry(
    "unflatten",
    lambda d: Call([d.values((d.integer(1, 3), 6, 2))]),
    lambda x: mica.unflatten(x, 1, (2, -1)),
    lambda x: x.reshape(x.shape[0], 2, 3, 2),
)
for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    entry(_name, lambda d: Call([d.values(d.shape())]), getattr(mica, _name), getattr(jnp, _name))


def draw_alike_shapes(d):
    shape = d.shape(max_rank=3, min_rank=1)
    return Call([d.values(shape), d.values(shape)])


def of_both(function):
    return lambda a, b: function([a, b])


for _name in ("hstack", "vstack", "dstack"):
    entry(_name, draw_alike_shapes, of_both(getattr(mica, _name)), of_both(getattr(jnp, _name)))
entry(
    "unbind",
    lambda d: Call([d.values(d.shape(3))], {"dim": d.integer(0, 2)}),
    mica.unbind,
    lambda x, dim: [jnp.take(x, i, axis=dim) for i in range(x.shape[dim])],
)
entry(
    "broadcast_tensors",
    lambda d: Call([d.values(s) for s in d.broadcast(2)]),
    mica.broadcast_tensors,
    jnp.broadcast_arrays,
)
entry(
    "diff",
    lambda d: Call([d.values(d.shape(2, low=3))], {"n": d.integer(1, 2), "dim": d.axis(2)}),
    mica.diff,
    lambda x, n, dim: jnp.diff(x, n, axis=dim),
)


# Middles and moments.
def jax_median(x, dim):
    order = jnp.argsort(x, axis=dim)
    at = jnp.take(order, jnp.array([(x.shape[dim] - 1) // 2]), axis=dim)
    values = jnp.take_along_axis(x, at, axis=dim)
    return jnp.squeeze(values, dim)


entry(
    "median",
    lambda d: Call([d.distinct(d.shape(2))], {"dim": d.integer(0, 1)}),
    lambda x, dim: mica.median(x, dim).values,
    jax_median,
    repeats=False,
)
for _name, _theirs in (("var_mean", jnp.var), ("std_mean", jnp.std)):
    entry(
        _name,
        lambda d: Call([d.values(d.shape(2, low=3))], {"dim": d.integer(0, 1)}),
        getattr(mica, _name),
        lambda x, dim, f=_theirs: (f(x, axis=dim, ddof=1), jnp.mean(x, axis=dim)),
        repeats=False,
        dtypes=WIDE,
    )


# Indices.
def draw_index_fill(d):
    shape = d.shape(2)
    return Call([d.values(shape), d.indices((d.integer(1, 3),), shape[0])], {"value": 2.5})


entry(
    "index_fill",
    draw_index_fill,
    lambda x, index, value: mica.index_fill(x, 0, index, value),
    lambda x, index, value: jnp.asarray(x).at[index].set(value),
)


def draw_masked_scatter(d):
    shape = d.shape(2)
    return Call([d.values(shape), d.mask(shape), d.values(shape)])


def jax_masked_scatter(x, mask, source):
    places = np.cumsum(mask.ravel()) - 1
    return jnp.where(mask, jnp.ravel(source)[places].reshape(x.shape), x)


entry("masked_scatter", draw_masked_scatter, mica.masked_scatter, jax_masked_scatter)


# Losses.
def draw_loss(low=-2.0, high=2.0):
    def draw(d):
        shape = d.shape(2)
        return Call([d.values(shape), d.values(shape, low, high)])

    return draw


def jax_multilabel(x, t):
    losses = -(t * jax.nn.log_sigmoid(x) + (1 - t) * jax.nn.log_sigmoid(-x))
    return jnp.mean(losses)


entry(
    "poisson_nll_loss",
    draw_loss(0.0, 4.0),
    F.poisson_nll_loss,
    lambda x, t: jnp.mean(jnp.exp(x) - t * x),
)
entry(
    "multilabel_soft_margin_loss",
    draw_loss(0.0, 1.0),
    F.multilabel_soft_margin_loss,
    jax_multilabel,
)
entry(
    "pairwise_distance",
    lambda d: Call([d.values((3, 4)), d.values((3, 4), 3, 4)], {"eps": 0.0}),
    F.pairwise_distance,
    lambda a, b, eps: jnp.sqrt(jnp.sum((a - b + eps) ** 2, axis=-1)),
)


def draw_gaussian(d):
    shape = d.shape(2)
    return Call([d.values(shape), d.values(shape), d.values(shape, 0.5, 2)])


entry(
    "gaussian_nll_loss",
    draw_gaussian,
    F.gaussian_nll_loss,
    lambda x, t, var: jnp.mean(0.5 * (jnp.log(var) + (x - t) ** 2 / var)),
)


def draw_margin(d):
    rows, classes = d.integer(1, 5), d.integer(2, 5)
    target = d.indices((rows,), classes)
    return Call([d.distinct((rows, classes)), target], {"margin": 10.0})


def jax_margin(x, target, margin):
    score = jnp.take_along_axis(x, target[:, None].astype(np.int64), axis=1)
    short = jnp.maximum(0, margin - score + x)
    others = np.arange(x.shape[1]) != target[:, None]
    return jnp.mean(jnp.sum(jnp.where(others, short, 0), axis=1) / x.shape[1])


entry("multi_margin_loss", draw_margin, F.multi_margin_loss, jax_margin, dtypes=FLOAT_DTYPES)
