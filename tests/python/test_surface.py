"""The names of C++ and Python are the same, with their members and parameters, but for what
surface_differences.py says."""

import inspect
import re
import types
from collections import defaultdict
from functools import reduce

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
    "mica::inference": [mica.inference],
    "mica::io": [mica.io],
    "mica::linalg": [mica.linalg, mica],
    "mica::models": [mica.models],
    "mica::nn": [mica.nn, mica.nn.utils.rnn],
    "mica::nn::function": [mica.nn.functional],
    "mica::nn::init": [mica.nn.init],
    "mica::amp": [mica.amp],
    "mica::onnx": [mica.onnx],
    "mica::fft": [mica.fft],
    "mica::optim": [mica.optim],
    "mica::sparse": [mica.sparse],
    "mica::text": [mica.text],
    "mica::train": [mica.train],
}
MODULES = {scope.__name__: scope for scopes in SCOPES.values() for scope in scopes[:1]} | {
    scope.__name__: scope for scope in (mica.nn.functional, mica.autograd, mica.cuda)
}


def cpp_names():
    names = surface.read().names
    return {space: names[space] for space in names if not space.endswith("::detail")}


def listed(table):
    return {name for names in table.values() for name in names.split()}


def find(path):
    return reduce(getattr, path.split("."), mica)


def is_composed(name, value):
    """Whether Python makes it of what C++ has: such names are Python's alone."""
    function = value.fget if isinstance(value, property) else value
    places = ("mica._composed", "mica._generator", "mica._typed", "mica.nn._", "mica.nn.la")
    return (
        (name in mica._composed.functions and mica._composed.functions[name] is value)
        or name in vars(mica._composed.methods.Methods)
        or str(getattr(function, "__module__", "")).startswith(places)
    )


def public_names(module):
    """What a module offers, its own modules and what is composed in Python aside."""
    for name in getattr(module, "__all__", vars(module)):
        value = getattr(module, name)
        own = isinstance(value, types.ModuleType) or is_composed(name, value)
        if not name.startswith("_") and not own:
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


def classes():
    """(C++ class, path, Python class) of what both have."""
    for namespace, scopes in SCOPES.items():
        renamed = {path: name for name, path in differences.CLASSES.items()}
        for scope in scopes:
            for name in public_names(scope) if isinstance(scope, types.ModuleType) else ():
                value, path = getattr(scope, name), path_of(scope, name)
                found = surface.find_class(namespace, renamed.get(path, name))
                if isinstance(value, type) and found and path not in differences.NAMESAKES:
                    yield found, path, value


def path_of(scope, name):
    return f"{scope.__name__}.{name}".removeprefix("mica.")


def members_of(cls):
    """The public members of a C++ class by the class that declares them."""
    kin = [each for each in surface.kin_of(cls) if not surface.OPTIONS.fullmatch(each.name)]
    return {each.name: each.members for each in kin if each.name not in differences.VALUES}


def flat(table):
    """{"Tensor.item", …} of names by class."""
    return {f"{owner}.{name}" for owner, names in table.items() for name in names}


def test_python_has_the_members_that_cpp_has():
    absent = set()
    for cls, _, value in classes():
        for owner, members in members_of(cls).items():
            absent |= {f"{owner}.{name}" for name in members if not hasattr(value, name)}
    everywhere = listed(differences.MEMBERS_CPP_ONLY["*"])
    absent = {path for path in absent if path.partition(".")[2] not in everywhere}
    only = {o: listed(t) for o, t in differences.MEMBERS_CPP_ONLY.items() if o != "*"}
    known = flat(only) | flat(differences.MEMBERS_RENAMED)
    assert absent - known == set(), "give Python these members, or say why not"
    assert known - absent == set(), "these are no differences any more"


def test_cpp_has_the_members_that_python_has():
    own = {}
    for cls, path, value in classes():
        members = members_of(cls)
        renamed = [differences.MEMBERS_RENAMED.get(owner, {}).values() for owner in members]
        known = set().union(*members.values(), *renamed)
        assert all(hasattr(value, name) for names in renamed for name in names)
        if value is mica.Tensor:
            known |= cpp_names()["mica"]  # functions that are methods too
            for f in filter(lambda f: f["in_place"], mica._mica._functions()):
                known |= {name + "_" for name in (f["name"], *f["second_names"])}
        own[path] = {
            name
            for name, member in vars(value).items()
            if not name.startswith("_") and not is_composed(name, member)
        } - known
        if path.startswith("nn.") and "options" in set().union(*members.values()):
            plain = property | bool | str | float | tuple | None  # None: what it never has
            said = {name for name in own[path] if isinstance(vars(value)[name], plain)}
            own[path] -= said  # its options, by PyTorch's names
    known = {path: listed(table) for path, table in differences.MEMBERS_PYTHON_ONLY.items()}
    assert flat(own) - flat(known) == set(), "C++ has no such members: say why Python has"
    assert flat(known) - flat(own) == set(), "these are no differences any more"


def parameter_names(function):
    """Of a function of Python, or of all overloads of one that is bound."""
    signatures = getattr(function, "__signatures__", None)
    if signatures is None and hasattr(function, "__nb_signature__"):
        signatures = [text for text, *_ in function.__nb_signature__]
    if signatures is None:
        return set(inspect.signature(function).parameters) - {"self"}
    given = {p for text in signatures for p in surface.between(surface.in_brackets(text))}
    return {re.match(r"\**(\w*)", p)[1] for p in given} - {"self", ""}


def callables():
    """(path, names of the C++ parameters, Python function) of what can be called in both."""
    for (namespace, name), overloads in surface.read().functions.items():
        if namespace == "mica::nn::function" or namespace not in SCOPES:
            continue  # what layers call, and the inside of headers
        paths = [path_of(scope, name) for scope in SCOPES[namespace] if hasattr(scope, name)]
        renamed = differences.RENAMED.get(namespace, {}).get(name)
        if renamed and isinstance(
            find(renamed), (type(mica.relu), type(mica.is_tensor))
        ):  # no method
            paths.append(renamed)
        if paths and not isinstance(find(paths[0]), type):
            yield paths[0], surface.names_of(namespace, overloads), find(paths[0])
    for cls, path, value in classes():
        if not isinstance(value.__init__, types.WrapperDescriptorType):  # object's
            yield path, surface.constructor_names(cls), value.__init__
        for owner in surface.kin_of(cls):
            for name, overloads in owner.methods.items():
                if callable(vars(value).get(name)):
                    names = surface.names_of(owner.namespace, overloads)
                    yield f"{path}.{name}", names, vars(value)[name]


def test_parameters():
    cpp_names_of, functions = defaultdict(set), {}
    for path, cpp, function in callables():
        cpp_names_of[path] |= cpp
        functions[path] = function
    assert len(functions) > 500
    cpp_only, python_only, used = set(), set(), set()
    for path, function in functions.items():
        cpp = cpp_names_of[path]
        python = parameter_names(function) - set(differences.WITHOUT_EFFECT)
        if function.__name__ == "__init__" and not cpp and len(python) == 1:
            continue  # a layer's single value has no name in C++
        renamed = differences.PARAMETERS_RENAMED.get(path, {})
        rest = python - cpp
        for name in sorted(cpp - python, key=lambda name: (name not in renamed, name)):
            words = renamed.get(name) or differences.PARAMETER_WORDS.get(name, "")
            found = [word for word in words.split() if word in rest][:1]
            rest -= set(found)
            if not found:
                cpp_only.add(f"{path}.{name}")
            else:
                used.add(f"{path}.{name}" if name in renamed else name)
        python_only |= {f"{path}.{name}" for name in rest}
    renamed = flat(differences.PARAMETERS_RENAMED) | set(differences.PARAMETER_WORDS)
    for found, known, words in (
        (cpp_only, listed(differences.PARAMETERS_CPP_ONLY), "give Python these, or say why not"),
        (python_only, listed(differences.PARAMETERS_PYTHON_ONLY), "say why Python has these"),
        (used, renamed, "these are not renamed"),
    ):
        assert found - known == set(), words
        assert known - found == set(), "these are no differences any more"


def test_dictionaries_have_what_structs_have():
    assert set(mica.memory_stats()) == surface.find_class("mica", "MemoryStats").members


def test_no_reason_is_given_twice():
    d = differences
    by_place = (d.CPP_ONLY, d.PYTHON_ONLY, d.MEMBERS_CPP_ONLY, d.MEMBERS_PYTHON_ONLY)
    tables = [table for tables in by_place for table in tables.values()]
    for table in (*tables, d.PARAMETERS_CPP_ONLY, d.PARAMETERS_PYTHON_ONLY):
        names = [name for text in table.values() for name in text.split()]
        assert len(names) == len(set(names))


def test_one_name_one_type():
    """Two classes of one name are one for the linker, wherever the compiler did not inline."""
    line = re.compile(
        r"^(?:(?P<open>namespace(?: (?P<space>[\w:]+))? \{)$|(?P<close>\} +// namespace)"
        r"|(?:class|struct) (?:alignas\(.*?\) )?(?P<type>\w+)(?: final)?(?: :.*)? \{)",
        re.MULTILINE,
    )
    places = defaultdict(set)
    for path in (surface.ROOT / "src").rglob("*.[hc]*"):
        spaces = []
        for found in line.finditer(path.read_text()):
            if found["open"]:
                spaces.append(found["space"])
            elif found["close"]:
                spaces.pop()
            elif None not in spaces:  # an unnamed one is a file's own
                places["::".join([*spaces, found["type"]])].add(path.name)
    assert len(places) > 300
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
