"""Layers as functions, with PyTorch's argument names."""

from mica._composed.products import conv_tbc as conv_tbc
from mica._mica.functional import *  # noqa: F403
from mica.nn import _functional

globals().update({name: getattr(_functional, name) for name in _functional.names})
