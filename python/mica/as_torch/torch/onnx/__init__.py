"""torch.onnx: what torchvision says of its operators when it is imported, which is left alone."""

from __future__ import annotations

from typing import Any


def register_custom_op_symbolic(*args: Any, **kwargs: Any) -> None:
    """mica writes ONNX files by its own operators."""
