"""torch.serialization: torch.save and torch.load.

Tensors and plain data go into safetensors files, as mica.save writes them; other objects, modules
among them, are pickled, and loaded as PyTorch loads them: by Python's pickle.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import mica

_MARK = b"mica.as_torch pickle\n"


def save(obj: Any, f: Any, *args: Any, **options: Any) -> None:
    with _path_to_write(f) as path:
        try:
            mica.save(obj, path)
        except (TypeError, ValueError):
            with open(path, "wb") as file:
                file.write(_MARK)
                pickle.dump(obj, file)


def load(
    f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool = False,
    mmap: Any = None, **options: Any,
) -> Any:  # fmt: skip
    with _path_to_read(f) as path:
        with open(path, "rb") as file:
            if file.read(len(_MARK)) == _MARK:
                if weights_only:
                    raise pickle.UnpicklingError(f"{f}: holds more than tensors and plain data")
                return pickle.load(file)
        place = map_location if isinstance(map_location, str | mica.device) else None
        return mica.load(path, map_location=place)


@contextlib.contextmanager
def _path_to_write(f: Any) -> Iterator[str]:
    if isinstance(f, str | os.PathLike):
        yield os.fspath(f)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        yield path
        with open(path, "rb") as file:
            shutil.copyfileobj(file, f)


@contextlib.contextmanager
def _path_to_read(f: Any) -> Iterator[str]:
    if isinstance(f, str | os.PathLike):
        yield os.fspath(f)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        with open(path, "wb") as file:
            shutil.copyfileobj(f, file)
        yield path


def add_safe_globals(safe_globals: Any) -> None:
    """Classes need no leave to be loaded."""


@contextlib.contextmanager
def safe_globals(safe_globals: Any) -> Iterator[None]:
    """Classes need no leave to be loaded."""
    yield


class SourceChangeWarning(Warning):
    pass
