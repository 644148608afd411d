"""Which folder of src/ may include which, as docs/architecture.md states it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"

# Rooms of joined ops stand on those of the ops they join, never the other way.
JOINED_ROOMS = {"conv2d_pool"}

pytestmark = pytest.mark.skipif(not SOURCES.is_dir(), reason="the sources are not here")


def stated() -> dict[str, set[str]]:
    """The table's rows: a folder, and the prefixes of what its files may include."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text[text.index("| folder | what is in it | knows of |") :].split("\n\n")[0]
    rows = []
    for line in table.splitlines()[2:]:
        folders, _, known = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append(([name.rstrip("/") for name in re.findall(r"`([^`]+)`", folders)], known))
    allowed: dict[str, set[str]] = {}
    for i, (folders, known) in enumerate(rows):
        prefixes = set(re.findall(r"`([^`]+)`", known))
        if known.startswith("everything below"):
            below = {name for names, _ in rows[i + 1 :] for name in names}
            prefixes = below - prefixes  # what follows "but" is taken out
        for folder in folders:
            allowed[folder] = prefixes | set(folders)
    return allowed


def includes() -> list[tuple[Path, str]]:
    found = []
    for path in sorted(SOURCES.rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
            continue
        for line in path.read_text().splitlines():
            if match := re.match(r'\s*#\s*include\s+"mica/([^"]+)"', line):
                found.append((path.relative_to(SOURCES), match.group(1)))
    return found


def is_in(included: str, prefixes: set[str]) -> bool:
    return any(included == p or included.startswith(p + "/") for p in prefixes)


def test_folders_include_what_the_table_states() -> None:
    allowed = stated()
    assert {"runtime", "core", "op", "ops", "graph"} <= set(allowed)
    folders = {path.parts[0] for path, _ in includes() if len(path.parts) > 1}
    assert folders <= set(allowed), "the table has no row for a folder"
    wrong = [
        f"{path} includes {included}"
        for path, included in includes()
        if len(path.parts) > 1 and not is_in(included, allowed[path.parts[0]])
    ]
    assert not wrong, "\n".join(wrong)


def test_no_room_includes_one_of_a_joined_op() -> None:
    wrong = []
    for path, included in includes():
        if len(path.parts) < 3 or path.parts[0] != "ops":
            continue
        room = included.split("/")[1] if included.startswith("ops/") else ""
        if room in JOINED_ROOMS - {path.parts[1]}:
            wrong.append(f"{path} includes {included}")
    assert not wrong, "\n".join(wrong)
