"""torch.distributions: the common ones."""

from __future__ import annotations

import math
from typing import Any

import mica
import mica.nn.functional as F


def _shape(size: Any) -> tuple:
    return (size,) if isinstance(size, int) else tuple(size)


def _all(*values: Any) -> list:
    """Numbers and tensors, broadcast."""
    like = next((v for v in values if isinstance(v, mica.Tensor)), None)
    device = like.device if like is not None else None
    dtype = like.dtype if like is not None else mica.float32
    made = [
        v if isinstance(v, mica.Tensor) else mica.tensor(float(v), dtype=dtype, device=device)
        for v in values
    ]
    return list(mica.broadcast_tensors(*made))


class Distribution:
    has_rsample = False

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: Any = None):
        self._batch_shape, self._event_shape = tuple(batch_shape), tuple(event_shape)

    @property
    def batch_shape(self) -> tuple:
        return self._batch_shape

    @property
    def event_shape(self) -> tuple:
        return self._event_shape

    def _extended(self, sample_shape: Any) -> tuple:
        return _shape(sample_shape) + self._batch_shape + self._event_shape

    def rsample(self, sample_shape: Any = ()) -> mica.Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no rsample")

    def sample(self, sample_shape: Any = ()) -> mica.Tensor:
        with mica.no_grad():
            return self.rsample(sample_shape)

    @property
    def stddev(self) -> mica.Tensor:
        return self.variance.sqrt()

    def perplexity(self) -> mica.Tensor:
        return self.entropy().exp()


class Normal(Distribution):
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None) -> None:
        self.loc, self.scale = _all(loc, scale)
        super().__init__(self.loc.shape)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: self.scale**2)
    stddev = property(lambda self: self.scale)

    def rsample(self, sample_shape: Any = ()) -> mica.Tensor:
        shape = self._extended(sample_shape)
        eps = mica.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + eps * self.scale

    def log_prob(self, value: mica.Tensor) -> mica.Tensor:
        squares = (value - self.loc) ** 2 / (2 * self.scale**2)
        return -squares - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def entropy(self) -> mica.Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    def cdf(self, value: mica.Tensor) -> mica.Tensor:
        return 0.5 * (1 + mica.erf((value - self.loc) / (self.scale * math.sqrt(2))))


class Uniform(Distribution):
    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: Any = None) -> None:
        self.low, self.high = _all(low, high)
        super().__init__(self.low.shape)

    mean = property(lambda self: (self.high + self.low) / 2)
    variance = property(lambda self: (self.high - self.low) ** 2 / 12)

    def rsample(self, sample_shape: Any = ()) -> mica.Tensor:
        shape = self._extended(sample_shape)
        drawn = mica.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: mica.Tensor) -> mica.Tensor:
        inside = ((value >= self.low) & (value < self.high)).to(self.low.dtype)
        return inside.log() - (self.high - self.low).log()

    def entropy(self) -> mica.Tensor:
        return (self.high - self.low).log()


class Exponential(Distribution):
    has_rsample = True

    def __init__(self, rate: Any, validate_args: Any = None) -> None:
        (self.rate,) = _all(rate)
        super().__init__(self.rate.shape)

    mean = property(lambda self: 1 / self.rate)
    variance = property(lambda self: self.rate**-2)

    def rsample(self, sample_shape: Any = ()) -> mica.Tensor:
        drawn = mica.zeros(self._extended(sample_shape), device=self.rate.device).exponential_()
        return drawn.to(self.rate.dtype) / self.rate

    def log_prob(self, value: mica.Tensor) -> mica.Tensor:
        return self.rate.log() - self.rate * value

    def entropy(self) -> mica.Tensor:
        return 1 - self.rate.log()


class Laplace(Distribution):
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None) -> None:
        self.loc, self.scale = _all(loc, scale)
        super().__init__(self.loc.shape)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale**2)

    def rsample(self, sample_shape: Any = ()) -> mica.Tensor:
        shape = self._extended(sample_shape)
        u = mica.rand(shape, dtype=self.loc.dtype, device=self.loc.device) - 0.5
        return self.loc - self.scale * u.sign() * mica.log1p(-2 * u.abs())

    def log_prob(self, value: mica.Tensor) -> mica.Tensor:
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def entropy(self) -> mica.Tensor:
        return 1 + (2 * self.scale).log()


class MultivariateNormal(Distribution):
    """By its covariance, its inverse, or the triangular factor of the covariance."""

    has_rsample = True

    def __init__(
        self, loc: mica.Tensor, covariance_matrix: Any = None, precision_matrix: Any = None,
        scale_tril: Any = None, validate_args: Any = None,
    ) -> None:  # fmt: skip
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1:
            raise ValueError(
                "MultivariateNormal: expected one of covariance_matrix, precision_matrix and "
                "scale_tril"
            )
        if scale_tril is None:
            matrix = mica.linalg.inv(given[0]) if precision_matrix is not None else given[0]
            scale_tril = mica.linalg.cholesky(matrix)
        shape = mica.broadcast_shapes(scale_tril.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand([*shape, loc.shape[-1]])
        self.scale_tril = scale_tril.expand([*shape, *scale_tril.shape[-2:]])
        super().__init__(shape, loc.shape[-1:])

    mean = mode = property(lambda self: self.loc)
    covariance_matrix = property(lambda self: self.scale_tril @ self.scale_tril.mT)
    variance = property(lambda self: (self.scale_tril**2).sum(-1))

    def rsample(self, sample_shape: Any = ()) -> mica.Tensor:
        shape = self._extended(sample_shape)
        eps = mica.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self.scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> mica.Tensor:
        return self.scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value: mica.Tensor) -> mica.Tensor:
        away = (value - self.loc).unsqueeze(-1)
        factor = self.scale_tril.expand([*away.shape[:-1], away.shape[-2]])
        scaled = mica.linalg.solve_triangular(factor, away, upper=False)
        constant = away.shape[-2] * math.log(2 * math.pi)
        return -0.5 * (constant + (scaled**2).sum([-2, -1])) - self._half_log_det()

    def entropy(self) -> mica.Tensor:
        return 0.5 * self.loc.shape[-1] * (1 + math.log(2 * math.pi)) + self._half_log_det()


class Bernoulli(Distribution):
    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Bernoulli: expected either probs or logits")
        if probs is not None:
            (self.probs,) = _all(probs)
            self.logits = (self.probs / (1 - self.probs)).log()
        else:
            (self.logits,) = _all(logits)
            self.probs = mica.sigmoid(self.logits)
        super().__init__(self.probs.shape)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = ()) -> mica.Tensor:
        with mica.no_grad():
            return mica.bernoulli(self.probs.expand(self._extended(sample_shape)))

    def log_prob(self, value: mica.Tensor) -> mica.Tensor:
        logits, value = mica.broadcast_tensors(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> mica.Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


class Categorical(Distribution):
    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Categorical: expected either probs or logits")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
            eps = mica.finfo(probs.dtype).eps
            self.logits = self.probs.clamp(eps, 1 - eps).log()
        else:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
            self.probs = F.softmax(self.logits, -1)
        self._num_events = self.probs.shape[-1]
        super().__init__(self.probs.shape[:-1])

    def sample(self, sample_shape: Any = ()) -> mica.Tensor:
        shape = _shape(sample_shape)
        count = math.prod(shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = mica.multinomial(rows, count, replacement=True).T
        return drawn.reshape(self._extended(sample_shape))

    def log_prob(self, value: mica.Tensor) -> mica.Tensor:
        value = value.long().unsqueeze(-1)
        shape = mica.broadcast_shapes(value.shape[:-1], self.logits.shape[:-1])
        logits = self.logits.expand([*shape, self._num_events])
        return logits.gather(-1, value.expand([*shape, 1])).squeeze(-1)

    def entropy(self) -> mica.Tensor:
        least = mica.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)

    mode = property(lambda self: self.probs.argmax(-1))


class Independent(Distribution):
    """The last axes of a batch as one event."""

    def __init__(self, base_distribution: Any, reinterpreted_batch_ndims: int, **_: Any) -> None:
        self.base_dist, self._n = base_distribution, reinterpreted_batch_ndims
        shape = base_distribution.batch_shape
        at = len(shape) - self._n
        super().__init__(shape[:at], shape[at:] + base_distribution.event_shape)

    mean = property(lambda self: self.base_dist.mean)
    variance = property(lambda self: self.base_dist.variance)

    def rsample(self, sample_shape: Any = ()) -> mica.Tensor:
        return self.base_dist.rsample(sample_shape)

    def sample(self, sample_shape: Any = ()) -> mica.Tensor:
        return self.base_dist.sample(sample_shape)

    def _summed(self, values: mica.Tensor) -> mica.Tensor:
        return values.sum(list(range(-self._n, 0))) if self._n else values

    def log_prob(self, value: mica.Tensor) -> mica.Tensor:
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> mica.Tensor:
        return self._summed(self.base_dist.entropy())


def kl_divergence(p: Any, q: Any) -> mica.Tensor:
    """Of two distributions of a kind."""
    if isinstance(p, Independent) and isinstance(q, Independent):
        return p._summed(kl_divergence(p.base_dist, q.base_dist))
    if isinstance(p, Normal) and isinstance(q, Normal):
        ratio = (p.scale / q.scale) ** 2
        return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())
    if isinstance(p, Categorical) and isinstance(q, Categorical):
        return (p.probs * (p.logits - q.logits)).sum(-1)
    if isinstance(p, Bernoulli) and isinstance(q, Bernoulli):
        one = p.probs * (p.probs / q.probs).log()
        return one + (1 - p.probs) * ((1 - p.probs) / (1 - q.probs)).log()
    raise NotImplementedError(f"kl_divergence: {type(p).__name__} and {type(q).__name__}")
