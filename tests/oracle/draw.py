"""Random shapes, axes, parameters and values of one case."""

import ml_dtypes
import numpy as np

FLOATS = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


class Draw:
    """What a case is drawn from. Floating values are float64 arrays that the case's dtype holds."""

    def __init__(self, rng, dtype):
        self.rng = rng
        self.dtype = dtype
        self.is_float = dtype in FLOATS

    def integer(self, low, high):
        """In [low, high], both included."""
        return int(self.rng.integers(low, high + 1))

    def number(self, low, high):
        """With few digits, so that it can be read in a message."""
        return round(float(self.rng.uniform(low, high)), 3)

    def flag(self, probability=0.5):
        return bool(self.rng.random() < probability)

    def choice(self, options):
        return options[self.integer(0, len(options) - 1)]

    def rank(self, low=0, high=4):
        return self.integer(low, high)

    def shape(self, rank=None, low=1, high=5, min_rank=0, max_rank=4):
        rank = self.integer(min_rank, max_rank) if rank is None else rank
        return tuple(self.integer(low, high) for _ in range(rank))

    def axis(self, rank):
        """Of [-rank, rank)."""
        return self.integer(-rank, rank - 1)

    def axes(self, rank, at_least=0):
        """A set of axes in any order, some counted from the end; none is a set too."""
        n = self.integer(min(at_least, rank), rank)
        chosen = self.rng.permutation(rank)[:n]
        return tuple(int(a) - (rank if self.flag() else 0) for a in chosen)

    def dim(self, rank):
        """An argument for a reduction: None, one axis, or several."""
        if rank == 0 or self.flag(0.2):
            return None
        return self.axis(rank) if self.flag() else self.axes(rank, at_least=1)

    def broadcast(self, n):
        """n shapes that broadcast together."""
        whole = self.shape()
        return [self.broadcast_to(whole) for _ in range(n)]

    def broadcast_to(self, shape):
        """A shape that broadcasts to this one."""
        kept = shape[self.integer(0, len(shape)) if self.flag(0.3) else 0 :]
        return tuple(1 if self.flag(0.2) else s for s in kept)

    def permutation(self, n):
        return tuple(int(i) for i in self.rng.permutation(n))

    def rounded(self, values):
        return np.asarray(values).astype(FLOATS[self.dtype]).astype(np.float64)

    def values(self, shape, low=-2.0, high=2.0):
        """Of the case's dtype."""
        if self.dtype == "bool":
            return self.rng.random(shape) < 0.5
        if not self.is_float:
            low = max(int(np.ceil(low)), 0) if self.dtype == "uint8" else int(np.ceil(low))
            return self.rng.integers(low, int(np.floor(high)) + 1, shape).astype(self.dtype)
        return self.rounded(self.rng.uniform(low, high, shape))

    def distinct(self, shape, low=-2.0, high=2.0):
        """No two alike: for what chooses among them."""
        n = int(np.prod(shape))
        order = self.rng.permutation(n).reshape(shape)
        if not self.is_float:
            return order.astype(self.dtype)
        # Few bits, which every dtype holds.
        step = 2.0 ** np.floor(np.log2((high - low) / max(n, 1)))
        return self.rounded((order + np.ceil(low / step)) * step)

    def away_from(self, kinks, shape, low=-2.0, high=2.0, gap=0.05):
        """Values that keep a distance from points where a function has no derivative."""
        x = self.rng.uniform(low, high, shape)
        for kink in kinks:
            x = np.where(np.abs(x - kink) < gap, kink + gap * np.where(x < kink, -1, 1), x)
        return self.rounded(x) if self.is_float else x.astype(self.dtype)

    def indices(self, shape, size, wrap=False):
        dtype = self.choice([np.int64, np.int32])
        return self.rng.integers(-size if wrap else 0, size, shape).astype(dtype)

    def mask(self, shape):
        return self.rng.random(shape) < 0.5
