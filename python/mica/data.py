"""Data sets, transforms and batches."""

from mica._mica import data as _data

# Data sets
Dataset = _data.Dataset
TensorDataset = _data.TensorDataset
fashion_mnist = _data.fashion_mnist
image_folder = _data.image_folder
mnist = _data.mnist
read_csv = _data.read_csv
read_idx = _data.read_idx

# Batches
Batches = _data.Batches
DataLoader = _data.DataLoader
Feed = _data.Feed
batches = _data.batches

# Transforms
Transform = _data.Transform
color_jitter = _data.color_jitter
flip = _data.flip
normalize = _data.normalize
pad_crop = _data.pad_crop
resize = _data.resize
rotate = _data.rotate
vertical_flip = _data.vertical_flip
