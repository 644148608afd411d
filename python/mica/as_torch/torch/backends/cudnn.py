"""torch.backends.cudnn: settings, which are taken; those that mica has are its own."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import mica

enabled = True
_SETTINGS = {
    "benchmark": (mica.autotune, mica.set_autotune),
    "deterministic": (mica.deterministic, mica.set_deterministic),
    "allow_tf32": (mica.allow_tf32, mica.set_allow_tf32),
}


def is_available() -> bool:
    return mica.cuda.is_available()


def version() -> int | None:
    return None


class _Settings(type(sys.modules[__name__])):
    def __getattr__(self, name: str) -> Any:
        if name in _SETTINGS:
            return _SETTINGS[name][0]()
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _SETTINGS:
            _SETTINGS[name][1](bool(value))
        else:
            ModuleType.__setattr__(self, name, value)


sys.modules[__name__].__class__ = _Settings
