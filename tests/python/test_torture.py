"""A few seconds of each group of tests/torture; scripts/test --torture gives them minutes."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DEVICE

TORTURE = Path(__file__).parents[1] / "torture"


@pytest.mark.skipif(DEVICE != "cpu", reason="of the host")
@pytest.mark.parametrize("group", ["files", "calls", "threads", "kills", "exits", "disk"])
def test_torture(group):
    done = subprocess.run(
        [sys.executable, TORTURE, "--seconds", "1.5", "--jobs", "2", group],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
