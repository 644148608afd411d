"""The names of the Python array API standard, 2024.12, over mica's operators.

`x.__array_namespace__()` gives this module. docs/array-api.md lists what is missing.
"""

# ruff: noqa: F401 - every import is a public name

import builtins as _builtins
import math as _math
from collections import namedtuple as _namedtuple

import mica as _mica
from mica import _array_api_fft as fft
from mica import (
    abs,
    acos,
    acosh,
    asarray,
    asin,
    asinh,
    atan,
    atanh,
    bool,
    can_cast,
    ceil,
    complex64,
    complex128,
    conj,
    cos,
    cosh,
    exp,
    expm1,
    finfo,
    float32,
    float64,
    floor,
    from_dlpack,
    iinfo,
    imag,
    int8,
    int16,
    int32,
    int64,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    logical_not,
    real,
    reciprocal,
    result_type,
    round,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
    trunc,
    uint8,
    uint16,
    uint32,
    uint64,
    where,
)

__array_api_version__ = "2024.12"

e = _math.e
inf = _math.inf
nan = _math.nan
pi = _math.pi
newaxis = None


def _beside(f):
    """A function of two arrays, one of which may be a number: it takes the other's dtype."""

    def call(x1, x2, /):
        if not isinstance(x1, _mica.Tensor):
            x1 = _mica.full((), x1, dtype=result_type(x2, x1), device=x2.device)
        elif not isinstance(x2, _mica.Tensor):
            x2 = _mica.full((), x2, dtype=result_type(x1, x2), device=x1.device)
        return f(x1, x2)

    return call


add = _beside(_mica.add)
atan2 = _beside(_mica.atan2)
bitwise_and = _beside(_mica.bitwise_and)
bitwise_left_shift = _beside(_mica.bitwise_left_shift)
bitwise_or = _beside(_mica.bitwise_or)
bitwise_right_shift = _beside(_mica.bitwise_right_shift)
bitwise_xor = _beside(_mica.bitwise_xor)
copysign = _beside(_mica.copysign)
divide = _beside(_mica.div)
equal = _beside(_mica.eq)
greater = _beside(_mica.gt)
greater_equal = _beside(_mica.ge)
hypot = _beside(_mica.hypot)
less = _beside(_mica.lt)
less_equal = _beside(_mica.le)
logaddexp = _beside(_mica.logaddexp)
logical_and = _beside(_mica.logical_and)
logical_or = _beside(_mica.logical_or)
logical_xor = _beside(_mica.logical_xor)
maximum = _beside(_mica.maximum)
minimum = _beside(_mica.minimum)
multiply = _beside(_mica.mul)
not_equal = _beside(_mica.ne)
pow = _beside(_mica.pow)
remainder = _beside(_mica.remainder)
subtract = _beside(_mica.sub)

# The same function under the standard's name
bitwise_invert = _mica.bitwise_not
negative = _mica.neg


@_beside
def floor_divide(x1, x2, /):
    quotient = _mica.floor_divide(x1, x2)
    if not quotient.dtype.is_floating_point:
        return quotient
    # Where NumPy and PyTorch have NaN or -1 the standard has the quotient.
    return where(isinf(x1) | isinf(x2), _mica.floor(_mica.div(x1, x2)), quotient)


@_beside
def nextafter(x1, x2, /):
    import numpy

    return asarray(numpy.nextafter(x1.numpy(force=True), x2.numpy(force=True)), device=x1.device)


def positive(x, /):
    return +x


def sign(x, /):
    return _mica.sign(x) + 0  # which makes 0 of -0


def clip(x, /, min=None, max=None):
    if isinstance(min, _mica.Tensor) or isinstance(max, _mica.Tensor):
        x = x if min is None else maximum(x, min)
        return x if max is None else minimum(x, max)
    return _mica.clamp(x, min, max)


# Creation


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    if dtype is None and _builtins.any(isinstance(number, float) for number in (start, stop, step)):
        dtype = float32
    if stop is None:
        start, stop = 0, start
    if step != 0 and (stop - start) * step < 0:  # nothing lies that way
        stop = start
    return _mica.arange(start, stop, step, dtype=dtype, device=device)


def empty(shape, *, dtype=None, device=None):
    return _mica.empty(shape, dtype=dtype, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    return _mica.empty_like(x, dtype=dtype, device=device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    columns = n_rows if n_cols is None else n_cols
    if k >= columns or -k >= n_rows:
        return zeros((n_rows, columns), dtype=dtype, device=device)
    more, fewer = _builtins.max(k, 0), _builtins.max(-k, 0)
    whole = _mica.eye(n_rows + more, columns + fewer, dtype=dtype, device=device)
    return whole[more:, fewer:]


def full(shape, fill_value, *, dtype=None, device=None):
    if dtype is None:
        dtype = asarray(fill_value).dtype
    if isinstance(fill_value, _mica.Tensor):  # SciPy's iterations fill with arrays of no axes
        filled = empty(shape, dtype=dtype, device=device)
        filled[...] = fill_value
        return filled
    return _mica.full(shape, fill_value, dtype=dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    return _mica.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    if endpoint or num == 0:
        return _mica.linspace(start, stop, num, dtype=dtype, device=device)
    return _mica.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def meshgrid(*arrays, indexing="xy"):
    return list(_mica.meshgrid(*arrays, indexing=indexing))


def ones(shape, *, dtype=None, device=None):
    return _mica.ones(shape, dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    return _mica.ones_like(x, dtype=dtype, device=device)


def tril(x, /, *, k=0):
    return _mica.tril(x, k)


def triu(x, /, *, k=0):
    return _mica.triu(x, k)


def zeros(shape, *, dtype=None, device=None):
    return _mica.zeros(shape, dtype=dtype, device=device)


def zeros_like(x, /, *, dtype=None, device=None):
    return _mica.zeros_like(x, dtype=dtype, device=device)


# Dtypes

_SIGNED = (int8, int16, int32, int64)
_UNSIGNED = (uint8, uint16, uint32, uint64)
_KINDS = {
    "bool": (bool,),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": (*_SIGNED, *_UNSIGNED),
    "real floating": (float32, float64),
    "complex floating": (complex64, complex128),
    "numeric": (float32, float64, complex64, complex128, *_SIGNED, *_UNSIGNED),
}


def astype(x, dtype, /, *, copy=True, device=None):
    return x.to(dtype=dtype, device=device, copy=copy)


def broadcast_arrays(*arrays):
    return list(_mica.broadcast_tensors(*arrays))


def isdtype(dtype, kind):
    if isinstance(kind, tuple):
        return _builtins.any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, _mica.dtype):
        return dtype is kind
    if kind not in _KINDS:
        raise ValueError(f"isdtype: kind must be one of {sorted(_KINDS)}, got {kind!r}")
    return dtype in _KINDS[kind]


# Shapes


def concat(arrays, /, *, axis=0):
    if axis is None:
        return _mica.concat([a.flatten() for a in arrays], 0)
    return _mica.concat(arrays, axis)


def broadcast_to(x, /, shape):
    return _mica.broadcast_to(x, shape)


def expand_dims(x, /, axis=0):
    return _mica.unsqueeze(x, axis)


def flip(x, /, *, axis=None):
    return _mica.flip(x, tuple(range(x.ndim)) if axis is None else axis)


def moveaxis(x, source, destination, /):
    return _mica.movedim(x, source, destination)


def permute_dims(x, /, axes):
    return _mica.permute(x, axes)


def repeat(x, repeats, /, *, axis=None):
    if not isinstance(repeats, _mica.Tensor):
        return _mica.repeat_interleave(x, repeats, axis)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    ends = cumulative_sum(astype(broadcast_to(repeats, (x.shape[axis],)), int64))
    count = int(ends[-1]) if x.shape[axis] else 0
    return take(x, searchsorted(ends, arange(count, device=x.device), side="right"), axis=axis)


def reshape(x, /, shape, *, copy=None):
    if copy is False:
        return x.view(shape)
    return _mica.reshape(x.clone() if copy else x, shape)


def roll(x, /, shift, *, axis=None):
    return _mica.roll(x, shift, axis)


def squeeze(x, /, axis):
    axes = (axis,) if isinstance(axis, int) else axis
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: axis {a} of shape {x.shape} has not size 1")
    return _mica.squeeze(x, axes) if axes else x


def stack(arrays, /, *, axis=0):
    return _mica.stack(arrays, axis)


def tile(x, repetitions, /):
    return _mica.tile(x, repetitions)


def unstack(x, /, *, axis=0):
    return _mica.unbind(x, axis)


def take(x, indices, /, *, axis=None):
    if axis is None and x.ndim != 1:
        raise ValueError(f"take: axis must be given for an array of {x.ndim} axes")
    axis = 0 if axis is None else axis
    if indices.dtype in _SIGNED:
        indices = indices.to(int64)
        indices = where(indices < 0, indices + x.shape[axis], indices)
    return _mica.index_select(x, axis, indices)


def take_along_axis(x, indices, /, *, axis=-1):
    return _mica.take_along_dim(x, indices, axis)


# Products


def matrix_transpose(x, /):
    return x.mT


def _has_products(x1, x2):
    """Whether there are products of matrices of their dtype."""
    dtype = result_type(x1, x2)
    return dtype.is_floating_point or dtype.is_complex


def matmul(x1, x2, /):
    if _has_products(x1, x2) or x1.ndim == 0 or x2.ndim == 0:
        dtype = result_type(x1, x2)
        return _mica.matmul(x1.to(dtype), x2.to(dtype))
    rows = x1 if x1.ndim > 1 else expand_dims(x1, axis=0)
    columns = x2 if x2.ndim > 1 else expand_dims(x2, axis=1)
    if rows.shape[-1] != columns.shape[-2]:
        raise ValueError(f"matmul: shapes {x1.shape} and {x2.shape} do not fit")
    product = multiply(expand_dims(rows, axis=-1), expand_dims(columns, axis=-3))
    result = sum(product, axis=-2, dtype=product.dtype)
    axes = ((-2,) if x1.ndim == 1 else ()) + ((-1,) if x2.ndim == 1 else ())
    return squeeze(result, axis=axes) if axes else result


def tensordot(x1, x2, /, *, axes=2):
    if isinstance(axes, int):
        axes = (range(x1.ndim - axes, x1.ndim), range(axes))
    first = [i % x1.ndim for i in axes[0]]
    second = [i % x2.ndim for i in axes[1]]
    if [x1.shape[i] for i in first] != [x2.shape[i] for i in second]:
        raise ValueError(f"tensordot: axes {axes} of {x1.shape} and {x2.shape} do not fit")
    left = [i for i in range(x1.ndim) if i not in first]
    right = [i for i in range(x2.ndim) if i not in second]

    def matrix(x, rows, columns):
        sizes = [_math.prod(x.shape[i] for i in group) for group in (rows, columns)]
        return reshape(permute_dims(x, (*rows, *columns)), tuple(sizes))

    product = matmul(matrix(x1, left, first), matrix(x2, second, right))
    return reshape(product, tuple([x1.shape[i] for i in left] + [x2.shape[i] for i in right]))


def vecdot(x1, x2, /, *, axis=-1):
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(
            f"vecdot: axis {axis} has {x1.shape[axis]} and {x2.shape[axis]} elements, not as many"
        )
    return sum(multiply(conj(x1), x2), axis=axis, dtype=result_type(x1, x2))


# Search, order and sets

_Unique = {
    "all": _namedtuple("UniqueAllResult", ["values", "indices", "inverse_indices", "counts"]),
    "counts": _namedtuple("UniqueCountsResult", ["values", "counts"]),
    "inverse": _namedtuple("UniqueInverseResult", ["values", "inverse_indices"]),
}


def _along(f, x, axis, keepdims):
    """An argmax or argmin; of all elements for axis=None."""
    if axis is None:
        found = f(x.flatten(), 0)
        return found.reshape((1,) * x.ndim) if keepdims else found
    return f(x, axis, keepdims)


def argmax(x, /, *, axis=None, keepdims=False):
    return _along(_mica.argmax, x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    return _along(_mica.argmin, x, axis, keepdims)


def nonzero(x, /):
    if x.ndim == 0:
        raise ValueError("nonzero: expected at least one axis")
    return _mica.unbind(_mica.nonzero(x), 1)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    ordered = x1 if sorter is None else take(x1, sorter)
    return _mica.searchsorted(ordered, x2, right=side == "right")


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    return _mica.argsort(x, axis, descending)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    return _mica.sort(x, axis, descending).values


def _codes(x):
    """Numbers that are equal where elements are: complex ones have no order of their own."""
    if not x.dtype.is_complex:
        return x
    _, of_real = _mica.unique(x.real, return_inverse=True)
    different, of_imag = _mica.unique(x.imag, return_inverse=True)
    return (of_real * different.numel() + of_imag).reshape(x.shape)


def unique_all(x, /):
    codes = _codes(x)
    values, inverse, counts = _mica.unique(codes, return_inverse=True, return_counts=True)
    # A stable order has the first of equal values first.
    first = _mica.argsort(codes.flatten())[_mica.cumsum(counts, 0) - counts]
    values = values if codes is x else x.flatten()[first]
    return _Unique["all"](values, first, inverse.reshape(x.shape), counts)


def unique_counts(x, /):
    every = unique_all(x)
    return _Unique["counts"](every.values, every.counts)


def unique_inverse(x, /):
    every = unique_all(x)
    return _Unique["inverse"](every.values, every.inverse_indices)


def unique_values(x, /):
    return unique_all(x).values if x.dtype.is_complex else _mica.unique(x)


# Reductions


def _reduce(f, x, axis, keepdims, **options):
    """Over no axis for axis=(), which elsewhere stands for all."""
    if axis == ():
        return _mica.squeeze(f(x[..., None], -1, keepdim=True, **options), -1)
    return f(x, axis, keepdim=keepdims, **options)


def all(x, /, *, axis=None, keepdims=False):
    return _reduce(_mica.all, x, axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    return _reduce(_mica.any, x, axis, keepdims)


def max(x, /, *, axis=None, keepdims=False):
    return _reduce(_mica.amax, x, axis, keepdims)


def mean(x, /, *, axis=None, keepdims=False):
    return _reduce(_mica.mean, x, axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    return _reduce(_mica.amin, x, axis, keepdims)


def _total(x, dtype):
    """The dtype of a sum or product: of unsigned integers it is unsigned too."""
    return uint64 if dtype is None and x.dtype in _UNSIGNED else dtype


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    dtype = _total(x, dtype)
    return _reduce(_mica.prod, x if dtype is None else x.to(dtype), axis, keepdims).to(dtype=dtype)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _reduce(_mica.std, x, axis, keepdims, correction=correction)


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    dtype = _total(x, dtype)
    return _reduce(_mica.sum, x if dtype is None else x.to(dtype), axis, keepdims).to(dtype=dtype)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _reduce(_mica.var, x, axis, keepdims, correction=correction)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"cumulative_sum: axis must be given for {x.ndim} axes")
        axis = 0
    x = x.reshape(1) if x.ndim == 0 else x
    dtype = _total(x, dtype)
    sums = _mica.cumsum(x if dtype is None else x.to(dtype), axis).to(dtype=dtype)
    if not include_initial:
        return sums
    first = [1 if a == axis % x.ndim else n for a, n in enumerate(x.shape)]
    return concat([zeros(first, dtype=sums.dtype, device=sums.device), sums], axis=axis)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"cumulative_prod: axis must be given for {x.ndim} axes")
        axis = 0
    x = x.reshape(1) if x.ndim == 0 else x
    dtype = _total(x, dtype)
    products = _mica.cumprod(x if dtype is None else x.to(dtype), axis).to(dtype=dtype)
    if not include_initial:
        return products
    first = [1 if a == axis % x.ndim else n for a, n in enumerate(x.shape)]
    return concat([ones(first, dtype=products.dtype, device=products.device), products], axis=axis)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    return _reduce(_mica.count_nonzero, x, axis, keepdims)


def diff(x, /, n=1, *, axis=-1, prepend=None, append=None):  # NumPy takes n by place, as callers do
    return _mica.diff(x, n, axis, prepend, append)


# Inspection


class _Info:
    """What the standard asks a namespace about itself."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self):
        return _mica.device("cpu")

    def default_dtypes(self, *, device=None):
        return {
            "real floating": float32,
            "complex floating": complex64,
            "integral": int64,
            "indexing": int64,
        }

    def devices(self):
        return _mica.devices()

    def dtypes(self, *, device=None, kind=None):
        every = (*_KINDS["bool"], *_KINDS["numeric"])
        return {d.name: d for d in every if kind is None or isdtype(d, kind)}


def __array_namespace_info__():  # noqa: N807
    return _Info()


# Made of the functions above.
from mica import _array_api_linalg as linalg  # noqa: E402
