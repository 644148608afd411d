"""Every operator and every function that is made of them has an entry in tests/oracle or a reason
why not. JAX is not needed for this: something that is like anything stands in for it."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
from mica import _mica

ORACLE = Path(__file__).resolve().parents[1] / "oracle"
OPERATORS = _mica._ops()  # before a test has added one of its own
MODULES = ("jax", "jax.numpy", "jax.nn", "jax.lax", "jax.scipy", "jax.scipy.special", "ml_dtypes")


class Anything(ModuleType):
    """A module, a function and a number, whichever is asked for."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name)

    def __call__(self, *args, **kwargs):
        return self

    def _operator(self, *_):
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _operator
    __rtruediv__ = __pow__ = __rpow__ = __neg__ = __getitem__ = _operator


@pytest.fixture
def table(monkeypatch):
    if not ORACLE.exists():
        pytest.skip("tests/oracle is not here")
    monkeypatch.syspath_prepend(ORACLE)
    before = set(sys.modules)
    for name in MODULES:
        monkeypatch.setitem(sys.modules, name, Anything(name))
    yield importlib.import_module("table")
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).parent == ORACLE:
            del sys.modules[name]


def test_everything_is_compared_or_has_a_reason(table):
    assert table.uncovered(OPERATORS) == []


def test_what_is_missing_is_named(table, monkeypatch):
    monkeypatch.delitem(table.TABLE, "addmm")
    monkeypatch.setitem(table.WITHOUT, "no_such_op", "because")
    assert table.uncovered(OPERATORS) == [
        "addmm: no entry in tests/oracle, and no reason in table.py why not",
        "no_such_op: in tests/oracle, but no operator",
    ]
