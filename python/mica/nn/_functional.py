"""Functions of mica.nn.functional that are made of others in Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mica._mica as m
from mica._composed.products import pdist as pdist
from mica._mica import Tensor
from mica._mica import functional as _f


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction must be none, mean or sum, got {reduction!r}")
    return loss.mean() if reduction == "mean" else loss.sum()


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean 0 and variance 1 behind SELU."""
    return _alpha_dropout(input, p, training, input.shape)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """The same for whole channels of (N, C, …)."""
    return _alpha_dropout(input, p, training, [*input.shape[:2]] + [1] * (input.dim() - 2))


def _alpha_dropout(input: Tensor, p: float, training: bool, shape: Sequence[int]) -> Tensor:
    if not 0 <= p <= 1:
        raise ValueError(f"alpha_dropout: p must be between 0 and 1, got {p}")
    if not training or p == 0:
        return input
    if p == 1:
        return input * 0
    dropped = -1.7580993408473766  # what SELU tends to far below 0
    kept = m.rand(*shape, device=input.device) >= p
    scale = 1 / math.sqrt((1 - p) * (1 + p * dropped**2))
    return m.where(kept, input, dropped) * scale - scale * dropped * p


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    inplace: bool = False,
) -> Tensor:  # fmt: skip
    """x where it is positive, else times a slope between lower and upper: drawn in training, the
    middle else."""
    if not training:
        return _f.leaky_relu(input, (lower + upper) / 2)
    slope = m.rand_like(input.detach()) * (upper - lower) + lower
    return m.where(input >= 0, input, input * slope)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    """(…, out): the sum of input1[i] · weight[o, i, j] · input2[j]."""
    made = m.einsum("...i,oij,...j->...o", input1, weight, input2)
    return made if bias is None else made + bias


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean",
    sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """(bags, dim): the sum, mean or max of the rows of each bag. Bags are the rows of input
    (bags, n), or parts of input (n) that begin at offsets."""
    if max_norm is not None or scale_grad_by_freq:
        raise NotImplementedError("embedding_bag: max_norm and scale_grad_by_freq are not there")
    if input.dim() == 2:
        count, size = input.shape
        bag = m.arange(count, device=input.device).unsqueeze(1).expand(count, size).reshape(-1)
        flat = input.reshape(-1)
    elif offsets is None:
        raise ValueError("embedding_bag: offsets say where the bags of input (n) begin")
    else:
        starts = offsets[:-1] if include_last_offset else offsets
        flat, count = input, starts.shape[0]
        places = m.arange(flat.shape[0], device=input.device)
        bag = m.searchsorted(starts.contiguous(), places.to(starts.dtype), right=True) - 1
    rows = _f.embedding(flat, weight)
    used = m.ones(flat.shape[0], dtype=weight.dtype, device=weight.device)
    if padding_idx is not None:
        used = (flat != padding_idx).to(weight.dtype)
        rows = rows * used.unsqueeze(1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    shape = (count, weight.shape[1])
    zeros = m.zeros(*shape, dtype=rows.dtype, device=rows.device)
    if mode in ("sum", "mean"):
        made = zeros.index_add(0, bag, rows)
        if mode == "sum":
            return made
        members = m.zeros(count, dtype=rows.dtype, device=rows.device).index_add(0, bag, used)
        return made / members.clamp_min(1).unsqueeze(1)
    if mode != "max":
        raise ValueError(f"embedding_bag: mode must be sum, mean or max, got {mode!r}")
    from mica._composed.reductions import scatter_reduce

    at = bag.unsqueeze(1).expand(rows.shape)
    hidden = m.where(used.unsqueeze(1) > 0, rows, -math.inf)
    made = scatter_reduce(zeros, 0, at, hidden, "amax", include_self=False)
    return m.where(m.isinf(made), 0.0, made)


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Of scores (N, C) and classes (N, C) that end at the first -1: how far every other class
    comes within 1 of each of them."""
    x = input.reshape(1, -1) if input.dim() == 1 else input
    y = target.reshape(x.shape)
    n, classes = x.shape
    before_end = m.cumprod((y >= 0).long(), 1).bool()
    safe = m.where(before_end, y, 0)
    is_class = m.zeros(n, classes, device=x.device).scatter_add(1, safe, before_end.float()) > 0
    chosen = m.gather(x, 1, safe)
    margin = m.clamp_min(1 - (chosen.unsqueeze(2) - x.unsqueeze(1)), 0)
    counts = m.logical_and(before_end.unsqueeze(2), m.logical_not(is_class).unsqueeze(1))
    loss = m.where(counts, margin, 0.0).sum([1, 2]) / classes
    return _reduced(loss.reshape(()) if input.dim() == 1 else loss, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(d(anchor, positive) - d(anchor, negative) + margin, 0)."""
    apart = distance_function or _f.pairwise_distance
    near, far = apart(anchor, positive), apart(anchor, negative)
    if swap:
        far = m.minimum(far, apart(positive, negative))
    return _reduced(m.clamp_min(near - far + margin, 0), reduction)


def _sizes(value: Any, axes: int) -> list[int]:
    return [value] * axes if isinstance(value, int) else list(value)


def _max_unpool(
    axes: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any,
    output_size: Any,
) -> Tensor:  # fmt: skip
    kernel = _sizes(kernel_size, axes)
    steps = _sizes(kernel_size if stride is None or stride == [] else stride, axes)
    pads = _sizes(padding, axes)
    size = [
        (n - 1) * s - 2 * p + k
        for n, s, p, k in zip(input.shape[-axes:], steps, pads, kernel, strict=True)
    ]
    if output_size is not None:
        size = list(output_size)[-axes:]
    lead = list(input.shape[:-axes])
    zeros = m.zeros([*lead, math.prod(size)], dtype=input.dtype, device=input.device)
    made = m.scatter(zeros, -1, indices.reshape([*lead, -1]), input.reshape([*lead, -1]))
    return made.reshape(lead + size)


def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Tensor:  # fmt: skip
    """Values back where max_pool1d found them, 0 elsewhere."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Tensor:  # fmt: skip
    """Values back where max_pool2d found them, 0 elsewhere."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Tensor:  # fmt: skip
    """Values back where max_pool3d found them, 0 elsewhere."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """interpolate, by its older name."""
    return _f.interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate with mode "nearest"."""
    return upsample(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate with mode "bilinear", corner to corner."""
    return upsample(input, size, scale_factor, "bilinear", True)


def _written(name: str) -> Callable[..., Tensor]:
    def write(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return input.copy_(getattr(_f, name)(input.clone(), *args, **kwargs))

    write.__name__ = write.__qualname__ = name + "_"
    write.__doc__ = f"Overwrites input with what {name} gives."
    return write


relu_ = _written("relu")
celu_ = _written("celu")
elu_ = _written("elu")
hardtanh_ = _written("hardtanh")
leaky_relu_ = _written("leaky_relu")
selu_ = _written("selu")
threshold_ = _written("threshold")


def rrelu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Overwrites input with what rrelu gives."""
    return input.copy_(rrelu(input.clone(), *args, **kwargs))


names: list[str] = [
    name
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", "").startswith(("mica.nn", "mica._comp"))
    and not name.startswith("_")
]  # fmt: skip


def _fractional_max_pool(
    axes: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any,
    return_indices: bool, samples: Tensor | None,
) -> Any:  # fmt: skip
    from mica.nn import layers

    made = layers.FractionalMaxPool2d if axes == 2 else layers.FractionalMaxPool3d
    return made(kernel_size, output_size, output_ratio, return_indices, samples)(input)


def fractional_max_pool2d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """The largest values of windows (N, C, H, W) at random places."""
    return _fractional_max_pool(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


def fractional_max_pool3d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """The same of (N, C, D, H, W)."""
    return _fractional_max_pool(
        3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


def fractional_max_pool2d_with_indices(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = True, _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """(values, indices) of fractional_max_pool2d."""
    return _fractional_max_pool(
        2, input, kernel_size, output_size, output_ratio, True, _random_samples
    )


def fractional_max_pool3d_with_indices(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = True, _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """(values, indices) of fractional_max_pool3d."""
    return _fractional_max_pool(
        3, input, kernel_size, output_size, output_ratio, True, _random_samples
    )


names += [f"fractional_max_pool{n}d{ending}" for n in (2, 3) for ending in ("", "_with_indices")]
