"""Data sets, transforms and batches."""

from mica._mica import data as _data
from mica._samplers import BatchSampler as BatchSampler
from mica._samplers import DistributedSampler as DistributedSampler
from mica._samplers import RandomSampler as RandomSampler
from mica._samplers import Sampler as Sampler
from mica._samplers import SequentialSampler as SequentialSampler
from mica._samplers import SubsetRandomSampler as SubsetRandomSampler
from mica._samplers import WeightedRandomSampler as WeightedRandomSampler
from mica._samplers import pad_collate as pad_collate

# Data sets
ChainDataset = _data.ChainDataset
ConcatDataset = _data.ConcatDataset
Dataset = _data.Dataset
IterableDataset = _data.IterableDataset
Subset = _data.Subset
TensorDataset = _data.TensorDataset
fashion_mnist = _data.fashion_mnist
image_folder = _data.image_folder
mnist = _data.mnist
random_split = _data.random_split
read_csv = _data.read_csv
read_idx = _data.read_idx

# Batches
Batches = _data.Batches
DataLoader = _data.DataLoader
Feed = _data.Feed
WorkerInfo = _data.WorkerInfo
batches = _data.batches
get_worker_info = _data.get_worker_info

# Transforms
Transform = _data.Transform
color_jitter = _data.color_jitter
cutmix = _data.cutmix
flip = _data.flip
mixup = _data.mixup
normalize = _data.normalize
pad_crop = _data.pad_crop
rand_augment = _data.rand_augment
random_resized_crop = _data.random_resized_crop
resize = _data.resize
rotate = _data.rotate
vertical_flip = _data.vertical_flip
