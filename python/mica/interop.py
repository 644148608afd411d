"""mica inside PyTorch: tensors without copies, modules and functions with autograd.

torch is imported when a function of this module is first called, and by nothing else in mica.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mica

__all__ = ["TorchModule", "from_torch", "one_stream", "to_torch", "torch_function"]


def from_torch(tensor: Any) -> mica.Tensor:
    """A torch tensor's memory as a mica tensor, without its history and without a copy. What mica
    computes with it runs after what torch has sent to its current stream."""
    return mica.from_dlpack(tensor.detach())


def to_torch(tensor: mica.Tensor) -> Any:
    """A mica tensor's memory as a torch tensor, without its history and without a copy. What torch
    computes with it runs after what mica has sent to its current stream."""
    import torch

    return torch.from_dlpack(tensor.detach())


@contextmanager
def one_stream(device: int = 0) -> Iterator[None]:
    """`with one_stream():` torch sends its work for a CUDA device to mica's current stream. Nothing
    has to wait then where tensors change hands, and memory is used again at once."""
    import torch

    before = torch.cuda.current_stream(device)
    handle = mica.cuda.current_stream(f"cuda:{device}").cuda_stream
    shared = torch.cuda.ExternalStream(handle, device=device)
    shared.wait_stream(before)
    try:
        with torch.cuda.stream(shared):
            yield
    finally:
        before.wait_stream(shared)


def _is_floating(tensor: Any) -> bool:
    return bool(tensor.is_floating_point())


@functools.cache
def _bridge() -> Any:
    """What runs a mica function, and its gradient, as a torch.autograd.Function."""
    import torch

    class Bridge(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(
            ctx: Any, recorded: bool, call: Any, inside: Any, count: int, *tensors: Any
        ) -> Any:
            # `count` inputs, then torch's side of the tensors `inside`, which call reads.
            wanted = [recorded and needed for needed in ctx.needs_input_grad[4:]]
            given = [from_torch(t) for t in tensors[:count]]
            inputs = [*given, *inside]
            with mica.set_grad_enabled(any(wanted)):
                for t, wants in zip(given, wanted, strict=False):
                    t.requires_grad_(wants)
                result = call(*given)
            several = isinstance(result, tuple | list)
            results = list(result) if several else [result]
            for r in results:
                if not isinstance(r, mica.Tensor):
                    raise TypeError(
                        f"mica.interop: expected tensors as results, got {type(r).__name__}"
                    )
            ctx.results, ctx.inputs, ctx.wanted = results, inputs, wanted
            out = tuple(to_torch(r) for r in results)
            ctx.mark_non_differentiable(*[t for t in out if not _is_floating(t)])
            return out if several else out[0]

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, *cotangents: Any) -> Any:
            outputs, given = [], []
            for result, g in zip(ctx.results, cotangents, strict=True):
                if g is not None and result.requires_grad:
                    outputs.append(result)
                    given.append(from_torch(g))
            places = [i for i, wants in enumerate(ctx.wanted) if wants]
            gradients: list[Any] = [None] * len(ctx.inputs)
            if outputs and places:
                found = mica.grad(
                    outputs, [ctx.inputs[i] for i in places], given, retain_graph=True
                )
                for i, g in zip(places, found, strict=True):
                    gradients[i] = None if g is None else to_torch(g)
            return (None, None, None, None, *gradients)

    # In forward torch's gradients are off, and needs_input_grad knows nothing of no_grad().
    return lambda *args: Bridge.apply(torch.is_grad_enabled(), *args)


def torch_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of mica tensors, an operator or kernel of one's own among them, as one of torch
    tensors, through which gradients flow. Arguments that are no torch tensors are passed on."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        import torch

        places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]

        def inner(*tensors: mica.Tensor) -> Any:
            filled = list(args)
            for i, t in zip(places, tensors, strict=True):
                filled[i] = t
            return function(*filled)

        return _bridge()(inner, [], len(places), *[args[i] for i in places])

    return call


@functools.cache
def _module_class() -> Any:
    import torch

    class TorchModule(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, net: mica.nn.Module, compiled: bool) -> None:
            super().__init__()
            self.__dict__["net"] = net  # not a part in torch's sense
            self.__dict__["_call"] = mica.compile(net) if compiled else net
            for name, p in net.named_parameters():
                own = torch.nn.Parameter(to_torch(p), requires_grad=p.requires_grad)
                self._holder(name).register_parameter(name.rsplit(".", 1)[-1], own)
            for name, b in net.named_buffers():
                self._holder(name).register_buffer(name.rsplit(".", 1)[-1], to_torch(b))
            self.train(net.training)

        def _holder(self, name: str) -> Any:
            """The part that a name's last word belongs to, so that keys are those of the net."""
            part: Any = self
            for word in name.split(".")[:-1]:
                if word not in part._modules:
                    part.add_module(word, torch.nn.Module())
                part = part._modules[word]
            return part

        def forward(self, *inputs: Any) -> Any:
            own = dict(self.named_parameters())
            inside = list(self.net.named_parameters())
            for name, p in inside:
                p.requires_grad_(own[name].requires_grad)
            return _bridge()(
                self._call,
                [p for _, p in inside],
                len(inputs),
                *inputs,
                *[own[name] for name, _ in inside],
            )

        def train(self, mode: bool = True) -> Any:
            super().train(mode)
            self.net.train(mode)
            return self

        def _apply(self, fn: Any, recurse: bool = True) -> Any:
            """.to(), .half() and so on: mica's side moves, and torch's shows where it lies."""
            floats = [t for t in (*self.parameters(), *self.buffers()) if _is_floating(t)]
            if floats:
                like = fn(floats[0].detach()[:0] if floats[0].ndim else floats[0].detach())
                dtype = getattr(mica, str(like.dtype).removeprefix("torch."))
                self.net.to(device=str(like.device), dtype=dtype)
            inside = dict(self.net.named_parameters()) | dict(self.net.named_buffers())
            for name, own in (*self.named_parameters(), *self.named_buffers()):
                own.data = to_torch(inside[name])
                if own.grad is not None:
                    own.grad = fn(own.grad)
            return self

    return TorchModule


def TorchModule(net: mica.nn.Module, *, compiled: bool = False) -> Any:  # noqa: N802
    """A mica module as a torch.nn.Module whose parameters and buffers are the same memory, under
    the same names: torch's optimizers, state_dict, train() and to() work on it. Gradients flow to
    its parameters and inputs; a second derivative raises. `compiled` runs mica.compile(net)."""
    return _module_class()(net, compiled)
