"""Convolutions and pooling."""

import jax.numpy as jnp
import mica.nn.functional as F
import numpy as np
from check import Call, Entry
from jax import lax

TABLE = {}


def sizes(d, n, low, high):
    return tuple(d.integer(low, high) for _ in range(n))


def argument(values):
    """As the functions over one axis take them."""
    return values if len(values) > 1 else values[0]


def listed(value, n):
    return (value,) * n if isinstance(value, int) else tuple(value)


def draw_conv(d, n):
    groups = d.choice([1, 1, 1, 2, 3])
    channels, features = groups * d.integer(1, 3), groups * d.integer(1, 3)
    kernel, dilation = sizes(d, n, 1, 3), sizes(d, n, 1, 2)
    stride = sizes(d, n, 1, 3)
    padding = argument(sizes(d, n, 0, 2))
    if d.flag(0.2):
        padding, stride = "same", (1,) * n
    elif d.flag(0.2):
        padding = tuple(sizes(d, 2, 0, 2) for _ in range(n))
    reach = [(k - 1) * e + 1 for k, e in zip(kernel, dilation, strict=True)]
    image = tuple(r + d.integer(0, 5 if n < 3 else 2) for r in reach)
    weight = d.values((features, channels // groups, *kernel), -1, 1)
    bias = d.values((features,)) if d.flag() else None
    params = {
        "stride": argument(stride),
        "padding": padding,
        "dilation": argument(dilation),
        "groups": groups,
    }
    return Call([d.values((d.integer(1, 3), channels, *image), -1, 1), weight, bias], params)


def with_bias(y, bias):
    return y if bias is None else y + bias.reshape((-1,) + (1,) * (y.ndim - 2))


def jax_conv(x, weight, bias, stride, padding, dilation, groups):
    n = x.ndim - 2
    if padding == "same":
        total = [(k - 1) * e for k, e in zip(weight.shape[2:], listed(dilation, n), strict=True)]
        padding = [(t // 2, t - t // 2) for t in total]
    else:
        padding = [p if isinstance(p, tuple) else (p, p) for p in listed(padding, n)]
    y = lax.conv_general_dilated(
        x,
        weight,
        listed(stride, n),
        padding,
        rhs_dilation=listed(dilation, n),
        feature_group_count=groups,
    )
    return with_bias(y, bias)


def draw_conv_transpose(d, n):
    groups = d.choice([1, 1, 2])
    channels, features = groups * d.integer(1, 3), d.integer(1, 3)
    kernel, dilation, stride = sizes(d, n, 1, 3), sizes(d, n, 1, 2), sizes(d, n, 1, 3)
    reach = [(k - 1) * e for k, e in zip(kernel, dilation, strict=True)]
    params = {
        "stride": argument(stride),
        "padding": argument(tuple(d.integer(0, r // 2) for r in reach)),
        "output_padding": argument(tuple(d.integer(0, s - 1) for s in stride)),
        "groups": groups,
        "dilation": argument(dilation),
    }
    x = d.values((d.integer(1, 2), channels, *sizes(d, n, 1, 4)), -1, 1)
    weight = d.values((channels, features, *kernel), -1, 1)
    return Call([x, weight, d.values((features * groups,)) if d.flag() else None], params)


def jax_conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation):
    """A convolution of the input spread by the stride with the kernel turned round."""
    n = x.ndim - 2
    flipped = jnp.flip(weight, tuple(range(2, 2 + n)))
    channels, features = weight.shape[:2]
    flipped = flipped.reshape(groups, channels // groups, features, *weight.shape[2:])
    flipped = jnp.swapaxes(flipped, 1, 2).reshape(
        groups * features, channels // groups, *weight.shape[2:]
    )
    sides = []
    for k, e, p, o in zip(
        weight.shape[2:],
        listed(dilation, n),
        listed(padding, n),
        listed(output_padding, n),
        strict=True,
    ):
        sides.append(((k - 1) * e - p, (k - 1) * e - p + o))
    y = lax.conv_general_dilated(
        x,
        flipped,
        (1,) * n,
        sides,
        lhs_dilation=listed(stride, n),
        rhs_dilation=listed(dilation, n),
        feature_group_count=groups,
    )
    return with_bias(y, bias)


for _n in (1, 2, 3):
    TABLE[f"conv{_n}d"] = Entry(
        lambda d, n=_n: draw_conv(d, n),
        getattr(F, f"conv{_n}d"),
        jax_conv,
        cases=48 if _n == 2 else 24,
        tolerance=2,
    )
    TABLE[f"conv_transpose{_n}d"] = Entry(
        lambda d, n=_n: draw_conv_transpose(d, n),
        getattr(F, f"conv_transpose{_n}d"),
        jax_conv_transpose,
        tolerance=2,
    )


def draw_pool(d, n):
    kernel = sizes(d, n, 1, 3)
    image = tuple(k + d.integer(0, 4 if n < 3 else 2) for k in kernel)
    params = {
        "kernel_size": argument(kernel),
        "stride": argument(sizes(d, n, 1, 3)) if d.flag(0.7) else None,
        "padding": argument(tuple(d.integer(0, k // 2) for k in kernel)),
        "ceil_mode": d.flag(0.3),
    }
    return d.distinct((d.integer(1, 2), d.integer(1, 3), *image)), params


def windows(x, kernel_size, stride, padding, ceil_mode, dilation=1):
    """Where the windows lie: kernel, stride, dilation, and padding before and after each axis."""
    n = x.ndim - 2
    kernel, padding, dilation = (listed(v, n) for v in (kernel_size, padding, dilation))
    stride = kernel if stride is None else listed(stride, n)
    sides = []
    for size, k, s, p, e in zip(x.shape[2:], kernel, stride, padding, dilation, strict=True):
        reach = (k - 1) * e + 1
        span = size + 2 * p - reach
        count = span // s + 1
        if ceil_mode:
            count = -(-span // s) + 1
            count -= (count - 1) * s >= size + p  # the last window starts inside
        sides.append((p, max((count - 1) * s + reach - size - p, -size)))
    return kernel, stride, dilation, sides


def reduce_windows(x, start, operation, kernel, stride, dilation, sides):
    return lax.reduce_window(
        x,
        start,
        operation,
        (1, 1, *kernel),
        (1, 1, *stride),
        [(0, 0), (0, 0), *sides],
        window_dilation=(1, 1, *dilation),
    )


def patches(x, kernel, stride, dilation, sides, fill):
    """(N, C, windows…, elements): differentiable by everything, unlike reduce_window."""
    x = jnp.pad(x, [(0, 0), (0, 0), *((b, max(a, 0)) for b, a in sides)], constant_values=fill)
    for axis, (k, s, e, (_, a)) in enumerate(zip(kernel, stride, dilation, sides, strict=True)):
        size = x.shape[2 + axis] + min(a, 0)
        starts = np.arange(0, size - (k - 1) * e, s)
        x = jnp.take(x, starts[:, None] + e * np.arange(k), axis=2 + axis)
        x = jnp.moveaxis(x, 3 + axis, -1)
    return x.reshape((*x.shape[: 2 + len(kernel)], -1))


def draw_max_pool(d, n):
    x, params = draw_pool(d, n)
    if d.flag(0.3):
        params["dilation"] = argument(sizes(d, n, 1, 2))
        kernel = listed(params["kernel_size"], n)
        reach = tuple((k - 1) * 2 + 1 + d.integer(0, 2) for k in kernel)
        x = d.distinct((*x.shape[:2], *reach))
    return Call([x], params)


def jax_max_pool(x, **params):
    return patches(x, *windows(x, **params), -jnp.inf).max(-1)


def draw_avg_pool(d, n):
    x, params = draw_pool(d, n)
    params["count_include_pad"] = d.flag()
    if d.flag(0.2):
        params["divisor_override"] = d.integer(1, 7)
    return Call([x], params)


def jax_avg_pool(x, count_include_pad, divisor_override=None, **params):
    kernel, stride, dilation, sides = windows(x, **params)
    total = reduce_windows(x, 0.0, lax.add, kernel, stride, dilation, sides)
    if divisor_override:
        return total / divisor_override
    # What lies inside the image, or inside it and its padding: never past that.
    padded = [
        (0, min(p, a)) if count_include_pad else (0, 0)
        for (_, a), p in zip(sides, listed(params["padding"], x.ndim - 2), strict=True)
    ]
    before = [p if count_include_pad else 0 for p in listed(params["padding"], x.ndim - 2)]
    ones = jnp.ones(
        (1, 1, *(s + b + p[1] for s, b, p in zip(x.shape[2:], before, padded, strict=True)))
    )
    rest = [(s[0] - b, s[1] - p[1]) for s, b, p in zip(sides, before, padded, strict=True)]
    return total / reduce_windows(ones, 0.0, lax.add, kernel, stride, dilation, rest)


def draw_adaptive(d, n):
    image = sizes(d, n, 1, 7 if n < 3 else 4)
    return Call(
        [d.distinct((d.integer(1, 2), d.integer(1, 3), *image))],
        {"output_size": argument(sizes(d, n, 1, 5 if n < 3 else 3))},
    )


def jax_adaptive(operation):
    def oracle(x, output_size):
        for axis, outputs in enumerate(listed(output_size, x.ndim - 2), start=2):
            size = x.shape[axis]
            parts = []
            for i in range(outputs):
                first, last = i * size // outputs, -(-(i + 1) * size // outputs)
                part = lax.slice_in_dim(x, first, last, axis=axis)
                parts.append(operation(part, axis=axis, keepdims=True))
            x = jnp.concatenate(parts, axis)
        return x

    return oracle


def draw_lp_pool(d, n):
    x, params = draw_pool(d, n)
    del params["padding"]
    x = d.values(x.shape, 0.2, 2)
    return Call([x], {**params, "norm_type": d.choice([1, 2, 3, 1.5])})


def jax_lp_pool(x, norm_type, **params):
    """PyTorch's: the mean of a cut window counts for a whole one."""
    kernel, stride, dilation, sides = windows(x, padding=0, **params)
    power = x**norm_type
    total = reduce_windows(power, 0.0, lax.add, kernel, stride, dilation, sides)
    inside = reduce_windows(jnp.ones_like(x), 0.0, lax.add, kernel, stride, dilation, sides)
    return (total / inside * np.prod(kernel)) ** (1 / norm_type)


for _n in (1, 2, 3):
    _cases = 40 if _n == 2 else 20
    TABLE[f"max_pool{_n}d"] = Entry(
        lambda d, n=_n: draw_max_pool(d, n),
        getattr(F, f"max_pool{_n}d"),
        jax_max_pool,
        repeats=False,
        cases=_cases,
    )
    TABLE[f"avg_pool{_n}d"] = Entry(
        lambda d, n=_n: draw_avg_pool(d, n),
        getattr(F, f"avg_pool{_n}d"),
        jax_avg_pool,
        cases=_cases,
    )
    TABLE[f"adaptive_max_pool{_n}d"] = Entry(
        lambda d, n=_n: draw_adaptive(d, n),
        getattr(F, f"adaptive_max_pool{_n}d"),
        jax_adaptive(jnp.max),
        repeats=False,
        cases=16,
    )
    TABLE[f"adaptive_avg_pool{_n}d"] = Entry(
        lambda d, n=_n: draw_adaptive(d, n),
        getattr(F, f"adaptive_avg_pool{_n}d"),
        jax_adaptive(jnp.mean),
        cases=16,
    )
    TABLE[f"lp_pool{_n}d"] = Entry(
        lambda d, n=_n: draw_lp_pool(d, n),
        getattr(F, f"lp_pool{_n}d"),
        jax_lp_pool,
        cases=16,
        tolerance=2,
    )
