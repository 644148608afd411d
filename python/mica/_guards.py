"""What a function reads of Python while it is captured: closures, globals, attributes, numbers
among its arguments.

Before a capture everything the function can reach by a name is looked at. Afterwards what its code
really named stays as guards, which a call compares before it replays; see docs/compile.md. A tensor
that the function binds anew, and a number that keeps changing, become places: each run reads or
writes them.
"""

import dis
import functools
import operator
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from mica._mica import CompiledFunction as _CompiledFunction
from mica._mica import (
    Tensor,
    _capture_effect,
    _capture_input,
    _is_traced,
    _same_tensor,
    _to_now,
    tensor,
)
from mica._mica import nn as _nn

_NUMBERS = (bool, int, float)
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType, property)
_MOST_LOOKED_AT = 50_000
_VALUES_OF_A_PLACE = 3  # a number with more of them is read anew at each call


def _is_own_code(module: object) -> bool:
    """Whether the code of a module is the user's: not mica's, not the standard library's."""
    top = str(module).partition(".")[0]
    return top not in ("mica", "numpy", "nanobind") and top not in sys.stdlib_module_names


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


@functools.lru_cache(maxsize=1000)
def _globals_of(code: types.CodeType) -> frozenset[str]:
    return frozenset(
        i.argval
        for c in _codes(code)
        for i in dis.get_instructions(c)
        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    )


class _Guard:
    """A place where a name leads, and what was there."""

    def __init__(self, kind: str, holder: Any, key: Any, value: Any, tag: str | None) -> None:
        self.kind = kind  # "item" of a dict, "attr" of an object, "sequence", "length", "module"
        self.holder = holder
        self.key = key
        self.value = value
        self.tag = tag  # the name that leads there; None for what is always looked at

    @property
    def place(self) -> tuple[int, Any]:
        return id(self.holder), self.key

    def get(self) -> Any:
        if self.kind == "item":
            return self.holder.get(self.key)
        return getattr(self.holder, self.key, None)

    def set(self, value: Any) -> None:
        if self.kind == "item":
            self.holder[self.key] = value
        else:
            setattr(self.holder, self.key, value)


class _Walk:
    """Finds guards for all that a function can reach."""

    def __init__(self, function: Any) -> None:
        self.guards: list[_Guard] = []
        self.seen: dict[int, Any] = {}
        self.types: set[type] = set()
        self.value(function, None)

    def place(self, kind: str, holder: Any, key: Any, value: Any, tag: str | None) -> None:
        self.guards.append(_Guard(kind, holder, key, value, tag))
        self.value(value, tag)

    def value(self, value: Any, tag: str | None) -> None:
        if value is None or isinstance(value, (*_NUMBERS, str, bytes, Tensor)):
            return
        if id(value) in self.seen or len(self.seen) > _MOST_LOOKED_AT:
            return
        self.seen[id(value)] = value
        if isinstance(value, types.FunctionType):
            self.function(value)
        elif isinstance(value, types.MethodType):
            self.value(value.__self__, tag)
            self.value(value.__func__, tag)
        elif isinstance(value, functools.partial):
            self.value(value.func, tag)
            self.value(value.args, tag)
            self.value(value.keywords, tag)
        elif isinstance(value, _CompiledFunction):
            self.value(value.__wrapped__, tag)
        elif isinstance(value, _nn.Module):
            for module in value.modules():
                self.module(module)
        elif isinstance(value, (list, tuple)):
            self.guards.append(_Guard("sequence", value, None, tuple(value), tag))
            for item in value:
                self.value(item, tag)
        elif isinstance(value, dict):
            self.guards.append(_Guard("length", value, None, len(value), tag))
            for key, item in list(value.items()):
                self.place("item", value, key, item, tag)
        elif isinstance(value, types.ModuleType):
            if _is_own_code(value.__name__):
                self.names(value.__dict__)
        elif isinstance(value, type):
            self.type(value)
        elif _is_own_code(type(value).__module__) or type(value).__name__.endswith("Namespace"):
            self.instance(value)
        elif hasattr(value, "__wrapped__"):
            self.value(value.__wrapped__, tag)

    def function(self, function: types.FunctionType) -> None:
        for cell_name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                value = cell.cell_contents
            except ValueError:  # nothing is there yet
                continue
            self.place("attr", cell, "cell_contents", value, cell_name)
        if not _is_own_code(function.__module__):
            return
        for name in _globals_of(function.__code__):
            if name in function.__globals__:
                self.place("item", function.__globals__, name, function.__globals__[name], name)
        for default in (function.__defaults__, function.__kwdefaults__):
            self.value(default, function.__name__)

    def names(self, scope: dict[str, Any]) -> None:
        for name, value in list(scope.items()):
            if not name.startswith("__"):
                self.place("item", scope, name, value, name)

    def type(self, klass: type, holder: Any = None) -> None:
        """Methods and data of a class, as `holder`, an instance, finds them."""
        for base in klass.__mro__:
            if not _is_own_code(base.__module__):
                continue
            known = base in self.types
            self.types.add(base)
            for name, value in list(vars(base).items()):
                inner = getattr(value, "__func__", getattr(value, "fget", value))
                if isinstance(inner, types.FunctionType):
                    if not known:
                        self.value(inner, name)
                elif not name.startswith("__") and not isinstance(value, _DESCRIPTORS):
                    own = klass if holder is None else holder
                    if name not in getattr(own, "__dict__", ()):
                        self.place("attr", own, name, getattr(own, name, None), name)
                    if not known:
                        self.place("attr", base, name, value, name)

    def instance(self, value: Any) -> None:
        self.seen[id(type(value))] = type(value)
        self.type(type(value), value)
        if isinstance(getattr(value, "__dict__", None), dict):
            self.names(value.__dict__)
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(value, name):
                    self.place("attr", value, name, getattr(value, name), name)

    def module(self, module: Any) -> None:
        self.seen[id(module)] = module
        self.guards.append(_Guard("module", module, frozenset(), None, None))
        if type(module).__module__.partition(".")[0] == "mica":
            return
        for name, buffer in module.named_buffers(recurse=False):
            self.guards.append(_Guard("attr", module, name, buffer, name))
        self.instance(module)


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return bool(_same_tensor(a, b))
    return type(a) is type(b) and isinstance(a, (*_NUMBERS, str)) and a == b


class _Number:
    """A number that a run reads from its place: what Python computes with it is computed again.

    Whatever needs its value now (a comparison, a size, a parameter of an operator) is given it, and
    then the number is guarded as others are.
    """

    __slots__ = ("_compute", "_session", "_sources", "_value")

    def __init__(
        self, session: "Session", sources: frozenset[tuple[int, Any]], value: Any, compute: Any
    ) -> None:
        self._session = session
        self._sources = sources
        self._value = value
        self._compute = compute

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._value)

    def _mica_operand(self, like: Tensor) -> Tensor:
        """Beside a tensor: a 0-d tensor of the dtype that the number would take there."""
        return self._session.operand(self, like)

    def _now(self) -> Any:
        self._session.concrete |= self._sources
        return self._value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._now(), name)


def _constant(value: Any) -> Any:
    return value


def _arithmetic(name: str) -> None:
    function = getattr(operator, name)

    def compute(a: Any, b: Any) -> Any:
        session = (a if type(a) is _Number else b)._session
        sources = frozenset[tuple[int, Any]]()
        values, computes = [], []
        for x in (a, b):
            if type(x) is _Number:
                sources |= x._sources
                values.append(x._value)
                computes.append(x._compute)
            else:
                values.append(x)
                computes.append(functools.partial(_constant, x))
        return _Number(
            session, sources, function(*values), lambda: function(computes[0](), computes[1]())
        )

    def forward(self: _Number, other: Any) -> Any:
        if type(other) is not _Number and type(other) not in _NUMBERS:
            return NotImplemented
        return compute(self, other)

    def reflected(self: _Number, other: Any) -> Any:
        return compute(other, self) if type(other) in _NUMBERS else NotImplemented

    setattr(_Number, f"__{name}__", forward)
    setattr(_Number, f"__r{name}__", reflected)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _arithmetic(_name)


def _unary(name: str) -> None:
    function = getattr(operator, name)

    def compute(self: _Number) -> _Number:
        return _Number(
            self._session, self._sources, function(self._value), lambda: function(self._compute())
        )

    setattr(_Number, f"__{name}__", compute)


for _name in ("neg", "pos", "abs"):
    _unary(_name)


def _concrete(name: str) -> None:
    def value(self: _Number, *arguments: Any) -> Any:
        others = [a._now() if type(a) is _Number else a for a in arguments]
        return getattr(self._now(), name)(*others)

    setattr(_Number, name, value)


for _name in (
    *("__bool__", "__float__", "__int__", "__index__", "__round__", "__trunc__", "__floor__"),
    *("__ceil__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"),
    *("__repr__", "__str__", "__format__", "__divmod__"),
):
    _concrete(_name)


class _Callback:
    """Something for C++ to call, which does not keep what it belongs to: the collector sees only
    Python's references."""

    __slots__ = ("number", "session")

    def __init__(self, session: "Session", function: Callable[..., Any]) -> None:
        self.session = weakref.ref(session)
        self.number = len(session.callbacks)
        session.callbacks.append(function)

    def __call__(self, *arguments: Any) -> Any:
        session = self.session()
        return session.callbacks[self.number](*arguments) if session else None


class Session:
    """One capture of a function. `memory` is kept from capture to capture."""

    def __init__(
        self,
        function: Any,
        memory: dict[Any, Any],
        numbers: dict[int, Any],
        places: list[int],
    ) -> None:
        self.memory = memory
        self.numbers = numbers  # among the arguments
        self.found = [_Guard("item", numbers, i, numbers[i], None) for i in places]
        self.found += _Walk(function).guards
        self.concrete: frozenset[tuple[int, Any]] = frozenset()
        self.operands: dict[Any, Any] = {}
        self.replaced: list[_Guard] = []
        self.guards: list[tuple[str, Any, Any, Any, str]] = []
        self.callbacks: list[Callable[..., Any]] = []

    def operand(self, number: _Number, like: Tensor) -> Tensor:
        value = number._value
        dtype: Any = like.dtype
        if not like.is_floating_point():
            if isinstance(value, float):
                dtype = "float32"
            elif str(dtype).endswith("bool"):
                dtype = "int64"

        def read() -> Tensor:
            return tensor(number._compute(), dtype=dtype, device=like.device)

        key = (id(number), str(dtype))
        if key not in self.operands:
            now = _to_now(tensor(value, dtype=dtype), like.device)
            self.operands[key] = _capture_input(now, _Callback(self, read), "a number of Python")
            self.operands[id(number)] = number
        operand: Tensor = self.operands[key]
        return operand

    def run(self, call: Callable[[], None]) -> None:
        """Calls the function, with places in the stead of what they hold, and finds the guards."""
        self._put_places()
        codes: set[types.CodeType] = set()

        def watch(frame: types.FrameType, event: str, _: Any) -> None:
            if event == "call":
                codes.add(frame.f_code)

        before = sys.getprofile()
        sys.setprofile(watch)
        try:
            call()
        finally:
            sys.setprofile(before)
            self._finish(codes)

    def _put_places(self) -> None:
        for guard in self.found:
            kind = self.memory.get(guard.place)
            if guard.kind not in ("item", "attr") or not isinstance(kind, str):
                continue
            if kind == "tensor" and isinstance(guard.value, Tensor):
                read = _Callback(self, guard.get)
                stand_in: Any = _capture_input(guard.value, read, f"the tensor {guard.tag}")
            elif kind == "number" and type(guard.value) in _NUMBERS:
                stand_in = _Number(self, frozenset([guard.place]), guard.value, guard.get)
            else:
                continue
            self.replaced.append(guard)
            self.operands[guard.place] = stand_in
            guard.set(stand_in)

    def _finish(self, codes: set[types.CodeType]) -> None:
        named: set[str] = set()
        for code in codes:
            named.update(code.co_names, code.co_freevars)
        kept = [g for g in self.found if g.tag is None or g.tag in named]
        computes: list[tuple[_Guard, Callable[[], Any]]] = []
        bound: dict[int, set[str]] = {}
        for guard in kept:
            if guard.kind not in ("item", "attr"):
                continue
            now = guard.get()
            before = self.operands.get(guard.place, guard.value)
            if type(now) is _Number:
                if now is not before:
                    computes.append((guard, now._compute))
                guard.set(guard.value)
            elif _same(now, before):
                continue
            elif isinstance(now, Tensor) and _is_traced(now):
                # The function bound it anew: each run does, and reads what the one before left.
                if isinstance(guard.value, Tensor):
                    self.memory[guard.place] = "tensor"
                _capture_effect(now, _Callback(self, guard.set))
                guard.set(guard.value)
            elif now is None or isinstance(now, (*_NUMBERS, str, Tensor)):
                computes.append((guard, functools.partial(_constant, now)))
        for guard in self.replaced:
            if _same(guard.get(), self.operands[guard.place]):
                guard.set(guard.value)
            if isinstance(guard.holder, _nn.Module):
                bound.setdefault(id(guard.holder), set()).add(guard.key)
        if computes:

            def assign(_: Any) -> None:
                values = [compute() for _, compute in computes]
                for (place, _), value in zip(computes, values, strict=True):
                    place.set(value)

            _capture_effect(None, _Callback(self, assign))
        self._make_guards(kept, bound)
        self.found = []
        if self.callbacks:
            self.guards.append(("keep", self, None, None, ""))

    def _make_guards(self, kept: list[_Guard], bound: dict[int, set[str]]) -> None:
        places = {g.place for g in self.replaced} - self.concrete
        for place in self.concrete:
            self.memory[place] = None  # its value is needed at capture
        for guard in kept:
            text = f"{guard.tag} is another" if guard.tag else "a module has other parts"
            if guard.holder is self.numbers:
                text = "a number among the arguments is another"
            if guard.kind == "module":
                skipped = frozenset(bound.get(id(guard.holder), ()))
                self.guards.append(("module", guard.holder, skipped, None, text))
                continue
            if guard.kind in ("item", "attr"):
                if isinstance(guard.holder, _nn.Module) and isinstance(guard.value, Tensor):
                    continue  # the module's own guard knows it
                if guard.place in places:
                    if not isinstance(guard.value, Tensor):
                        self.guards.append(
                            (f"{guard.kind} type", guard.holder, guard.key, guard.value, text)
                        )
                    continue
                self._count(guard)
            self.guards.append((guard.kind, guard.holder, guard.key, guard.value, text))

    def _count(self, guard: _Guard) -> None:
        if type(guard.value) not in (int, float):
            return
        values = self.memory.setdefault(guard.place, set())
        if isinstance(values, set):
            values.add(guard.value)
            if len(values) >= _VALUES_OF_A_PLACE:
                self.memory[guard.place] = "number"
