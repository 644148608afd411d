"""torch.utils.dlpack."""

from __future__ import annotations

from typing import Any

from mica import Tensor, from_dlpack


def to_dlpack(tensor: Tensor) -> Any:
    return tensor.__dlpack__()


__all__ = ["from_dlpack", "to_dlpack"]
