"""Where the time of a program goes.

with mica.profiler.profile() as p:
    for x, y in loader:
        train_step(x, y)
        p.step()
print(p.table())
p.report("profile.html")
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from mica._mica import profiler as _profiler

__all__ = ["largest_batch", "profile", "record_function"]

_F = TypeVar("_F", bound=Callable[..., Any])


class profile:  # noqa: N801
    """Records every op of every thread: what ran when, for which module, pass and line.

    With `active`, of each wait + warmup + active steps the last ones alone, `repeat` times or on
    and on; step() says where one ends. On CUDA the kernels, copies and fills of the device are
    recorded with the op each is of, in CUDA graphs too: those are recorded again in the first step
    that is profiled, for which `warmup` is. json()["device"] says by what the device was seen.
    """

    def __init__(self, *, wait: int = 0, warmup: int = 0, active: int = 0, repeat: int = 0) -> None:
        self._profiler = _profiler.Profiler(wait, warmup, active, repeat)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        self._profiler.start()

    def stop(self) -> None:
        self._profiler.stop()

    def step(self) -> None:
        """A training step ends here, and the next begins."""
        self._profiler.step()

    def table(self, by: str = "op", rows: int = 25) -> str:
        """Times by "op", "kernel", "module", "shape" or "gpu" (the device's kernels by their own
        names), longest first, beside their floor; then how long devices did nothing, and why."""
        return self._profiler.table(by, rows)

    def advice(self) -> list[str]:
        """What stands out, in words."""
        return self._profiler.advice()

    def json(self) -> dict[str, Any]:
        """Everything that was recorded."""
        import json

        recorded: dict[str, Any] = json.loads(self._profiler.json())
        return recorded

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """A file for chrome://tracing and Perfetto."""
        self._profiler.export_chrome_trace(os.fspath(path))

    def report(self, path: str | os.PathLike[str]) -> None:
        """One HTML file that loads nothing from elsewhere."""
        self._profiler.report(os.fspath(path))


class record_function:  # noqa: N801
    """Names what the thread does inside, in a profile; also a decorator."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._ranges: list[Any] = []

    def __enter__(self) -> record_function:
        self._ranges.append(_profiler.Range(self.name))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ranges.pop()

    def __call__(self, function: _F) -> _F:
        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return named  # type: ignore[return-value]


def largest_batch(step: Callable[[int], object], memory: int) -> int:
    """The largest batch whose training step fits into `memory` bytes; 0: not even one.

    step(batch) makes tensors of that batch and takes a step with them, all on the device "null",
    where a model is moved with `net.to("null")`. It is planned for a few batches, and nothing is
    computed. What libraries want as workspace beside is not known there.
    """
    return _profiler.largest_batch(step, memory)
