"""torch.nn: what mica.nn has no use for."""

from __future__ import annotations

from typing import Any

from torch.nn.modules._kinds import any_of

import mica


class DataParallel(mica.nn.Module):
    """A module on the first device alone."""

    def __init__(
        self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ):
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise NotImplementedError("DataParallel: mica.as_torch runs on one device")
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def _compile(self: mica.nn.Module, *args: Any, **options: Any) -> None:
    """Calls of the module are compiled from here on."""
    self.forward = mica.compile(self.forward)


mica.nn.Module.compile = _compile


class _Parts(dict):
    """The parts of a module of one kind, by name: what is set here is set there."""

    def __init__(self, module: Any, parts: Any) -> None:
        super().__init__(parts)
        self._module = module

    def __setitem__(self, name: str, part: Any) -> None:
        setattr(self._module, name, part)
        super().__setitem__(name, part)

    def __delitem__(self, name: str) -> None:
        delattr(self._module, name)
        super().__delitem__(name)

    def pop(self, name: str, *default: Any) -> Any:
        if name not in self:
            return super().pop(name, *default)
        part = self[name]
        del self[name]
        return part


mica.nn.Module._modules = property(lambda self: _Parts(self, self.named_children()))
mica.nn.Module._parameters = property(
    lambda self: _Parts(self, self.named_parameters(recurse=False))
)
mica.nn.Module._buffers = property(lambda self: _Parts(self, self.named_buffers(recurse=False)))
mica.nn.Module._get_name = lambda self: type(self).__name__

# The class of a projection in PyTorch's attention, which programs name to load modules.
NonDynamicallyQuantizableLinear = mica.nn.Linear

RNNBase = any_of("RNNBase", "RNN", "LSTM", "GRU")
RNNCellBase = any_of("RNNCellBase", "RNNCell", "LSTMCell", "GRUCell")
