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
