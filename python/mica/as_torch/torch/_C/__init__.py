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


class DispatchKey:
    """Kinds of calls, which PyTorch's operators are looked up by; here they are names alone."""

    AutocastCPU, AutocastCUDA, AutocastXPU = "AutocastCPU", "AutocastCUDA", "AutocastXPU"


class DispatchKeySet:
    """Some of them."""

    def __init__(self, *keys: str) -> None:
        self.keys = frozenset(keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self.keys, *other.keys)


class _ExcludeDispatchKeyGuard(contextlib.nullcontext):
    """Nothing is looked up by keys, so none is left out."""
