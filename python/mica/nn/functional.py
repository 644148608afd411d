"""Layers as functions, with PyTorch's argument names."""

from mica._mica import functional as _functional

globals().update(
    {name: function for name, function in vars(_functional).items() if not name.startswith("_")}
)
