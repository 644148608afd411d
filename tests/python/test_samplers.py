"""DataLoader's samplers, collate_fn and parts of data sets."""

import mica
import pytest
from mica import data


class Ragged:
    def __len__(self):
        return 5

    def __getitem__(self, i):
        return {"x": mica.full((i + 1, 2), float(i)), "y": i}


def labels(loader):
    return [y.tolist() for _, y in loader]


def flat(lists):
    return [number for each in lists for number in each]


def pairs(n):
    return mica.arange(n), mica.arange(n)


def test_collate_fn_and_padding(device):
    loader = data.DataLoader(Ragged(), 2, collate_fn=data.pad_collate(value=-1.0), device=device)
    batches = list(loader)
    assert [b["x"]["lengths"].tolist() for b in batches[:2]] == [[1, 2], [3, 4]]
    assert batches[2]["x"].shape == (1, 5, 2)  # alone it has one size
    assert batches[1]["x"]["values"].shape == (2, 4, 2)
    assert batches[1]["x"]["values"][0, 3].tolist() == [-1, -1]
    assert batches[1]["y"].tolist() == [2, 3]
    with pytest.raises(mica.ShapeError, match="of example 1 is"):
        next(iter(data.DataLoader(Ragged(), 2)))

    def joined(examples):
        return {"n": len(examples), "sum": sum(e["y"] for e in examples)}

    assert [b["sum"].item() for b in data.DataLoader(Ragged(), 2, collate_fn=joined)] == [1, 5, 4]


def test_samplers():
    random = data.DataLoader(pairs(10), 3, sampler=data.RandomSampler(range(10), generator=1))
    first, second = labels(random), labels(random)
    assert first != second and len(random) == 4
    assert sorted(flat(first)) == sorted(flat(second)) == list(range(10))
    assert labels(random.epoch(0)) == first
    twice = data.RandomSampler(range(4), replacement=True, num_samples=50, generator=3)
    assert set(twice) == {0, 1, 2, 3} and len(twice) == 50
    weighted = data.WeightedRandomSampler([0, 1, 0, 3], 400, generator=1)
    drawn = list(weighted)
    assert set(drawn) == {1, 3} and 250 < drawn.count(3) < 350
    assert sorted(data.WeightedRandomSampler([1, 0, 2, 5], 3, replacement=False)) == [0, 2, 3]
    assert sorted(data.SubsetRandomSampler([7, 3, 5])) == [3, 5, 7]
    parts = [list(data.DistributedSampler(range(10), 3, rank)) for rank in range(3)]
    assert [len(p) for p in parts] == [4, 4, 4] and set(flat(parts)) == set(range(10))
    batches = data.BatchSampler(data.SequentialSampler(range(10)), 4, False)
    assert labels(data.DataLoader(pairs(10), batch_sampler=batches)) == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    with pytest.raises(mica.IndexError, match="no example 10 in a set of 10"):
        list(data.DataLoader(pairs(10), sampler=[10]))
    with pytest.raises(mica.Error, match="excludes shuffle"):
        data.DataLoader(pairs(10), sampler=[1], shuffle=True)


def test_pytorchs_names_and_defaults():
    assert labels(data.DataLoader(pairs(3))) == [[0], [1], [2]]
    assert [e["y"].item() for e in data.DataLoader(Ragged(), batch_size=None)] == list(range(5))
    started = []
    loader = data.DataLoader(
        pairs(8),
        2,
        num_workers=2,
        pin_memory=True,
        timeout=0,
        worker_init_fn=started.append,
        generator=4,
        prefetch_factor=2,
        persistent_workers=False,
    )
    assert flat(labels(loader)) == list(range(8)) and set(started) <= {0, 1} and started
    seeded = [labels(data.DataLoader(pairs(9), 3, shuffle=True, generator=4)) for _ in range(2)]
    assert seeded[0] == seeded[1]


def test_parts():
    first, second = data.random_split(pairs(10), [7, 3], generator=1)
    assert (len(first), len(second)) == (7, 3)
    both = data.ConcatDataset([first, second])
    assert sorted(both[i][1].item() for i in range(10)) == list(range(10))
    assert [len(p) for p in data.random_split(pairs(10), [0.5, 0.25, 0.25])] == [6, 2, 2]
    assert data.Subset(pairs(10), [4, 2])[1][1].item() == 2
    with pytest.raises(mica.Error, match="add up to 9"):
        data.random_split(pairs(10), [4, 5])
