"""Tests for operators of one's own: what mica's own operators are held to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mica import _mica
from mica._grad_mode import no_grad
from mica._op import Op

# Of the largest value that is expected.
_TOLERANCE = {
    _mica.float64: 1e-12,
    _mica.float32: 2e-5,
    _mica.float16: 4e-3,
    _mica.bfloat16: 3e-2,
}


@contextmanager
def _forced(op: str, kernel: str) -> Iterator[None]:
    before = _mica.forced_kernel(op)
    _mica.force_kernel(op, kernel)
    try:
        yield
    finally:
        _mica.force_kernel(op, before)


def _tensors(result: Any) -> list[Any]:
    if result is None:
        return []
    return list(result) if isinstance(result, tuple | list) else [result]


def _fresh(args: tuple[Any, ...], change: Callable[[Any], Any] = lambda t: t) -> list[Any]:
    """Copies, so that what a kernel writes is seen in them alone."""
    return [change(a.detach().clone()) if isinstance(a, _mica.Tensor) else a for a in args]


def _strided(t: Any) -> Any:
    """The same values with gaps between them."""
    if t.ndim == 0:
        return t
    wide = _mica.zeros((*t.shape[:-1], 2 * t.shape[-1]), dtype=t.dtype, device=t.device)
    view = wide[..., ::2]
    view.copy_(t)
    return view


def _channels_last(t: Any) -> Any:
    return t.contiguous(memory_format=_mica.channels_last) if t.ndim == 4 else t


def _difference(got: Any, want: Any) -> str:
    if got.shape != want.shape:
        return f"has the shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    if got.numel() == 0:
        return ""
    tolerance = _TOLERANCE.get(got.dtype, 0.0)
    a, b = got.detach().cpu().double().reshape(-1), want.detach().cpu().double().reshape(-1)
    same_nan = _mica.isnan(a) == _mica.isnan(b)
    if not same_nan.all().item():
        return f"is NaN at element {int((~same_nan).long().argmax().item())}, or should be"
    a, b = _mica.nan_to_num(a), _mica.nan_to_num(b)
    error = (a - b).abs()
    bound = tolerance * max(1.0, float(b.abs().max().item()))
    worst = int(error.argmax().item())
    if float(error[worst].item()) <= bound:
        return ""
    return (
        f"differs most at element {worst}: {a[worst].item()!r}, expected {b[worst].item()!r} "
        f"(off by {error[worst].item():.3g}, allowed {bound:.3g})"
    )


class _Check:
    def __init__(self, op: Any, args: tuple[Any, ...], reference: Callable[..., Any] | None):
        self.op, self.args, self.reference = op, args, reference
        self.name = op.name if isinstance(op, Op) else op.__name__
        tensors = [a for a in args if isinstance(a, _mica.Tensor)]
        if not tensors:
            raise ValueError(f"check_op: {self.name} is given no tensor")
        self.device = str(tensors[0].device).split(":")[0]
        self.kernels = _mica._kernel_names(self.name, self.device)
        self.faults: list[str] = []
        self.ran: list[str] = []
        if not self.kernels:
            raise AssertionError(f"{self.name} has no kernel on {self.device}")

    def expect(self, text: str, where: str) -> None:
        if text:
            self.faults.append(f"{where}: {text}")

    def finish(self) -> None:
        if self.faults:
            raise AssertionError("\n".join(self.faults))

    def wanted(self) -> list[Any]:
        """The reference in f64 on the CPU, else what the last kernel computes."""
        if self.reference is not None:
            wide = [
                (a.detach().cpu().double() if a.is_floating_point() else a.detach().cpu())
                if isinstance(a, _mica.Tensor)
                else a
                for a in self.args
            ]
            return _tensors(self.reference(*wide))
        with _forced(self.name, self.kernels[-1]), no_grad():
            result, _ = _mica._guarded(lambda: self.op(*_fresh(self.args)))
            return _tensors(result)

    def values(self, want: list[Any]) -> None:
        layouts = {"dense": lambda t: t, "strided": _strided, "channels_last": _channels_last}
        if not any(isinstance(a, _mica.Tensor) and a.ndim == 4 for a in self.args):
            del layouts["channels_last"]
        refusals: list[str] = []
        for kernel in self.kernels:
            for layout, change in layouts.items():
                args = _fresh(self.args, change)
                where = f"{self.name}, kernel {kernel}, {layout} inputs"
                with _forced(self.name, kernel):
                    try:
                        result, faults = _mica._guarded(lambda args=args: self.op(*args))
                    except _mica.Unsupported as refusal:
                        refusals.append(str(refusal))
                        continue
                if kernel not in self.ran:
                    self.ran.append(kernel)
                for fault in faults:
                    self.expect(fault, where)
                for i, (got, expected) in enumerate(zip(_tensors(result), want, strict=True)):
                    self.expect(_difference(got, expected), f"{where}, output {i}")
        if not self.ran:
            self.expect("no kernel takes the arguments: " + "\n".join(refusals), self.name)

    def compiled(self) -> None:
        eager = _tensors(self.op(*_fresh(self.args)))
        tensors = [a for a in self.args if isinstance(a, _mica.Tensor)]

        def call(*given: Any) -> Any:
            left = iter(given)
            return self.op(*[next(left) if isinstance(a, _mica.Tensor) else a for a in self.args])

        step = _mica.compile(call)
        for _ in range(2):
            result = _tensors(step(*_fresh(tuple(tensors))))
            for i, (got, want) in enumerate(zip(result, eager, strict=True)):
                if got.cpu().tolist() != want.cpu().tolist() and _difference(got, want):
                    self.expect(_difference(got, want), f"{self.name}, compiled, output {i}")

    def specs(self) -> None:
        """Shapes, dtypes and strides on the null device, where nothing is computed."""

        def of(t: Any) -> tuple[Any, ...]:
            return tuple(t.shape), t.dtype, tuple(t.strides)

        want = _tensors(self.op(*_fresh(self.args)))
        got = _tensors(self.op(*_fresh(self.args, lambda t: t.to("null"))))
        for i, (there, here) in enumerate(zip(got, want, strict=True)):
            different = "" if of(there) == of(here) else f"is {of(there)}, expected {of(here)}"
            self.expect(different, f"{self.name}, on the null device, output {i}")

    def empty(self) -> None:
        """Without elements it computes or refuses, and writes nowhere."""

        def none_of(t: Any) -> Any:
            return t[:0] if t.ndim > 0 else t

        try:
            _, faults = _mica._guarded(lambda: self.op(*_fresh(self.args, none_of)))
        except (_mica.Error, TypeError, ValueError):
            return
        for fault in faults:
            self.expect(fault, f"{self.name}, empty inputs")

    def gradient(self) -> None:
        floats = [
            i
            for i, a in enumerate(self.args)
            if isinstance(a, _mica.Tensor) and a.is_floating_point()
        ]
        if not floats:
            return
        try:
            self._differences(floats)
        except _mica.Unsupported as refusal:
            if "has no gradient" in str(refusal):
                return
            self._against_reference(floats, str(refusal))

    def _differences(self, floats: list[int]) -> None:
        """By differences in f64, along a random cotangent: of all inputs, of each alone, and of
        the gradient itself."""

        def inputs(wanted: list[int]) -> tuple[Any, ...]:
            wide = {i: self.args[i].detach().double() for i in floats}
            return tuple(t.requires_grad_(i in wanted) for i, t in wide.items())

        def call(*given: Any) -> Any:
            args = _fresh(self.args)
            for i, t in zip(floats, given, strict=True):
                args[i] = t
            return self.op(*args)

        def expect(check: Callable[..., Any], wanted: list[int], what: str) -> None:
            result = check(call, inputs(wanted))
            self.expect("" if result else str(result), f"{self.name}, {what}")

        expect(_mica.autograd.gradcheck, floats, "gradient")
        for i in floats if len(floats) > 1 else []:
            expect(_mica.autograd.gradcheck, [i], f"gradient of argument {i} alone")
        try:
            expect(_mica.autograd.gradgradcheck, floats, "second order")
        except _mica.Unsupported as refusal:
            if "has no gradient" not in str(refusal):
                raise

    def _against_reference(self, floats: list[int], why: str) -> None:
        """Where no kernel takes f64: against the reference's gradient for one cotangent."""
        if self.reference is None:
            self.expect(
                f"is not checked, since no kernel takes f64 and no reference is given ({why})",
                f"{self.name}, gradient",
            )
            return
        args, wide = _fresh(self.args), _fresh(self.args)
        for i in floats:
            args[i] = args[i].requires_grad_()
            wide[i] = wide[i].cpu().double().requires_grad_()
        results = _tensors(self.op(*args))
        expected = _tensors(self.reference(*wide))
        for got, want in zip(results, expected, strict=True):
            if not got.is_floating_point() or not got.requires_grad:
                continue
            cotangent = _mica.randn(got.shape).to(got.dtype)
            got.backward(cotangent.to(got.device))
            want.backward(cotangent.double())
        for i in floats:
            if wide[i].grad is None:
                continue
            if args[i].grad is None:
                self.expect("is missing", f"{self.name}, gradient of argument {i}")
            else:
                different = _difference(args[i].grad, wide[i].grad)
                self.expect(different, f"{self.name}, gradient of argument {i}")


def check_op(
    op: Any, *args: Any, reference: Callable[..., Any] | None = None, gradient: bool = True
) -> list[str]:
    """Holds an operator to what mica's own are held to, for these arguments.

    Every kernel of the arguments' device computes what `reference` computes in f64 on the CPU (a
    function of the same arguments; without one, what the last kernel of the list computes), from
    dense, strided and channels_last inputs, into outputs between guard zones that it must not
    write to, and it leaves inputs alone that it does not say it writes to. Compiled it gives what
    it gives eagerly, twice. On the null device its results have the same shapes, dtypes and
    strides. Without elements it computes or raises. Its gradient, of all arguments and of each
    alone, and that gradient's own are checked by differences in f64 along a random cotangent, or
    the first against the reference's where no kernel takes f64. Raises AssertionError with all
    that was found, and gives the kernels that took the arguments.
    """
    check = _Check(op, args, reference)
    check.values(check.wanted())
    check.finish()  # what writes where it must not is not run without guard zones
    check.compiled()
    check.specs()
    check.empty()
    if gradient:
        check.gradient()
    check.finish()
    return check.ran
