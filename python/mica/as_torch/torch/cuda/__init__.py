"""torch.cuda."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import mica
from mica.cuda import *
from mica.cuda import current_device as _current

OutOfMemoryError = mica.OutOfMemory


class Event(mica.cuda.Event):
    """A point in the current stream, unless another is named; times are always taken."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, **options: Any) -> None:
        super().__init__()

    def record(self, stream: Any = None) -> None:
        super().record(mica.cuda.current_stream() if stream is None else stream)


def set_device(device: Any) -> None:
    """mica has no current device but the first."""
    index = mica.device(device).index if not isinstance(device, int) else device
    if index not in (0, -1, None):
        raise NotImplementedError(f"torch.cuda.set_device: only device 0 is taken, got {device}")


@contextmanager
def device(device: Any):
    set_device(device)
    yield


def is_bf16_supported() -> bool:
    return is_available()


def is_initialized() -> bool:
    return is_available()


def init() -> None:
    """Devices are opened when they are first used."""


def get_device_capability(device: Any = None) -> tuple[int, int]:
    properties = get_device_properties(_current())
    return properties.major, properties.minor
