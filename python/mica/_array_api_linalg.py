"""The extension `linalg` of the Python array API standard, 2024.12: mica.array_api.linalg."""

import mica as _mica
from mica import array_api as _xp
from mica import linalg as _linalg
from mica.array_api import matmul as matmul
from mica.array_api import matrix_transpose as matrix_transpose
from mica.array_api import tensordot as tensordot
from mica.array_api import vecdot as vecdot

__all__ = [
    *("cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm"),
    *("matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve"),
    *("svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm"),
]


def cholesky(x, /, *, upper=False):
    return _linalg.cholesky(x, upper=upper)


def cross(x1, x2, /, *, axis=-1):
    rank = max(x1.ndim, x2.ndim)
    x1, x2 = (_xp.reshape(x, (1,) * (rank - x.ndim) + tuple(x.shape)) for x in (x1, x2))
    return _linalg.cross(x1, x2, dim=axis)


def det(x, /):
    return _linalg.det(x)


def diagonal(x, /, *, offset=0):
    # Past the corners there is an empty diagonal.
    rows, columns = x.shape[-2:]
    return _linalg.diagonal(x, offset=max(-rows, min(offset, columns)))


def eigh(x, /):
    return _linalg.eigh(x)


def eigvalsh(x, /):
    return _linalg.eigvalsh(x)


def inv(x, /):
    return _linalg.inv(x)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    if ord is None:
        ord = "fro"
    return _linalg.matrix_norm(x, ord, keepdim=keepdims)


def matrix_power(x, n, /):
    return _linalg.matrix_power(x, n)


def _counted(values, rtol):
    """Which of the singular values (…, k) count, by an array (…) of bounds."""
    largest = _xp.max(values, axis=-1, keepdims=True)
    return values > _xp.expand_dims(rtol, axis=-1) * largest


def matrix_rank(x, /, *, rtol=None):
    if isinstance(rtol, _mica.Tensor):
        return _xp.sum(_counted(svdvals(x), rtol), axis=-1, dtype=_xp.int64)
    return _linalg.matrix_rank(x, rtol=rtol)


def outer(x1, x2, /):
    return _xp.multiply(_xp.expand_dims(x1, axis=1), x2)


def pinv(x, /, *, rtol=None):
    if not isinstance(rtol, _mica.Tensor):
        return _linalg.pinv(x, rtol=rtol)
    u, s, vh = _linalg.svd(x, full_matrices=False)
    used = _counted(s, rtol)
    scale = _xp.where(used, 1 / _xp.where(used, s, 1.0), 0.0)
    return (vh.mH * _xp.expand_dims(scale, axis=-2)) @ u.mH


def qr(x, /, *, mode="reduced"):
    return _linalg.qr(x, mode=mode)


def slogdet(x, /):
    return _linalg.slogdet(x)


def solve(x1, x2, /):
    dtype = _xp.result_type(x1, x2)
    x1, x2 = x1.to(dtype), x2.to(dtype)
    # One axis is a vector, and everything else is matrices.
    if x2.ndim == 1:
        return _linalg.solve(x1, x2)
    more = max(0, x1.ndim - x2.ndim)
    return _linalg.solve(x1, _xp.reshape(x2, (1,) * more + tuple(x2.shape)))


def svd(x, /, *, full_matrices=True):
    return _linalg.svd(x, full_matrices=full_matrices)


def svdvals(x, /):
    return _linalg.svdvals(x)


def trace(x, /, *, offset=0, dtype=None):
    return _xp.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    if axis == ():  # over no axis, which elsewhere stands for all
        return _linalg.vector_norm(x[..., None], ord, dim=-1)
    return _linalg.vector_norm(x, ord, dim=axis, keepdim=keepdims)
