"""Generators of random numbers beside the devices' own."""

from __future__ import annotations

from typing import Any

from mica import _mica


class Generator:
    """A seed and how much was drawn from it. Functions that draw take one as `generator`; its
    numbers are those that the device's own gives after the same seed."""

    def __init__(self, device: Any = "cpu") -> None:
        self.device = _mica.device(device)
        self._state = _mica.tensor([0, 0])
        self.manual_seed(0)

    @classmethod
    def default(cls) -> Generator:
        """The CPU's own, which draws where none is named."""
        generator = cls()
        generator._state = _mica.rng_state("cpu")
        return generator

    def manual_seed(self, seed: int) -> Generator:
        """Starts anew with this seed."""
        seed &= (1 << 64) - 1
        self._state.copy_(_mica.tensor([seed - (1 << 64) if seed >> 63 else seed, 0]))
        return self

    def initial_seed(self) -> int:
        """The seed it was started with."""
        return int(self._state[0].item()) & ((1 << 64) - 1)

    def seed(self) -> int:
        """Starts anew with a seed that is drawn, and returns it."""
        import secrets

        return self.manual_seed(secrets.randbits(63)).initial_seed()

    def get_state(self) -> _mica.Tensor:
        """(2): what set_state goes on from."""
        return self._state.clone()

    def set_state(self, new_state: _mica.Tensor) -> Generator:
        """Goes on from what get_state gave."""
        self._state.copy_(new_state)
        return self
