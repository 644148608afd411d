"""torch.utils.data: data sets as Python has them, which mica's DataLoader reads."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import mica
from mica.data import IterableDataset as _Stream

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Examples by number."""

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class TensorDataset(Dataset):
    """The rows of tensors."""

    def __init__(self, *tensors: Any) -> None:
        if any(t.shape[0] != tensors[0].shape[0] for t in tensors):
            raise ValueError("TensorDataset: the tensors differ in their first size")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class ConcatDataset(Dataset):
    """Data sets one after the other."""

    def __init__(self, datasets: Any) -> None:
        self.datasets = list(datasets)
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        index = range(len(self))[index]
        which = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]


class StackDataset(Dataset):
    """Data sets side by side: an example is a tuple, or a dictionary, of one of each."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset: expected data sets by place or by name")
        self.datasets: Any = args or kwargs
        lengths = {len(each) for each in args or kwargs.values()}
        if len(lengths) != 1:
            raise ValueError(f"StackDataset: the data sets have {sorted(lengths)} examples")
        self._length = lengths.pop()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: each[index] for name, each in self.datasets.items()}
        return tuple(each[index] for each in self.datasets)

    def __len__(self) -> int:
        return self._length


class Subset(Dataset):
    """Some examples of a data set, by their numbers."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset]:
    """Parts of a data set, of these lengths or fractions, drawn at random."""
    size = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = [math.floor(size * part) for part in lengths]
        for i in range(size - sum(lengths)):
            lengths[i % len(lengths)] += 1
    if sum(lengths) != size:
        raise ValueError(f"random_split: lengths {list(lengths)} do not add up to {size}")
    order = mica.randperm(size, generator=generator).tolist()
    ends = list(itertools.accumulate(lengths))
    return [
        Subset(dataset, order[end - length : end])
        for end, length in zip(ends, lengths, strict=True)
    ]


def default_convert(data: Any) -> Any:
    """Arrays and numbers as tensors, wherever they lie in a tree."""
    if isinstance(data, mica.Tensor | str | bytes):
        return data
    if hasattr(data, "__array_interface__"):
        return mica.tensor(data)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(part) for part in data))
    if isinstance(data, tuple | list):
        return [default_convert(part) for part in data]
    return data


def default_collate(batch: Any) -> Any:
    """One batch of a list of examples: tensors are stacked, numbers become tensors, texts stay."""
    first = batch[0]
    if isinstance(first, mica.Tensor):
        return mica.stack(list(batch))
    if isinstance(first, bool | int):
        return mica.tensor(list(batch))
    if isinstance(first, float):
        return mica.tensor(list(batch), dtype=mica.float64)
    if hasattr(first, "__array_interface__"):
        return mica.stack([mica.tensor(each) for each in batch])
    if isinstance(first, str | bytes):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate([each[key] for each in batch]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(part) for part in zip(*batch, strict=True)))
    if isinstance(first, tuple | list):
        return [default_collate(list(part)) for part in zip(*batch, strict=True)]
    raise TypeError(
        "default_collate: expected tensors, arrays, numbers, texts, or tuples, lists or dicts of "
        f"them, got {type(first).__name__}"
    )


_MANY = 1 << 20  # numbers that a loader may hold at once


class RandomSampler(mica.data.RandomSampler):
    """mica's; very many numbers are drawn as they are asked for."""

    def __init__(
        self, data_source: Any, replacement: bool = False, num_samples: int | None = None,
        generator: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(data_source, replacement, num_samples, generator)
        self.data_source, self.replacement = data_source, replacement
        self.num_samples = len(data_source) if num_samples is None else num_samples

    def __iter__(self) -> Any:
        if not self.replacement or self.num_samples <= _MANY:
            return super().__iter__()
        return self._draws()

    def _draws(self) -> Any:
        left = self.num_samples
        while left > 0:
            drawn = mica.randint(0, len(self.data_source), (min(left, 1024),)).tolist()
            left -= len(drawn)
            yield from drawn


class _Drawn(_Stream):
    """The examples that a sampler without an end in sight names."""

    def __init__(self, dataset: Any, sampler: Any) -> None:
        super().__init__()
        self.dataset, self.sampler = dataset, sampler

    def __iter__(self) -> Any:
        return (self.dataset[i] for i in self.sampler)


class _Rows:
    """A list of examples, which mica's loader would take for arrays, as a data set."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = rows

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)


class DataLoader(mica.data.DataLoader):
    """mica's, which prepares batches in threads; a batch is what `collate_fn` made, whatever that
    is: mica's loader carries its number."""

    def __init__(self, dataset: Any, *args: Any, **options: Any) -> None:
        for name in ("pin_memory_device", "in_order"):  # batches come in order always
            options.pop(name, None)
        names = ("batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn")
        options = dict(zip(names, args, strict=False)) | options
        self.num_workers = options.get("num_workers", 0)
        self.pin_memory = options.get("pin_memory", False)
        self.generator = options.get("generator")
        self.batch_sampler = options.get("batch_sampler")
        self.sampler = options.get("sampler") or self._default_sampler(dataset, options)
        alone = options.get("batch_size", 1) is None
        collate = options.get("collate_fn") or (default_convert if alone else default_collate)
        self.collate_fn = collate
        self._made: dict[int, Any] = {}
        self._numbers = itertools.count()
        self._walks = 0

        def make(examples: list[Any]) -> mica.Tensor:
            number = next(self._numbers)
            self._made[number] = collate(examples[0] if alone else examples)
            return mica.tensor(number)

        options["collate_fn"] = make
        if alone:
            options["batch_size"] = 1
        if isinstance(dataset, list | tuple | range | str):
            dataset = _Rows(dataset)
        sampler = options.get("sampler")
        if sampler is not None and (not hasattr(sampler, "__len__") or len(sampler) > _MANY):
            dataset = _Drawn(dataset, options.pop("sampler"))
        super().__init__(dataset, **options)

    def _default_sampler(self, dataset: Any, options: dict[str, Any]) -> Any:
        """What PyTorch's loader would have; mica's draws the order itself."""
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            return None
        kind = RandomSampler if options.get("shuffle") else mica.data.SequentialSampler
        return kind(dataset)

    def __iter__(self) -> Any:
        self._walks += 1
        try:
            for number in super().__iter__():
                yield self._made.pop(int(number))
        finally:
            self._walks -= 1
            if not self._walks:  # what was made ahead for a walk that was left
                self._made.clear()
