"""Optimizers."""

from mica._mica import optim as _optim

SGD = _optim.SGD
