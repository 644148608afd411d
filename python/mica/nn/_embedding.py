"""Tables of embeddings that are there already."""

from __future__ import annotations

from typing import Any

from mica._mica import Tensor
from mica._mica import nn as _nn


def from_pretrained(
    cls: Any, /, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None,
    **options: Any,
) -> Any:  # fmt: skip
    """A layer whose table is this tensor (num_embeddings, embedding_dim), which stays as it is
    unless freeze is False."""
    if embeddings.dim() != 2:
        raise ValueError(
            f"{cls.__name__}.from_pretrained: expected a table of rows, got a tensor of shape "
            f"{tuple(embeddings.shape)}"
        )
    rows, dim = embeddings.shape
    layer = cls(rows, dim, padding_idx=padding_idx, **options)
    layer.weight = _nn.Parameter(embeddings.detach(), not freeze)
    return layer


def add_methods() -> None:
    """Gives Embedding the method."""
    setattr(_nn.Embedding, "from_pretrained", classmethod(from_pretrained))  # noqa: B010
