"""Sparse matrices: products and functions, and SciPy's matrices."""

from typing import Any as _Any

import mica._mica as _mica
from mica._mica import sparse as _sparse

addmm = _sparse.addmm
from_scipy = _sparse.from_scipy
log_softmax = _sparse.log_softmax
mm = _sparse.mm
sampled_addmm = _sparse.sampled_addmm
softmax = _sparse.softmax
sum = _sparse.sum


def _made(layout: str, compressed: _Any, plain: _Any, values: _Any, size: _Any) -> _Any:
    """A sparse tensor of its parts, for copies and pickles."""
    if layout == "coo":
        return _mica.sparse_coo_tensor(plain, values, size)
    make = _mica.sparse_csr_tensor if layout == "csr" else _mica.sparse_csc_tensor
    return make(compressed, plain, values, size)
