"""Factors of batches of small matrices and of single larger ones, mica beside PyTorch, in float32.

    PYTHONPATH=build/release/python python bench/linalg.py [--torch PYTHON] [--cpu-time]
    PYTHONPATH=build/cuda/python python bench/linalg.py --device cuda

The two take turns, each in a process of its own; of each the median of the rounds counts.
"""

import numpy as np
import turns

SHAPES = ((1000, 4), (1000, 8), (1000, 16), (200, 32), (1, 64), (1, 128), (1, 512))
FUNCTIONS = ("cholesky", "solve", "inv", "qr", "svd", "eigh", "eig", "lu_factor", "det")
CUDA_SHAPES = ((10_000, 8), (10_000, 32), (1000, 128), (1, 128), (1, 512), (1, 2048))
# What takes a library seconds, one matrix after the other, is measured of fewer.
SLOW = {("svd", 1000, 128): 50, ("eigh", 1000, 128): 50, ("qr", 10_000, 8): 500}
SLOW |= {("qr", 10_000, 32): 500, ("qr", 1000, 128): 50}


def shapes(device):
    if device == "cpu":
        return [(name, batch, n) for batch, n in SHAPES for name in FUNCTIONS]
    every = [(name, batch, n) for batch, n in CUDA_SHAPES for name in FUNCTIONS if name != "eig"]
    return [(name, SLOW.get((name, batch, n), batch), n) for name, batch, n in every]


def of_shape(library, device, batch, n):
    rng = np.random.default_rng(0)
    plain = rng.standard_normal((batch, n, n)).astype(np.float32)
    definite = plain @ plain.swapaxes(-1, -2) + n * np.eye(n, dtype=np.float32)
    sides = rng.standard_normal((batch, n, 1)).astype(np.float32)
    a, s, b = (library.tensor(each).to(device) for each in (plain, definite, sides))
    linalg = library.linalg
    return {
        "cholesky": lambda: linalg.cholesky(s),
        "solve": lambda: linalg.solve(a, b),
        "inv": lambda: linalg.inv(a),
        "qr": lambda: linalg.qr(a),
        "svd": lambda: linalg.svd(a, full_matrices=False),
        "eigh": lambda: linalg.eigh(s),
        "eig": lambda: linalg.eig(a),
        "lu_factor": lambda: linalg.lu_factor(a),
        "det": lambda: linalg.det(a),
    }


def names(device):
    return [f"{name} {batch} x {n}" for name, batch, n in shapes(device)]


def calls(library, device):
    of = {}
    for _, batch, n in shapes(device):
        if (batch, n) not in of:
            of[batch, n] = of_shape(library, device, batch, n)
    return {f"{name} {batch} x {n}": of[batch, n][name] for name, batch, n in shapes(device)}


turns.main(calls, names, __doc__)
