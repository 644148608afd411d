"""torch.backends: what a program may ask or say of libraries."""

from torch.backends import cuda, cudnn, mkl, mkldnn, mps, openmp
