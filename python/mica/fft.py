"""Discrete Fourier transforms with PyTorch's names; docs/signal.md is about them."""

from mica._mica.fft import *  # noqa: F403
