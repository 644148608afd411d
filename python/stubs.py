"""Writes the type stubs of a built package: python stubs.py FOLDER_OF_NANOBIND FOLDER_OF_MICA.

nanobind's stubgen knows the signatures. It does not know that names such as mica.bool and
Tensor.float hide Python's own from the lines around them, nor what to write where C++ says object,
nor the package's own list of names: that is done here.
"""

import ast
import importlib
import inspect
import re
import shutil
import sys
from pathlib import Path
from types import FunctionType, ModuleType

HIDDEN = {"bool", "bytes", "float", "int"}  # by methods of Tensor and dtypes of the same names
HIDDEN_BY_TENSOR = {"device", "dtype", "memory_format"}  # by its properties
BARE = {
    "tuple": "tuple[Any, ...]",
    "dict": "dict[str, Any]",
    "os.PathLike": "os.PathLike[str]",
    **{name: f"{name}[Any]" for name in ("list", "set", "Iterable", "Iterator", "Sequence")},
}
ARRAY, TENSOR = "_numpy.ndarray[Any, Any]", "mica._mica.Tensor"
# What C++ returns as `object` or `tuple`; else Any. Operators and names ending in _ give tensors.
RETURNS = {
    **dict.fromkeys(("__array__", "numpy"), ARRAY),
    "__index__": "builtins.int",
    "__iter__": "Iterator[Tensor]",
    "compile": "CompiledFunction",
}
OPERATOR = re.compile(
    "__[ir]?(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift|eq|ne|lt|le|gt|ge)__"
)
# Methods of Module that return it.
ITSELF = {"to", "cpu", "cuda", "train", "eval", "freeze", "unfreeze", "requires_grad_", "apply"}
ITSELF |= {"float", "double", "half", "bfloat16"}
HEADER = """import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import mica._mica
import numpy as _numpy

"""


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


class Annotation(ast.NodeTransformer):
    def __init__(self, module: str):
        self.names = BARE | {name: f"builtins.{name}" for name in HIDDEN}
        if module == "mica":
            self.names |= {name: f"mica._mica.{name}" for name in HIDDEN_BY_TENSOR}

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node.slice = self.visit(node.slice)  # the tuple of tuple[int] is not bare
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        text = ast.unparse(node)
        if text.startswith("mica."):
            return expression(text.replace("mica.", "mica._mica.", 1))
        return expression(BARE[text]) if text in BARE else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return expression(self.names[node.id]) if node.id in self.names else node


class Stub(ast.NodeTransformer):
    """What stubgen wrote, with names that mean what they say and no untyped argument."""

    def __init__(self, module: str):
        self.module = module
        self.annotation = Annotation(module)

    def returned(self, function: str) -> str:
        if self.module == "mica":
            gives_tensor = OPERATOR.fullmatch(function) or re.fullmatch("[a-z].*_", function)
            return TENSOR if gives_tensor else RETURNS.get(function, "Any")
        return "Self" if self.module == "mica.nn" and function in ITSELF else "Any"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if (node.module or "").split(".")[0] == "mica" else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        arguments = node.args
        for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            if argument.annotation:
                argument.annotation = self.annotation.visit(argument.annotation)
        for argument in filter(None, [arguments.vararg, arguments.kwarg]):
            given = argument.annotation
            argument.annotation = self.annotation.visit(given) if given else expression("Any")
        for defaults in (arguments.defaults, arguments.kw_defaults):
            defaults[:] = [
                d if d is None or isinstance(d, ast.Constant) else expression("...")
                for d in defaults
            ]
        if node.returns and ast.unparse(node.returns) in ("object", "tuple"):
            node.returns = expression(self.returned(node.name))
        elif node.returns:
            node.returns = self.annotation.visit(node.returns)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = self.annotation.visit(node.annotation)
        if ast.unparse(node.annotation) == BARE["tuple"]:
            node.value = expression("...")  # stubgen writes a tuple of one number as a number
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        own = expression(f"builtins.{node.name}")
        node.bases = [
            own if ast.unparse(base) == node.name else self.annotation.visit(base)
            for base in node.bases
        ]
        return node


def named_tuples(module: ModuleType) -> str:
    """The classes that C++ makes with collections.namedtuple."""
    return "".join(
        f"class {name}(NamedTuple):\n"
        + "".join(f"    {field}: mica._mica.Tensor\n" for field in value._fields)
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, tuple)
    )


def reexports(package: ModuleType, extension: ModuleType) -> str:
    """The names of the package itself, each with where it comes from."""
    lines = [f'"""{package.__doc__}"""\nimport builtins\n']
    for name in package.__all__:
        value = getattr(package, name)
        if isinstance(value, ModuleType):
            lines.append(f"from mica import {name} as {name}\n")
        elif value is None or isinstance(value, float):
            lines.append(f"{name}: {'None' if value is None else 'builtins.float'}\n")
        elif isinstance(value, extension.dtype):
            own = next(n for n, found in vars(extension).items() if found is value)
            lines.append(f"from mica._mica import {own} as {name}\n")
        elif value is getattr(extension, name, None):
            lines.append(f"from mica._mica import {name} as {name}\n")
        else:
            lines.append(f"from {value.__module__} import {value.__qualname__} as {name}\n")
    return "".join(lines)


def plain_signature(function: FunctionType) -> str:
    """Of a function of Python, whose annotations are texts."""
    signature = inspect.signature(function)
    marks = {p.annotation: f"_{i}_" for i, p in enumerate(signature.parameters.values())}
    marks[signature.return_annotation] = "_r_"
    text = str(signature)
    for annotation, mark in marks.items():
        if isinstance(annotation, str):
            text = text.replace(f": {annotation!r}", f": {mark}").replace(
                f"-> {annotation!r}", f"-> {mark}"
            )
    for annotation, mark in marks.items():
        text = text.replace(mark, str(annotation))
    return text


def with_functions(stub_gen: type) -> type:
    """A generator that also knows the functions that rooms describe: they tell their signatures."""

    class Generator(stub_gen):
        def put_python(self, name: str, value: object) -> None:
            """A method or property that the package gives a class of C++."""
            function = value.fget if isinstance(value, property) else value
            if isinstance(value, property):
                self.write_ln("@property")
            self.write_ln(f"def {name}{plain_signature(function)}:")
            self.depth += 1
            self.put_docstr(function.__doc__)
            self.depth -= 1
            self.write("\n")

        def put(self, value: object, name: str | None = None, parent: object = None) -> None:
            if name == "__signature__":  # which inspect reads
                return
            function = value.fget if isinstance(value, property) else value
            of_package = isinstance(function, FunctionType) and function.__module__.startswith(
                "mica."
            )
            if isinstance(parent, type) and of_package:
                self.put_python(name, value)
                return
            signatures = getattr(value, "__signatures__", None)
            if signatures is None or isinstance(value, type):
                super().put(value, name, parent)
                return
            for i, signature in enumerate(signatures):
                if len(signatures) > 1:
                    self.write_ln(f"@{self.bind('typing', 'overload')}")
                signature = signature.replace("collections.abc.", "").partition("(")[2]
                self.write_ln(f"def {name or value.__name__}({signature}:")
                self.depth += 1
                if i + 1 == len(signatures):
                    self.put_docstr(value.__doc__.partition("\n\n")[2])
                else:
                    self.write_ln("...")
                self.depth -= 1
                self.write("\n")

    return Generator


def write(module: ModuleType, path: Path, stub_gen: type) -> None:
    """The stub of a module at path.pyi, or of one that has modules at path/__init__.pyi."""
    parts = {name: value for name, value in vars(module).items() if isinstance(value, ModuleType)}
    generator = stub_gen(module=module, include_private=True)  # add_ counts as private there
    generator.put(module)
    tree = Stub(module.__name__).visit(ast.parse(generator.get()))
    text = HEADER + "".join(f"from . import {name} as {name}\n" for name in parts)
    text += named_tuples(module) + ast.unparse(tree) + "\n"
    if hasattr(module, "__version__"):
        text += "__version__: str\n"
    file = path / "__init__.pyi" if parts else path.with_suffix(".pyi")
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    for name, part in parts.items():
        write(part, path / name, stub_gen)


def main() -> None:
    nanobind, package = map(Path, sys.argv[1:])
    sys.path[:0] = [str(nanobind), str(package.parent)]
    stub_gen = with_functions(importlib.import_module("stubgen").StubGen)
    extension = importlib.import_module("mica._mica")
    shutil.rmtree(package / "_mica", ignore_errors=True)
    write(extension, package / "_mica", stub_gen)
    (package / "__init__.pyi").write_text(reexports(importlib.import_module("mica"), extension))


main()
