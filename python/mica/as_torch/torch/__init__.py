"""Names of torch that mica's own package has no use for."""

from __future__ import annotations

from typing import Any

import mica

# The newest PyTorch whose programs this tree was tried with.
__version__ = "2.5.0"
DeviceObjType = type(mica.device("cpu"))
strided = "strided"
default_generator = mica.Generator.default()


OutOfMemoryError = mica.OutOfMemory


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
    shape = list(size) if size is not None else [int(n) + 1 for n in at.max(1)[0].tolist()]
    made = mica.zeros(shape, dtype=data.dtype)
    made = made.index_put(list(at.unbind(0)), data, accumulate=True)
    return made.to(device or data.device).to(dtype or data.dtype)


# No tensor is sparse: what is made so is itself, which computes the same.
mica.Tensor.to_sparse = mica.Tensor.to_sparse_csr = lambda self, *args, **kwargs: self
mica.Tensor.coalesce = lambda self: self

from torch._forms import *
from torch._forms import FORMS
from torch.serialization import load, save

globals().update(FORMS)
