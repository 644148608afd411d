"""Layers as functions, with PyTorch's argument names."""

from mica._mica.functional import *  # noqa: F403
