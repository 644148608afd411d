"""torch.utils.checkpoint."""

from __future__ import annotations

from typing import Any

import mica
from mica.nn import Sequential


def checkpoint(function: Any, *args: Any, use_reentrant: bool = False, **kwargs: Any) -> Any:
    kwargs.pop("preserve_rng_state", None)  # they always are
    kwargs.pop("determinism_check", None)
    if kwargs:
        return mica.autograd.checkpoint(lambda *given: function(*given, **kwargs), *args)
    return mica.autograd.checkpoint(function, *args)


def checkpoint_sequential(functions: Any, segments: int, input: Any, **options: Any) -> Any:
    parts = list(functions.children()) if isinstance(functions, mica.nn.Module) else list(functions)
    size = max(len(parts) // segments, 1)
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(Sequential(*parts[start : start + size]), input, **options)
    return Sequential(*parts[size * (segments - 1) :])(input)
