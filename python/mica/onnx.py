"""Models of ONNX."""

from mica._mica import onnx as _onnx
from mica._onnx_export import export

Segments = _onnx.Segments
compile = _onnx.compile
input_names = _onnx.input_names
load = _onnx.load
loads = _onnx.loads
output_names = _onnx.output_names

__all__ = ["Segments", "compile", "export", "input_names", "load", "loads", "output_names"]
