"""Special functions, by recurrences, asymptotic series and Newton steps in float64."""

from __future__ import annotations

import math
from typing import Any

import mica._mica as m
from mica._mica import Tensor
from mica.autograd import Function

_SHIFT = 10  # arguments are brought to at least this by the recurrences
# Of Stirling's series and of its derivatives: B(2k), the Bernoulli numbers, k from 1.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _wide(input: Tensor) -> tuple[Tensor, Any]:
    """In float64, and the dtype of the result."""
    dtype = input.dtype if input.is_floating_point() else m.float32
    return input.to(m.float64), dtype


def _series(z: Tensor, factors: list[float]) -> Tensor:
    """The sum of factors[k] / z^(2k + 2) · z, by Horner's scheme."""
    square = 1 / (z * z)
    total = m.zeros_like(z)
    for factor in reversed(factors):
        total = (total + factor) * square
    return total * z


def _log_gamma_of_positive(x: Tensor) -> Tensor:
    product = x
    for k in range(1, _SHIFT):
        product = product * (x + k)
    z = x + _SHIFT
    factors = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)]
    stirling = (z - 0.5) * z.log() - z + 0.5 * math.log(2 * math.pi) + _series(z, factors)
    large = x > 1e30  # where the product overflows and nothing is left of the rest
    return m.where(large, x * (x.log() - 1), stirling - product.log())


class _LogGamma(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Any:
        ctx.save_for_backward(x)
        negative = x < 0.5
        positive = _log_gamma_of_positive(m.where(negative, 1 - x, x))
        turn = m.sin(math.pi * (x - m.round(x))).abs()
        reflected = math.log(math.pi) - turn.log() - positive
        return m.where(negative, reflected, positive)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] * digamma(x)


def lgamma(input: Tensor) -> Tensor:
    """The logarithm of |Γ(input)| of each element; integers give float32."""
    x, dtype = _wide(input)
    made: Tensor = _LogGamma.apply(x)
    return made.to(dtype)


def _digamma_of_positive(x: Tensor) -> Tensor:
    total = m.zeros_like(x)
    for k in range(_SHIFT):
        total = total + 1 / (x + k)
    z = x + _SHIFT
    factors = [b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)]
    return z.log() - 0.5 / z - _series(z, factors) / z - total


def digamma(input: Tensor) -> Tensor:
    """The derivative of lgamma; NaN at negative integers, -inf at 0."""
    x, dtype = _wide(input)
    negative = x < 0.5
    positive = _digamma_of_positive(m.where(negative, 1 - x, x))
    part = m.where(negative, x - m.round(x), 0.25)
    made = m.where(negative, positive - math.pi / m.tan(math.pi * part), positive)
    whole = (x == m.round(x)) & (x <= 0)
    at_poles = m.where(x == 0, m.where(m.signbit(x), math.inf, -math.inf), math.nan)
    return m.where(whole, at_poles, made).to(dtype)


def _zeta(s: int, x: Tensor) -> Tensor:
    """The sum of 1 / (x + k)^s over k from 0, by Euler's and Maclaurin's formula; x > 0."""
    total = m.zeros_like(x)
    for k in range(_SHIFT):
        total = total + (x + k) ** -s
    z = x + _SHIFT
    total = total + z ** (1 - s) / (s - 1) + 0.5 * z**-s
    rising = float(s)
    for k, b in enumerate(_BERNOULLI, 1):
        total = total + b / math.factorial(2 * k) * rising * z ** (1 - s - 2 * k)
        rising *= (s + 2 * k - 1) * (s + 2 * k)
    return total


def polygamma(n: int, input: Tensor) -> Tensor:
    """The derivative of order n of digamma, for positive elements; others give NaN where n > 0."""
    if not 0 <= n <= 170:  # 171! is more than a number can be
        raise ValueError(f"polygamma: expected an order of 0 to 170, got {n}")
    if n == 0:
        return digamma(input)
    x, dtype = _wide(input)
    made = (-1) ** (n + 1) * math.factorial(n) * _zeta(n + 1, m.where(x > 0, x, 1.0))
    return m.where(x > 0, made, math.nan).to(dtype)


def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function of p dimensions, for elements above (p - 1) / 2."""
    if not 1 <= p <= 2**16:
        raise ValueError(f"mvlgamma: expected p of 1 to 65,536, got {p}")
    x, dtype = _wide(input)
    total = m.full_like(x, p * (p - 1) / 4 * math.log(math.pi))
    for k in range(p):
        total = total + lgamma(x - k / 2)
    return total.to(dtype)


class _ErfInv(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Any:
        # Winitzki's formula, then Newton's steps; by erfc beyond a half, where erf has few digits.
        w = m.log1p(-x * x)
        half = 2 / (math.pi * 0.147) + 0.5 * w
        y = ((half * half - w / 0.147).sqrt() - half).clamp_min(0).sqrt()
        size = x.abs()
        for _ in range(4):
            over = m.where(size < 0.5, m.erf(y) - size, (1 - size) - m.erfc(y))
            y = y - over * (0.5 * math.sqrt(math.pi)) * m.exp(y * y)
        y = m.where(size == 1, math.inf, y)
        y = m.where(size > 1, math.nan, y) * m.sign(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (y,) = ctx.saved_tensors
        return grads[0] * (0.5 * math.sqrt(math.pi)) * m.exp(y * y)


def erfinv(input: Tensor) -> Tensor:
    """What erf gives input for; infinite at -1 and 1."""
    x, dtype = _wide(input)
    made: Tensor = _ErfInv.apply(x)
    return made.to(dtype)


def i0(input: Tensor) -> Tensor:
    """Bessel's modified function of the first kind, of order 0."""
    x, dtype = _wide(input)
    size = x.abs()
    # All terms of the series are positive; beyond 20 the asymptotic one has all digits by its 20th.
    square = (size.clamp_max(20.0) / 2) ** 2
    near = m.ones_like(x)
    for k in range(56, 0, -1):
        near = near * square / (k * k) + 1
    far_at = size.clamp_min(20.0)
    far = m.ones_like(x)
    for k in range(20, 0, -1):
        far = far * (2 * k - 1) ** 2 / (8 * k * far_at) + 1
    # e^x in two parts: it overflows before what it is divided by makes it small again.
    half = m.exp(far_at / 2)
    far = half * (far / m.sqrt(2 * math.pi * far_at)) * half
    return m.where(size <= 20, near, far).to(dtype)
