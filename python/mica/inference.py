"""Networks made ready to compute results and nothing else, and their files."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mica import nn
from mica._mica import Tensor, dtype
from mica._mica import inference as _inference

Binding = _inference.Binding
Engine = _inference.Engine
load = _inference.load

__all__ = ["Binding", "Engine", "load", "optimize"]


def optimize(
    net: nn.Module | Callable[..., Any],
    example: Any,
    *,
    precision: str | dtype = "f32",
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    profiles: Sequence[Mapping[str, int]] = (),
    calibration: Iterable[Any] = (),
    calibrate: str = "entropy",
    percentile: float = 99.99,
) -> Engine:
    """An engine of a module in evaluation mode, or of a function, for arguments like the example: a
    tensor, a tuple of several, a dict by name.

    precision: "f32", "f16", "bf16" or "int8"; inputs and results keep their dtypes. int8 wants
    calibration, batches like the example that tell the ranges of what layers read; calibrate says
    how: "minmax", "percentile" or "entropy".
    dynamic: {"x": {0: "batch"}} names axes whose sizes may change, of inputs as the function names
    them. profiles: [{"batch": 1}, {"batch": 128}] are sizes to be ready for; without any, those of
    the example.
    """
    return _inference.optimize(
        net,
        example,
        precision=precision,
        dynamic=None if dynamic is None else {k: dict(v) for k, v in dynamic.items()},
        profiles=[dict(p) for p in profiles],
        input_names=input_names(net, example),
        calibration=calibration,
        calibrate=calibrate,
        percentile=percentile,
    )


def input_names(net: Callable[..., Any], example: Any) -> list[str]:
    """What the function calls its arguments; none where they are not one tensor each."""
    arguments = example if isinstance(example, tuple) else (example,)
    if not all(isinstance(a, Tensor) for a in arguments):
        return []
    function = net.forward if isinstance(net, nn.Module) and _has_forward(net) else net
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.kind in positional]
    return names[: len(arguments)] if len(names) >= len(arguments) else []


def _has_forward(net: nn.Module) -> bool:
    return inspect.isfunction(getattr(type(net), "forward", None))
