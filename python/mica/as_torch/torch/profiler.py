"""torch.profiler: PyTorch's words around mica's profiler, which records all that there is."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterable
from typing import Any

import mica.profiler
from mica.profiler import record_function


class ProfilerActivity(enum.Enum):
    """What PyTorch is asked to record."""

    CPU = "cpu"
    CUDA = "cuda"
    XPU = "xpu"


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0
) -> dict[str, int]:
    """Which steps are recorded."""
    return {"wait": wait + skip_first, "warmup": warmup, "active": active, "repeat": repeat}


def tensorboard_trace_handler(dir_name: str, *args: Any, **options: Any) -> Callable[[Any], None]:
    """Writes a trace into a folder."""

    def write(recorded: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)
        recorded.export_chrome_trace(os.path.join(dir_name, f"{os.getpid()}.pt.trace.json"))

    return write


class _Averages:
    def __init__(self, recorded: Any) -> None:
        self._recorded = recorded

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """mica's table, the longest first."""
        text: str = self._recorded.table("op", row_limit if row_limit > 0 else 1 << 20)
        return text

    __str__ = table


class profile(mica.profiler.profile):
    """mica's; on_trace_ready is called when it ends."""

    def __init__(
        self, *, activities: Iterable[ProfilerActivity] | None = None, schedule: Any = None,
        on_trace_ready: Callable[[Any], None] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(**(schedule or {}))
        self._ready = on_trace_ready

    def stop(self) -> None:
        super().stop()
        if self._ready is not None:
            self._ready(self)

    def key_averages(self, *args: Any, **options: Any) -> _Averages:
        return _Averages(self)


__all__ = [
    "ProfilerActivity", "profile", "record_function", "schedule", "tensorboard_trace_handler",
]  # fmt: skip
