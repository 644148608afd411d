"""The C++ and the Python names are the same, but for what surface_differences.py says."""

import re
import types
from functools import cache, reduce

import mica
import pytest
import surface
import surface_differences as differences

if not (surface.INCLUDE / "mica" / "mica.h").exists():
    pytest.skip("the headers are not here", allow_module_level=True)

# Where the names of a C++ namespace are to be found.
SCOPES = {
    "mica": [mica, mica.nn.functional, mica.autograd, mica.cuda, mica.Tensor],
    "mica::data": [mica.data],
    "mica::io": [mica.io],
    "mica::models": [mica.models],
    "mica::nn": [mica.nn],
    "mica::nn::function": [mica.nn.functional],
    "mica::nn::init": [mica.nn.init],
    "mica::optim": [mica.optim],
    "mica::train": [mica.train],
}
MODULES = {scope.__name__: scope for scopes in SCOPES.values() for scope in scopes[:1]} | {
    scope.__name__: scope for scope in (mica.nn.functional, mica.autograd, mica.cuda)
}


@cache
def cpp_names():
    return surface.cpp_names()


def listed(table):
    return {name for names in table.values() for name in names.split()}


def find(path):
    return reduce(getattr, path.split("."), mica)


def public_names(module):
    """What a module offers, its own modules aside."""
    for name in getattr(module, "__all__", vars(module)):
        if not name.startswith("_") and not isinstance(getattr(module, name), types.ModuleType):
            yield name


def test_namespaces():
    assert set(cpp_names()) == set(SCOPES)
    assert sum(len(names) for names in cpp_names().values()) > 600


@pytest.mark.parametrize("namespace", SCOPES)
def test_python_has_what_cpp_has(namespace):
    absent = {
        name
        for name in cpp_names()[namespace]
        if not any(hasattr(scope, name) for scope in SCOPES[namespace])
        and not any(re.fullmatch(pattern, name) for pattern in differences.PATTERNS)
    }
    renamed = differences.RENAMED.get(namespace, {})
    known = set(renamed) | listed(differences.CPP_ONLY.get(namespace, {}))
    assert absent - known == set(), "give Python these names, or say why not"
    for name, path in renamed.items():
        assert name in cpp_names()[namespace], f"{name}: C++ has it no more"
        assert find(path) is not None
    left_out = listed(differences.CPP_ONLY.get(namespace, {}))
    assert left_out - absent == set(), "these are no differences any more"


@pytest.mark.parametrize("module", MODULES)
def test_cpp_has_what_python_has(module):
    everything = set().union(*cpp_names().values())
    own = set(public_names(MODULES[module])) - everything
    known = listed(differences.PYTHON_ONLY.get(module, {}))
    assert own - known == set(), "C++ has no such names: say why Python has"
    assert known - own == set(), "these are no differences any more"


def test_no_reason_is_given_twice():
    for tables in (differences.CPP_ONLY, differences.PYTHON_ONLY):
        for table in tables.values():
            names = [name for text in table.values() for name in text.split()]
            assert len(names) == len(set(names))
