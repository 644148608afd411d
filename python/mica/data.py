"""Datasets and batches."""

from mica._mica import data as _data

Batches = _data.Batches
batches = _data.batches
fashion_mnist = _data.fashion_mnist
