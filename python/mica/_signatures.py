"""Signatures of what is bound from C++, for inspect.signature."""

from __future__ import annotations

import ast
import inspect
from typing import Any

_KINDS = inspect._ParameterKind


def _parse(text: str, defaults: tuple[Any, ...] | None) -> inspect.Signature:
    """From a text as stubs write it; where nanobind has defaults it says `\\0`, `\\1`, …."""
    values = list(defaults or ())
    for i in reversed(range(len(values))):
        text = text.replace(f"\\{i}", f"_value_{i}")
    head = text if text.startswith("def ") else f"def {text}"
    function = ast.parse(head + ": ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args

    def default(node: ast.expr | None) -> Any:
        if node is None:
            return inspect.Parameter.empty
        if isinstance(node, ast.Name) and node.id.startswith("_value_"):
            return values[int(node.id.removeprefix("_value_"))]
        return ast.literal_eval(node)

    def parameter(given: ast.arg, kind: Any, node: ast.expr | None = None) -> inspect.Parameter:
        annotation = ast.unparse(given.annotation) if given.annotation else inspect.Parameter.empty
        return inspect.Parameter(given.arg, kind, default=default(node), annotation=annotation)

    made = []
    plain = [*arguments.posonlyargs, *arguments.args]
    absent: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    for given, node in zip(plain, [*absent, *arguments.defaults], strict=True):
        kind = _KINDS.POSITIONAL_ONLY if given in arguments.posonlyargs else None
        made.append(parameter(given, kind or _KINDS.POSITIONAL_OR_KEYWORD, node))
    if arguments.vararg:
        made.append(parameter(arguments.vararg, _KINDS.VAR_POSITIONAL))
    for given, node in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        made.append(parameter(given, _KINDS.KEYWORD_ONLY, node))
    if arguments.kwarg:
        made.append(parameter(arguments.kwarg, _KINDS.VAR_KEYWORD))
    returns = ast.unparse(function.returns) if function.returns else inspect.Signature.empty
    return inspect.Signature(made, return_annotation=returns)


def of_function(function: Any) -> inspect.Signature:
    """Of one of mica's functions: its first way to be called."""
    return _parse(function.__signatures__[0], None)


def of_bound(function: Any) -> inspect.Signature:
    """Of a function or method that nanobind made: its first overload."""
    text, _, *defaults = function.__nb_signature__[0]
    return _parse(text, defaults[0] if defaults else None)


class OfClass:
    """`__signature__` of a class from C++, of its constructor; classes derived from it have their
    own."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type) -> inspect.Signature | None:
        if instance is not None or owner is not self._cls:
            return None  # inspect looks further then
        made = of_bound(getattr(owner, "__init__"))  # noqa: B009
        return made.replace(parameters=list(made.parameters.values())[1:])


def add_to(*modules: Any) -> None:
    """Gives the classes of modules their signatures."""
    for module in modules:
        for cls in vars(module).values():
            if isinstance(cls, type) and type(vars(cls).get("__init__")).__name__ == "nb_method":
                setattr(cls, "__signature__", OfClass(cls))  # noqa: B010
