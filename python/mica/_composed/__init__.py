"""Functions of PyTorch that are made of mica's operators, in Python; and the methods that are.

What a GPU would gain from a kernel of its own is an operator of C++ (src/ops); these are calls of
those, so they run wherever the operators do, and gradients pass through them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mica._mica as m
from mica._composed import (
    counts,
    elementwise,
    matrices,
    methods,
    products,
    reductions,
    shapes,
    special,
)
from mica._mica import Tensor

# Second names of functions that are there.
_SECOND = {
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "fix": "trunc",
    "ger": "outer", "row_stack": "vstack", "trapz": "trapezoid",
}  # fmt: skip

# Methods of Tensor among the functions; the rest are functions alone.
_METHODS = (
    "addbmm addmv addr aminmax arccos arccosh arcsin arcsinh arctan arctan2 arctanh as_strided "
    "as_strided_scatter bincount cholesky corrcoef cov cross cummax cummin deg2rad det diag_embed "
    "diagflat diagonal_scatter digamma dist dsplit erfinv fill_diagonal_ fix float_power fmax "
    "fmin frac frexp gcd ger heaviside histc histogram hsplit i0 index_reduce inverse is_nonzero "
    "is_same_size is_signed isneginf isposinf kron kthvalue lcm ldexp lgamma logaddexp2 "
    "logcumsumexp logit lu_solve matrix_exp matrix_power mode msort mvlgamma nanmean nanmedian "
    "nanquantile nansum narrow_copy nonzero_static pinverse positive put qr quantile rad2deg "
    "renorm rot90 scatter_reduce select_scatter sgn sinc slice_scatter slogdet sum_to_size svd "
    "take tensor_split unfold unique_consecutive vdot vsplit"
).split()

# Methods of the first parameter of functions that rooms describe.
_METHODS_OF_ROOMS = ("cholesky_inverse", "cholesky_solve", "logdet")

_METHODS_ALONE = ("fill_diagonal_", "sum_to_size", "unfold")

# Those that overwrite the tensor with what the method without _ gives, in the tensor's dtype.
_IN_PLACE = (
    "acos acosh addbmm addmm addmv addr arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin "
    "asinh atan atan2 atanh baddbmm bitwise_and bitwise_left_shift bitwise_not bitwise_or "
    "bitwise_right_shift bitwise_xor cosh cumprod cumsum deg2rad digamma divide eq erfinv exp2 "
    "expm1 fix float_power frac gcd ge greater greater_equal gt heaviside hypot i0 index_reduce "
    "lcm ldexp le less less_equal lgamma log10 log1p log2 logical_and logical_not logical_or "
    "logical_xor logit lt multiply mvlgamma ne not_equal polygamma put rad2deg renorm "
    "scatter_reduce sgn sinc sinh subtract tan true_divide xlogy"
).split()

# Those that show the same memory in another shape; the object is that view from then on.
_VIEWS = ("squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims")


def _functions() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for module in (elementwise, shapes, counts, reductions, products, matrices, special):
        for name, value in vars(module).items():
            own = getattr(value, "__module__", "") == module.__name__
            if own and callable(value) and not name.startswith("_"):
                found[name] = value
    for second, name in _SECOND.items():
        found[second] = found.get(name) or getattr(m, name)
    return found


def _in_place(name: str) -> Callable[..., Tensor]:
    def write(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        source = self.clone() if self.requires_grad else self
        return self.copy_(getattr(source, name)(*args, **kwargs))

    write.__name__ = write.__qualname__ = name + "_"
    write.__doc__ = f"Overwrites this tensor with what {name} gives, in its own dtype."
    return write


def _of_room(name: str) -> Callable[..., Tensor]:
    function = getattr(m, name)

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        made: Tensor = function(self, *args, **kwargs)
        return made

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"See mica.{name}."
    return call


def _in_view(name: str) -> Callable[..., Tensor]:
    def become(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._become(getattr(self, name)(*args, **kwargs))

    become.__name__ = become.__qualname__ = name + "_"
    become.__doc__ = f"This object shows its memory as {name} does from then on."
    return become


_all = _functions()
functions = {name: f for name, f in _all.items() if name not in _METHODS_ALONE}


def add_methods() -> None:
    """Gives Tensor the methods."""
    for name in _METHODS:
        setattr(Tensor, name, getattr(Tensor, _SECOND.get(name, ""), _all[name]))
    for name in _METHODS_OF_ROOMS:
        setattr(Tensor, name, _of_room(name))
    for name in _IN_PLACE:
        setattr(Tensor, name + "_", _in_place(name))
    for name in _VIEWS:
        setattr(Tensor, name + "_", _in_view(name))
    for name, value in vars(methods.Methods).items():
        if not name.startswith("_"):
            setattr(Tensor, name, value)
