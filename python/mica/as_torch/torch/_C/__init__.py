"""The few names of torch._C that libraries ask for."""

from __future__ import annotations

import contextlib
from typing import Any

from mica import Generator


def _log_api_usage_once(name: str) -> None:
    """Nothing is logged."""


def _get_tracing_state() -> Any:
    return None


class DisableTorchFunctionSubclass(contextlib.nullcontext):
    """Functions see their arguments as they are already."""
