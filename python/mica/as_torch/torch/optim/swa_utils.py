"""torch.optim.swa_utils: averages of a network's weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import mica

_Averaging = Callable[[list[Any], list[Any], int], None]


def get_ema_multi_avg_fn(decay: float = 0.999) -> _Averaging:
    """The average moves to the weights by 1 - decay."""

    def update(averages: list[Any], values: list[Any], count: int) -> None:
        for average, value in zip(averages, values, strict=True):
            average.lerp_(value, 1 - decay)

    return update


def get_swa_multi_avg_fn() -> _Averaging:
    """The mean of all weights so far."""

    def update(averages: list[Any], values: list[Any], count: int) -> None:
        for average, value in zip(averages, values, strict=True):
            average.lerp_(value, 1 / (count + 1))

    return update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], Any]:
    """The same, of one tensor."""
    return lambda average, value, count: average.lerp(value, 1 - decay)


def get_swa_avg_fn() -> Callable[[Any, Any, Any], Any]:
    """The same, of one tensor."""
    return lambda average, value, count: average.lerp(value, 1 / (int(count) + 1))


class AveragedModel(mica.nn.Module):
    """A copy of a network whose weights are an average of what the network's were."""

    def __init__(
        self, model: Any, device: Any = None, avg_fn: Any = None, multi_avg_fn: Any = None,
        use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel: expected avg_fn or multi_avg_fn, got both")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", mica.tensor(0, dtype=mica.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _tensors(self, model: Any) -> list[Any]:
        return [*model.parameters(), *(model.buffers() if self.use_buffers else ())]

    def update_parameters(self, model: Any) -> None:
        """Takes in the network's weights as they are now."""
        with mica.no_grad():
            averages, now = self._tensors(self.module), self._tensors(model)
            pairs = [(a, b.detach().to(a.device)) for a, b in zip(averages, now, strict=True)]
            count = int(self.n_averaged)
            floating = [pair for pair in pairs if pair[0].is_floating_point()]
            copied = pairs if count == 0 else [p for p in pairs if not p[0].is_floating_point()]
            for average, value in copied:
                average.copy_(value)
            if count and self.avg_fn is not None:
                for average, value in floating:
                    average.copy_(self.avg_fn(average.detach(), value, self.n_averaged))
            elif count and floating:
                update = self.multi_avg_fn or get_swa_multi_avg_fn()
                update([a.detach() for a, _ in floating], [b for _, b in floating], count)
            if not self.use_buffers:
                for average, value in zip(self.module.buffers(), model.buffers(), strict=True):
                    average.copy_(value.detach().to(average.device))
            self.n_averaged += 1


def update_bn(loader: Any, model: Any, device: Any = None) -> None:
    """Takes the running statistics of the network's batch norms anew, over all batches."""
    norms = [m for m in model.modules() if isinstance(m, mica.nn.BatchNorm1d | mica.nn.BatchNorm2d
                                                      | mica.nn.BatchNorm3d)]  # fmt: skip
    if not norms:
        return
    before = [m.momentum for m in norms]
    training = model.training
    model.train()
    with mica.no_grad():
        for count, batch in enumerate(loader, 1):
            for norm in norms:
                norm.momentum = 1 / count  # the mean of all batches; the first takes all
            first = batch[0] if isinstance(batch, list | tuple) else batch
            model(first.to(device) if device is not None else first)
    for norm, momentum in zip(norms, before, strict=True):
        norm.momentum = momentum
    model.train(training)
