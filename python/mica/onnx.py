"""Models of ONNX."""

from mica._mica import onnx as _onnx
from mica._onnx_export import export

input_names = _onnx.input_names
load = _onnx.load
loads = _onnx.loads
output_names = _onnx.output_names

__all__ = ["export", "input_names", "load", "loads", "output_names"]
