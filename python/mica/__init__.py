"""mica: a deep-learning framework one can see through.

Everything is computed in C++; this package gives it Python's names.
"""

from math import e, inf, nan, pi

from mica import autograd, cuda, data, io, models, nn, optim, train
from mica._grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

# Tensors and their types
from mica._mica import (
    Tensor,
    __version__,
    bfloat16,
    bool,
    can_cast,
    channels_last,
    contiguous_format,
    device,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    int32,
    int64,
    is_floating_point,
    is_tensor,
    memory_format,
    numel,
    promote_types,
    result_type,
    uint8,
)

# isort: split
# Errors
from mica._mica import (
    DeviceError,
    DTypeError,
    Error,
    IndexError,
    IoError,
    OutOfMemory,
    ShapeError,
    Unsupported,
)

# isort: split
# Gradients and compiled functions
from mica._mica import (
    CompiledFunction,
    compile,
    grad,
    is_grad_enabled,
)

# isort: split
# Settings
from mica._mica import (
    allow_tf32,
    autotune,
    conv_workspace_limit,
    deterministic,
    devices,
    empty_cache,
    force_kernel,
    forced_kernel,
    get_num_threads,
    memory_stats,
    num_threads,
    pass_is_on,
    passes,
    reset_peak,
    set_allow_tf32,
    set_autotune,
    set_conv_workspace_limit,
    set_deterministic,
    set_memory_limit,
    set_num_threads,
    set_pass,
    set_verbose_compile,
    set_verbose_dispatch,
    verbose_compile,
    verbose_dispatch,
)

# isort: split
# New tensors
from mica._mica import (
    arange,
    as_tensor,
    asarray,
    clone,
    empty,
    empty_like,
    eye,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)

# isort: split
# Random numbers
from mica._mica import (
    bernoulli,
    manual_seed,
    multinomial,
    normal,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
    rng_state,
    uniform,
)

# isort: split
# Functions of one number
from mica._mica import (
    abs,
    absolute,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    ceil,
    clamp,
    clamp_max,
    clamp_min,
    clip,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    log,
    log1p,
    log2,
    log10,
    nan_to_num,
    neg,
    negative,
    reciprocal,
    relu,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
    trunc,
)

# isort: split
# Functions of two and three
from mica._mica import (
    add,
    addcdiv,
    addcmul,
    atan2,
    div,
    divide,
    floor_divide,
    fmod,
    hypot,
    lerp,
    logaddexp,
    maximum,
    minimum,
    mul,
    multiply,
    pow,
    remainder,
    sub,
    subtract,
    true_divide,
    where,
    xlogy,
)

# isort: split
# Comparisons, logic and bits
from mica._mica import (
    allclose,
    bitwise_and,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    eq,
    equal,
    ge,
    greater,
    greater_equal,
    gt,
    isclose,
    isfinite,
    isinf,
    isnan,
    le,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    ne,
    not_equal,
)

# isort: split
# Reductions and scans
from mica._mica import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    count_nonzero,
    cumprod,
    cumsum,
    diff,
    linear_scan,
    logsumexp,
    max,
    mean,
    min,
    norm,
    prod,
    std,
    std_mean,
    sum,
    var,
    var_mean,
)

# isort: split
# Order
from mica._mica import (
    ValuesIndices,
    argsort,
    median,
    searchsorted,
    sort,
    topk,
    unique,
)

# isort: split
# Normalisation
from mica._mica import (
    log_softmax,
    softmax,
)

# isort: split
# Linear algebra
from mica._mica import (
    addmm,
    baddbmm,
    bmm,
    diag,
    dot,
    einsum,
    inner,
    matmul,
    mm,
    mv,
    outer,
    tensordot,
    trace,
    tril,
    triu,
)

# isort: split
# Shapes
from mica._mica import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_tensors,
    broadcast_to,
    cat,
    chunk,
    concat,
    concatenate,
    diagonal,
    dstack,
    expand,
    flatten,
    flip,
    fliplr,
    flipud,
    hstack,
    meshgrid,
    moveaxis,
    movedim,
    narrow,
    permute,
    ravel,
    repeat,
    repeat_interleave,
    reshape,
    roll,
    select,
    split,
    squeeze,
    stack,
    swapaxes,
    swapdims,
    t,
    tile,
    transpose,
    unbind,
    unflatten,
    unsqueeze,
    vstack,
)

# isort: split
# Indexing
from mica._mica import (
    argwhere,
    gather,
    index_add,
    index_copy,
    index_fill,
    index_put,
    index_select,
    masked_fill,
    masked_scatter,
    masked_select,
    nonzero,
    scatter,
    scatter_add,
    take_along_dim,
)

newaxis = None  # x[:, mica.newaxis], as NumPy and PyTorch write it

__all__ = [name for name in globals() if not name.startswith("_") or name == "__version__"]
