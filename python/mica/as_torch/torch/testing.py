"""torch.testing."""

from __future__ import annotations

from typing import Any

import numpy


def assert_close(actual: Any, expected: Any, *, rtol: Any = None, atol: Any = None, **options: Any):
    tight = "float64" in str(getattr(actual, "dtype", ""))
    numpy.testing.assert_allclose(
        numpy.asarray(actual), numpy.asarray(expected),
        rtol=rtol if rtol is not None else 1e-7 if tight else 1.3e-6,
        atol=atol if atol is not None else 1e-7 if tight else 1e-5,
    )  # fmt: skip
