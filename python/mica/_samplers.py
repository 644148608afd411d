"""Which examples of a data set come, and in which order: PyTorch's samplers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mica._mica as _mica
from mica._mica import data as _data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence, Sized


def _seed(generator: Any) -> int:
    """A seed, that of an object with initial_seed(), or one that is drawn."""
    if generator is None:
        return int(_mica.randint(0, 1 << 32, ()).item())
    return int(generator if isinstance(generator, int) else generator.initial_seed())


class Sampler:
    """Numbers of examples. Each walk is the next epoch, or the one that set_epoch says."""

    def __init__(self) -> None:
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """The next walk is that of this epoch; DataLoader says it."""
        self._epoch = epoch

    @property
    def epoch(self) -> int:
        """That of the next walk."""
        return self._epoch

    def _order(self, epoch: int) -> Sequence[int]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[int]:
        order = self._order(self._epoch)
        self._epoch += 1
        return iter(order)


class SequentialSampler(Sampler):
    """All, in order."""

    def __init__(self, data_source: Sized) -> None:
        super().__init__()
        self._size = len(data_source)

    def __len__(self) -> int:
        return self._size

    def _order(self, epoch: int) -> Sequence[int]:
        return range(self._size)


class RandomSampler(Sampler):
    """In another order in each epoch; with replacement an example may come more than once."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        super().__init__()
        self._size, self._replacement = len(data_source), replacement
        self._samples, self._seed = num_samples, _seed(generator)

    def __len__(self) -> int:
        return self._size if self._samples is None else self._samples

    def _order(self, epoch: int) -> Sequence[int]:
        return _data._random_order(self._size, self._seed, epoch, self._replacement, self._samples)


class SubsetRandomSampler(Sampler):
    """Those at the indices, in another order in each epoch."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        super().__init__()
        self._indices, self._seed = list(indices), _seed(generator)

    def __len__(self) -> int:
        return len(self._indices)

    def _order(self, epoch: int) -> Sequence[int]:
        order = _data._random_order(len(self._indices), self._seed, epoch, False, None)
        return [self._indices[i] for i in order]


class WeightedRandomSampler(Sampler):
    """Drawn with probabilities in proportion to weights."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Any = None,
    ) -> None:
        super().__init__()
        self._weights = [float(w) for w in weights]
        self._samples, self._replacement, self._seed = num_samples, replacement, _seed(generator)

    def __len__(self) -> int:
        return self._samples

    def _order(self, epoch: int) -> Sequence[int]:
        return _data._weighted_order(
            self._weights, self._samples, self._seed, epoch, self._replacement
        )


class DistributedSampler(Sampler):
    """The part of one of several processes; the same seed in all of them."""

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int,
        rank: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        super().__init__()
        self._arguments = (len(dataset), num_replicas, rank, seed if shuffle else None, drop_last)
        self._size = len(_data._distributed_order(*self._arguments, 0))

    def __len__(self) -> int:
        return self._size

    def _order(self, epoch: int) -> Sequence[int]:
        return _data._distributed_order(*self._arguments, epoch)


class BatchSampler:
    """Lists of a sampler's numbers."""

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    @property
    def epoch(self) -> int | None:
        """That of the next walk, where the sampler knows it."""
        return getattr(self.sampler, "epoch", None)

    def set_epoch(self, epoch: int) -> None:
        """The next walk is that of this epoch, where the sampler knows them."""
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch


def pad_collate(value: float = 0.0, multiple: int = 1) -> Callable[[Iterable[Any]], Any]:
    """A collate_fn for examples whose tensors differ in size: such a tensor becomes a dict of
    "values", padded at the end of its axes to the largest (a multiple of `multiple`), and
    "lengths", the sizes of its first axis."""

    def collate(examples: Iterable[Any]) -> Any:
        return _data._pad(examples, value, multiple)

    return collate
