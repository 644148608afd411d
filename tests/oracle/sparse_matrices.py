"""Sparse matrices, beside JAX's dense ones."""

import jax.numpy as jnp
import mica
import numpy as np
from check import Call, Entry

TABLE = {}


def draw_pattern(d, rows, columns):
    """crow and col of random entries, in no order and some of them twice."""
    counts = d.rng.integers(0, 4, rows) if columns else np.zeros(rows, np.int64)
    dtype = d.choice((np.int32, np.int64))
    crow = np.concatenate([[0], np.cumsum(counts)]).astype(dtype)
    return crow, d.rng.integers(0, max(columns, 1), crow[-1]).astype(dtype)


def rows_of(crow):
    return np.repeat(np.arange(len(crow) - 1), np.diff(crow))


def dense(crow, col, values, columns):
    return jnp.zeros((len(crow) - 1, columns)).at[rows_of(crow), col].add(values)


def draw_matmul(d):
    rows, columns, width = d.integer(0, 6), d.integer(0, 6), d.integer(1, 40)
    crow, col = draw_pattern(d, rows, columns)
    return Call([crow, col, d.values(col.shape), d.values((columns, width))])


TABLE["csr_matmul"] = Entry(
    draw_matmul,
    lambda crow, col, v, x: mica.sparse_csr_tensor(crow, col, v, (len(crow) - 1, len(x))) @ x,
    lambda crow, col, v, x: dense(crow, col, v, len(x)) @ x,
    repeats=False,
    cases=96,
)
TABLE["csr_matmul transposed"] = Entry(
    draw_matmul,
    lambda crow, col, v, x: x.t() @ mica.sparse_csc_tensor(crow, col, v, (len(x), len(crow) - 1)),
    lambda crow, col, v, x: x.T @ dense(crow, col, v, len(x)).T,
    repeats=False,
)


def draw_sampled(d):
    rows, columns, width = d.integer(0, 6), d.integer(0, 6), d.integer(1, 40)
    crow, col = draw_pattern(d, rows, columns)
    return Call([crow, col, d.values((rows, width)), d.values((width, columns))])


TABLE["csr_sampled_matmul"] = Entry(
    draw_sampled,
    lambda crow, col, a, b: mica.sparse.sampled_addmm(
        mica.sparse_csr_tensor(
            crow, col, mica.zeros(len(col), dtype=a.dtype), (len(a), b.shape[1])
        ),
        a,
        b,
    ).values(),
    lambda crow, col, a, b: (a @ b)[rows_of(crow), col],
    repeats=False,
    cases=48,
)


def draw_softmax(d):
    rows, columns = d.integer(0, 6), d.integer(1, 6)
    crow, col = draw_pattern(d, rows, columns)
    return Call([crow, col, d.values(col.shape)], {"log": d.flag()})


def softmax(crow, col, values, log):
    a = mica.sparse_csr_tensor(crow, col, values, (len(crow) - 1, 6))
    return (mica.sparse.log_softmax if log else mica.sparse.softmax)(a).values()


def softmax_of_segments(crow, col, values, log):
    rows = rows_of(crow)
    sums = jnp.zeros(len(crow) - 1).at[rows].add(jnp.exp(values))[rows]
    return values - jnp.log(sums) if log else jnp.exp(values) / sums


TABLE["csr_softmax"] = Entry(draw_softmax, softmax, softmax_of_segments, repeats=False, cases=48)


def draw_product(d):
    m, n, k = d.integer(0, 6), d.integer(1, 6), d.integer(1, 6)
    (crow_a, col_a), (crow_b, col_b) = draw_pattern(d, m, n), draw_pattern(d, n, k)
    inputs = [crow_a, col_a, d.values(col_a.shape), crow_b, col_b, d.values(col_b.shape)]
    return Call(inputs, {"columns": k})


def product(crow_a, col_a, a, crow_b, col_b, b, columns):
    left = mica.sparse_csr_tensor(crow_a, col_a, a, (len(crow_a) - 1, len(crow_b) - 1))
    right = mica.sparse_csr_tensor(crow_b, col_b, b, (len(crow_b) - 1, columns))
    return (left @ right).to_dense(), (left @ right + left @ right).sum(0)


def product_of_dense(crow_a, col_a, a, crow_b, col_b, b, columns):
    y = dense(crow_a, col_a, a, len(crow_b) - 1) @ dense(crow_b, col_b, b, columns)
    return y, 2 * y.sum(0)


TABLE["csr_product"] = Entry(draw_product, product, product_of_dense, repeats=False, cases=48)
