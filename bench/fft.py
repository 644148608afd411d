"""Fourier transforms in complex64 and float32, mica beside PyTorch.

    PYTHONPATH=build/release/python python bench/fft.py [--torch PYTHON] [--threads N] [--cpu-time]
    PYTHONPATH=build/cuda/python python bench/fft.py --device cuda

The two take turns, each in a process of its own; of each the median of the rounds counts. With
--cpu-time what the process computed is counted, which is fairer where the machine has other work.
"""

import functools

import numpy as np
import turns

LINES = ((1000, 16), (1000, 64), (1000, 100), (256, 256), (100, 1000), (64, 1024), (64, 997))
LINES += ((16, 4096), (1, 1024), (1, 4096), (1, 65536), (1, 100_000), (1, 1 << 20))
IMAGES = ((64, 64), (256, 256), (480, 640), (1024, 1024))
# On a GPU, primes among them.
CUDA_LINES = ((1, 1 << 20), (1024, 4096), (10_000, 64), (1024, 997), (1, 1_000_003), (64, 65_537))
CUDA_IMAGES = ((256, 256), (1024, 1024), (4096, 4096))


def names(device):
    for batch, n in CUDA_LINES if device == "cuda" else LINES:
        for function in ("fft", "ifft", "rfft", "irfft"):
            yield f"{function} {batch} x {n}"
    for rows, columns in CUDA_IMAGES if device == "cuda" else IMAGES:
        for function in ("fft2", "rfft2"):
            yield f"{function} {rows} x {columns}"


def calls(library, device):
    rng = np.random.default_rng(0)
    made = {}
    for name in names(device):
        function, rows, _, columns = name.split()
        shape = (int(rows), int(columns))
        x = rng.standard_normal(shape).astype(np.float32)
        if not function.startswith("r"):
            x = (x + 1j * rng.standard_normal(shape)).astype(np.complex64)
        if function == "irfft":
            x = x[:, : shape[1] // 2 + 1].copy()
        sizes = {"n": shape[1]} if function == "irfft" else {}
        tensor = library.tensor(x).to(device)
        made[name] = functools.partial(getattr(library.fft, function), tensor, **sizes)
    return made


turns.main(calls, names, __doc__)
