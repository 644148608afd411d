"""Layers whose forward is made of functions, in Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import mica._mica as m
from mica._mica import Tensor
from mica._mica import functional as _f
from mica._mica import nn as _nn
from mica.nn import _embedding, _functional


class AlphaDropout(_nn.Module):
    """Dropout that keeps mean 0 and variance 1 behind SELU."""

    _function = staticmethod(_functional.alpha_dropout)

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input itself in evaluation."""
        return self._function(input, self.p, self.training)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


class FeatureAlphaDropout(AlphaDropout):
    """The same for whole channels of (N, C, …)."""

    _function = staticmethod(_functional.feature_alpha_dropout)


class RReLU(_nn.Module):
    """x where it is positive, else times a slope that is drawn in training."""

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Of any shape."""
        return _functional.rrelu(input, self.lower, self.upper, self.training)


class EmbeddingBag(_nn.Module):
    """The sum, mean or max of the rows of a table that each bag of indices names."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, mode: str = "mean",
        include_last_offset: bool = False, padding_idx: int | None = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.mode, self.include_last_offset = mode, include_last_offset
        self.padding_idx = padding_idx
        weight = m.randn(num_embeddings, embedding_dim, device=device, dtype=dtype)
        if padding_idx is not None:
            weight[padding_idx] = 0
        self.weight = _nn.Parameter(weight)

    from_pretrained = classmethod(_embedding.from_pretrained)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Bags are the rows of input (bags, n), or parts of input (n) that begin at offsets."""
        return _functional.embedding_bag(
            input, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset, padding_idx=self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"


class CrossMapLRN2d(_nn.Module):
    """LocalResponseNorm, by its older name."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """Of images (N, C, H, W)."""
        return _f.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class _MaxUnpool(_nn.Module):
    _axes = 1

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """Values back where max pooling found them, 0 elsewhere."""
        return _functional._max_unpool(
            self._axes, input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool1d(_MaxUnpool):
    """The inverse of MaxPool1d as far as there is one: the other values are 0."""

    _axes = 1


class MaxUnpool2d(_MaxUnpool):
    """The inverse of MaxPool2d as far as there is one: the other values are 0."""

    _axes = 2


class MaxUnpool3d(_MaxUnpool):
    """The inverse of MaxPool3d as far as there is one: the other values are 0."""

    _axes = 3


class AdaptiveResult(NamedTuple):
    """What AdaptiveLogSoftmaxWithLoss gives."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(_nn.Module):
    """Log-probabilities of many classes, of which the rare ones share smaller layers."""

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        given = list(cutoffs)
        if given != sorted(set(given)) or not given or not 0 < given[0] <= given[-1] < n_classes:
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs must rise from 1 to n_classes - 1"
            )
        self.in_features, self.n_classes, self.div_value = in_features, n_classes, div_value
        self.cutoffs = [*given, n_classes]
        self.shortlist_size, self.n_clusters = given[0], len(given)
        self.head_size = self.shortlist_size + self.n_clusters
        place = {"device": device, "dtype": dtype}
        self.head = _nn.Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail = _nn.ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                _nn.Sequential(
                    _nn.Linear(in_features, hidden, bias=False, **place),
                    _nn.Linear(hidden, size, bias=False, **place),
                )
            )

    def log_prob(self, input: Tensor) -> Tensor:
        """(N, n_classes): of every class."""
        head = _f.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            within = _f.log_softmax(tail(input), dim=1)
            parts.append(within + head[:, self.shortlist_size + i].unsqueeze(1))
        return m.cat(parts, 1)

    def forward(self, input: Tensor, target: Tensor) -> AdaptiveResult:
        """(output, loss): the log-probability of each target, and the mean of -output."""
        rows = input.reshape(-1, self.in_features)
        output = m.gather(self.log_prob(rows), 1, target.reshape(-1, 1)).squeeze(1)
        return AdaptiveResult(output.reshape(target.shape), -output.mean())

    def predict(self, input: Tensor) -> Tensor:
        """(N): the class of the largest probability."""
        return m.argmax(self.log_prob(input), 1)


def _fractional(axes: int, input: Tensor, kernel: Any, size: Any, samples: Tensor) -> Any:
    """Windows of `kernel` whose places grow by random steps (Graham's sequences)."""
    kernel, size = _functional._sizes(kernel, axes), _functional._sizes(size, axes)
    space = list(input.shape[-axes:])
    n, c = input.shape[0], input.shape[1]
    place = m.zeros([1] * (2 + 2 * axes), dtype=m.int64)
    for i in range(axes):
        last = space[i] - kernel[i]
        steps = m.arange(size[i], dtype=m.float64)
        u = samples[:, :, axes - 1 - i].double().unsqueeze(-1)
        alpha = last / (size[i] - 1) if size[i] > 1 else 0.0
        starts = m.floor((steps + u) * alpha) - m.floor(u * alpha)
        starts = m.where(steps == size[i] - 1, float(last), starts).long()
        at = starts.unsqueeze(-1) + m.arange(kernel[i])  # (N, C, size, kernel)
        view = [n, c] + [1] * (2 * axes)
        view[2 + i], view[2 + axes + i] = size[i], kernel[i]
        place = place * space[i] + at.reshape(view)
    windows, each = math.prod(size), math.prod(kernel)
    table = place.reshape(n, c, windows * each).to(input.device)
    flat = input.reshape(n, c, -1)
    pieces = m.gather(flat, 2, table).reshape(n, c, windows, each)
    values, best = m.max(pieces, -1)
    where = m.gather(table.reshape(n, c, windows, each), -1, best.unsqueeze(-1))
    return values.reshape(n, c, *size), where.reshape(n, c, *size)


class _FractionalMaxPool(_nn.Module):
    _axes = 2

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{type(self).__name__}: expected output_size or output_ratio")
        self.kernel_size, self.output_size = kernel_size, output_size
        self.output_ratio, self.return_indices = output_ratio, return_indices
        self.__dict__["_random_samples"] = _random_samples

    def forward(self, input: Tensor) -> Any:
        """The largest value of each window, and where it is with return_indices."""
        axes = self._axes
        x = input if input.dim() == axes + 2 else input.unsqueeze(0)
        size = self.output_size
        if size is None:
            ratio = self.output_ratio
            ratios = [ratio] * axes if isinstance(ratio, float) else list(ratio)
            size = [int(s * r) for s, r in zip(x.shape[-axes:], ratios, strict=True)]
        samples = self.__dict__["_random_samples"]
        if samples is None:
            samples = m.rand(x.shape[0], x.shape[1], axes)
        values, where = _fractional(axes, x, self.kernel_size, size, samples)
        if input.dim() != axes + 2:
            values, where = values.squeeze(0), where.squeeze(0)
        return (values, where) if self.return_indices else values


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest values of windows (N, C, H, W) at random places."""

    _axes = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The same of (N, C, D, H, W)."""

    _axes = 3


names = (
    "AdaptiveLogSoftmaxWithLoss",
    "AlphaDropout",
    "CrossMapLRN2d",
    "EmbeddingBag",
    "FeatureAlphaDropout",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "RReLU",
)
