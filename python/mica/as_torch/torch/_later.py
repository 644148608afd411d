"""Names that libraries mention when they are imported, and that raise when they are used."""

from __future__ import annotations

from typing import Any


def unusable(name: str) -> type:
    """A class of that name, to be derived from or named in types, whose objects cannot be made."""

    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"mica has nothing that stands for {name}")

    return type(name.rpartition(".")[2], (), {"__init__": refuse, "__doc__": f"Not there: {name}."})
