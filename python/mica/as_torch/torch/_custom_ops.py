"""torch._custom_ops: named by torchvision when it is imported."""

from __future__ import annotations

from typing import Any


def get_ctx() -> Any:
    raise NotImplementedError("mica has nothing that stands for torch._custom_ops.get_ctx")
