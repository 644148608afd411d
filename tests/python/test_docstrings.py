"""Every public function, class, method and property says what it does."""

import inspect
import re
from types import ModuleType

import mica
import mica.nn.functional as F
import pytest

OWNERS = [mica, F, mica.nn, mica.nn.init, mica.nn.utils, mica.optim, mica.data, mica.train]
OWNERS += [mica.io, mica.linalg, mica.models, mica.autograd, mica.cuda]
SIGNATURE = re.compile(r"\w*\(.*\) -> .+")


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
    """The docstring without the signatures in front of it."""
    lines = (value.__doc__ or "").splitlines()
    return " ".join(line for line in lines if not SIGNATURE.fullmatch(line)).strip()


@pytest.mark.parametrize("owner", OWNERS + classes(), ids=lambda owner: owner.__name__)
def test_everything_public_says_what_it_does(owner):
    assert [name for name, value in public(owner) if not text(value)] == []


def test_every_function_is_where_its_room_offers_it():
    places = {
        "mica": mica,
        "Tensor": mica.Tensor,
        "mica.nn.functional": F,
        "mica.distributed": mica.distributed,
        "mica.fft": mica.fft,
        "mica.linalg": mica.linalg,
    }
    functions = mica._mica._functions()
    assert len(functions) > 280
    for entry in functions:
        for full in (entry["name"], *entry["second_names"]):
            name = full.rpartition(".")[2]
            for place in entry["places"]:
                function = vars(places[place])[name]
                assert function.__name__ == name
                assert name + "(" in function.__signatures__[0]
            assert not entry["in_place"] or hasattr(mica.Tensor, name + "_")
        assert entry["precision"] in ("any", "low", "f32", "widest")
