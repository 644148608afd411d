"""torch._dynamo.utils."""

from __future__ import annotations


def is_compile_supported(device_type: str) -> bool:
    """Whether PyTorch's compiler serves a device: it is not here."""
    return False
