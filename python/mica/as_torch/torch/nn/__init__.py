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

# The class of a projection in PyTorch's attention, which programs name to load modules.
NonDynamicallyQuantizableLinear = mica.nn.Linear

RNNBase = any_of("RNNBase", "RNN", "LSTM", "GRU")
RNNCellBase = any_of("RNNCellBase", "RNNCell", "LSTMCell", "GRUCell")
