"""Lists that can be walked through by next() too."""

from typing import Any


class Listed(list[Any]):
    """What a module has of a kind. PyTorch gives iterators, so next() takes one after another."""

    def __next__(self) -> Any:
        if not hasattr(self, "_walk"):
            self._walk = iter(self)
        return next(self._walk)
