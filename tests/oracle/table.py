"""The one table: an operator's name, or that and a word on its arguments, to how it is compared."""

import re

import elementwise
import indexing
import layers
import linear
import losses
import reductions
import sampling
import shapes
import updates
from mica import _mica

FAMILIES = (elementwise, reductions, linear, layers, sampling, losses, shapes, indexing, updates)
TABLE = {name: entry for family in FAMILIES for name, entry in family.TABLE.items()}

# Operators without an entry, and why.
WITHOUT = {
    "rng_take": "counters of mica's own generator",
    "uniform": "random numbers of mica's own generator",
    "normal": "random numbers of mica's own generator",
    "randint": "random numbers of mica's own generator",
    "dropout": "random numbers of mica's own generator",
    "fused": "what compiled functions make of elementwise chains",
    "nonzero_ends": "a part of nonzero",
    "schedule_lr": "a part of an optimizer's step; compared in its own tests",
    "adam_update": "a step of an optimizer; compared in its own tests",
    "rmsprop_update": "a step of an optimizer; compared in its own tests",
    "adagrad_update": "a step of an optimizer; compared in its own tests",
    "total_norm": "a part of clip_grad_norm_; compared in its own tests",
    "clip_by_norm": "a part of clip_grad_norm_; compared in its own tests",
    "clip_by_value": "a part of clip_grad_value_; compared in its own tests",
}


def uncovered():
    """What is missing. Gradients that are operators are compared through the ones they are of."""
    entries = {}
    for name, entry in TABLE.items():
        entries.setdefault(name.split(" ")[0], []).append(entry)
    lines = []
    for op in _mica._ops():
        name = op["name"]
        base = re.sub("_[dw]?grad$", "", name)
        if base not in entries and name not in WITHOUT:
            lines.append(f"{name}: no entry in tests/oracle, and no reason in table.py why not")
        compared = any(e.compares_gradients for e in entries.get(name, ()))
        if name in entries and op["differentiable"] and not op["composite"] and not compared:
            lines.append(f"{name}: it has a gradient that no entry compares")
    known = {op["name"] for op in _mica._ops()}
    extra = [name for name in (*entries, *WITHOUT) if name not in known]
    return lines + [f"{name}: in tests/oracle, but no operator" for name in extra]
