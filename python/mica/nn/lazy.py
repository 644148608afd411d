"""Layers that learn the size of their input from the first one."""

from __future__ import annotations

from typing import Any

from mica._mica import Tensor
from mica._mica import nn as _nn


class _Lazy(_nn.Module):
    """Makes its layer when it is first called; that layer's parameters and buffers are its own."""

    _layer: Any
    _axis = 1  # of the input, whose size the layer is made with

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()
        self.__dict__["_made_of"] = (args, options)
        self.__dict__["_inner"] = None

    def has_uninitialized_params(self) -> bool:
        """Whether no input came yet."""
        return self.__dict__["_inner"] is None

    def initialize_parameters(self, input: Tensor) -> None:
        """Makes the layer for inputs like this one, beside it."""
        args, options = self.__dict__["_made_of"]
        inner = self._layer(input.shape[self._axis], *args, **options).to(input.device)
        self.__dict__["_inner"] = inner
        for name, parameter in inner.named_parameters():
            self.register_parameter(name, parameter)
        for name, buffer in inner.named_buffers():
            self.register_buffer(name, buffer)

    def forward(self, input: Tensor) -> Tensor:
        """What the layer gives; the first call makes it."""
        if self.has_uninitialized_params():
            self.initialize_parameters(input)
        inner = self.__dict__["_inner"]
        if inner.training != self.training:
            inner.train(self.training)
        result: Tensor = inner(input)
        return result

    def extra_repr(self) -> str:
        """The arguments."""
        args, options = self.__dict__["_made_of"]
        return ", ".join([*map(repr, args), *(f"{k}={v!r}" for k, v in options.items())])


class LazyLinear(_Lazy):
    """Linear with as many in_features as its first input has."""

    _layer, _axis = _nn.Linear, -1


class LazyConv1d(_Lazy):
    """Conv1d with as many in_channels as its first input has."""

    _layer = _nn.Conv1d


class LazyConv2d(_Lazy):
    """Conv2d with as many in_channels as its first input has."""

    _layer = _nn.Conv2d


class LazyConv3d(_Lazy):
    """Conv3d with as many in_channels as its first input has."""

    _layer = _nn.Conv3d


class LazyConvTranspose1d(_Lazy):
    """ConvTranspose1d with as many in_channels as its first input has."""

    _layer = _nn.ConvTranspose1d


class LazyConvTranspose2d(_Lazy):
    """ConvTranspose2d with as many in_channels as its first input has."""

    _layer = _nn.ConvTranspose2d


class LazyConvTranspose3d(_Lazy):
    """ConvTranspose3d with as many in_channels as its first input has."""

    _layer = _nn.ConvTranspose3d


class LazyBatchNorm1d(_Lazy):
    """BatchNorm1d with as many num_features as its first input has."""

    _layer = _nn.BatchNorm1d


class LazyBatchNorm2d(_Lazy):
    """BatchNorm2d with as many num_features as its first input has."""

    _layer = _nn.BatchNorm2d


class LazyBatchNorm3d(_Lazy):
    """BatchNorm3d with as many num_features as its first input has."""

    _layer = _nn.BatchNorm3d


class LazyInstanceNorm1d(_Lazy):
    """InstanceNorm1d with as many num_features as its first input has."""

    _layer = _nn.InstanceNorm1d


class LazyInstanceNorm2d(_Lazy):
    """InstanceNorm2d with as many num_features as its first input has."""

    _layer = _nn.InstanceNorm2d


class LazyInstanceNorm3d(_Lazy):
    """InstanceNorm3d with as many num_features as its first input has."""

    _layer = _nn.InstanceNorm3d
