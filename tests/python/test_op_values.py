"""Values, gradients and dtypes of every function that PyTorch has too, against committed ones."""

import json
import math

import mica
import pytest
from op_calls import CASES, places, project, run, tolerance_of
from op_cases import GOLDEN, LEFT_OUT, OF_TORCH

TOLERANCE = {"float64": 1e-9, "float32": 3e-4}
TF32 = 5e-3  # what float32 is where products have the digits of float16
EXPECTED = json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("key", CASES)
def test_golden(key, dtype, device):
    expected = EXPECTED[key]
    for place, arrays, dtypes in run(mica, key, CASES[key], dtype, device):
        got = project(key, arrays, dtypes, dtype)
        tolerance = tolerance_of(TOLERANCE, dtype, dtypes)
        tolerance = max(tolerance, OF_TORCH.get(CASES[key].name, 0))
        if mica.allow_tf32() and device != "cpu" and dtype == "float32":
            tolerance = max(tolerance, TF32)
        if key.startswith("is_cpu("):
            assert arrays["output 0"].item() == (device == "cpu")
            continue
        if dtype == "float64":
            assert list(got) == list(expected), place
        for (label, value), wanted in zip(got.items(), expected.values(), strict=True):
            near = abs(value - wanted) <= tolerance * max(1, abs(wanted))
            assert near, (place, label, value, wanted)


def test_every_function_has_a_case():
    left_out = {name for names in LEFT_OUT.values() for name in names.split()}
    called = {case.name for case in CASES.values()}
    public = {
        "mica": {
            name
            for name, value in vars(mica).items()
            if callable(value) and not isinstance(value, type) and not name.startswith("_")
        },
        "F": {name for name in vars(mica.nn.functional) if not name.startswith("_")},
        "linalg": {
            name
            for name, value in vars(mica.linalg).items()
            if callable(value) and not isinstance(value, type)
        },
        "Tensor": {
            name
            for name in vars(mica.Tensor)
            if not (hasattr(object, name) or name.endswith("buffer__"))  # Python 3.12 has these
        },
    }
    assert set().union(*public.values()) - called - left_out == set()
    assert called & left_out == set(), "left out, but there is a case"
    known = {name for place in places(mica).values() for name in dir(place)}
    assert (called | left_out) - known == set(), "no such function"


def test_committed_values_are_of_the_cases():
    assert list(EXPECTED) == list(CASES)
    assert all(math.isfinite(v) for entry in EXPECTED.values() for v in entry.values())
