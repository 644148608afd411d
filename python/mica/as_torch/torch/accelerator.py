"""torch.accelerator: the GPU, if there is one."""

from __future__ import annotations

from typing import Any

import mica


def is_available() -> bool:
    return mica.cuda.is_available()


def current_accelerator(check_available: bool = False) -> mica.device | None:
    return mica.device("cuda") if mica.cuda.is_available() else None


def device_count() -> int:
    return mica.cuda.device_count()


def current_device_index() -> int:
    return mica.cuda.current_device()


def set_device_index(device: Any) -> None:
    from torch.cuda import set_device

    set_device(device)


def synchronize(device: Any = None) -> None:
    if mica.cuda.is_available():
        mica.cuda.synchronize()
