"""What a program names of torch, read from its text, and what of that is not there."""

from __future__ import annotations

import ast
import importlib
import os
from collections.abc import Iterable, Iterator

from mica import as_torch

Places = dict[str, list[str]]  # name: where it stands, "file:line"


class _Reader(ast.NodeVisitor):
    """Collects dotted names that begin with torch, through `import … as` and `from … import`."""

    def __init__(self) -> None:
        self.names: list[tuple[str, int]] = []
        self._known: dict[str, str] = {}  # a name of the program: what of torch it stands for

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.split(".")[0] == "torch":
                self.names.append((alias.name, node.lineno))
                self._known[alias.asname or "torch"] = alias.name if alias.asname else "torch"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or not node.module or node.module.split(".")[0] != "torch":
            return
        for alias in node.names:
            if alias.name == "*":
                self.names.append((node.module, node.lineno))
                continue
            name = f"{node.module}.{alias.name}"
            self.names.append((name, node.lineno))
            self._known[alias.asname or alias.name] = name

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            parts.insert(0, base.attr)
            base = base.value
        if isinstance(base, ast.Name) and base.id in self._known:
            self.names.append((".".join([self._known[base.id], *parts]), node.lineno))
        else:
            self.generic_visit(node)


def _is_there(name: str) -> bool:
    """Whether a dotted name can be reached. What follows a name that is no module is its own
    affair but for classes, whose attributes are known."""
    parts = name.split(".")
    found: object = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 2):
        if not hasattr(found, part):
            try:
                importlib.import_module(".".join(parts[:i]))
            except ImportError:
                return False
        found = getattr(found, part)
        if not hasattr(found, "__path__") and not isinstance(found, type | type(os)):
            return True
    return True


def _programs(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        if os.path.isdir(path):
            for folder, _, files in sorted(os.walk(path)):
                yield from (os.path.join(folder, f) for f in sorted(files) if f.endswith(".py"))
        else:
            yield path


def missing_names(paths: Iterable[str]) -> Places:
    """The names of torch that programs use and that are not there, with where they stand.

    They are read from the text: methods of tensors and keyword arguments are not among them.
    """
    as_torch.install()
    missing: Places = {}
    for path in _programs(paths):
        reader = _Reader()
        with open(path, encoding="utf-8") as file:
            reader.visit(ast.parse(file.read(), path))
        for name, line in reader.names:
            if not _is_there(name):
                places = missing.setdefault(name, [])
                place = f"{path}:{line}"
                if place not in places:
                    places.append(place)
    return missing


def describe(missing: Places) -> list[str]:
    """A line for each name."""
    if not missing:
        return ["every name of torch that the text uses is there"]
    shown = 3
    lines = []
    for name, places in sorted(missing.items()):
        more = f" and {len(places) - shown} more" if len(places) > shown else ""
        lines.append(f"{name}: not there ({', '.join(places[:shown])}{more})")
    return lines
