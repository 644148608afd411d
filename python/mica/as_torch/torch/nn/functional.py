"""torch.nn.functional: losses with PyTorch's older words for `reduction`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mica

_LOSSES = (
    "binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy "
    "hinge_embedding_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss "
    "multilabel_margin_loss multilabel_soft_margin_loss nll_loss poisson_nll_loss smooth_l1_loss "
    "soft_margin_loss triplet_margin_loss"
).split()


def _reduction(size_average: bool | None, reduce: bool | None) -> str:
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def _with_older_words(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(
        *args: Any, size_average: bool | None = None, reduce: bool | None = None, **kwargs: Any
    ) -> Any:
        if size_average is not None or reduce is not None:
            kwargs["reduction"] = _reduction(size_average, reduce)
        return function(*args, **kwargs)

    return call


globals().update({n: _with_older_words(getattr(mica.nn.functional, n)) for n in _LOSSES})

native_channel_shuffle = mica.nn.functional.channel_shuffle


def has_torch_function(*args: Any) -> bool:
    """No class takes functions over."""
    return False


has_torch_function_unary = has_torch_function_variadic = has_torch_function
