"""PyTorch's learning-rate schedulers. step() may be called inside a compiled step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mica._mica as _mica
from mica._grad_mode import no_grad
from mica._mica import optim as _optim

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mica._mica import Tensor
    from mica._mica.optim import Optimizer

    Rates = float | Sequence[float]
    Factor = Callable[[Any], Any]  # of a number, or of a tensor inside a compiled step

LRScheduler = _optim.LRScheduler
ReduceLROnPlateau = _optim.ReduceLROnPlateau


class StepLR(LRScheduler):
    """Times gamma after every step_size calls."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        super().__init__(optimizer, _optim.step(step_size, gamma), last_epoch)


class MultiStepLR(LRScheduler):
    """Times gamma at each milestone."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, _optim.multi_step(sorted(milestones), gamma), last_epoch)


class ConstantLR(LRScheduler):
    """Times a factor for the first total_iters calls."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, _optim.constant_factor(factor, total_iters), last_epoch)


class LinearLR(LRScheduler):
    """From start_factor to end_factor times the rate along a line."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(
            optimizer, _optim.linear(total_iters, start_factor, end_factor), last_epoch
        )


class ExponentialLR(LRScheduler):
    """Times gamma after each call."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        super().__init__(optimizer, _optim.exponential(gamma), last_epoch)


class PolynomialLR(LRScheduler):
    """Times (1 - calls / total_iters) ** power."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        super().__init__(optimizer, _optim.polynomial(total_iters, power), last_epoch)


class CosineAnnealingLR(LRScheduler):
    """Along a cosine between the rate and eta_min, down in T_max calls and up again."""

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, _optim.cosine_periodic(T_max, eta_min), last_epoch)


class CosineAnnealingWarmRestarts(LRScheduler):
    """From the rate to eta_min along half a cosine, and anew after each period."""

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803
        T_mult: int = 1,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, _optim.cosine_restarts(T_0, T_mult, eta_min), last_epoch)


def _of_groups(optimizer: Optimizer, rates: Rates, name: str) -> list[float]:
    """A rate for each group."""
    if isinstance(rates, int | float):
        return [float(rates)] * optimizer.groups
    if len(rates) != optimizer.groups:
        raise ValueError(f"{name}: expected {optimizer.groups} rates, got {len(rates)}")
    return [float(rate) for rate in rates]


def _set_rates(optimizer: Optimizer, rates: list[float]) -> None:
    for group, rate in enumerate(rates):
        optimizer.set_lr(rate, group)


class OneCycleLR(LRScheduler):
    """Rises to max_lr and falls below where it began. With cycle_momentum the momentum of SGD, or
    the first beta of Adam and AdamW, falls to base_momentum and rises to max_momentum meanwhile."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Rates,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}"
            )
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        _set_rates(optimizer, _of_groups(optimizer, max_lr, "OneCycleLR"))
        schedule = _optim.one_cycle(
            total_steps,
            pct_start,
            div_factor,
            final_div_factor,
            anneal_strategy == "linear",
            three_phase,
        )
        momentum = None
        if cycle_momentum:
            momentum = _optim.one_cycle_momentum(
                total_steps,
                pct_start,
                anneal_strategy == "linear",
                three_phase,
                base_momentum,
                max_momentum,
            )
        super().__init__(optimizer, schedule, last_epoch, momentum)


class CyclicLR(LRScheduler):
    """Between base_lr and max_lr, up and down along lines; with cycle_momentum the momentum of SGD,
    or the first beta of Adam and AdamW, between max_momentum and base_momentum. A scale_fn of one's
    own is a LambdaLR's to follow."""

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Rates,
        max_lr: Rates,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Factor | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if scale_fn is not None:
            raise _mica.Unsupported("CyclicLR: scale_fn is not supported; LambdaLR takes one")
        low = _of_groups(optimizer, base_lr, "CyclicLR")
        high = _of_groups(optimizer, max_lr, "CyclicLR")
        if min(high) <= 0 or any(a * high[0] != low[0] * b for a, b in zip(low, high, strict=True)):
            raise ValueError("CyclicLR: base_lr must be the same part of max_lr > 0 in all groups")
        _set_rates(optimizer, high)
        schedule = _optim.cyclic(low[0] / high[0], step_size_up, step_size_down or 0, mode, gamma)
        momentum = None
        if cycle_momentum:
            momentum = _optim.cyclic_momentum(
                step_size_up, step_size_down or 0, mode, gamma, base_momentum, max_momentum
            )
        super().__init__(optimizer, schedule, last_epoch, momentum)


class SequentialLR(LRScheduler):
    """One scheduler after the other: the next begins, from its own start, at its milestone."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        schedule = _optim.sequential([s.schedule for s in schedulers], list(milestones))
        super().__init__(optimizer, schedule, last_epoch)


class ChainedScheduler(LRScheduler):
    """All schedulers at once: their factors are multiplied."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        schedule = _optim.chained([s.schedule for s in schedulers])
        super().__init__(optimizer or schedulers[0].optimizer, schedule)


class LambdaLR:
    """The rate times what a function makes of the number of calls. Inside a compiled step the
    function gets that number as a tensor, float64, and must be arithmetic on it."""

    _keeps = False

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor], last_epoch: int = -1
    ) -> None:
        functions = list(lr_lambda) if not callable(lr_lambda) else [lr_lambda] * optimizer.groups
        if len(functions) != optimizer.groups:
            raise ValueError(
                f"{type(self).__name__}: expected {optimizer.groups} functions, "
                f"got {len(functions)}"
            )
        self.optimizer = optimizer
        self.lr_lambdas = functions
        self._rates = _optim._claim_rates(optimizer, self)
        self._epoch = _mica.full(
            (), last_epoch, dtype=_mica.float64, device=optimizer.base_rates.device
        )
        if self._keeps and last_epoch == -1:
            self._epoch.fill_(0.0)
        else:
            self.step()

    @property
    def last_epoch(self) -> int:
        """The calls of step(); waits for the device."""
        return int(self._epoch.item())

    def _start(self) -> Tensor:
        """The rates that factors are for."""
        return self._rates

    def step(self) -> None:
        """Goes on to the next rate."""
        _optim._check_rates(self.optimizer, self)
        with no_grad():
            self._epoch.add_(1.0)
            epoch = self._epoch if _optim._captures() else self.last_epoch
            factors = [_as_tensor(f(epoch), self._epoch) for f in self.lr_lambdas]
            self.optimizer.base_rates.copy_(self._start() * _mica.stack(factors))

    def get_last_lr(self) -> list[float]:
        """The rates of the groups; waits for the device."""
        rates: list[float] = self.optimizer.base_rates.tolist()
        return rates

    def state_dict(self) -> dict[str, Tensor]:
        """What it needs to go on, by name, without the functions; shares its memory."""
        return {"epoch": self._epoch, "initial_lr": self._rates, "lr": self.optimizer.base_rates}

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Copies values in."""
        for name, own in self.state_dict().items():
            own.copy_(state_dict[name])


class MultiplicativeLR(LambdaLR):
    """The last rate times what a function makes of the number of calls."""

    _keeps = True

    def _start(self) -> Tensor:
        return self.optimizer.base_rates


def _as_tensor(value: float | Tensor, like: Tensor) -> Tensor:
    if isinstance(value, _mica.Tensor):
        return value.to(like.dtype).reshape(())
    return _mica.full((), value, dtype=like.dtype, device=like.device)
