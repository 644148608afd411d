"""Recurrent layers beside PyTorch's: values and gradients of random configurations.

    PYTHONPATH=build/release/python python -m pytest tests/oracle/test_torch_recurrent.py

Skipped where PyTorch is not installed; tests/python holds the committed values then. Where mica and
PyTorch have different interpreters, tests/python/compare_recurrent.py compares the same.
"""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from compare_recurrent import BOUNDS, by_mica, by_torch, configuration, largest_error

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

DEVICE = os.environ.get("MICA_TEST_DEVICE", "cpu")
COUNT, LARGE, PART = 600, 120, 40


def compare(seeds, large, dtypes):
    for seed in seeds:
        c = configuration(seed, large)
        expected = by_torch(c)
        for dtype in dtypes:
            if c["mode"] == "RNN_RELU" and "16" in dtype:
                continue  # rounding moves sums over relu's kink, and gradients jump there
            error = largest_error(expected, by_mica(c, DEVICE, dtype))
            bound = BOUNDS[dtype]
            if error > bound and dtype == "float32":  # a gradient of one element can be all noise
                bound = max(bound, 3 * largest_error(expected, by_torch(c, dtype)))
            assert error <= bound, f"{dtype}: {error:.1e} of {c}"


@pytest.mark.parametrize("first", range(0, COUNT, PART))
def test_values_and_gradients(first):
    compare(range(first, first + PART), False, ["float64", "float32"])


@pytest.mark.parametrize("first", range(0, LARGE, PART))
def test_sizes_that_every_kernel_takes(first):
    compare(range(first, first + PART), True, ["float32", "float16", "bfloat16"])
