"""mica inside PyTorch: tensors without copies, modules and functions with autograd.

torch is imported when a function of this module is first called, and by nothing else in mica.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
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


def _is_differentiable(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


class _Watch:
    """A torch tensor and mica's on the same memory: what torch writes there counts as written for
    mica, which then knows that a tensor it kept for backward is no longer what it was."""

    def __init__(self, theirs: Any, ours: mica.Tensor) -> None:
        self.theirs, self.ours, self.at = theirs.detach(), ours, ours.data_ptr()
        self.version = theirs._version

    def look(self) -> None:
        if self.theirs._version != self.version:
            self.version = self.theirs._version
            self.ours._note_write()


def _autocast(tensors: Sequence[Any]) -> AbstractContextManager[Any]:
    """mica's autocast as torch's is set for this thread."""
    import torch

    kind = tensors[0].device.type if tensors else "cpu"
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return nullcontext()
    dtype = str(torch.get_autocast_dtype(kind)).removeprefix("torch.")
    return mica.autocast(kind, dtype=getattr(mica, dtype))


def _lies_in(at: int, whole: mica.Tensor) -> bool:
    begin, end = whole.data_ptr(), whole.nbytes
    if not whole.is_contiguous():
        steps = sum((n - 1) * by for n, by in zip(whole.shape, whole.strides, strict=True))
        end = (steps + 1) * whole.itemsize
    return begin <= at < begin + end


@functools.cache
def _bridge() -> Any:
    """What runs a mica function, and its gradient, as a torch.autograd.Function."""
    import torch

    keeps_graph = getattr(
        torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True
    )  # torch tells a Function of nothing but this how backward was called

    class Bridge(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(
            ctx: Any,
            recorded: bool,
            call: Any,
            inside: Any,
            watches: Any,
            shared: bool,
            count: int,
            *tensors: Any,
        ) -> Any:
            # `count` inputs, then torch's side of the tensors `inside`, which call reads.
            wanted = [recorded and needed for needed in ctx.needs_input_grad[6:]]
            recorded = any(wanted)
            given = [from_torch(t) for t in tensors[:count]]
            inputs = [*given, *inside]
            with mica.set_grad_enabled(recorded), _autocast(tensors):
                for t, wants in zip(given, wanted, strict=False):
                    t.requires_grad_(wants)
                result = call(*given)
            several = isinstance(result, tuple | list)
            results = list(result) if several else [result]
            for i, r in enumerate(results):
                if not isinstance(r, mica.Tensor):
                    raise TypeError(
                        f"mica.interop: expected tensors as results, got {type(r).__name__}"
                    )
                # torch would not know that writing to one is writing to the other.
                at = r.data_ptr()
                if recorded and any(_lies_in(at, t) for t in inputs):
                    results[i] = r.clone()
            out = tuple(to_torch(r) for r in results)
            ctx.mark_non_differentiable(*[t for t in out if not _is_differentiable(t)])
            if recorded:
                ctx.results, ctx.inputs, ctx.wanted = results, inputs, wanted
                ctx.shared = shared  # its history is that of another node too
                pairs = [*zip(tensors, given, strict=False), *zip(out, results, strict=True)]
                ctx.watched = [*watches, *(_Watch(*pair) for pair in pairs)]
                ctx.save_for_backward(*tensors)  # for a derivative of the gradient
            return out if several else out[0]

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            if ctx.results is None:
                raise RuntimeError(
                    "mica.interop: backward a second time, and the first was without retain_graph"
                )
            for watch in ctx.watched:
                watch.look()
            outputs, theirs = [], []
            for result, g in zip(ctx.results, cotangents, strict=True):
                if g is not None and result.requires_grad:
                    outputs.append(result)
                    theirs.append(g)
            places = [i for i, wants in enumerate(ctx.wanted) if wants]
            own = [ctx.inputs[i] for i in places]
            gradients: list[Any] = [None] * len(ctx.inputs)
            again, keep = torch.is_grad_enabled(), keeps_graph()
            ctx.shared = ctx.shared or again

            def grad(*given: mica.Tensor) -> list[Any]:
                found: list[Any] = mica.grad(
                    outputs, own, list(given), retain_graph=keep or ctx.shared, create_graph=again
                )
                return found

            def dense_grad(*given: mica.Tensor) -> list[mica.Tensor]:
                found = zip(grad(*given), own, strict=True)
                return [mica.zeros_like(t) if g is None else g for g, t in found]

            if outputs and again:  # create_graph
                saved = [ctx.saved_tensors[i] for i in places]
                found = apply(dense_grad, own, ctx.watched, True, len(theirs), *theirs, *saved)
            elif outputs:
                found = [g if g is None else to_torch(g) for g in grad(*map(from_torch, theirs))]
            else:
                found = [None] * len(places)
            for i, g in zip(places, found, strict=True):
                gradients[i] = g
            if not keep:
                ctx.results = ctx.inputs = ctx.watched = None  # and what mica kept for them
            return (None,) * 6 + tuple(gradients)

    # In forward torch's gradients are off, and needs_input_grad knows nothing of no_grad().
    def apply(*args: Any) -> Any:
        return Bridge.apply(torch.is_grad_enabled(), *args)

    return apply


def torch_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of mica tensors, an operator or kernel of one's own among them, as one of torch
    tensors, through which gradients flow. Arguments that are no torch tensors are passed on."""

    import torch

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]

        def inner(*tensors: mica.Tensor) -> Any:
            filled = list(args)
            for i, t in zip(places, tensors, strict=True):
                filled[i] = t
            return function(*filled)

        return _bridge()(inner, [], [], False, len(places), *[args[i] for i in places])

    return call  # type: ignore[no-any-return]


@functools.cache
def _module_class() -> Any:
    import torch

    class TorchModule(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, net: mica.nn.Module, compiled: bool) -> None:
            super().__init__()
            self.__dict__["net"] = net  # not a part in torch's sense
            self.__dict__["_compiled"] = compiled
            self.__dict__["_call"] = mica.compile(net) if compiled else net
            self.__dict__["_watches"] = {}
            self.__dict__["_places"] = {}
            for name, p in net.named_parameters():
                own = torch.nn.Parameter(to_torch(p), requires_grad=p.requires_grad)
                part, last = self._place(name)
                part.register_parameter(last, own)
            for name, b in net.named_buffers():
                part, last = self._place(name)
                part.register_buffer(last, to_torch(b))
            super().train(net.training)  # parts of the net stay in the mode that they are in

        def __reduce__(self) -> Any:
            """For copies and pickle, whose parts are the net's."""
            self._match()
            return _torch_module, (self.net, self._compiled)

        def _place(self, name: str) -> tuple[Any, str]:
            """The part that a name's last word belongs to, so that keys are those of the net."""
            part: Any = self
            *words, last = name.split(".")
            for word in words:
                if word not in part._modules:
                    part.add_module(word, torch.nn.Module())
                part = part._modules[word]
            self._places[name] = part, last
            return part, last

        def _match(self) -> tuple[list[Any], list[mica.Tensor]]:
            """The parameters on both sides, which lie in the same memory: where one side was given
            other memory (`p.data = …`, load_state_dict(assign=True)), the other follows."""
            parameters = self.net.named_parameters()
            both: tuple[list[Any], list[mica.Tensor]] = ([], [p for _, p in parameters])
            for name, ours in [*parameters, *self.net.named_buffers()]:
                theirs, watch, at = (
                    getattr(*self._places[name]),
                    self._watches.get(name),
                    ours.data_ptr(),
                )
                if len(both[0]) < len(both[1]):
                    both[0].append(theirs)
                    if ours.requires_grad != theirs.requires_grad:
                        ours.requires_grad_(theirs.requires_grad)
                if at != theirs.data_ptr():
                    if watch is None or watch.at == at:
                        ours.data = from_torch(theirs)
                    else:
                        theirs.data = to_torch(ours)
                elif watch is not None and watch.at == at:
                    watch.look()
                    continue
                self._watches[name] = _Watch(theirs, ours)
            return both

        @torch.compiler.disable  # type: ignore[untyped-decorator]
        def forward(self, *inputs: Any) -> Any:
            theirs, ours = self._match()
            watches = list(self._watches.values())
            return _bridge()(self._call, ours, watches, False, len(inputs), *inputs, *theirs)

        def train(self, mode: bool = True) -> Any:
            super().train(mode)
            self.net.train(mode)
            return self

        def _apply(self, fn: Any, recurse: bool = True) -> Any:
            """.to(), .half() and so on: mica's side moves, and torch's shows where it lies."""
            self._match()
            floats = [t for t in (*self.parameters(), *self.buffers()) if t.is_floating_point()]
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


def _torch_module(net: mica.nn.Module, compiled: bool) -> Any:
    return _module_class()(net, compiled)


def TorchModule(net: mica.nn.Module, *, compiled: bool = False) -> Any:  # noqa: N802
    """A mica module as a torch.nn.Module whose parameters and buffers are the same memory, under
    the same names: torch's optimizers, state_dict, train() and to() work on it. Gradients flow to
    its parameters and inputs, derivatives of gradients too. torch's autocast is mica's inside.
    `compiled` runs mica.compile(net), whose gradients have none."""
    return _torch_module(net, compiled)
