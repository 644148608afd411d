"""torch.distributed: there is one process."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def is_torchelastic_launched() -> bool:
    return False


def get_rank(group: Any = None) -> int:
    return 0


def get_world_size(group: Any = None) -> int:
    return 1


def init_process_group(*args: Any, **kwargs: Any) -> None:
    raise NotImplementedError("torch.distributed: mica.as_torch runs programs in one process")


def destroy_process_group(group: Any = None) -> None:
    """There is none."""


def barrier(*args: Any, **kwargs: Any) -> None:
    """There is nobody to wait for."""
