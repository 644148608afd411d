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
from mica import _mica

FAMILIES = (elementwise, reductions, linear, layers, sampling, losses, shapes, indexing)
TABLE = {name: entry for family in FAMILIES for name, entry in family.TABLE.items()}

# Operators without an entry, and why.
WITHOUT = {
    "rng_take": "counters of mica's own generator",
    "uniform": "random numbers of mica's own generator",
    "normal": "random numbers of mica's own generator",
    "randint": "random numbers of mica's own generator",
    "dropout": "random numbers of mica's own generator",
    "local_response_norm": "JAX has none; it is made of pooling and powers, which are compared",
    "nonzero_ends": "a part of nonzero",
    "sgd_update": "a step of an optimizer; compared in the tests of training",
}


def uncovered():
    """Operators without an entry and a reason. Gradients are compared with their operator's."""
    covered = {name.split(" ")[0] for name in TABLE} | set(WITHOUT)
    lines = []
    for op in _mica._ops():
        name = op["name"]
        base = re.sub("_[dw]?grad$", "", name)
        if name not in covered and (base == name or base not in covered):
            lines.append(f"{name}: no entry in tests/oracle, and no reason in table.py why not")
    known = {op["name"] for op in _mica._ops()}
    lines += [f"{n}: an entry in tests/oracle, but no operator" for n in covered if n not in known]
    return lines
