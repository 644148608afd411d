"""torch._dynamo: what programs say to PyTorch's compiler, which is taken and has no effect."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

config = SimpleNamespace(suppress_errors=False, cache_size_limit=8)


def disable(fn: Any = None, recursive: bool = True) -> Any:
    """The function itself: what mica cannot capture raises, and says so."""
    return fn if fn is not None else lambda function: function


def reset() -> None:
    """Each compiled function has its own captures."""


graph_break = reset
