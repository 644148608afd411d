"""Functions of one, two and three numbers, activations, comparisons, logic and bits."""

import jax
import jax.numpy as jnp
import mica
import mica.nn.functional as F
import numpy as np
from check import FLOAT_DTYPES, INTEGERS, Call, Entry
from jax.scipy.special import erf

TABLE = {}


def unary(name, ours, theirs, low=-2.0, high=2.0, kinks=(), **options):
    def draw(d):
        return Call([d.away_from(kinks, d.shape(), low, high)])

    TABLE[name] = Entry(draw, ours, theirs, **options)


for _name in "sin cos atan sinh cosh tanh asinh exp exp2 expm1 square".split():
    unary(_name, getattr(mica, _name), getattr(jnp, _name), -3, 3)
for _name in "log log2 log10 sqrt".split():
    unary(_name, getattr(mica, _name), getattr(jnp, _name), 0.05, 5)
for _name in "floor ceil round trunc sign".split():
    halves = np.arange(-8, 9) / 2
    unary(_name, getattr(mica, _name), getattr(jnp, _name), -4, 4, kinks=halves)
unary("tan", mica.tan, jnp.tan, -1.3, 1.3)
unary("asin", mica.asin, jnp.arcsin, -0.95, 0.95)
unary("acos", mica.acos, jnp.arccos, -0.95, 0.95)
unary("acosh", mica.acosh, jnp.arccosh, 1.1, 5)
unary("atanh", mica.atanh, jnp.arctanh, -0.95, 0.95)
unary("log1p", mica.log1p, jnp.log1p, -0.9, 5)
unary("rsqrt", mica.rsqrt, jax.lax.rsqrt, 0.05, 5)
unary("reciprocal", mica.reciprocal, jnp.reciprocal, 0.1, 5)
unary("erf", mica.erf, erf, -3, 3)
unary("nan_to_num", mica.nan_to_num, jnp.nan_to_num)
unary("sigmoid", mica.sigmoid, jax.nn.sigmoid, -6, 6)
unary("neg", mica.neg, jnp.negative)
unary("abs", mica.abs, jnp.abs, kinks=[0])

unary("relu", mica.relu, jax.nn.relu, kinks=[0])
unary("selu", F.selu, jax.nn.selu, -4, 4, kinks=[0])
unary("silu", F.silu, jax.nn.silu, -6, 6)
unary("mish", F.mish, jax.nn.mish, -6, 6)
unary("log_sigmoid", F.logsigmoid, jax.nn.log_sigmoid, -6, 6)
unary("hardswish", F.hardswish, jax.nn.hard_swish, -5, 5, kinks=[-3, 3])
unary("hardsigmoid", F.hardsigmoid, jax.nn.hard_sigmoid, -5, 5, kinks=[-3, 3])
# 1 + erf(x) loses digits on the left.
unary("gelu", F.gelu, lambda x: jax.nn.gelu(x, approximate=False), -4, 4, tolerance=10)
unary("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), jax.nn.gelu, -4, 4)


def with_number(name, ours, theirs, parameter, low, high, kinks=()):
    def draw(d):
        value = d.number(low, high)
        return Call([d.away_from([*kinks, value], d.shape(), -4, 4)], {parameter: value})

    TABLE[name] = Entry(draw, ours, theirs)


with_number("leaky_relu", F.leaky_relu, jax.nn.leaky_relu, "negative_slope", 0.01, 0.5, [0])
with_number("elu", F.elu, jax.nn.elu, "alpha", 0.2, 2, [0])
with_number(
    "clipped_relu", F.clipped_relu, lambda x, limit: jnp.clip(x, 0, limit), "limit", 0.5, 3, [0]
)
with_number(
    "softplus", F.softplus, lambda x, beta: jax.nn.softplus(beta * x) / beta, "beta", 0.5, 3
)


def draw_prelu(d):
    shape = d.shape(min_rank=2)
    weight = d.values((shape[1] if d.flag() else 1,), 0.05, 0.5)
    return Call([d.away_from([0], shape), weight])


def jax_prelu(x, weight):
    weight = weight.reshape((-1,) + (1,) * (x.ndim - 2)) if weight.size > 1 else weight
    return jnp.where(x > 0, x, weight * x)


TABLE["prelu"] = Entry(draw_prelu, F.prelu, jax_prelu)


def binary(name, ours, theirs, first=(-2, 2), second=(-2, 2), **options):
    """Two tensors that broadcast; in some cases the second is a number."""

    def draw(d):
        a, b = d.broadcast(2)
        return Call([d.values(a, *first), d.values(b, *second)])

    TABLE[name] = Entry(draw, ours, theirs, **options)


binary("add", mica.add, jnp.add)
binary("sub", mica.sub, jnp.subtract)
binary("mul", mica.mul, jnp.multiply)
binary("div", mica.div, jnp.divide, second=(0.3, 3))
binary("pow", mica.pow, jnp.power, first=(0.2, 3))
binary("atan2", mica.atan2, jnp.arctan2, first=(0.1, 2))
binary("hypot", mica.hypot, jnp.hypot, first=(0.1, 2))
binary("copysign", mica.copysign, jnp.copysign, first=(0.1, 2))
binary("logaddexp", mica.logaddexp, jnp.logaddexp)
binary("fmod", mica.fmod, jnp.fmod, second=(0.3, 3), gradient=False)  # it jumps


def two_distinct(d):
    """Operands that are nowhere alike."""
    a, b = d.broadcast(2)
    n = int(np.prod(a))
    both = d.distinct((n + int(np.prod(b)),))
    return Call([both[:n].reshape(a), both[n:].reshape(b)])


TABLE["minimum"] = Entry(two_distinct, mica.minimum, jnp.minimum)
TABLE["maximum"] = Entry(two_distinct, mica.maximum, jnp.maximum)


def draw_quotient(d):
    """Quotients away from whole numbers, where a rounding decides."""
    a, b = d.broadcast(2)
    divisor = d.choice([-1, 1]) * d.values(b, 0.5, 2)
    whole = np.broadcast_to(d.rng.integers(-3, 4, a), np.broadcast_shapes(a, b))
    fraction = d.rng.uniform(0.2, 0.8, a)
    if np.broadcast_shapes(a, b) != a:  # one dividend meets several divisors
        return Call([d.rounded(whole[(0,) * (whole.ndim - len(a))] * 0 + fraction * 0.5), divisor])
    return Call([d.rounded((whole + fraction) * divisor), divisor])


TABLE["floor_divide"] = Entry(draw_quotient, mica.floor_divide, jnp.floor_divide)
TABLE["remainder"] = Entry(draw_quotient, mica.remainder, jnp.remainder, repeats=False)


def draw_integers(d):
    a, b = d.broadcast(2)
    divisor = d.values(b, -6, 6)
    return Call([d.values(a, -40, 40), np.where(divisor == 0, 3, divisor).astype(d.dtype)])


def integer_version(name, ours, theirs):
    TABLE[f"{name} of integers"] = Entry(draw_integers, ours, theirs, dtypes=INTEGERS, cases=12)


for _name, _ours, _theirs in (
    ("add", mica.add, np.add),
    ("sub", mica.sub, np.subtract),
    ("mul", mica.mul, np.multiply),
    ("floor_divide", mica.floor_divide, np.floor_divide),
    ("remainder", mica.remainder, np.remainder),
    ("minimum", mica.minimum, np.minimum),
    ("maximum", mica.maximum, np.maximum),
    ("div", mica.div, np.divide),
):
    integer_version(_name, _ours, _theirs)


def draw_three(d):
    a, b, c = d.broadcast(3)
    return Call([d.values(a), d.values(b), d.values(c, 0, 1)])


TABLE["lerp"] = Entry(draw_three, mica.lerp, lambda a, b, weight: a + weight * (b - a))


def draw_where(d):
    a, b, c = d.broadcast(3)
    return Call([d.mask(a), d.values(b), d.values(c)])


TABLE["where"] = Entry(draw_where, mica.where, jnp.where)


def draw_clamp(d):
    low, high = sorted((d.number(-1.5, 1.5), d.number(-1.5, 1.5)))
    bounds = {"min": low, "max": high}
    if d.flag(0.3):
        del bounds[d.choice(["min", "max"])]
    return Call([d.away_from([low, high], d.shape())], bounds)


TABLE["clamp"] = Entry(draw_clamp, mica.clamp, jnp.clip)


def draw_pair(d):
    """Operands that are often alike."""
    a, b = d.broadcast(2)
    x, y = np.round(d.values(a)), np.round(d.values(b))
    return Call([x, y])


ANY_NUMBER = (*FLOAT_DTYPES, *INTEGERS)
for _name, _theirs in (
    ("eq", jnp.equal),
    ("ne", jnp.not_equal),
    ("lt", jnp.less),
    ("le", jnp.less_equal),
    ("gt", jnp.greater),
    ("ge", jnp.greater_equal),
    ("logical_and", jnp.logical_and),
    ("logical_or", jnp.logical_or),
    ("logical_xor", jnp.logical_xor),
):
    TABLE[_name] = Entry(
        draw_pair, getattr(mica, _name), _theirs, gradient=False, dtypes=ANY_NUMBER, cases=16
    )


def draw_tested(d):
    x = np.round(d.values(d.shape()))
    if d.is_float:
        x = np.where(d.mask(x.shape), x, d.rng.choice([np.nan, np.inf, -np.inf, 0], x.shape))
    return Call([x])


for _name in ("isnan", "isinf", "isfinite", "logical_not", "signbit"):
    TABLE[_name] = Entry(
        draw_tested,
        getattr(mica, _name),
        getattr(jnp, _name),
        gradient=False,
        dtypes=ANY_NUMBER if _name == "logical_not" else FLOAT_DTYPES,
        cases=12,
    )


def draw_bits(d):
    a, b = d.broadcast(2)
    return Call([d.values(a, -100, 100), d.values(b, -100, 100)])


for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    TABLE[_name] = Entry(
        draw_bits,
        getattr(mica, _name),
        getattr(np, _name),
        dtypes=(*INTEGERS, "bool"),
        cases=16,
    )
TABLE["bitwise_not"] = Entry(
    lambda d: Call([d.values(d.shape(), -100, 100)]),
    mica.bitwise_not,
    np.bitwise_not,
    dtypes=(*INTEGERS, "bool"),
    cases=12,
)


def draw_shift(d):
    a, b = d.broadcast(2)
    return Call([d.values(a, -100, 100), d.values(b, 0, 7)])


for _name, _ours, _theirs in (
    ("left_shift", mica.bitwise_left_shift, np.left_shift),
    ("right_shift", mica.bitwise_right_shift, np.right_shift),
):
    TABLE[_name] = Entry(draw_shift, _ours, _theirs, dtypes=INTEGERS, cases=16)


# Where functions leave their ordinary range.
HOSTILE = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 100.0, -100.0, 1e-3]


def draw_hostile(d):
    return Call([d.rounded(d.rng.permutation(HOSTILE))])


# Not hardswish: at -infinity it is 0 here, its limit, where 0 * infinity is NaN.
for _name in (
    "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan asin acos atan sinh cosh asinh acosh "
    "atanh tanh erf sigmoid rsqrt reciprocal square abs sign floor ceil round trunc relu selu "
    "silu mish gelu gelu_tanh hardsigmoid log_sigmoid"
).split():
    TABLE[f"{_name} of extremes"] = Entry(
        draw_hostile, TABLE[_name].mica, TABLE[_name].jax, gradient=False, cases=6, tolerance=4
    )
