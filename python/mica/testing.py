"""Tests for operators of one's own: what mica's own operators are held to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mica import _mica
from mica._generator import Generator
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
    """The same values with gaps of NaN between them, off 16-byte boundaries, and with the first two
    axes exchanged."""
    if t.ndim == 0:
        return t
    sizes = list(t.shape)
    sizes[:2] = sizes[:2][::-1]
    gap = float("nan") if t.is_floating_point() else 1
    wide = _mica.full((1 + 2 * t.numel(),), gap, dtype=t.dtype, device=t.device)[1:]
    view = wide.reshape(*sizes[:-1], 2 * sizes[-1])[..., ::2]
    view = view if t.ndim == 1 else view.transpose(0, 1)
    view.copy_(t)
    return view


def _channels_last(t: Any) -> Any:
    return t.contiguous(memory_format=_mica.channels_last) if t.ndim == 4 else t


def _on_cpu(a: Any, wide: bool = False) -> Any:
    if not isinstance(a, _mica.Tensor):
        return a
    here = a.detach().cpu()
    return here.double() if wide and here.is_floating_point() else here


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
        written = op.written if isinstance(op, Op) else []
        if not tensors:
            raise ValueError(f"check_op: {self.name} is given no tensor")
        self.device = str(tensors[0].device).split(":")[0]
        self.kernels = _mica._kernel_names(self.name, self.device)
        self.floats = [
            i
            for i, a in enumerate(args)
            if isinstance(a, _mica.Tensor) and a.is_floating_point() and i not in written
        ]
        self.layouts = {"dense": lambda t: t, "strided": _strided, "channels_last": _channels_last}
        if not any(t.ndim == 4 for t in tensors):
            del self.layouts["channels_last"]
        self.cotangents: dict[int, Any] = {}  # of the results that have a gradient
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
            wide = [_on_cpu(a, wide=True) for a in self.args]
            return _tensors(self.reference(*wide))
        with _forced(self.name, self.kernels[-1]), no_grad():
            result, _ = _mica._guarded(lambda: self.op(*_fresh(self.args)))
            return _tensors(result)

    def values(self, want: list[Any]) -> None:
        refusals: list[str] = []
        for kernel in self.kernels:
            for layout, change in self.layouts.items():
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

    def derivatives(self, call: Callable[..., Any], args: list[Any]) -> list[Any]:
        """Of the results of a call along random cotangents, the same at each call: one for each of
        the arguments in `floats`. Raises Unsupported where there are none."""
        for i in self.floats:
            args[i] = args[i].detach().requires_grad_()
        results = dict(enumerate(_tensors(call(*args))))
        if not self.cotangents:
            random = Generator().manual_seed(20)
            self.cotangents = {
                i: _mica.randn(r.shape, generator=random).to(r.dtype).double()  # type: ignore[call-overload]
                for i, r in results.items()
                if r.requires_grad
            }
        roots = {i: results[i] for i in self.cotangents if results[i].requires_grad}
        along = [self.cotangents[i].to(device=r.device, dtype=r.dtype) for i, r in roots.items()]
        inputs = [args[i] for i in self.floats]
        found = _mica.grad(list(roots.values()), inputs, along) if roots else [None] * len(inputs)
        return [_mica.zeros_like(t) if g is None else g for g, t in zip(found, inputs, strict=True)]

    def compiled(self) -> None:
        """The call, and its gradient, as one graph gives what the eager calls give, twice."""
        places = [i for i, a in enumerate(self.args) if isinstance(a, _mica.Tensor)]

        def filled(given: Any) -> list[Any]:
            args = list(self.args)
            for i, t in zip(places, given, strict=True):
                args[i] = t
            return args

        def call(*given: Any) -> Any:
            return self.op(*filled(given))

        def gradient(*given: Any) -> Any:
            return self.derivatives(self.op, filled(given))

        given = [self.args[i] for i in places]
        for what, run in (("output", call), ("gradient", gradient)):
            if what == "gradient" and not self.cotangents:
                continue
            eager, step = _tensors(run(*_fresh(tuple(given)))), _mica.compile(run)
            for _ in range(2):
                for i, (got, want) in enumerate(
                    zip(_tensors(step(*_fresh(tuple(given)))), eager, strict=True)
                ):
                    self.expect(_difference(got, want), f"{self.name}, compiled, {what} {i}")

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

    def find_gradient(self) -> None:
        """Whether there is one."""
        try:
            if self.floats:
                self.derivatives(self.op, _fresh(self.args))
        except _mica.Unsupported as refusal:
            if "has no gradient" not in str(refusal):
                raise

    def gradient(self) -> None:
        """Of every kernel that takes f64 by differences; of every kernel, from every layout, in the
        dtype of the arguments against that in f64."""
        if not self.cotangents:
            return
        refusals = []
        for kernel in self.kernels:
            with _forced(self.name, kernel):
                try:
                    self._differences(kernel)
                except _mica.Unsupported as refusal:
                    refusals.append(str(refusal))
        wide = self._wide()
        if len(refusals) < len(self.kernels):
            want = self.derivatives(self.op, wide)
        elif self.reference is not None:
            want = self.derivatives(self.reference, [_on_cpu(a) for a in wide])
        else:
            self.expect(
                "is not checked, since no kernel takes f64 and no reference is given "
                f"({refusals[0]})",
                f"{self.name}, gradient",
            )
            return
        for kernel in self.ran:
            for layout, change in self.layouts.items():
                with _forced(self.name, kernel):
                    try:
                        found = self.derivatives(self.op, _fresh(self.args, change))
                    except _mica.Unsupported:  # of this layout, or another shape in the gradient
                        continue
                for i, got, expected in zip(self.floats, found, want, strict=True):
                    self.expect(
                        _difference(got, expected),
                        f"{self.name}, kernel {kernel}, {layout} inputs, gradient of argument {i}",
                    )

    def _wide(self) -> list[Any]:
        args = _fresh(self.args)
        for i in self.floats:
            args[i] = args[i].double()
        return args

    def _differences(self, kernel: str) -> None:
        """By differences in f64, along a random cotangent: of all inputs, of each alone, and of
        the gradient itself."""

        def inputs(wanted: list[int]) -> tuple[Any, ...]:
            wide = self._wide()
            return tuple(wide[i].requires_grad_(i in wanted) for i in self.floats)

        def call(*given: Any) -> Any:
            args = _fresh(self.args)
            for i, t in zip(self.floats, given, strict=True):
                args[i] = t
            return self.op(*args)

        def expect(check: Callable[..., Any], wanted: list[int], what: str) -> None:
            result = check(call, inputs(wanted))
            self.expect("" if result else str(result), f"{self.name}, kernel {kernel}, {what}")

        expect(_mica.autograd.gradcheck, self.floats, "gradient")
        for i in self.floats if len(self.floats) > 1 else []:
            expect(_mica.autograd.gradcheck, [i], f"gradient of argument {i} alone")
        try:
            expect(_mica.autograd.gradgradcheck, self.floats, "second order")
        except _mica.Unsupported as refusal:
            if "has no gradient" not in str(refusal):
                raise


def check_op(
    op: Any, *args: Any, reference: Callable[..., Any] | None = None, gradient: bool = True
) -> list[str]:
    """Holds an operator to what mica's own are held to, for these arguments.

    Every kernel of the arguments' device computes what `reference` computes in f64 on the CPU (a
    function of the same arguments; without one, what the last kernel of the list computes), from
    dense, strided and channels_last inputs, into outputs between guard zones that it must not
    write to, and it leaves inputs alone that it does not say it writes to. Compiled it gives what
    it gives eagerly, twice, and so does its gradient. On the null device its results have the same
    shapes, dtypes and strides. Without elements it computes or raises. Its gradient, of all
    arguments and of each alone, and that gradient's own are checked by differences in f64 along a
    random cotangent, with every kernel that takes f64, and in the arguments' dtype with every
    kernel and layout against that, or against the reference's where none takes f64. Raises
    AssertionError with all that was found, and gives the kernels that took the arguments.
    """
    check = _Check(op, args, reference)
    check.values(check.wanted())
    check.finish()  # what writes where it must not is not run without guard zones
    if gradient:
        check.find_gradient()
    check.compiled()
    check.specs()
    check.empty()
    check.gradient()
    check.finish()
    return check.ran
