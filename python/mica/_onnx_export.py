"""How networks become files of ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from mica import nn
from mica._mica import onnx as _onnx
from mica.inference import input_names as names_of


def export(
    net: nn.Module,
    example: Any,
    path: str | PathLike[str],
    *,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    opset: int = 17,
    input_names: Sequence[str] = (),
    output_names: Sequence[str] = (),
) -> None:
    """Writes what a module in evaluation mode computes of arguments like the example (a tensor, a
    tuple of several, a dict by name) as an ONNX file, batch norms folded.

    dynamic_axes: {"x": {0: "batch"}} names axes whose sizes may change, of inputs as `forward` or
    input_names calls them; {"x": [0]} gives them names too. opset: 17 to 22. Calls that ONNX has
    no operators for are listed in the error, and nothing is written.
    """
    names = list(input_names) or names_of(net, example)
    dynamic = [
        (name, axis, symbol)
        for name, axes in (dynamic_axes or {}).items()
        for axis, symbol in (
            axes.items()
            if isinstance(axes, Mapping)
            else [(axis, f"{name}_{axis}") for axis in axes]
        )
    ]
    _onnx.export(net, example, path, dynamic, opset, names, list(output_names))
