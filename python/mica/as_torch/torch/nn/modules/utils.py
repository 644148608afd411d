"""torch.nn.modules.utils."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Any:
    def parse(x: Any) -> tuple:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (_ntuple(n) for n in (1, 2, 3, 4))


def consume_prefix_in_state_dict_if_present(state_dict: dict, prefix: str) -> None:
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
