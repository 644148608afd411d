"""What the documentation shows is what the sources hold, and what it runs works."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)

if not all(page.exists() for page in PAGES) or not (ROOT / "src").exists():
    pytest.skip("the sources are not here", allow_module_level=True)


def blocks(language):
    return [
        pytest.param(text, id=f"{page.name}-{number}")
        for page in PAGES
        for number, (found, text) in enumerate(BLOCK.findall(page.read_text()))
        if found == language
    ]


def squeezed(text):
    """Without what a formatter may change."""
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("text", blocks("cpp") + blocks("c"))
def test_cpp_block_stands_in_the_file_it_names(text):
    first, rest = text.split("\n", 1)
    path = ROOT / first.removeprefix("// ")
    assert squeezed(rest) in squeezed(path.read_text())


@pytest.mark.parametrize("text", blocks("python"))
def test_python_block_runs(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "@mica.op" in text:  # an operator lasts as long as the process: in one of its own
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", text], check=True, env=env, timeout=60)
        return
    exec(compile(text, "a page's example", "exec"), {})


@pytest.mark.parametrize("text", blocks("sh"))
def test_commands_name_what_exists(text):
    for line in text.splitlines():
        command = line.split("#")[0].split()
        if command and "/" in command[0] and not command[0].startswith("build/"):
            assert (ROOT / command[0]).exists(), f"{line}: there is no {command[0]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pictures_are_there_and_small(page):
    for name in re.findall(r"^!\[[^\]]+\]\(([^):]+)\)", page.read_text(), re.MULTILINE):
        picture = page.parent / name
        assert picture.exists(), f"there is no {name}"
        assert picture.suffix == ".svg" or picture.stat().st_size <= 150_000, name


def test_both_readmes_hold_the_same():
    """Their links, pictures and code are equal but for comments: what one says the other says."""
    pages = [(ROOT / name).read_text() for name in ("README.md", "README.zh-CN.md")]
    assert len({tuple(re.findall(r"^#+ ", page, re.MULTILINE)) for page in pages}) == 1
    links, code = [], []
    for page in pages:
        found = [
            link for link in re.findall(r"\]\(([^)]+)\)", page) if not link.startswith("README")
        ]
        links.append(sorted(set(found)))
        code.append([squeezed(re.sub(r"#.*", "", text)) for _, text in BLOCK.findall(page)])
    assert links[0] == links[1]
    assert code[0] == code[1]


def test_adding_an_operator_takes_as_many_files_as_is_said():
    words = {
        number: name
        for number, name in enumerate(["one", "two", "three", "four", "five", "six"], 1)
    }
    page = (ROOT / "docs" / "adding-an-op.md").read_text()
    files = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert all((ROOT / name).exists() for name in files)
    said = words[len(files)]
    assert f"It touches {said} files:" in page
    assert f"adds an operator, in {said} files" in (ROOT / "README.md").read_text()
    assert f"{said.capitalize()} files, with" in (ROOT / "CONTRIBUTING.md").read_text()
