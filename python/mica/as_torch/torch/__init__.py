"""Names of torch that mica's own package has no use for."""

from __future__ import annotations

import builtins  # torch.int and torch.bool come to stand in this module, too
import math
from typing import Any

import mica

# The newest PyTorch whose programs this tree was tried with.
__version__ = "2.5.0"
DeviceObjType = type(mica.device("cpu"))
strided = "strided"
default_generator = mica.Generator.default()


OutOfMemoryError = mica.OutOfMemory


class Size(tuple):
    """A shape, which mica gives as a tuple."""

    def numel(self) -> int:
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        return Size(part) if isinstance(key, slice) else part

    def __add__(self, other: Any) -> Size:
        return Size(super().__add__(tuple(other)))


_shape = mica.Tensor.shape.fget
_size = mica.Tensor.size


def _size_of(self: mica.Tensor, dim: int | None = None) -> Any:
    return Size(_shape(self)) if dim is None else _size(self, dim)


mica.Tensor.shape = property(lambda self: Size(_shape(self)))
mica.Tensor.size = _size_of


def _assert(condition: Any, message: str) -> None:
    assert condition, message


def _check(condition: Any, message: Any = None) -> None:
    if not condition:
        raise RuntimeError(message() if callable(message) else "Expected cond to be True")


def set_default_dtype(d: mica.dtype) -> None:
    if d != mica.float32:
        raise NotImplementedError(f"set_default_dtype: only float32 is taken, got {d}")


def get_default_dtype() -> mica.dtype:
    return mica.float32


def set_default_device(device: Any) -> None:
    if mica.device(device).type != "cpu":
        raise NotImplementedError(f"set_default_device: only cpu is taken, got {device}")


def get_default_device() -> mica.device:
    return mica.device("cpu")


def set_printoptions(**options: Any) -> None:
    """Tensors are printed as mica prints them."""


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    mica.set_deterministic(mode)


def are_deterministic_algorithms_enabled() -> bool:
    return mica.deterministic()


def set_float32_matmul_precision(precision: str) -> None:
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"set_float32_matmul_precision: got {precision!r}")
    mica.set_allow_tf32(precision != "highest")


def get_float32_matmul_precision() -> str:
    return "high" if mica.allow_tf32() else "highest"


def compiled_with_cxx11_abi() -> bool:
    return True


def _fill_dtype(fill_value: Any, options: dict[str, Any]) -> dict[str, Any]:
    """What is filled with an integer or a bool is of that kind, as in PyTorch."""
    if options.get("dtype") is None and isinstance(fill_value, builtins.int):
        options["dtype"] = mica.bool if isinstance(fill_value, builtins.bool) else mica.int64
    return options


def full(size: Any, fill_value: Any, **options: Any) -> mica.Tensor:
    return mica.full(size, fill_value, **_fill_dtype(fill_value, options))


def is_storage(obj: Any) -> bool:
    return False


def typename(obj: Any) -> str:
    """The name of an object's class with its module's."""
    if isinstance(obj, mica.Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    return f"{kind.__module__}.{kind.__qualname__}"


def get_rng_state() -> mica.Tensor:
    return default_generator.get_state()


def set_rng_state(new_state: mica.Tensor) -> None:
    default_generator.set_state(new_state)


def initial_seed() -> int:
    return default_generator.initial_seed()


def seed() -> int:
    return default_generator.seed()


def frombuffer(
    buffer: Any, *, dtype: mica.dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> mica.Tensor:
    """The numbers in a buffer, as a tensor with memory of its own."""
    import numpy

    kind = str(dtype).rpartition(".")[2]
    array = numpy.frombuffer(buffer, dtype=kind, count=count, offset=offset)
    return mica.tensor(array).requires_grad_(requires_grad)


def manual_seed(seed: int) -> mica.Generator:
    mica.manual_seed(seed & ((1 << 64) - 1))
    return default_generator


def compile(model: Any = None, **options: Any) -> Any:
    """mica.compile; a module that was compiled is still asked for its parameters and state."""
    if model is None:
        return lambda function: compile(function, **options)
    if options.get("disable"):
        return model
    if isinstance(model, mica.nn.Module):
        from torch._compiled import CompiledModule

        return CompiledModule(model)
    return mica.compile(model)


def sparse_coo_tensor(
    indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
    **options: Any,
) -> mica.Tensor:  # fmt: skip
    """The same numbers with their zeros: no tensor is sparse."""
    at = mica.as_tensor(indices)
    data = mica.as_tensor(values)
    shape = list(size) if size is not None else [n + 1 for n in at.max(1)[0].tolist()]
    made = mica.zeros(shape, dtype=data.dtype)
    made = made.index_put(list(at.unbind(0)), data, accumulate=True)
    return made.to(device or data.device).to(dtype or data.dtype)


def round(input: mica.Tensor, *, decimals: int = 0) -> mica.Tensor:
    """To so many digits behind the point."""
    return (
        mica.round(input) if not decimals else mica.round(input * 10.0**decimals) / 10.0**decimals
    )


def normal(mean: Any, std: Any = 1.0, size: Any = None, **options: Any) -> mica.Tensor:
    """Also of two numbers and a shape."""
    if size is None:
        return mica.normal(mean, std, **options)
    return mica.randn(size, **options) * std + mean


_REDUCES = {"add": "sum", "multiply": "prod"}
_scatter = mica.Tensor.scatter
_scatter_ = mica.Tensor.scatter_


def _source(self: mica.Tensor, index: mica.Tensor, value: Any) -> mica.Tensor:
    return (
        value if isinstance(value, mica.Tensor) else mica.full_like(index, value, dtype=self.dtype)
    )


def _scatter_with(self: mica.Tensor, dim: int, index: mica.Tensor, *args: Any, **words: Any) -> Any:
    """`reduce=` in PyTorch's older words."""
    if "reduce" not in words:
        return _scatter(self, dim, index, *args, **words)
    reduce = _REDUCES[words.pop("reduce")]
    (value,) = args or words.values()
    return self.scatter_reduce(dim, index, _source(self, index, value), reduce)


def _scatter_with_(
    self: mica.Tensor, dim: int, index: mica.Tensor, *args: Any, **words: Any
) -> Any:
    if "reduce" not in words:
        return _scatter_(self, dim, index, *args, **words)
    return self.copy_(_scatter_with(self, dim, index, *args, **words))


mica.Tensor.scatter, mica.Tensor.scatter_ = _scatter_with, _scatter_with_


def randint_like(input: mica.Tensor, low: int, high: int | None = None, **options: Any) -> Any:
    """Integers in the dtype of a tensor, which may be a floating one."""
    low, high = (0, low) if high is None else (low, high)
    dtype = options.pop("dtype", None) or input.dtype
    options.setdefault("device", input.device)
    return mica.randint(low, high, input.shape, **options).to(dtype)


def _new(self: mica.Tensor, *args: Any, device: Any = None) -> mica.Tensor:
    if len(args) == 1 and not isinstance(args[0], builtins.int):
        return (
            self.new_tensor(args[0]) if not isinstance(args[0], Size) else self.new_empty(args[0])
        )
    return self.new_empty(args or (0,))


mica.Tensor.new = _new

# NumPy's functions take tensors as arrays and give tensors; beside an array a tensor computes.
del mica.Tensor.__array_ufunc__
mica.Tensor.__array_priority__ = 1000
mica.Tensor.__array_wrap__ = lambda self, array, context=None, return_scalar=False: mica.tensor(
    array
)


def _enter(self: mica.device) -> mica.device:
    """`with torch.device("cpu")`: where tensors are made anyway."""
    set_default_device(self)
    return self


mica.device.__enter__ = _enter
mica.device.__exit__ = lambda self, *raised: None

# No tensor is sparse: what is made so is itself, which computes the same.
mica.Tensor.to_sparse = mica.Tensor.to_sparse_csr = lambda self, *args, **kwargs: self
mica.Tensor.coalesce = lambda self: self

from torch._forms import *
from torch._forms import FORMS
from torch.serialization import load, save

globals().update(FORMS)
