"""Factors of complex matrices and what is made of them."""

import jax
import jax.numpy as jnp
import mica
import numpy as np
from check import Call
from matrices import LOSS, ORDERS, SIZES, batch, jax_lu
from pairs import complex_entry, to_pairs

TABLE = {}
L, J = mica.linalg, jnp.linalg


def drawn(d, shape):
    return d.rng.uniform(-1, 1, shape) + 1j * d.rng.uniform(-1, 1, shape)


def square(d, shift=4.0, sizes=SIZES):
    """Far from singular, in an order of rows that pivoting changes."""
    n = d.choice(sizes)
    x = drawn(d, (*batch(d), n, n)) + shift * np.sqrt(n) * np.eye(n)
    return to_pairs(d, np.roll(x, 1, axis=-2))


def apart(d, m, n):
    """With singular and eigenvalues that are not near each other."""
    return 0.1 * drawn(d, (*batch(d), m, n)) + np.eye(m, n) * (1 + np.arange(n))


def oblong(d, tall=False):
    n = d.choice(SIZES[:7])
    m = n + d.integer(0, 4)
    return to_pairs(d, apart(d, m, n) if tall or d.flag() else apart(d, n, m))


def hermitian(d):
    x = apart(d, n := d.choice(SIZES[:8]), n)
    return to_pairs(d, x + x.conj().swapaxes(-1, -2))


def entry(name, draw, ours, theirs, tolerance=LOSS, **options):
    name = f"{name} complex"
    TABLE[name] = complex_entry(draw, ours, theirs, tolerance=tolerance, **options)


def adjoint(x):
    return x.mH if isinstance(x, mica.Tensor) else jnp.conj(x).swapaxes(-1, -2)


def positive(x):
    n = x.shape[-1]
    return x @ adjoint(x) + n * (
        mica.eye(n, dtype=x.dtype) if isinstance(x, mica.Tensor) else jnp.eye(n)
    )


entry(
    "cholesky",
    lambda d: Call([square(d)], {"upper": d.flag()}),
    lambda x, upper: L.cholesky(positive(x), upper=upper),
    lambda x, upper: J.cholesky(positive(x), upper=upper),
)
# Both have real numbers on the diagonal of R, of any sign; as products they have none.
entry(
    "qr",
    lambda d: Call([oblong(d, tall=True)]),
    lambda x: (lambda f: (f.Q @ f.Q.mH, (f.R.abs() ** 2)))(L.qr(x)),
    lambda x: (lambda f: (f[0] @ adjoint(f[0]), jnp.abs(f[1]) ** 2))(J.qr(x)),
    tolerance=300,
    gradient=False,
)
entry(
    "qr gradient",
    lambda d: Call([square(d)]),
    lambda x: (lambda f: f.R.mH @ f.R + f.Q @ f.Q.mH)(L.qr(x)),
    lambda x: adjoint(x) @ x + jnp.eye(x.shape[-1]),
    tolerance=300,
)
entry(
    "svd",
    lambda d: Call([oblong(d)]),
    lambda x: (lambda f: (f.S, f.U @ f.Vh, f.U.abs() ** 2))(L.svd(x, full_matrices=False)),
    lambda x: (lambda u, s, vh: (s, u @ vh, jnp.abs(u) ** 2))(*J.svd(x, full_matrices=False)),
    tolerance=300,
    gradient=False,
)
entry(
    "svd polar",  # U Vᴴ = A (Aᴴ A)^(-1/2), by eigenvalues
    lambda d: Call([oblong(d, tall=True)]),
    lambda x: (lambda f: f.U @ f.Vh)(L.svd(x, full_matrices=False)),
    lambda x: x @ inverse_root(adjoint(x) @ x),
    tolerance=600,
)
entry(
    "svd values", lambda d: Call([oblong(d)]), L.svdvals, lambda x: J.svd(x, compute_uv=False), 300
)


def inverse_root(x):
    values, vectors = J.eigh(x)
    return (vectors / jnp.sqrt(values)[..., None, :]) @ adjoint(vectors)


entry(
    "eigh",
    lambda d: Call([hermitian(d)]),
    lambda x: (lambda e: (e[0], e[1].abs() ** 2))(L.eigh(x)),
    lambda x: (lambda e: (e[0], jnp.abs(e[1]) ** 2))(J.eigh(x)),
    tolerance=300,
)
entry("eigh values", lambda d: Call([hermitian(d)]), L.eigvalsh, J.eigvalsh, tolerance=300)


def in_order(values, vectors):
    """By real parts, which are apart; of the vectors what has no phase."""
    if isinstance(values, mica.Tensor):
        order = values.real.detach().argsort(-1)
        at = order[..., None, :].expand(vectors.shape)
        return values.gather(-1, order), vectors.gather(-1, at).abs() ** 2
    order = jnp.argsort(values.real, -1)
    vectors = jnp.take_along_axis(vectors, order[..., None, :], -1)
    return jnp.take_along_axis(values, order, -1), jnp.abs(vectors) ** 2


def draw_general(d):
    return Call([to_pairs(d, apart(d, n := d.choice(SIZES[:8]), n))])


entry(
    "eig",
    draw_general,
    lambda x: in_order(*L.eig(x)),
    lambda x: in_order(*J.eig(x)),
    tolerance=300,
    gradient=False,  # of vectors JAX has none
)
entry(
    "eig values",
    draw_general,
    lambda x: in_order(L.eigvals(x), x)[0],
    lambda x: in_order(J.eigvals(x), x)[0],
    tolerance=300,
)
entry(
    "eig vectors",  # f(A) = V f(λ) V⁻¹, whose gradient goes through both
    draw_general,
    lambda x: (lambda e: (e[1] * e[0].exp()[..., None, :]) @ L.inv(e[1]))(L.eig(0.3 * x)),
    lambda x: expm(0.3 * x),
    tolerance=600,
)


def expm(x):
    return jax.scipy.linalg.expm(x)


entry(
    "linalg.lu",
    lambda d: Call([square(d)]),
    lambda x: (lambda f: (f.P @ f.L, f.L, f.U))(L.lu(x)),
    jax_lu,
)


def draw_solve(d):
    a = square(d)
    k = d.integer(1, 4)
    return Call([a, to_pairs(d, drawn(d, (*a.shape[:-2], k)))])


entry("solve", draw_solve, L.solve, J.solve)
entry("linalg.lu_solve", draw_solve, lambda a, b: L.lu_solve(*L.lu_factor(a), b), J.solve)
entry(
    "linalg.lu_solve adjoint",
    draw_solve,
    lambda a, b: L.lu_solve(*L.lu_factor(a), b, adjoint=True),
    lambda a, b: J.solve(adjoint(a), b),
)
entry(
    "cholesky_solve",
    draw_solve,
    lambda a, b: mica.cholesky_solve(b, L.cholesky(positive(a))),
    lambda a, b: J.solve(positive(a), b),
)


def draw_triangular(d):
    n, k, shape, left = d.choice(SIZES), d.integer(1, 4), batch(d), d.flag()
    a = to_pairs(d, 0.3 * drawn(d, (*shape, n, n)) + 2 * np.eye(n))
    b = to_pairs(d, drawn(d, (*shape, n, k) if left else (*shape, k, n)))
    return Call([a, b], {"upper": d.flag(), "left": left, "unit": d.flag(0.3)})


entry(
    "solve_triangular",
    draw_triangular,
    lambda a, b, upper, left, unit: L.solve_triangular(
        a, b, upper=upper, left=left, unitriangular=unit
    ),
    lambda a, b, upper, left, unit: jax.lax.linalg.triangular_solve(
        a, b, left_side=left, lower=not upper, unit_diagonal=unit
    ),
)
entry("linalg.inv", lambda d: Call([square(d)]), L.inv, J.inv)
entry("linalg.det", lambda d: Call([square(d, 1.0)]), L.det, J.det, tolerance=300)
entry("linalg.slogdet", lambda d: Call([square(d)]), lambda x: tuple(L.slogdet(x)), J.slogdet)
entry("matrix_exp", lambda d: Call([d.rounded(0.3 * square(d))]), L.matrix_exp, expm)
entry(
    "linalg.matrix_power",
    lambda d: Call([d.rounded(0.2 * square(d))], {"n": d.choice((-3, -2, -1, 1, 2, 3, 5))}),
    L.matrix_power,
    J.matrix_power,
    tolerance=600,
)
entry("linalg.pinv", lambda d: Call([oblong(d)]), L.pinv, J.pinv, tolerance=300)


def draw_lstsq(d):
    m, n, k = d.integer(1, 9), d.integer(1, 9), d.integer(1, 3)
    a = to_pairs(d, drawn(d, (m, n)) + 3 * np.eye(m, n))
    driver = d.choice(["gels", "gelsd", "gelsy"])
    return Call([a, to_pairs(d, drawn(d, (m, k)))], {"driver": driver})


entry(
    "linalg.lstsq",
    draw_lstsq,
    lambda a, b, driver: L.lstsq(a, b, driver=driver).solution,
    lambda a, b, driver: J.pinv(a) @ b,
    tolerance=300,
)
entry(
    "linalg.matrix_norm",
    lambda d: Call([oblong(d)], {"ord": d.choice(ORDERS), "keep": d.flag()}),
    lambda x, ord, keep: L.matrix_norm(x, ord, keepdim=keep),
    lambda x, ord, keep: J.matrix_norm(x, ord=ord, keepdims=keep),
    tolerance=300,
    cases=48,
)
entry(
    "linalg.cond",
    lambda d: Call([square(d)], {"p": d.choice([None, 1, 2, -2, float("inf"), "fro"])}),
    L.cond,
    J.cond,
    tolerance=600,
)
entry(
    "linalg.vecdot",
    lambda d: Call([to_pairs(d, drawn(d, s := d.shape(min_rank=1))), to_pairs(d, drawn(d, s))]),
    L.vecdot,
    J.vecdot,
)
