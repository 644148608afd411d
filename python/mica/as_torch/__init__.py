"""PyTorch programs as they are: `python -m mica.as_torch script.py` runs one with mica in torch's
place.

The folder torch/ beside this file holds PyTorch's tree of modules, each of which takes its names
from mica. Nothing else puts it into the way of an import: a program that imports mica sees the
real torch, if that is installed.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from typing import Any

from mica import _mica
from mica.as_torch._tree import install as install


def run(script: str, arguments: Sequence[str] = (), on: str | None = None) -> dict[str, Any]:
    """Runs a program as `python script arguments…` would, with mica in torch's place, and gives
    its global names. Every CUDA device that it names is the device `on`, if that is said."""
    install()
    if on is not None:
        _mica._put_in_place_of_cuda(on)
    path = os.path.abspath(script)
    argv, first = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [script, *arguments], os.path.dirname(path)
    try:
        return runpy.run_path(path, run_name="__main__")
    finally:
        sys.argv, sys.path[0] = argv, first
