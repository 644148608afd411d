"""torch.hub: weights from files that are there already; nothing is fetched over a network."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlparse

import mica


def _get_torch_home() -> str:
    return os.environ.get("TORCH_HOME", os.path.expanduser("~/.cache/torch"))


def get_dir() -> str:
    return os.path.join(_get_torch_home(), "hub")


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    file_name: str | None = None,
    **options: Any,
) -> Any:
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(model_dir or os.path.join(get_dir(), "checkpoints"), name)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: put the file of {url} there; mica fetches nothing")
    return mica.load(path, map_location=map_location)


load_url = load_state_dict_from_url


def tqdm(*args: Any, **kwargs: Any) -> Any:
    from tqdm import tqdm as bar

    return bar(*args, **kwargs)
