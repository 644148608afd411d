"""PyTorch's names for tensors of a dtype: LongTensor(2, 3), isinstance(x, FloatTensor)."""

from __future__ import annotations

from typing import Any

import mica._mica as m
from mica._mica import Tensor


class _Typed(type):
    """The class of these names: they make tensors, and tensors of their dtype are theirs."""

    dtype: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        if len(args) == 1 and not isinstance(args[0], int):
            return m.tensor(args[0], dtype=cls.dtype, **kwargs)
        shape = args or (0,)
        return m.empty(*shape, dtype=cls.dtype, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype == cls.dtype


class DoubleTensor(metaclass=_Typed):
    """Tensors of float64."""

    dtype = m.float64


class FloatTensor(metaclass=_Typed):
    """Tensors of float32."""

    dtype = m.float32


class HalfTensor(metaclass=_Typed):
    """Tensors of float16."""

    dtype = m.float16


class BFloat16Tensor(metaclass=_Typed):
    """Tensors of bfloat16."""

    dtype = m.bfloat16


class LongTensor(metaclass=_Typed):
    """Tensors of int64."""

    dtype = m.int64


class IntTensor(metaclass=_Typed):
    """Tensors of int32."""

    dtype = m.int32


class ShortTensor(metaclass=_Typed):
    """Tensors of int16."""

    dtype = m.int16


class CharTensor(metaclass=_Typed):
    """Tensors of int8."""

    dtype = m.int8


class ByteTensor(metaclass=_Typed):
    """Tensors of uint8."""

    dtype = m.uint8


class BoolTensor(metaclass=_Typed):
    """Tensors of bool."""

    dtype = m.bool


types: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        DoubleTensor,
        FloatTensor,
        HalfTensor,
        BFloat16Tensor,
        LongTensor,
        IntTensor,
        ShortTensor,
        CharTensor,
        ByteTensor,
        BoolTensor,
    )
}
_DTYPES = {name: getattr(cls, "dtype") for name, cls in types.items()}  # noqa: B009


def name_of(x: Tensor) -> str:
    """ "torch.FloatTensor", as programs compare it."""
    kind = next((n for n, dtype in _DTYPES.items() if dtype == x.dtype), "Tensor")
    return f"torch.cuda.{kind}" if x.is_cuda else f"torch.{kind}"


def dtype_of(value: Any) -> Any:
    """Of a dtype, one of these classes, or the name of one."""
    if isinstance(value, str):
        return _DTYPES.get(value.rpartition(".")[2], value)
    return getattr(value, "dtype", value)
