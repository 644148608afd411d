"""Every public function, class, method and property says what it does, and every row of the tables
is somebody's."""

import inspect
import re
from pathlib import Path
from types import ModuleType

import mica
import mica.nn.functional as F
import pytest

OWNERS = [mica, F, mica.nn, mica.nn.init, mica.nn.utils, mica.optim, mica.data, mica.train]
OWNERS += [mica.io, mica.models, mica.autograd, mica.cuda]
SIGNATURE = re.compile(r"\w*\(.*\) -> .+")
TABLES = sorted((Path(__file__).resolve().parents[2] / "python" / "src").glob("docstrings*.cpp"))
ROW = re.compile(r'^    \{"(\w+)",', re.MULTILINE)


def public(owner):
    for name in dir(owner):
        value = getattr(owner, name)
        if name.startswith("_") or isinstance(value, ModuleType):
            continue
        if callable(value) or inspect.isdatadescriptor(value):
            yield name, value


def classes():
    found = {value: None for owner in OWNERS for _, value in public(owner)}
    own = [c for c in found if isinstance(c, type) and c.__module__.startswith("mica")]
    return [c for c in own if not issubclass(c, Exception)]


def text(value):
    """The docstring without the signatures that nanobind writes in front of it."""
    lines = (value.__doc__ or "").splitlines()
    return " ".join(line for line in lines if not SIGNATURE.fullmatch(line)).strip()


@pytest.mark.parametrize("owner", OWNERS + classes(), ids=lambda owner: owner.__name__)
def test_everything_public_says_what_it_does(owner):
    assert [name for name, value in public(owner) if not text(value)] == []


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_every_row_of_a_table_is_a_function_s(table):
    names = ROW.findall(table.read_text())
    assert len(names) > 50
    functions = {name: getattr(mica, name, None) or getattr(F, name, None) for name in names}
    assert [name for name, function in functions.items() if not function] == []
    # Overloads with different texts would be listed one by one.
    assert [name for name, f in functions.items() if "Overloaded" in f.__doc__] == []
