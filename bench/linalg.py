"""Factors of batches of small matrices and of single large ones, in mica or PyTorch, on one thread.

    PYTHONPATH=build/release/python python bench/linalg.py mica
    python3 bench/linalg.py torch

prints JSON: microseconds of the best of several rounds, by function, batch and size, in float32.
"""

import importlib
import json
import sys
import time

import numpy as np

SHAPES = ((1000, 4), (1000, 8), (1000, 16), (200, 32), (1, 128), (1, 512))


def best(call, rounds=5, seconds=0.01):
    call()
    start = time.perf_counter()
    call()
    times = max(1, int(seconds / (time.perf_counter() - start)))
    shortest = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(times):
            call()
        shortest = min(shortest, (time.perf_counter() - start) / times)
    return 1e6 * shortest


def calls(library, batch, n):
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
        "lu_factor": lambda: linalg.lu_factor(a),
        "det": lambda: linalg.det(a),
    }


def main():
    library = importlib.import_module(sys.argv[1])
    library.set_num_threads(1)
    made = {
        f"{name} {batch} x {n}": round(best(call), 1)
        for batch, n in SHAPES
        for name, call in calls(library, batch, n).items()
    }
    print(json.dumps(made, indent=1))


main()
