"""Complex numbers: their parts, functions, arithmetic, sums and products."""

import jax
import jax.numpy as jnp
import mica
import numpy as np
from check import Call, Entry
from pairs import WIDE, complex_entry, numbers

TABLE = {}


def hostile(d):
    """Shapes with sizes of 0, 1, primes and numbers beside powers of 2."""
    size = (0, 1, 1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 33)
    return tuple(d.choice(size) for _ in range(d.integer(0, 3)))


def away(d, shape):
    """In a ring around 0, and off both axes, where functions have cuts."""
    radius = d.rng.uniform(0.4, 1.8, shape)
    angle = d.rng.uniform(0.15, 1.4, shape) + d.rng.integers(0, 4, shape) * np.pi / 2
    return d.rounded(np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1))


def unary(name, ours, theirs, draw=away, **options):
    TABLE[name] = complex_entry(lambda d: Call([draw(d, hostile(d))]), ours, theirs, **options)


TABLE["complex"] = Entry(
    lambda d: Call([d.values(s) for s in d.broadcast(2)]),
    lambda a, b: mica.view_as_real(mica.complex(a, b)),
    lambda a, b: jnp.stack(jnp.broadcast_arrays(a, b), -1),
    dtypes=WIDE,
)
TABLE["complex polar"] = Entry(
    lambda d: Call([d.values(s) for s in d.broadcast(2)]),
    lambda a, b: mica.view_as_real(mica.polar(a, b)),
    lambda a, b: jnp.stack([a * jnp.cos(b), a * jnp.sin(b)], -1),
    dtypes=WIDE,
)
unary("real", mica.real, jnp.real, numbers)
unary("imag", mica.imag, jnp.imag, numbers)
unary("conj", mica.conj, jnp.conj, numbers)
unary("complex_abs", mica.abs, jnp.abs)
unary("angle", mica.angle, jnp.angle)
unary("view_as_real", mica.view_as_real, lambda x: jnp.stack([x.real, x.imag], -1), numbers)
unary("view_as_complex", lambda x: x, lambda x: x, numbers)
unary(
    "conj adjoint", lambda x: x[..., None].adjoint(), lambda x: jnp.conj(x)[..., None, :], numbers
)
TABLE["conj adjoint"].draw = lambda d: Call([numbers(d, (*hostile(d), d.integer(1, 5)))])

for _name in (
    *("exp", "expm1", "log", "log10", "log1p", "log2", "sqrt", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "sinh", "cosh", "tanh", "asinh", "atanh", "reciprocal", "square"),
):
    # Inverse functions have the cut where the argument passes 1.
    unary(f"{_name} complex", getattr(mica, _name), getattr(jnp, _name), tolerance=4.0)
unary("neg complex", mica.neg, jnp.negative)
# JAX's gradients of these are 0, and of the other root on the left: they are spelt out.
unary("sign complex", mica.sign, lambda x: x / jnp.abs(x), tolerance=4.0)
unary(
    "acosh complex",
    mica.acosh,
    lambda x: jnp.log(x + jnp.sqrt(x + 1) * jnp.sqrt(x - 1)),
    tolerance=4.0,
)
unary("sigmoid complex", mica.sigmoid, jax.nn.sigmoid, tolerance=4.0)
unary("rsqrt complex", mica.rsqrt, jax.lax.rsqrt, tolerance=4.0)


def two(name, ours, theirs, **options):
    def draw(d):
        return Call([away(d, s) for s in d.broadcast(2)])

    TABLE[f"{name} complex"] = complex_entry(draw, ours, theirs, **options)


two("add", mica.add, jnp.add)
two("sub", mica.sub, jnp.subtract)
two("mul", mica.mul, jnp.multiply)
two("div", mica.div, jnp.divide)
two("pow", mica.pow, jnp.power, tolerance=8.0)
two("eq", mica.eq, jnp.equal, gradient=False)
two("ne", mica.ne, jnp.not_equal, gradient=False)
TABLE["mul complex and real"] = complex_entry(
    lambda d: Call([numbers(d, (s := d.broadcast(2))[0]), d.values(s[1])]),
    lambda z, x: z * x + x,
    lambda z, x: z * x + x,
    real=(1,),
)


def reduction(name, ours, theirs, **options):
    def draw(d):
        shape = tuple(max(1, s) for s in hostile(d)[:2])
        return Call([away(d, shape)], {"axis": d.dim(len(shape)), "keep": d.flag()})

    TABLE[f"{name} complex"] = complex_entry(draw, ours, theirs, **options)


reduction(
    "sum",
    lambda x, axis, keep: mica.sum(x, dim=axis, keepdim=keep),
    lambda x, axis, keep: jnp.sum(x, axis, keepdims=keep),
)
reduction(
    "mean",
    lambda x, axis, keep: mica.mean(x, dim=axis, keepdim=keep),
    lambda x, axis, keep: jnp.mean(x, axis, keepdims=keep),
)


def draw_row(d):
    shape = (*d.shape(max_rank=2), d.choice((1, 2, 3, 5, 7, 8, 9, 11)))
    return Call([away(d, shape)])


TABLE["prod complex"] = complex_entry(
    draw_row, lambda x: mica.prod(x, -1), lambda x: jnp.prod(x, -1), tolerance=30.0
)
TABLE["cumsum complex"] = complex_entry(
    draw_row, lambda x: mica.cumsum(x, -1), lambda x: jnp.cumsum(x, -1)
)
TABLE["cumprod complex"] = complex_entry(
    draw_row, lambda x: mica.cumprod(x, -1), lambda x: jnp.cumprod(x, -1), tolerance=30.0
)


def draw_product(d):
    m, k, n = (d.choice((1, 2, 3, 5, 7, 9, 15, 17, 33)) for _ in range(3))
    batch = d.shape(max_rank=2)
    return Call([numbers(d, (*batch, m, k), -1, 1), numbers(d, (*batch, k, n), -1, 1)])


TABLE["matmul complex"] = complex_entry(draw_product, mica.matmul, jnp.matmul, tolerance=4.0)
