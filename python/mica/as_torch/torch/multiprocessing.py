"""torch.multiprocessing: Python's."""

from __future__ import annotations

from multiprocessing import *
from multiprocessing import get_context, set_start_method
from typing import Any


def spawn(fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, **options: Any) -> None:
    raise NotImplementedError("torch.multiprocessing.spawn: mica.as_torch runs one process")


def set_sharing_strategy(new_strategy: str) -> None:
    """Tensors are pickled."""
