"""Losses as modules: functions of an input and a target that keep their options.

Weights of classes are buffers, so that they move with the module.
"""

from collections.abc import Callable
from typing import Any

from mica._mica import Tensor
from mica._mica import functional as _f
from mica._mica import nn as _nn
from mica.nn._functional import multilabel_margin_loss, triplet_margin_with_distance_loss


class _Loss(_nn.Module):
    """Calls a function of mica.nn.functional with the options it was made with."""

    _function: Callable[..., Tensor]

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._tensors: list[str] = []
        for name in ("weight", "pos_weight"):
            if name in options:
                tensor = options.pop(name)
                if tensor is None:
                    setattr(self, name, None)
                else:
                    self.register_buffer(name, tensor)
                    self._tensors.append(name)
        self.__dict__.update(options)
        self._options = list(options)

    def forward(self, *inputs: Tensor) -> Tensor:
        """The loss of these inputs, of the shapes that the class names."""
        options = {name: getattr(self, name) for name in self._tensors + self._options}
        return type(self)._function(*inputs, **options)

    def extra_repr(self) -> str:
        """The options."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._options)


class CrossEntropyLoss(_Loss):
    """Of logits (N, C, …) and classes (N, …), or probabilities (N, C, …)."""

    _function = _f.cross_entropy

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(
            weight=weight,
            ignore_index=ignore_index,
            reduction=reduction,
            label_smoothing=label_smoothing,
        )


class CTCLoss(_Loss):
    """Of log-probabilities (T, N, C), targets (N, S) or one after the other, and both's lengths."""

    _function = _f.ctc_loss

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(blank=blank, reduction=reduction, zero_infinity=zero_infinity)


class NLLLoss(_Loss):
    """Of log-probabilities (N, C, …) and classes (N, …)."""

    _function = _f.nll_loss

    def __init__(
        self, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)


class MSELoss(_Loss):
    """(input - target)²."""

    _function = _f.mse_loss

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class L1Loss(_Loss):
    """|input - target|."""

    _function = _f.l1_loss

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class SmoothL1Loss(_Loss):
    """A parabola where |input - target| is below beta, a line beyond."""

    _function = _f.smooth_l1_loss

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction=reduction, beta=beta)


class HuberLoss(_Loss):
    """A parabola where |input - target| is at most delta, a line beyond."""

    _function = _f.huber_loss

    def __init__(self, *, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction, delta=delta)


class BCELoss(_Loss):
    """Of probabilities and targets in [0, 1]."""

    _function = _f.binary_cross_entropy

    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean") -> None:
        super().__init__(weight=weight, reduction=reduction)


class BCEWithLogitsLoss(_Loss):
    """The same of sigmoid(input)."""

    _function = _f.binary_cross_entropy_with_logits

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight=weight, reduction=reduction, pos_weight=pos_weight)


class KLDivLoss(_Loss):
    """target · (log(target) - input), where the input is a log-probability."""

    _function = _f.kl_div

    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction=reduction, log_target=log_target)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target · input)), with targets of 1 and -1."""

    _function = _f.soft_margin_loss

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class HingeEmbeddingLoss(_Loss):
    """input where the target is 1, max(0, margin - input) where it is -1."""

    _function = _f.hinge_embedding_loss

    def __init__(self, margin: float = 1.0, *, reduction: str = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)


class CosineEmbeddingLoss(_Loss):
    """Of two inputs (N, D) and targets of 1 and -1."""

    _function = _f.cosine_embedding_loss

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)


class MarginRankingLoss(_Loss):
    """max(0, margin - target · (a - b)), with targets of 1 and -1."""

    _function = _f.margin_ranking_loss

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)


class TripletMarginLoss(_Loss):
    """Of anchor, positive and negative."""

    _function = _f.triplet_margin_loss

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        *,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin=margin, p=p, eps=eps, swap=swap, reduction=reduction)


class PoissonNLLLoss(_Loss):
    """exp(input) - target · input, or input - target · log(input + eps), of one shape."""

    _function = _f.poisson_nll_loss

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        *,
        eps: float = 1e-8,
        reduction: str = "mean",
    ) -> None:
        super().__init__(log_input=log_input, full=full, eps=eps, reduction=reduction)


class GaussianNLLLoss(_Loss):
    """Of input, target and variance: (log(var) + (input - target)² / var) / 2."""

    _function = _f.gaussian_nll_loss

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(full=full, eps=eps, reduction=reduction)


class MultiMarginLoss(_Loss):
    """Of scores (N, C) and classes (N): by how much others come within margin of the class's."""

    _function = _f.multi_margin_loss

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        *,
        reduction: str = "mean",
    ) -> None:
        super().__init__(p=p, margin=margin, weight=weight, reduction=reduction)


class MultiLabelSoftMarginLoss(_Loss):
    """Of logits (N, C) and targets (N, C) of 0 and 1: each class's binary cross entropy."""

    _function = _f.multilabel_soft_margin_loss

    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean") -> None:
        super().__init__(weight=weight, reduction=reduction)


class PairwiseDistance(_Loss):
    """The p-norm of x1 - x2 + eps of vectors (N, D): (N)."""

    _function = _f.pairwise_distance

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__(p=p, eps=eps, keepdim=keepdim)


class CosineSimilarity(_Loss):
    """The cosine of the angle between vectors along an axis."""

    _function = _f.cosine_similarity

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__(dim=dim, eps=eps)


class MultiLabelMarginLoss(_Loss):
    """Of scores (N, C) and the classes of each row (N, C), which end at the first -1."""

    _function = multilabel_margin_loss

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss by a distance of one's own, of which pairwise_distance is the usual."""

    _function = triplet_margin_with_distance_loss

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(
            distance_function=distance_function, margin=margin, swap=swap, reduction=reduction
        )
