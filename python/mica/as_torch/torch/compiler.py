"""torch.compiler."""

from __future__ import annotations

from typing import Any

from torch._dynamo import disable as disable
from torch._dynamo import reset as reset


def is_compiling() -> bool:
    """A compiled function runs as it is written when it is captured."""
    return False


is_dynamo_compiling = is_compiling


def allow_in_graph(fn: Any) -> Any:
    """The function itself: all are captured."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Results of a compiled function are its caller's."""
