"""Operators of users: from Python, and from libraries."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, overload

from mica import _mica

_VALUES = {"bool": bool, "int": int, "float": float, "str": str, "tuple": tuple}


def _value_type(parameter: inspect.Parameter) -> type | None:
    """What a parameter that is no tensor is converted by; None for a tensor."""
    annotation = parameter.annotation
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return _VALUES.get(name.split("[")[0])


def _check_value(op: str, name: str, value: Any) -> Any:
    plain = value is None or isinstance(value, bool | int | float | str)
    if not plain and not isinstance(value, tuple):
        expected = "a number, a string or a tuple of them"
        raise TypeError(f"{op}: {name} must be {expected}, got {value!r}")
    if isinstance(value, tuple):
        for entry in value:
            _check_value(op, name, entry)
    return value


def _output_names(outputs: str | Sequence[str]) -> list[str]:
    names = outputs.replace(",", " ").split() if isinstance(outputs, str) else list(outputs)
    return names


class Op:
    """An operator of one's own: see `mica.op`."""

    def __init__(
        self,
        rule: Callable[..., Any],
        *,
        name: str | None = None,
        outputs: str | Sequence[str] = "y",
        mutates: Sequence[str] = (),
        dtypes: Sequence[Any] | None = None,
        precision: str = "any",
        images: Sequence[str] = (),
    ) -> None:
        self.name = name or rule.__name__
        self.__name__ = self.name
        self.__doc__ = rule.__doc__
        self.__wrapped__ = rule
        self._rule = rule
        self._parameters = list(inspect.signature(rule).parameters.values())
        types = [_value_type(p) for p in self._parameters]
        self._converters = types
        self.inputs = [p.name for p, t in zip(self._parameters, types, strict=True) if t is None]
        self.values = [p.name for p, t in zip(self._parameters, types, strict=True) if t]
        self.outputs = _output_names(outputs)
        self.written = [i for i, p in enumerate(self._parameters) if p.name in mutates]
        for group, known in ((mutates, self.inputs), (images, self.inputs + self.outputs)):
            for each in group:
                if each not in known:
                    raise ValueError(f"{self.name}: there is no tensor '{each}' among {known}")
        optional = {p.name for p in self._parameters if p.default is None}
        self._defaults = {
            p.name: p.default for p in self._parameters if p.default is not inspect.Parameter.empty
        }
        self._handle = _mica._make_op(
            self.name,
            [(n, n in optional, n in images) for n in self.inputs],
            [(n, False, n in images) for n in self.outputs],
            [n in mutates for n in self.inputs],
            list(dtypes) if dtypes is not None else None,
            precision,
            self._infer,
        )

    def _infer(self, values: tuple[Any, ...], specs: list[Any]) -> list[tuple[Any, Any]]:
        given = dict(zip(self.values, values, strict=True))
        given.update(zip(self.inputs, specs, strict=True))
        result = self._rule(**given)
        single = len(self.outputs) == 1
        if not self.outputs:
            return []
        results = [result] if single else list(result)
        if len(results) != len(self.outputs):
            raise ValueError(
                f"{self.name}: its rule gave {len(results)} specs for {len(self.outputs)} outputs"
            )
        return [
            (r.shape, r.dtype) if isinstance(r, _mica._TensorSpec) else (tuple(r[0]), r[1])
            for r in results
        ]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The operator's results: one tensor, or a tuple of several."""
        if len(args) > len(self._parameters):
            raise TypeError(
                f"{self.name}: expected at most {len(self._parameters)} arguments, got {len(args)}"
            )
        given = dict(zip([p.name for p in self._parameters], args, strict=False))
        for name, value in kwargs.items():
            if name in given or all(name != p.name for p in self._parameters):
                raise TypeError(f"{self.name}: unexpected argument '{name}'")
            given[name] = value
        tensors, values = [], []
        for parameter, convert in zip(self._parameters, self._converters, strict=True):
            name = parameter.name
            if name not in given and name not in self._defaults:
                raise TypeError(f"{self.name}: the argument '{name}' is missing")
            value = given.get(name, self._defaults.get(name))
            if convert is None:
                if value is not None and not isinstance(value, _mica.Tensor):
                    raise TypeError(
                        f"{self.name}: {name} must be a tensor, got {type(value).__name__}"
                    )
                tensors.append(value)
            else:
                values.append(_check_value(self.name, name, convert(value)))
        packed = tuple(values)
        return self._handle.call(tuple(tensors), repr(packed), packed)

    def kernel(
        self, device: str, *, name: str | None = None, dtypes: Sequence[Any] | None = None
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """`@op.kernel("cuda")`: a function that computes into the outputs.

        Its parameters are named like the operator's inputs, outputs and values, in any order. A
        device's kernels are tried in the order they are given in.
        """

        def decorate(function: Callable[..., None]) -> Callable[..., None]:
            names = list(inspect.signature(function).parameters)
            self._check_names(names, self.inputs + self.outputs + self.values, "kernel")

            def run(values: Any, inputs: Any, outputs: Any) -> None:
                given = dict(zip(self.values, values, strict=True))
                given.update(zip(self.inputs, inputs, strict=True))
                given.update(zip(self.outputs, outputs, strict=True))
                function(**{n: given[n] for n in names})

            own = name or (function.__name__ if function.__name__ != "_" else device)
            self._handle.add_kernel(device, own, list(dtypes) if dtypes is not None else None, run)
            return function

        return decorate

    def gradient(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`@op.gradient`: the inputs' gradients, one for each, None for none.

        It is written with mica's functions. Its parameters say what it reads, and nothing else is
        kept: `grad` (of several outputs `grad_y` and so on), inputs, outputs, values, and `needs`,
        which says for each input by name whether its gradient is wanted.
        """
        names = list(inspect.signature(function).parameters)
        cotangents = [f"grad_{o}" for o in self.outputs]
        if len(self.outputs) == 1:
            cotangents = ["grad"]
        known = [*cotangents, *self.inputs, *self.outputs, *self.values, "needs"]
        self._check_names(names, known, "gradient")

        def run(
            values: Any, grads: Any, inputs: Any, outputs: Any, needs: Any, specs: Any
        ) -> list[Any]:
            given = dict(zip(self.values, values, strict=True))
            given.update(zip(self.inputs, inputs, strict=True))
            given.update(zip(self.outputs, outputs, strict=True))
            for cotangent, g, s in zip(cotangents, grads, specs, strict=True):
                if g is None:
                    g = _mica.zeros(s.shape, dtype=s.dtype, device=s.device)
                given[cotangent] = g
            given["needs"] = dict(zip(self.inputs, needs, strict=True))
            result = function(**{n: given[n] for n in names})
            results = list(result) if isinstance(result, tuple | list) else [result]
            if len(results) != len(self.inputs):
                raise ValueError(
                    f"{self.name}: its gradient gave {len(results)} for {len(self.inputs)} inputs"
                )
            return results

        self._handle.set_gradient(
            run,
            [i for i, n in enumerate(self.inputs) if n in names],
            [i for i, n in enumerate(self.outputs) if n in names],
        )
        return function

    def kernels(self, device: str) -> list[str]:
        """The names of a device's kernels, in their order."""
        return list(_mica._kernel_names(self.name, device))

    def _check_names(self, names: list[str], known: list[str], what: str) -> None:
        for name in names:
            if name not in known:
                raise ValueError(
                    f"{self.name}: its {what} takes '{name}', which is none of {known}"
                )

    def __repr__(self) -> str:
        return f"<op {self.name}({', '.join(p.name for p in self._parameters)})>"


@overload
def op(rule: Callable[..., Any]) -> Op: ...
@overload
def op(
    rule: None = None,
    *,
    name: str | None = None,
    outputs: str | Sequence[str] = "y",
    mutates: Sequence[str] = (),
    dtypes: Sequence[Any] | None = None,
    precision: str = "any",
    images: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], Op]: ...
def op(
    rule: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    outputs: str | Sequence[str] = "y",
    mutates: Sequence[str] = (),
    dtypes: Sequence[Any] | None = None,
    precision: str = "any",
    images: Sequence[str] = (),
) -> Any:
    """An operator of one's own, from its rule: a function that is given the specs of the inputs
    (shape, dtype, device) and gives those of the outputs, as specs or pairs (shape, dtype).

    Parameters annotated as bool, int, float, str or tuple are values, others tensors. `@op.kernel`
    gives it kernels and `@op.gradient` a gradient. `mutates` names inputs that kernels write to,
    `precision` is what autocast does with it (any, low, f32, widest), `images` names tensors
    (N, C, H, W) that may come in channels_last.
    """

    def decorate(function: Callable[..., Any]) -> Op:
        return Op(
            function,
            name=name,
            outputs=outputs,
            mutates=mutates,
            dtypes=dtypes,
            precision=precision,
            images=images,
        )

    return decorate if rule is None else decorate(rule)


def load_ops(path: str | os.PathLike[str]) -> SimpleNamespace:
    """Opens a shared library with operators of its own (MICA_REGISTER_OPS) and gives its functions
    as attributes; `ops` names its operators. It stays open as long as the process."""
    ops, functions = _mica._load_ops(path)
    return SimpleNamespace(ops=ops, **functions)
