"""torch.jit: a program runs as it is written; nothing is made a script of."""

from __future__ import annotations

from typing import Any


def script(obj: Any = None, *args: Any, **options: Any) -> Any:
    """The function or module itself, which computes the same."""
    return obj if obj is not None else lambda function: function


def trace(func: Any, example_inputs: Any = None, **options: Any) -> Any:
    """The function or module itself."""
    return func


def _same(function: Any = None, *args: Any, **options: Any) -> Any:
    return function if callable(function) else lambda given: given


ignore = unused = export = interface = script_if_tracing = _script_if_tracing = _same
_overload = _overload_method = _same
Final = Any
ScriptModule = type("ScriptModule", (), {})
ScriptFunction = type("ScriptFunction", (), {})


def is_scripting() -> bool:
    return False


def is_tracing() -> bool:
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    import builtins

    return builtins.isinstance(obj, target_type)
