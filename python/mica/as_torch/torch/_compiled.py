"""What torch.compile makes of a module."""

from __future__ import annotations

from typing import Any

import mica


class CompiledModule(mica.nn.Module):
    """Calls the compiled module; its parameters and its state are the module's."""

    def __init__(self, module: mica.nn.Module) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__["_compiled"] = mica.compile(module)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_orig_mod"), name)
