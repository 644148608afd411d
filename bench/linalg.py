"""Factors of batches of small matrices and of single larger ones, mica beside PyTorch, in float32.

    PYTHONPATH=build/release/python python bench/linalg.py [--torch PYTHON] [--cpu-time]

The two take turns, each in a process of its own; of each the median of the rounds counts.
"""

import numpy as np
import turns

SHAPES = ((1000, 4), (1000, 8), (1000, 16), (200, 32), (1, 64), (1, 128), (1, 512))
FUNCTIONS = ("cholesky", "solve", "inv", "qr", "svd", "eigh", "eig", "lu_factor", "det")


def of_shape(library, batch, n):
    rng = np.random.default_rng(0)
    plain = rng.standard_normal((batch, n, n)).astype(np.float32)
    definite = plain @ plain.swapaxes(-1, -2) + n * np.eye(n, dtype=np.float32)
    sides = rng.standard_normal((batch, n, 1)).astype(np.float32)
    a, s, b = (library.tensor(each) for each in (plain, definite, sides))
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


def calls(library):
    return {
        f"{name} {batch} x {n}": call
        for batch, n in SHAPES
        for name, call in of_shape(library, batch, n).items()
    }


names = [f"{name} {batch} x {n}" for batch, n in SHAPES for name in FUNCTIONS]
turns.main(calls, names, __doc__)
