"""torch.fx: marks are taken; nothing is traced."""

from __future__ import annotations

from typing import Any

from torch import _later


def wrap(function: Any) -> Any:
    return function


Tracer = _later.unusable("torch.fx.Tracer")
GraphModule = _later.unusable("torch.fx.GraphModule")
Graph = _later.unusable("torch.fx.Graph")
Node = _later.unusable("torch.fx.Node")
Proxy = _later.unusable("torch.fx.Proxy")
symbolic_trace = _later.unusable("torch.fx.symbolic_trace")
