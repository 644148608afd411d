"""What the public headers declare, read with a few regular expressions.

    python tests/python/surface.py

prints the names by namespace.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'"(?:\\.|[^"\\])*"')
DIRECTIVE = re.compile(r"^\s*#[^\n]*", re.MULTILINE)
NAMESPACE = re.compile(r"namespace\s+([\w:]+)\s*$")
TYPE = re.compile(r"^(?:class|struct|enum class|enum)\s+(\w+)")
ALIAS = re.compile(r"^using\s+(\w+)\s*=")
CONSTANT = re.compile(r"^(?:inline\s+)?constexpr\b.*?(\w+)\s*(?:=|\{|$)")
FUNCTION = re.compile(r"(?:^|[\s&*>])(\w+)\s*\(")
TEMPLATE = re.compile(r"^template\s*<")
PASS = re.compile(r"[( ]Graph& graph")  # set_pass and pass_is_on are their switches
ATTRIBUTE = re.compile(r"\[\[\w+\]\]\s*")


# Headers that only include others, and folders that a program uses as a whole.
GATHERING = {"mica/mica.h", "mica/ops/ops.h", "mica/nn/nn.h", "mica/optim/optim.h"}
FOLDERS = ("mica/autograd/", "mica/data/", "mica/io/", "mica/nn/", "mica/optim/", "mica/train/")


def headers():
    """What a program gets by including mica/mica.h: not the machinery that this needs in turn."""
    found, waiting = set(), ["mica/mica.h"]
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


def name_of(declaration):
    text = without_template(ATTRIBUTE.sub("", declaration).strip())
    if not text or text.startswith(("extern", "friend", "static_assert", "requires")):
        return None
    for pattern in (TYPE, ALIAS, CONSTANT):
        if found := pattern.search(text):
            return found[1]
    found = FUNCTION.search(text)
    if not found or "operator" in text.split("(")[0] or PASS.search(text):
        return None
    return found[1]


def declarations(text):
    """(namespace, declaration) for what stands directly in a namespace."""
    text = STRING.sub('""', DIRECTIVE.sub("", COMMENT.sub("", text)))
    scopes, current = [], ""
    for piece in re.split(r"([{};])", text):
        inside = all(scope is not None for scope in scopes)
        if piece == "{":
            found = NAMESPACE.search(current.strip())
            if inside and found:
                scopes.append(found[1])
                current = ""
            elif inside:
                # Default arguments hold braces too: the declaration goes on behind them.
                depth = current.count("(") - current.count(")")
                if depth == 0:
                    yield "::".join(scopes), current
                    scopes.append(None)
                    current = ""
                else:
                    scopes.append(None)
            else:
                scopes.append(None)
        elif piece == "}":
            scopes.pop()
        elif piece == ";":
            if inside:
                yield "::".join(scopes), current
                current = ""
        elif inside:
            current += piece


def cpp_names():
    """The names of each namespace of mica: {"mica::nn": {"Linear", …}, …}."""
    names = {}
    for header in headers():
        for namespace, declaration in declarations((INCLUDE / header).read_text()):
            name = name_of(declaration)
            if name and namespace.startswith("mica"):
                names.setdefault(namespace, set()).add(name)
    return names


if __name__ == "__main__":
    for namespace, names in sorted(cpp_names().items()):
        print(namespace, *sorted(names), sep="\n  ")
