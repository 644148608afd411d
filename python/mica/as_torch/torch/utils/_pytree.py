"""torch.utils._pytree: trees of lists, tuples and dicts."""

from __future__ import annotations

from typing import Any


def tree_flatten(tree: Any) -> tuple[list[Any], Any]:
    if isinstance(tree, dict):
        parts = [tree_flatten(v) for v in tree.values()]
        spec = (type(tree), list(tree), [s for _, s in parts])
    elif isinstance(tree, list | tuple):
        parts = [tree_flatten(v) for v in tree]
        spec = (type(tree), None, [s for _, s in parts])
    else:
        return [tree], None
    return [leaf for leaves, _ in parts for leaf in leaves], spec


def tree_unflatten(leaves: Any, spec: Any) -> Any:
    given = iter(leaves)

    def build(spec: Any) -> Any:
        if spec is None:
            return next(given)
        kind, keys, parts = spec
        values = [build(part) for part in parts]
        if keys is not None:
            return kind(zip(keys, values, strict=True))
        return kind(*values) if hasattr(kind, "_fields") else kind(values)

    return build(spec)


def tree_map(function: Any, tree: Any) -> Any:
    leaves, spec = tree_flatten(tree)
    return tree_unflatten([function(leaf) for leaf in leaves], spec)


TreeSpec = object  # for annotations
