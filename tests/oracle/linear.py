"""Products of matrices and vectors."""

import jax.numpy as jnp
import mica
import mica.nn.functional as F
import numpy as np
from check import Call, Entry

TABLE = {}


def draw_matmul(d):
    m, k, n = (d.integer(1, 9) if d.flag(0.8) else d.integer(20, 70) for _ in range(3))
    a, b = ((s if d.flag(0.8) else 1 for s in d.shape(max_rank=2, high=3)) for _ in range(2))
    a, b = tuple(a), tuple(b)
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        b = a
    return Call([d.values((*a, m, k), -1, 1), d.values((*b, k, n), -1, 1)])


TABLE["matmul"] = Entry(draw_matmul, mica.matmul, jnp.matmul, cases=48)


def draw_linear(d):
    inside, outside = d.integer(1, 9), d.integer(1, 9)
    x = d.values((*d.shape(min_rank=1, max_rank=3), inside), -1, 1)
    bias = d.values((outside,), -1, 1) if d.flag() else None
    return Call([x, d.values((outside, inside), -1, 1), bias])


def jax_linear(x, weight, bias):
    y = x @ weight.T
    return y if bias is None else y + bias


TABLE["linear"] = Entry(draw_linear, F.linear, jax_linear)

TABLE["outer"] = Entry(
    lambda d: Call([d.values(d.shape(1)), d.values(d.shape(1))]), mica.outer, jnp.outer, cases=12
)


def draw_inner(d):
    if d.flag(0.1):
        return Call([d.values(()), d.values(d.shape())])
    k = d.integer(1, 6)
    return Call([d.values((*d.shape(max_rank=2), k)), d.values((*d.shape(max_rank=2), k))])


TABLE["inner"] = Entry(draw_inner, mica.inner, jnp.inner, cases=16)
TABLE["dot"] = Entry(
    lambda d: Call([d.values((n := d.integer(0, 9),)), d.values((n,))]), mica.dot, jnp.dot, cases=12
)

EQUATIONS = [
    "ij,jk->ik",
    "bij,bjk->bik",
    "ij,kj",
    "i,i",
    "i,j->ij",
    "ii",
    "ii->i",
    "ijk->kji",
    "ij->",
    "ij->j",
    "bij,bjk,bkl->bil",
    "i,i,i->i",
    "ab,bc,cd,de->ae",
    "bhid,bhjd->bhij",
    "...ij,...jk->...ik",
    "...i->...",
    "b...c,cd->b...d",
    "iij,j->i",
    "abc,cd,ad->b",
    "ij,ij,jk",
    "ba,ca",
    "i,jk,k->ijk",
]


def draw_einsum(d):
    equation = d.choice(EQUATIONS)
    size = {label: d.integer(1, 4) for label in "abcdefhijkl"}
    more = d.shape(max_rank=2, high=3)
    inputs = []
    for term in equation.split("->")[0].split(","):
        before, dots, after = term.partition("...")
        shape = [size[c] for c in before] + list(more if dots else ()) + [size[c] for c in after]
        inputs.append(d.values(tuple(shape), -1, 1))
    return Call(inputs, {"equation": equation})


TABLE["einsum"] = Entry(
    draw_einsum,
    lambda *operands, equation: mica.einsum(equation, *operands),
    lambda *operands, equation: jnp.einsum(equation, *operands),
    cases=48,
    tolerance=2,
)


def draw_triangle(d):
    shape = d.shape(min_rank=2)
    return Call([d.values(shape)], {"diagonal": d.integer(-4, 4)})


TABLE["tril"] = Entry(draw_triangle, mica.tril, lambda x, diagonal: jnp.tril(x, diagonal))
TABLE["triu"] = Entry(draw_triangle, mica.triu, lambda x, diagonal: jnp.triu(x, diagonal))
