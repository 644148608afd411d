"""Each example runs, on a small part of its data."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import mica
import pytest

# In the source tree; a bundle of tests alone does not have it.
EXAMPLES = Path(__file__).parents[2] / "examples" / "python"
if not EXAMPLES.exists():
    pytest.skip("the examples are not here", allow_module_level=True)
ROOT = EXAMPLES.parents[1]
CORPUS = ROOT / "data" / "kjv.txt"  # where scripts/setup --corpus was run
TEXT = CORPUS if CORPUS.exists() else ROOT / "CHANGELOG.md"


@pytest.mark.usefixtures("fashion")
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_script(path, device, tmp_path):
    text = path.read_text()
    arguments = ["--images", "640"] if "--images" in text else []
    arguments += ["--device", device] if "--device" in text else []
    arguments += ["--data", TEXT, "--steps", "20"] if "--data" in text else []
    package = Path(mica.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, path, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_mnist_is_short():
    assert len((EXAMPLES / "mnist.py").read_text().splitlines()) <= 30


@pytest.mark.usefixtures("fashion")
def test_notebook(monkeypatch):
    """With a display that only remembers."""
    shown = []

    class Handle:
        def update(self, html):
            shown.append(html)

    display = types.ModuleType("IPython.display")
    display.HTML = str
    display.display = lambda html, display_id: Handle()
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)

    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text())["cells"]
    scope = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"]).replace("10_000", "1280")
            exec(compile(source, "notebook.ipynb", "exec"), scope)
    assert sum("<progress" in html for html in shown) == 2
    assert "<td>2<td>" in shown[-1]
