"""torch.random."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from torch import get_rng_state, initial_seed, manual_seed, seed, set_rng_state


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **options: Any):
    """What is drawn inside leaves the generator as it was."""
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)
