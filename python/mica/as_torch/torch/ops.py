"""torch.ops: operators of compiled libraries, of which none can be opened."""

from __future__ import annotations


def load_library(path: str) -> None:
    raise OSError(f"{path} was built for PyTorch; mica runs without it")
