"""What NumPy has for a call of a function, where it has that function."""

import mica
import numpy as np
from op_calls import is_tensor

# How far a result of f64, f32, f16, bf16 may be from the exact one of the same arguments.
TOLERANCE = {"float64": 1e-9, "float32": 3e-5, "float16": 5e-3, "bfloat16": 4e-2}


def words(text):
    return set(text.split())


ELEMENTWISE = words(
    "abs absolute acos acosh arccos arccosh add asin asinh arcsin arcsinh atan atan2 atanh arctan "
    "arctan2 arctanh bitwise_and bitwise_or bitwise_xor bitwise_not ceil copysign cos cosh deg2rad "
    "eq exp exp2 expm1 floor fmax fmin fmod ge gt hypot isfinite isinf isnan le log "
    "log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor lt "
    "maximum minimum mul multiply ne neg negative pow rad2deg remainder sin sinh sign signbit sqrt "
    "square sub subtract tan tanh true_divide trunc divide floor_divide positive sinc reciprocal"
)
REDUCTIONS = words("sum prod amax amin mean any all count_nonzero argmax argmin")
OTHERS = words("cumsum cumprod flip roll tril triu matmul where diff outer kron fliplr flipud")
SECOND_NAMES = {
    "mul": "multiply",
    "sub": "subtract",
    "neg": "negative",
    "pow": "power",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "bitwise_not": "invert",
}
KEYWORDS = {
    "dim": "axis",
    "keepdim": "keepdims",
    "dims": "axis",
    "diagonal": "k",
    "shifts": "shift",
}


def array_of(value, beside):
    if isinstance(value, float) and beside.dtype.is_floating_point:
        value = mica.tensor(value, dtype=beside.dtype)  # a number has the tensor's digits
    if is_tensor(value):
        a = value.detach().cpu()
        return np.asarray((a.double() if a.dtype.is_floating_point else a).numpy())
    return value


def expected_by_numpy(case, arguments, keywords):
    """Its result and how near ours must be; None where NumPy has no such function."""
    name = case.name
    if case.then or name not in ELEMENTWISE | REDUCTIONS | OTHERS:
        return None
    plain = all(is_tensor(a) or np.isscalar(a) for a in arguments)
    if name in ELEMENTWISE and not plain:
        return None
    tensors = [a for a in arguments if is_tensor(a)]
    if name in ("cumsum", "cumprod") and tensors[0].dim() == 0:
        return None  # NumPy's results have an axis then
    if not tensors or not set(keywords) <= set(KEYWORDS):
        return None
    dtypes = {str(t.dtype).split(".")[-1] for t in tensors}
    floats = dtypes & set(TOLERANCE)
    if not floats and (len(dtypes) > 1 or name not in REDUCTIONS | {"cumsum", "flip", "roll"}):
        return None  # integers wrap in their own dtype, and promote by mica's table
    if floats and len(dtypes) > 1:
        return None
    tolerance = max((TOLERANCE[d] for d in floats), default=0)
    function = getattr(np, SECOND_NAMES.get(name, name))
    named = {KEYWORDS[k]: v for k, v in keywords.items()}
    try:
        with np.errstate(all="ignore"):
            result = function(*(array_of(a, tensors[0]) for a in arguments), **named)
    except (TypeError, ValueError, np.exceptions.AxisError):
        return None
    if isinstance(result, tuple) or mica.is_tensor(result):
        return None
    return result, tolerance
