"""Gradients, functions with gradients of their own, checkpoints and checks."""

from typing import Any

from mica._grad_mode import (
    detect_anomaly,
    enable_grad,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from mica._mica import autograd as _autograd
from mica._mica import grad, is_grad_enabled

FunctionCtx = _autograd.FunctionCtx
GradcheckResult = _autograd.GradcheckResult
HookHandle = _autograd.HookHandle
backward = _autograd.backward
checkpoint = _autograd.checkpoint
gradcheck = _autograd.gradcheck
gradgradcheck = _autograd.gradgradcheck
is_anomaly_enabled = _autograd.is_anomaly_enabled


class Function:
    """A function with a gradient of its own; call it by `apply`.

        class Scaled(mica.autograd.Function):
            @staticmethod
            def forward(ctx, x, factor):
                ctx.factor = factor
                return x * factor

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.factor, None

        y = Scaled.apply(x, 3.0)

    `backward` gets a gradient for each result of `forward` and returns one for each of its
    arguments, None for those that have none. Tensors that it needs are kept by
    `ctx.save_for_backward(...)` and come back as `ctx.saved_tensors`; other values are attributes
    of `ctx`. A backward made of operators can be differentiated again.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """The results of the arguments: a tensor or a tuple of them."""
        raise NotImplementedError("autograd.Function: forward(ctx, ...) is not defined")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """A gradient for each argument, of one for each result."""
        raise NotImplementedError("autograd.Function: backward(ctx, ...) is not defined")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Calls forward and records backward."""
        return _autograd.apply_function(cls, *args)


__all__ = [
    "Function",
    "FunctionCtx",
    "GradcheckResult",
    "HookHandle",
    "backward",
    "checkpoint",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]
