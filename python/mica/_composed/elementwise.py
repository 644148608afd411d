"""Functions of each element, made of others."""

from __future__ import annotations

import math
from typing import Any

import mica._mica as m
from mica._mica import Tensor


def _float(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.float()


def _tensor(value: Any, like: Tensor) -> Tensor:
    """A number beside a tensor."""
    return value if isinstance(value, Tensor) else m.full_like(like[:0].sum(), value)


def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians."""
    return _float(input) * (math.pi / 180)


def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees."""
    return _float(input) * (180 / math.pi)


def frac(input: Tensor) -> Tensor:
    """What is behind the point of each element, with its sign."""
    return input - m.trunc(input)


def positive(input: Tensor) -> Tensor:
    """input itself."""
    return input


def sgn(input: Tensor) -> Tensor:
    """The sign of each element: -1, 0 or 1."""
    return m.sign(input)


def sinc(input: Tensor) -> Tensor:
    """sin(πx) / πx of each element, and 1 at 0."""
    x = _float(input) * math.pi
    at_zero = x == 0
    safe = m.where(at_zero, 1.0, x)
    return m.where(at_zero, 1.0, m.sin(safe) / safe)


def float_power(input: Any, exponent: Any) -> Tensor:
    """input to the power of exponent, in float64."""
    base = input.double() if isinstance(input, Tensor) else m.tensor(float(input)).double()
    power = exponent.double() if isinstance(exponent, Tensor) else float(exponent)
    return m.pow(base, power)


def fmax(input: Tensor, other: Tensor) -> Tensor:
    """The larger of two; a number beside NaN wins."""
    either = m.where(m.isnan(input), other, input)
    return m.maximum(either, m.where(m.isnan(other), either, other))


def fmin(input: Tensor, other: Tensor) -> Tensor:
    """The smaller of two; a number beside NaN wins."""
    either = m.where(m.isnan(input), other, input)
    return m.minimum(either, m.where(m.isnan(other), either, other))


def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 where input is below 0, 1 above, and values at 0."""
    step = (input > 0).to(input.dtype)
    return m.where(input == 0, values, step)


def isneginf(input: Tensor) -> Tensor:
    """Whether each element is minus infinity."""
    return m.logical_and(m.isinf(input), input < 0)


def isposinf(input: Tensor) -> Tensor:
    """Whether each element is plus infinity."""
    return m.logical_and(m.isinf(input), input > 0)


def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input · 2^other."""
    return _float(input) * m.exp2(_float(other))


def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """log2(2^input + 2^other), without overflow."""
    scale = math.log(2)
    return m.logaddexp(input * scale, other * scale) / scale


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)) of each element, which eps keeps between eps and 1 - eps."""
    x = _float(input) if eps is None else m.clamp(_float(input), eps, 1 - eps)
    return m.log(x / (1 - x))


def gcd(input: Tensor, other: Tensor) -> Tensor:
    """The greatest common divisor of integers."""
    for x in (input, other):
        if x.is_floating_point() or x.is_complex():
            raise m.DTypeError(f"gcd: expected integers, got {x.dtype}")
    a, b = m.broadcast_tensors(m.abs(input), m.abs(other))
    while bool((b != 0).any()):
        safe = m.where(b == 0, 1, b)
        a, b = m.where(b == 0, a, b), m.where(b == 0, b, m.remainder(a, safe))
    return m.abs(a)  # the lowest integer is its own absolute value, and negative


def lcm(input: Tensor, other: Tensor) -> Tensor:
    """The least common multiple of integers."""
    divisor = gcd(input, other)
    safe = m.where(divisor == 0, 1, divisor)
    return m.abs(m.floor_divide(input, safe) * other)


def frexp(input: Tensor) -> tuple[Tensor, Tensor]:
    """(mantissa, exponent): input is mantissa · 2^exponent, and the mantissa is in [0.5, 1)."""
    usable = m.logical_and(m.isfinite(input), input != 0)
    size = m.where(usable, m.abs(input.detach()), 1.0)
    exponent = m.where(usable, m.floor(m.log2(size)) + 1, 0.0)
    mantissa = m.where(usable, input / m.exp2(exponent), input)
    # log2 may round up to a power of two that is not reached, or down from one that is.
    low, high = m.abs(mantissa) < 0.5, m.abs(mantissa) >= 1
    move = m.where(m.logical_and(usable, high), 1.0, 0.0)
    move = m.where(m.logical_and(usable, low), -1.0, move)
    return mantissa / m.exp2(move), (exponent + move).int()


def rsub(input: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """other - alpha · input."""
    scaled = input if alpha == 1 else input * alpha
    result: Tensor = other - scaled
    return result


def is_nonzero(input: Tensor) -> bool:
    """Whether the one element of input is not 0."""
    if input.numel() != 1:
        raise ValueError(f"is_nonzero: expected one element, got shape {input.shape}")
    return bool(input)


def is_signed(input: Tensor) -> bool:
    """Whether its dtype has numbers below 0."""
    return input.dtype not in (m.uint8, m.uint16, m.uint32, m.uint64, m.bool)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return input.shape == other.shape


def scalar_tensor(s: float, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor without axes; float32 unless dtype says otherwise."""
    return m.tensor(s, dtype=dtype or m.float32, device=device)


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """A whole number for each element, drawn from the Poisson distribution with that mean."""
    limit, total = m.exp(-_float(input)), m.ones_like(_float(input))
    count = m.zeros_like(total)
    while bool((total > limit).any()):
        count = count + (total > limit).to(count.dtype)
        total = total * m.rand(input.shape, dtype=total.dtype, generator=generator)  # type: ignore[call-overload]
    return m.clamp_min(count - 1, 0)


def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like input that holds value everywhere."""
    return m.where(m.ones_like(input, dtype=m.bool), _tensor(value, input), input)


def is_conj(input: Tensor) -> bool:
    """False: results are always computed."""
    return False


is_neg = is_conj


def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: results are always computed."""
    return input


resolve_neg = resolve_conj


def conj_physical(input: Tensor) -> Tensor:
    """conj: results are always computed."""
    return m.conj(input)


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """For each element, of how many of `count` trials an event of probability `prob` comes true."""
    count, prob = m.broadcast_tensors(count, prob)
    made = m.zeros_like(prob)
    for trial in range(int(count.max()) if count.numel() else 0):
        drawn = m.rand(prob.shape, dtype=prob.dtype, generator=generator)  # type: ignore[call-overload]
        made = made + ((drawn < prob) & (count > trial)).to(prob.dtype)
    return made
