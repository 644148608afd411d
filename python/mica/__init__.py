"""mica: a deep-learning framework one can see through.

Everything is computed in C++; this package gives it Python's names.
"""

from math import e, inf, nan, pi

from mica import (
    amp,
    autograd,
    cpu,
    cuda,
    data,
    distributed,
    fft,
    inference,
    interop,
    io,
    linalg,
    models,
    nn,
    onnx,
    optim,
    profiler,
    sparse,
    testing,
    text,
    train,
)
from mica._generator import Generator
from mica._grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

# Tensors and their types
from mica._mica import (
    Tensor,
    __version__,
    bfloat16,
    bool,
    can_cast,
    channels_last,
    complex64,
    complex128,
    contiguous_format,
    device,
    dtype,
    finfo,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    is_complex,
    is_floating_point,
    is_tensor,
    memory_format,
    numel,
    promote_types,
    result_type,
    uint8,
    uint16,
    uint32,
    uint64,
)

# isort: split
# Errors
from mica._mica import (
    DeviceError,
    DTypeError,
    Error,
    IndexError,
    IoError,
    LinAlgError,
    OutOfMemory,
    ShapeError,
    Unsupported,
)

# isort: split
# Gradients and compiled functions
from mica._mica import (
    CompiledFunction,
    compile,
    get_autocast_dtype,
    grad,
    is_autocast_enabled,
    is_grad_enabled,
)
from mica._op import load_ops, op
from mica.amp import autocast

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
# Tensors of other libraries' arrays and of lists, and what functions with two results give
from mica._mica import (
    ValuesIndices,
    as_tensor,
    asarray,
    from_dlpack,
    from_numpy,
    manual_seed,
    tensor,
)

# isort: split
# Sparse matrices
from mica._mica import SparseTensor, sparse_coo_tensor, sparse_csc_tensor, sparse_csr_tensor

# isort: split
# Tensors and plain data in files
from mica._mica import load, save

# isort: split
# Functions of tensors: all that the operators' rooms describe
from mica import _mica

for _function in _mica._functions():
    if "mica" in _function["places"]:
        for _name in (_function["name"], *_function["second_names"]):
            globals()[_name] = getattr(_mica, _name)

# Functions and methods that are made of these in Python, and tensors by the names of their dtypes
from mica import _composed, _signatures, _typed

globals().update(_composed.functions)
globals().update(_typed.types)
_composed.add_methods()
_signatures.add_to(_mica, _mica.nn, _mica.optim, _mica.data)

# Second names of dtypes
half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
cfloat, cdouble = complex64, complex128

newaxis = None  # x[:, mica.newaxis], as NumPy and PyTorch write it

__all__ = [name for name in globals() if not name.startswith("_") or name == "__version__"]
