"""torch.special: other names of mica's functions."""

from __future__ import annotations

import mica

expit = mica.sigmoid
gammaln = mica.lgamma
multigammaln = mica.mvlgamma
psi = mica.digamma


def entr(input: mica.Tensor) -> mica.Tensor:
    """-x log x, 0 at 0 and -inf below."""
    return mica.where(input < 0, -mica.inf, -mica.xlogy(input, input))


def xlog1py(input: mica.Tensor, other: mica.Tensor) -> mica.Tensor:
    """x log(1 + y), 0 where x is."""
    return mica.xlogy(input, 1 + other)
