"""Factors of matrices, equations, determinants and norms."""

import itertools

import jax
import jax.numpy as jnp
import mica
import numpy as np
from check import Call, Entry

TABLE = {}
WIDE = ("float64", "float32", "float64")
# A factor of a matrix loses as many digits as its condition has.
LOSS = 60.0

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 17)


def batch(d):
    """No batch, a small one, one that fills registers, or none at all."""
    return d.choice([(), (), (2,), (1, 3), (9,), (17,), (0,)])


def square(d, shift=4.0):
    """Far from singular, in an order of rows that pivoting changes."""
    n = d.choice(SIZES)
    x = d.values((*batch(d), n, n), -1, 1) + shift * np.sqrt(n) * np.eye(n)
    return d.rounded(np.roll(x, 1, axis=-2))


def oblong(d, apart=False):
    m, n = d.choice(SIZES), d.choice(SIZES)
    x = d.values((*batch(d), m, n), -1, 1)
    if apart:  # singular values that are not near each other
        x = 0.1 * x + np.eye(m, n) * (1 + np.arange(n))
    return d.rounded(x)


def symmetric(d):
    n = d.choice(SIZES[:8])
    x = 0.1 * d.values((*batch(d), n, n), -1, 1)
    return d.rounded(x + x.swapaxes(-1, -2) + np.diag(1.0 + np.arange(n)))


def definite(x):
    n = x.shape[-1]
    eye = mica.eye(n, dtype=x.dtype) if isinstance(x, mica.Tensor) else jnp.eye(n)
    return x @ x.swapaxes(-1, -2) + n * eye


def entry(name, draw, ours, theirs, cases=24, tolerance=LOSS, **more):
    options = {"dtypes": WIDE, "tolerance": tolerance, "cases": cases, "repeats": False} | more
    TABLE[name] = Entry(draw, ours, theirs, **options)


L, J = mica.linalg, jnp.linalg

entry(
    "cholesky",
    lambda d: Call([square(d)], {"upper": d.flag()}),
    lambda x, upper: L.cholesky(definite(x), upper=upper),
    lambda x, upper: J.cholesky(definite(x), upper=upper),
)


def signs(q, r):
    """Q and R with a positive diagonal of R."""
    diagonal = r.diagonal(0, -2, -1) if isinstance(r, mica.Tensor) else jnp.diagonal(r, 0, -2, -1)
    sign = mica.sign(diagonal.detach()) if isinstance(r, mica.Tensor) else jnp.sign(diagonal)
    k = min(r.shape[-2:])
    return q[..., :k] * sign[..., None, :], r[..., :k, :] * sign[..., :, None]


entry(
    "qr",
    lambda d: Call([oblong(d) if d.flag() else square(d)]),
    lambda x: signs(*L.qr(x + 3 * mica.eye(*x.shape[-2:], dtype=x.dtype))),
    lambda x: signs(*J.qr(x + 3 * jnp.eye(*x.shape[-2:]))),
    gradient=False,
)


def draw_tall(d):
    n = d.choice(SIZES[:8])
    m = n + d.integer(0, 4)
    return Call([d.rounded(d.values((*batch(d), m, n), -1, 1) + 3 * np.eye(m, n))])


entry(
    "qr tall",
    draw_tall,
    lambda x: signs(*L.qr(x)),
    lambda x: signs(*J.qr(x)),
)


def polar(u, s, vh):
    return s, (u * s[..., None, :]) @ vh, u @ vh


def jax_svd(x):
    return polar(*J.svd(x, full_matrices=False))


entry(
    "svd",
    lambda d: Call([oblong(d, apart=True)]),
    lambda x: polar(*L.svd(x, full_matrices=False)),
    jax_svd,
    tolerance=300,
    gradient=False,
)


def draw_distinct(d):
    n = d.choice(SIZES[:6])
    m = n + d.integer(0, 3)
    x = 0.1 * d.values((*batch(d), m, n), -1, 1) + np.eye(m, n) * (1 + np.arange(n))
    return Call([d.rounded(x.swapaxes(-1, -2) if d.flag() else x)])


entry(
    "svd vectors",
    draw_distinct,
    lambda x: polar(*L.svd(x, full_matrices=False)),
    jax_svd,
    tolerance=300,
)
entry(
    "svd values",
    lambda d: Call([oblong(d, apart=True)]),
    L.svdvals,
    lambda x: J.svd(x, compute_uv=False),
    tolerance=300,
)
entry(
    "eigh",
    lambda d: Call([symmetric(d)]),
    lambda x: (lambda e: (e[0], e[1] * e[1]))(L.eigh(x)),
    lambda x: (lambda e: (e[0], e[1] * e[1]))(J.eigh(x)),
    tolerance=300,
)
entry("eigh values", lambda d: Call([symmetric(d)]), L.eigvalsh, J.eigvalsh, tolerance=300)


def jax_lu(x):
    packed, _, order = jax.lax.linalg.lu(x)
    n = x.shape[-1]
    p = order[..., None, :] == np.arange(n)[:, None]
    lower = jnp.tril(packed, -1) + jnp.eye(n)
    return p.astype(x.dtype) @ lower, lower, jnp.triu(packed)


entry(
    "linalg.lu",
    lambda d: Call([square(d)]),
    lambda x: (lambda f: (f.P @ f.L, f.L, f.U))(L.lu(x)),
    jax_lu,
)
entry(
    "lu_factor",
    lambda d: Call([square(d)]),
    lambda x: L.lu_factor(x).LU,
    lambda x: jax.scipy.linalg.lu_factor(x)[0],
)


def draw_solve(d):
    a = square(d)
    k = d.integer(1, 4)
    return Call([a, d.values((*a.shape[:-1], k), -1, 1)])


entry("solve", draw_solve, L.solve, J.solve)
entry(
    "linalg.lu_solve",
    draw_solve,
    lambda a, b: L.lu_solve(*L.lu_factor(a), b),
    J.solve,
)
entry(
    "cholesky_solve",
    draw_solve,
    lambda a, b: mica.cholesky_solve(b, L.cholesky(definite(a))),
    lambda a, b: J.solve(definite(a), b),
)


def draw_triangular(d):
    n, k = d.choice(SIZES), d.integer(1, 4)
    shape = batch(d)
    a = d.rounded(0.3 * d.values((*shape, n, n), -1, 1) + 2 * np.eye(n))
    left = d.flag()
    b = d.values((*shape, n, k) if left else (*shape, k, n), -1, 1)
    return Call([a, b], {"upper": d.flag(), "left": left, "unit": d.flag(0.3)})


def jax_triangular(a, b, upper, left, unit):
    return jax.lax.linalg.triangular_solve(
        a, b, left_side=left, lower=not upper, unit_diagonal=unit
    )


entry(
    "solve_triangular",
    draw_triangular,
    lambda a, b, upper, left, unit: L.solve_triangular(
        a, b, upper=upper, left=left, unitriangular=unit
    ),
    jax_triangular,
)
entry("linalg.inv", lambda d: Call([square(d)]), L.inv, J.inv)
entry("linalg.det", lambda d: Call([square(d, 1.0)]), L.det, J.det, tolerance=300)
entry(
    "linalg.slogdet",
    lambda d: Call([square(d)]),
    lambda x: L.slogdet(x).logabsdet,
    lambda x: J.slogdet(x)[1],
)
entry("matrix_exp", lambda d: Call([0.3 * square(d)]), L.matrix_exp, jax.scipy.linalg.expm)
entry(
    "linalg.matrix_power",
    lambda d: Call([0.2 * square(d)], {"n": d.choice((-3, -2, -1, 1, 2, 3, 5))}),
    L.matrix_power,
    J.matrix_power,
    tolerance=600,
)
entry("linalg.pinv", draw_distinct, L.pinv, J.pinv, tolerance=300)


def draw_lstsq(d):
    m, n, k = d.integer(1, 9), d.integer(1, 9), d.integer(1, 3)
    a = d.rounded(d.values((m, n), -1, 1) + 3 * np.eye(m, n))
    return Call([a, d.values((m, k), -1, 1)], {"driver": d.choice(["gels", "gelsd", "gelsy"])})


entry(
    "linalg.lstsq",
    draw_lstsq,
    lambda a, b, driver: L.lstsq(a, b, driver=driver).solution,
    lambda a, b, driver: J.pinv(a) @ b,
    tolerance=300,
)
entry(
    "linalg.matrix_rank",
    lambda d: Call([oblong(d, apart=True)]),
    L.matrix_rank,
    J.matrix_rank,
    gradient=False,
)

ORDERS = ("fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf"))
entry(
    "linalg.matrix_norm",
    lambda d: Call([oblong(d, apart=True)], {"ord": d.choice(ORDERS), "keep": d.flag()}),
    lambda x, ord, keep: L.matrix_norm(x, ord, keepdim=keep),
    lambda x, ord, keep: J.matrix_norm(x, ord=ord, keepdims=keep),
    cases=48,
    tolerance=300,
)


def draw_vector_norm(d):
    shape = d.shape(min_rank=1)
    ord = d.choice([1, 2, 2.5, 3, float("inf"), -float("inf")])
    return Call([d.distinct(shape)], {"ord": ord, "axis": d.dim(len(shape)), "keep": d.flag()})


entry(
    "linalg.vector_norm",
    draw_vector_norm,
    lambda x, ord, axis, keep: L.vector_norm(x, ord, dim=axis, keepdim=keep),
    lambda x, ord, axis, keep: J.vector_norm(x, ord=ord, axis=axis, keepdims=keep),
    gradient=False,
)
entry(
    "linalg.cond",
    lambda d: Call([square(d)], {"p": d.choice([None, 1, 2, -2, float("inf"), "fro"])}),
    L.cond,
    J.cond,
    tolerance=600,
)


def draw_chain(d):
    sizes = [d.integer(1, 9) for _ in range(d.integer(3, 6))]
    return Call([d.values(pair, -1, 1) for pair in itertools.pairwise(sizes)])


entry(
    "linalg.multi_dot",
    draw_chain,
    lambda *m: L.multi_dot(list(m)),
    lambda *m: J.multi_dot(list(m)),
)
entry(
    "linalg.cross",
    lambda d: Call([d.values((*(s := d.shape(max_rank=2)), 3)), d.values((*s, 3))]),
    L.cross,
    J.cross,
)
entry(
    "linalg.vecdot",
    lambda d: Call([d.values(s := d.shape(min_rank=1)), d.values(s)]),
    L.vecdot,
    J.vecdot,
)
entry(
    "linalg.vander",
    lambda d: Call([d.values(d.shape(1))], {"n": d.integer(1, 6)}),
    lambda x, n: L.vander(x, N=n),
    lambda x, n: jnp.vander(x, n, increasing=True),
)


def draw_tensor(d):
    n = (d.integer(1, 3), d.integer(1, 3))
    k = n[0] * n[1]
    a = d.values((k, k), -1, 1) + 4 * np.eye(k)
    return Call([d.rounded(a.reshape(*n, k)), d.values(n, -1, 1)])


entry("linalg.tensorsolve", draw_tensor, L.tensorsolve, J.tensorsolve)
entry(
    "linalg.tensorinv",
    lambda d: Call(draw_tensor(d).inputs[:1]),
    lambda a: L.tensorinv(a, ind=2),
    lambda a: J.tensorinv(a, ind=2),
)
