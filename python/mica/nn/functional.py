"""Layers as functions, with PyTorch's argument names."""

from mica._mica import functional as _functional

batch_norm = _functional.batch_norm
conv2d = _functional.conv2d
cross_entropy = _functional.cross_entropy
dropout = _functional.dropout
linear = _functional.linear
max_pool2d = _functional.max_pool2d
relu = _functional.relu
