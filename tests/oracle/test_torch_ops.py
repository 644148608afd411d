"""Every function that PyTorch has too, beside PyTorch's: values, gradients and dtypes.

    PYTHONPATH=build/release/python python -m pytest tests/oracle/test_torch_ops.py

Skipped where PyTorch is not installed; tests/python holds the committed values then.
"""

import json
import os
import sys
from pathlib import Path

import mica
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from op_calls import CASES, project, run, tolerance_of
from op_cases import GOLDEN, OF_TORCH

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

DEVICE = os.environ.get("MICA_TEST_DEVICE", "cpu")
TOLERANCE = {"float64": 1e-10, "float32": 2e-4, "float16": 1e-2, "bfloat16": 8e-2}
ROUNDED = {"float64": 1e-9, "float32": 1e-6}  # of the committed digits
# What is not compared in float16 and bfloat16, and why.
NOT_HALF = {
    "avg_pool3d": "PyTorch has none on the CPU",
    "multi_margin_loss": "PyTorch has none on the CPU",
    "trace": "PyTorch has none on the CPU",
    "local_response_norm": "PyTorch's uses avg_pool3d",
    "batch_norm": "weights and statistics are float32 in mica",
    "instance_norm": "weights and statistics are float32 in mica",
    "cross_entropy": "the result is float32 in mica",
    "grid_sample": "rounding moves points into other pixels, and the gradient jumps there",
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("key", CASES)
def test_values_and_gradients(key, dtype):
    case = CASES[key]
    if case.name in NOT_HALF and dtype in ("float16", "bfloat16"):
        pytest.skip(NOT_HALF[case.name])
    _, theirs, their_dtypes = next(run(torch, key, case, dtype))
    tolerance = max(tolerance_of(TOLERANCE, dtype, their_dtypes), OF_TORCH.get(case.name, 0))
    for place, ours, dtypes in run(mica, key, case, dtype, DEVICE):
        assert dtypes == their_dtypes, place
        assert set(ours) == set(theirs), place
        for name, expected in theirs.items():
            assert ours[name].shape == expected.shape, (place, name)
            scale = max(1, np.abs(expected).max(initial=0))
            np.testing.assert_allclose(
                ours[name], expected, rtol=0, atol=tolerance * scale, err_msg=f"{place} {name}"
            )


@pytest.mark.parametrize("key", CASES)
def test_committed_values(key):
    golden = json.loads(GOLDEN.read_text())[key]
    _, arrays, dtypes = next(run(torch, key, CASES[key]))
    projections = project(key, arrays, dtypes)
    assert list(projections) == list(golden)
    tolerance = max(tolerance_of(ROUNDED, "float64", dtypes), OF_TORCH.get(CASES[key].name, 0))
    for label, value in projections.items():
        np.testing.assert_allclose(
            value, golden[label], rtol=tolerance, atol=tolerance, err_msg=label
        )
