"""What the public headers declare, read with a few regular expressions.

    python tests/python/surface.py

prints the names by namespace, classes with their members.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'"(?:\\.|[^"\\])*"')
DIRECTIVE = re.compile(r"^\s*#[^\n]*", re.MULTILINE)
PIECE = re.compile(r"([{};]|\b(?:public|protected|private):(?!:))")
NAMESPACE = re.compile(r"namespace\s+([\w:]+)\s*$")
TYPE = re.compile(r"^(class|struct|enum class|enum)\s+(\w+)([^:]*)")
ALIAS = re.compile(r"^using\s+(\w+)\s*=")
CONSTANT = re.compile(r"^(?:inline\s+)?constexpr\b.*?(\w+)\s*(?:=|\{|$)")
FUNCTION = re.compile(r"(?:^|[\s&*>])(\w+)\s*\(")
TEMPLATE = re.compile(r"^template\s*<")
PASS = re.compile(r"[( ]Graph& graph")  # set_pass and pass_is_on are their switches
ATTRIBUTE = re.compile(r"\[\[\w+\]\]\s*")
# Classes that are one in Python.
BASES = {"CompiledFunction": "Compiled", "Module": "ModuleImpl"}
OPTIONS = re.compile(r"\w+(Options|Params)|RandomStream")


# Headers that only include others, and folders that a program uses as a whole.
PROGRAMS = {f"mica/{name}.h" for name in ("mica", "models", "inference", "text", "io")}
GATHERING = PROGRAMS | {
    "mica/amp/amp.h",
    "mica/ops/ops.h",
    "mica/nn/nn.h",
    "mica/optim/optim.h",
}
FOLDERS = ("mica/autograd/", "mica/data/", "mica/io/", "mica/nn/", "mica/optim/", "mica/train/")


def headers():
    """What a program gets by mica/mica.h and those beside it: not what they need in turn."""
    found, waiting = set(), sorted(PROGRAMS)
    while waiting:
        including = waiting.pop()
        for name in re.findall(r'#include "(mica/[^"]+)"', (INCLUDE / including).read_text()):
            if name not in found and (including in GATHERING or name.startswith(FOLDERS)):
                found.add(name)
                waiting.append(name)
    return sorted(found - GATHERING)


def without_template(text):
    """A declaration without the `template <…>` and `requires …` in front of it."""
    while TEMPLATE.match(text):
        depth = 0
        for i in range(text.index("<"), len(text)):
            depth += {"<": 1, ">": -1}.get(text[i], 0)
            if depth == 0:
                text = text[i + 1 :].strip()
                break
        else:
            return ""
    return text


def plain(declaration):
    """A declaration without attributes and templates; empty for one that gives no name."""
    text = without_template(ATTRIBUTE.sub("", declaration).strip())
    nameless = text.startswith(("extern", "friend", "static_assert", "requires", "concept"))
    return "" if nameless or (text.startswith("using") and "=" not in text) else text


def name_of(text):
    """The name that a plain declaration gives; None for operators and passes."""
    if found := TYPE.search(text):
        return found[2]
    for pattern in (ALIAS, CONSTANT):
        if found := pattern.search(text):
            return found[1]
    found = FUNCTION.search(text)
    if not found or "operator" in text.split("(")[0] or PASS.search(text):
        return None
    return found[1]


@dataclass
class Scope:
    name: str
    is_class: bool = False
    is_public: bool = True


def declarations(text):
    """(scopes, declaration) for what stands in namespaces and in the public parts of classes."""
    text = STRING.sub('""', DIRECTIVE.sub("", COMMENT.sub("", text)))
    scopes, current = [], ""  # None stands for the body of a function or an initialiser
    for piece in PIECE.split(text):
        inside = None not in scopes
        public = inside and all(scope.is_public for scope in scopes)
        if piece == "{":
            # Default arguments hold braces too: the declaration goes on behind them.
            whole = current.count("(") == current.count(")")
            found, kind = NAMESPACE.search(current.strip()), TYPE.search(plain(current))
            if public and whole and not found:
                yield tuple(scopes), current
            if not inside or not whole:
                scopes.append(None)
                continue
            if found:
                scopes.append(Scope(found[1]))
            elif kind and not kind[1].startswith("enum"):
                scopes.append(Scope(kind[2], is_class=True, is_public=kind[1] == "struct"))
            else:
                scopes.append(None)
            current = ""
        elif piece == "}":
            scopes.pop()
        elif piece == ";":
            if public:
                yield tuple(scopes), current
            if inside:
                current = ""
        elif piece.endswith(":") and piece[:-1] in ("public", "protected", "private"):
            if inside:
                scopes[-1].is_public = piece == "public:"
                current = ""
        elif inside:
            current += piece


def between(text):
    """The parts of a list that commas divide."""
    parts, depth = [""], 0
    for c in text.replace("->", "  "):
        depth += (c in "(<[") - (c in ")>]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def in_brackets(text):
    """What stands in the first round brackets."""
    start = text.index("(")
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return text[start + 1 : i]
    return ""


def parameters(text):
    """(type, name) of each parameter of a function's declaration."""
    for parameter in between(in_brackets(text)):
        found = re.fullmatch(r"(.*[\s&*>.])(\w+)", parameter.split("=")[0].strip(), re.DOTALL)
        yield (found[1], found[2]) if found else (parameter, "")


@dataclass
class Class:
    """A class, or an alias of one."""

    name: str
    namespace: str
    kin: str  # its bases, or what it is an alias of
    members: set = field(default_factory=set)
    fields: list = field(default_factory=list)  # (type, name) of data members
    constructors: list = field(default_factory=list)
    methods: dict = field(default_factory=lambda: defaultdict(list))  # the overloads of each

    def add(self, text):
        """Takes in the declaration of a member."""
        if not text or text.startswith("~") or "operator" in text.split("(")[0]:
            return
        name = name_of(text)
        if name == self.name:
            self.constructors.append(text)
        elif name and not ALIAS.search(text):
            self.members.add(name)
            self.methods[name].append(text)
        elif not name and not text.startswith("static") and "(" not in re.sub(r"<.*>", "", text):
            first, *others = between(text.split("=")[0])
            kind, first = re.fullmatch(r"(.*?)(\w+)(?:\[.*)?", first, re.DOTALL).groups()
            for name in (first, *others):
                self.fields.append((kind, name))
                self.members.add(name)


class Surface(NamedTuple):
    names: dict  # of each namespace of mica
    classes: dict  # by (namespace, name), with those of other headers
    functions: dict  # the overloads, by (namespace, name)


@cache
def read():
    """What the headers declare."""
    names, classes, functions = defaultdict(set), {}, defaultdict(list)
    public = set(headers())
    for path in sorted((INCLUDE / "mica").glob("**/*.h")):
        is_public = str(path.relative_to(INCLUDE)) in public
        for scopes, declaration in declarations(path.read_text()):
            text = plain(declaration)
            namespace = "::".join(scope.name for scope in scopes if not scope.is_class)
            around = "::".join(scope.name for scope in scopes if scope.is_class)
            name = name_of(text)
            if not namespace.startswith("mica"):
                continue
            if around:
                classes[namespace, around].add(text)
            elif name and is_public:
                names[namespace].add(name)
            full = f"{around}::{name}" if around else name
            if (found := TYPE.search(text)) and not found[1].startswith("enum"):
                bases = text.partition(":")[2] or BASES.get(name, "")
                known = classes.get((namespace, full))
                if not known or bases:
                    classes[namespace, full] = Class(name, namespace, bases)
            elif ALIAS.search(text):
                classes[namespace, full] = Class(name, namespace, text.split("=", 1)[1])
            elif name and not around and is_public and not CONSTANT.search(text):
                functions[namespace, name].append(text)
    return Surface(dict(names), classes, dict(functions))


def find_class(namespace, name):
    """The class of that name as a namespace sees it; None for other names."""
    classes = read().classes
    while True:
        if found := classes.get((namespace, name)):
            return found
        if "::" not in namespace:
            return None
        namespace = namespace.rpartition("::")[0]


def kin_of(cls):
    """The class, its bases and what they are made of: Linear is a Handle of a LinearImpl, which is
    a ModuleImpl."""
    found, waiting = [], [cls]
    while waiting:
        each = waiting.pop()
        found.append(each)
        for name in re.findall(r"\w+", each.kin):
            other = find_class(each.namespace, name)
            if other and other not in found:
                waiting.append(other)
    return found


def expand(namespace, entries):
    """Names of parameters or fields, with the fields of option structs in their place."""
    for kind, name in entries:
        options = [find_class(namespace, word[0]) for word in OPTIONS.finditer(kind)]
        if not any(options):
            yield name
        for cls in filter(None, options):
            for each in filter(is_options, kin_of(cls)):
                yield from expand(each.namespace, each.fields)


def is_options(cls):
    return OPTIONS.fullmatch(cls.name)


def names_of(namespace, overloads):
    """The names of the parameters of all overloads of a function."""
    given = [text for text in overloads if not re.search(r"= (delete|default)$", text)]
    return {name for text in given for name in expand(namespace, parameters(text))} - {""}


def constructor_names(cls):
    """What a class can be made with, by name: option structs may stand in the alias it is."""
    made = names_of(cls.namespace, cls.constructors)
    if not cls.constructors:
        made.update(name for _, name in cls.fields)
    for each in filter(is_options, kin_of(cls)):
        made.update(expand(each.namespace, each.fields))
    return made


if __name__ == "__main__":
    for namespace, names in sorted(read().names.items()):
        print(namespace)
        for name in sorted(names):
            members = getattr(read().classes.get((namespace, name)), "members", ())
            print("  " + name, *sorted(members))
