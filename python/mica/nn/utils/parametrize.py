"""Tensors of modules as functions of parameters, with PyTorch's names and `state_dict` keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mica._grad_mode import no_grad
from mica._mica import Tensor
from mica._mica import nn as _nn
from mica.nn.utils import _computed

_cache: dict[tuple[int, str], Tensor] = {}
_caching = 0


@contextmanager
def cached() -> Iterator[None]:
    """Inside, each tensor is computed once."""
    global _caching
    _caching += 1
    try:
        yield
    finally:
        _caching -= 1
        if not _caching:
            _cache.clear()


class ParametrizationList(_nn.ModuleList):
    """Modules, each applied to what the one before gave, and what the first is applied to:
    `original` or, where its right_inverse gives several tensors, `original0`, `original1`, …."""

    def __init__(self, modules: Any, original: Tensor, unsafe: bool = False) -> None:
        super().__init__(list(modules))
        self.unsafe = unsafe
        is_parameter = isinstance(original, _nn.Parameter)
        with no_grad():
            made: Any = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    made = module.right_inverse(made)
        self.is_tensor = isinstance(made, Tensor)
        self.ntensors = 1 if self.is_tensor else len(made)
        for name, value in zip(self._names(), [made] if self.is_tensor else made, strict=True):
            if is_parameter:
                kept = value if value is original else value.detach()
                self.register_parameter(name, _nn.Parameter(kept, original.requires_grad))
            else:
                self.register_buffer(name, value)

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def _originals(self) -> list[Any]:
        return [getattr(self, name) for name in self._names()]

    def right_inverse(self, value: Tensor) -> None:
        """Writes what gives this value."""
        with no_grad():
            made: Any = value
            for module in reversed(list(self)):
                made = module.right_inverse(made)
            parts = [made] if isinstance(made, Tensor) else made
            for original, part in zip(self._originals(), parts, strict=True):
                original.copy_(part)

    def forward(self) -> Tensor:
        """The tensor."""
        first, *others = self
        value: Tensor = first(*self._originals())
        for module in others:
            value = module(value)
        return value


def _get(name: str) -> Any:
    def get(module: Any) -> Tensor:
        parametrization = module.parametrizations[name]
        if not _caching:
            value: Tensor = parametrization()
            return value
        key = (id(module), name)
        if key not in _cache:
            _cache[key] = parametrization()
        return _cache[key]

    return get


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a tensor of the module is computed, or that of this name."""
    lists = dict(module.named_children()).get("parametrizations")
    if not isinstance(lists, _nn.ModuleDict):
        return False
    return len(lists) > 0 if tensor_name is None else tensor_name in lists


def type_before_parametrizations(module: Any) -> type:
    """The module's class."""
    return _computed.class_before(module)


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False
) -> Any:
    """From here on `module.tensor_name` is parametrization(original). A right_inverse, if it has
    one, makes the original of the value that is there now; a second parametrization is applied to
    what the first gives. With unsafe=True shape and dtype may change."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        lists = module.parametrizations[tensor_name]
        before = getattr(module, tensor_name)
        with no_grad():
            made = parametrization(before)
        _check(module, tensor_name, before, made, unsafe)
        lists.append(parametrization)
        return module
    known = {n for n, _ in module.named_parameters(recurse=False)}
    known |= {n for n, _ in module.named_buffers(recurse=False)}
    if tensor_name not in known:
        raise ValueError(
            f"register_parametrization: {type(module).__name__} has no parameter or buffer "
            f"{tensor_name!r}"
        )
    original = getattr(module, tensor_name)
    parts = ParametrizationList([parametrization], original, unsafe)
    with no_grad():
        _check(module, tensor_name, original, parts(), unsafe)
    take_back = _computed.put(
        module,
        tensor_name,
        _get(tensor_name),
        lambda called, value: called.parametrizations[tensor_name].right_inverse(value),
    )
    parts.__dict__["_take_back"] = take_back
    if "parametrizations" not in dict(module.named_children()):
        module.parametrizations = _nn.ModuleDict()
    module.parametrizations[tensor_name] = parts
    return module


def _check(module: Any, name: str, before: Tensor, after: Tensor, unsafe: bool) -> None:
    if not unsafe and (before.shape != after.shape or before.dtype != after.dtype):
        raise ValueError(
            f"register_parametrization: {type(module).__name__}.{name} is {before.dtype} of shape "
            f"{tuple(before.shape)}, and would become {after.dtype} of shape {tuple(after.shape)}; "
            "unsafe=True allows that"
        )


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """The tensor is a parameter (or buffer) again: with its value as it is computed, or, with
    leave_parametrized=False, the original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"remove_parametrizations: {type(module).__name__}.{tensor_name} is not parametrized"
        )
    parts = module.parametrizations[tensor_name]
    if not leave_parametrized and not parts.is_tensor:
        raise ValueError("remove_parametrizations: several originals make no tensor")
    original = parts._originals()[0]
    with no_grad():
        value = (parts() if leave_parametrized else original).detach()
    parts.__dict__["_take_back"]()
    del module.parametrizations[tensor_name]
    if isinstance(original, _nn.Parameter):
        setattr(module, tensor_name, _nn.Parameter(value.clone(), original.requires_grad))
    else:
        module.register_buffer(tensor_name, value)
    if not len(module.parametrizations):
        delattr(module, "parametrizations")
    return module
