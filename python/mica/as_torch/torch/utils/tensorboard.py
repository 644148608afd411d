"""torch.utils.tensorboard."""

from __future__ import annotations

from typing import Any

import mica


class SummaryWriter:
    """Scalars, written by mica's EventWriter."""

    def __init__(self, log_dir: str | None = None, **options: Any) -> None:
        self.log_dir = log_dir or "runs"
        self._writer = mica.io.EventWriter(self.log_dir)

    def add_scalar(self, tag: str, value: Any, global_step: int = 0, **options: Any) -> None:
        self._writer.add_scalar(tag, float(value), global_step or 0)

    def flush(self) -> None:
        """Each event is written at once."""

    close = flush

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
