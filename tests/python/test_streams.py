"""Iterable data sets: batches of streams, parts of workers, shuffling, training on them."""

import collections
import gc
import weakref

import mica
import pytest
from mica import data, nn, optim, train


class Numbers(data.IterableDataset):
    """0 … n - 1, split among workers as PyTorch's documentation does it."""

    def __init__(self, n, splits=True):
        super().__init__()
        self.n, self.splits = n, splits

    def __iter__(self):
        first, step = 0, 1
        if self.splits:
            info = data.get_worker_info()
            if info is not None:
                first, step = info.id, info.num_workers
        for i in range(first, self.n, step):
            yield mica.full((2,), float(i)), i


def labels(loader):
    return [y.tolist() for _, y in loader]


def flat(lists):
    return [number for each in lists for number in each]


def test_batches(device):
    loader = data.DataLoader(Numbers(7), 3, device=device)
    assert labels(loader) == [[0, 1, 2], [3, 4, 5], [6]] == labels(loader)
    assert [x.shape for x, _ in loader] == [(3, 2), (3, 2), (1, 2)]
    assert labels(loader.epoch(0, 2)) == [[6]]
    assert labels(data.DataLoader(Numbers(7), 3, drop_last=True)) == [[0, 1, 2], [3, 4, 5]]
    assert [y.item() for _, y in data.DataLoader(Numbers(3), batch_size=None)] == [0, 1, 2]
    assert loader.examples is None and isinstance(loader.dataset, data.IterableDataset)
    with pytest.raises(TypeError, match="does not say how many"):
        len(loader)


def test_any_iterable_is_one():
    def lines():
        for i in range(5):
            yield {"x": [float(i)] * 3, "y": i}

    class Lines:
        def __iter__(self):
            return lines()

    class Sized(Lines):
        def __len__(self):
            return 5

    assert [b["y"].tolist() for b in data.DataLoader(lines(), 2)] == [[0, 1], [2, 3], [4]]
    assert [b["x"].shape for b in data.DataLoader(Lines(), 4)] == [(4, 3), (1, 3)]
    assert len(data.DataLoader(Sized(), 2)) == 3
    for workers in (1, 3):  # a generator is one for all
        walked = data.DataLoader(lines(), 2, num_workers=workers)
        assert [b["y"].tolist() for b in walked] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_have_parts(workers):
    split = labels(data.DataLoader(Numbers(11), 2, num_workers=workers))
    assert sorted(flat(split)) == list(range(11))
    assert split == labels(data.DataLoader(Numbers(11), 2, num_workers=workers))
    assert split[0] == [0, workers]
    whole = data.DataLoader(Numbers(11, splits=False), 2, num_workers=workers)
    assert flat(labels(whole)) == list(range(11))


def test_worker_init_fn_sets_the_part():
    class Range:
        def __init__(self, start, end):
            self.start, self.end = start, end

        def __iter__(self):
            return iter([(float(i), i) for i in range(self.start, self.end)])

    whole = Range(0, 10)

    def halve(worker):
        info = data.get_worker_info()
        assert info.id == worker and info.num_workers == 2 and info.dataset is not whole
        info.dataset.start, info.dataset.end = 5 * worker, 5 * (worker + 1)

    loader = data.DataLoader(whole, 5, num_workers=2, worker_init_fn=halve)
    assert labels(loader) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert (whole.start, whole.end) == (0, 10) and data.get_worker_info() is None


def test_workers_of_indexed_sets_know_themselves():
    seen = set()

    class Asking:
        def __len__(self):
            return 40

        def __getitem__(self, i):
            info = data.get_worker_info()
            seen.add((info.id, info.num_workers, info.dataset is self))
            return float(i), i

    assert flat(labels(data.DataLoader(Asking(), 2, num_workers=2))) == list(range(40))
    assert seen <= {(0, 2, True), (1, 2, True)} and seen


def test_shuffle_map_and_chain():
    shuffled = Numbers(50).shuffle(10, seed=3)
    loader = data.DataLoader(shuffled, 5)
    first, second = flat(labels(loader)), flat(labels(loader))
    assert first != second and sorted(first) == sorted(second) == list(range(50))
    assert first == flat(labels(loader.epoch(0)))
    assert all(value < place + 10 for place, value in enumerate(first))
    words = ["a", "bb", "ccc"]

    class Words(data.IterableDataset):
        def __iter__(self):
            return iter(words)

    lengths = Words().map(lambda word: (float(len(word)), len(word)))
    assert labels(data.DataLoader(lengths, 2)) == [[1, 2], [3]]
    assert list(Words().map(str.upper)) == ["A", "BB", "CCC"]
    both = data.ChainDataset([lengths, Numbers(2).map(lambda x, y: (float(y), y))])
    assert flat(labels(data.DataLoader(both, 2))) == [1, 2, 3, 0, 1]
    assert sorted(flat(labels(data.DataLoader(both, 2, num_workers=3)))) == [0, 1, 1, 2, 3]
    collated = data.DataLoader(Words(), 2, collate_fn=lambda ws: [float(len(w)) for w in ws])
    assert [b[0].item() for b in collated] == [1, 3]


def test_set_epoch_is_told():
    class Epochs(data.IterableDataset):
        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            return iter([(0.0, self.epoch)])

    loader = data.DataLoader(Epochs())
    assert [labels(loader) for _ in range(3)] == [[[0]], [[1]], [[2]]]


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_name_the_example_and_the_leaf(workers):
    class Odd(data.IterableDataset):
        def __init__(self, what):
            super().__init__()
            self.what = what

        def __iter__(self):
            for i in range(6):
                if i == 3 and self.what == "raises":
                    raise ValueError("torn")
                if i == 3 and self.what == "word":
                    yield {"x": object()}
                yield {"x": mica.zeros(3 if i == 3 else 2)}

    def walk(what):
        return list(data.DataLoader(Odd(what), 2, num_workers=workers))

    with pytest.raises(mica.ShapeError, match=r'example\["x"\] of example 3 is f32\[3\]'):
        walk("shape")
    with pytest.raises(ValueError, match="torn") as raised:
        walk("raises")
    assert "data: in example 3" in raised.value.__notes__
    with pytest.raises(TypeError, match=r'example\["x"\]: .* got object, in example 3'):
        walk("word")
    with pytest.raises(mica.Error, match="has its own order"):
        data.DataLoader(Numbers(3), shuffle=True)
    with pytest.raises(mica.Unsupported, match="cannot be resident"):
        data.DataLoader(Numbers(3), resident=True)
    with pytest.raises(TypeError, match="must define __iter__"):
        list(data.DataLoader(data.IterableDataset.__new__(type("E", (data.IterableDataset,), {}))))


def test_a_stream_that_holds_its_loader_is_collected():
    stream = Numbers(3)
    stream.loader = data.DataLoader(stream)
    list(stream.loader)
    gone = weakref.ref(stream)
    del stream
    gc.collect()
    assert gone() is None


class Sums(data.IterableDataset):
    """Rows and their sums, drawn anew in each epoch."""

    def __init__(self, n):
        super().__init__()
        self.n, self.epoch, self.opened = n, 0, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        self.opened += 1
        for row in rows_of(self.n, self.epoch):
            yield row, [sum(row)]


def rows_of(n, epoch):
    return [[((7 * i + 3 * k + epoch) % 11) / 11 for k in range(3)] for i in range(n)]


def fit(loader, device, out="", stop_at=None, resume=False, **options):
    mica.manual_seed(0)
    net = nn.Linear(3, 1).to(device)
    held_out = data.DataLoader(Sums(20), 8, device=device)
    events = collections.Counter()

    class Watch(train.Callback):
        def on_step_end(self, step):
            if step == stop_at:
                trainer.stop()

        def on_epoch_end(self, result):
            events["steps", result.epoch] = result.steps

    trainer = train.Trainer(
        net,
        optim.SGD(net.parameters(), lr=0.05, momentum=0.5),
        loss=nn.MSELoss(),
        out=out,
        progress=False,
        callbacks=[Watch()],
        **options,
    )
    if resume:
        trainer.resume(out)
    outcome = trainer.fit(loader, held_out)
    return outcome, net.weight.tolist(), [events["steps", r.epoch] for r in outcome.epochs]


@pytest.mark.parametrize("compiled", [False, True])
def test_training_on_a_stream(device, compiled):
    stream = Sums(50)
    loader = data.DataLoader(stream, 8, device=device)
    outcome, _, steps = fit(loader, device, epochs=3, compile=compiled)
    assert steps == [7, 14, 21] and stream.opened == 3
    assert outcome.epochs[-1].test_loss < outcome.epochs[0].test_loss
    assert outcome.evaluation.examples == 20
    # Epochs of so many steps go on in the stream, which is opened anew when it has ended.
    stream = Sums(50)
    loader = data.DataLoader(stream, 8, device=device)
    _, _, steps = fit(loader, device, epochs=4, compile=compiled, steps_per_epoch=5)
    assert steps == [5, 7, 12, 14] and stream.opened == 2


def test_a_run_over_a_stream_goes_on(device, tmp_path):
    def loader():
        return data.DataLoader(Sums(50), 8, device=device, num_workers=1)

    options = {"epochs": 4, "steps_per_epoch": 5}
    _, expected, _ = fit(loader(), device, **options)
    stopped, _, _ = fit(loader(), device, out=str(tmp_path), stop_at=9, **options)
    assert stopped.stopped_early
    _, weights, _ = fit(loader(), device, out=str(tmp_path), resume=True, **options)
    assert weights == expected


def test_a_generator_ends_with_its_first_walk(device):
    pairs = (([1.0, 2.0, 3.0], [6.0]) for _ in range(16))
    loader = data.DataLoader(pairs, 8, device=device)
    with pytest.raises(mica.Error, match=r"gave no batch in epoch 2: .* a\s?generator"):
        fit(loader, device, epochs=2)


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_training_by_samplers(device, resident, compiled):
    rows = mica.tensor(rows_of(40, 0))
    examples = (rows, rows.sum(1, keepdim=True))
    taken = [i for i in range(40) if i % 3]

    def run(**how):
        loader = data.DataLoader(examples, device=device, resident=resident, **how)
        return fit(loader, device, epochs=3, compile=compiled)

    _, weights, steps = run(batch_size=8, sampler=data.SubsetRandomSampler(taken, generator=1))
    assert steps == [4, 8, 12]
    by_batches = data.BatchSampler(data.SubsetRandomSampler(taken, generator=1), 8, False)
    _, same, steps = run(batch_sampler=by_batches)
    assert same == weights and steps == [4, 8, 12]
    lists = [[0, 1, 2], [3], [4, 5, 6]]
    _, _, steps = run(batch_sampler=lists)
    assert steps == [3, 6, 9]

    class Unsized:
        def __iter__(self):
            return iter(taken)

    _, _, steps = run(batch_size=8, sampler=Unsized())
    assert steps == [4, 8, 12]


def test_feeds_by_samplers(device):
    sampler = data.WeightedRandomSampler([1, 2, 3, 4], 10, generator=2)
    pair = (mica.arange(4).reshape(4, 1), mica.arange(4))
    loader = data.DataLoader(pair, 4, sampler=sampler, resident=True, device=device)
    feed = data.Feed(loader)
    for epoch in range(2):
        feed.start(epoch)
        sizes = [feed.size_of(b) for b in range(feed.batches)]
        assert sizes == [4, 4, 2]
        assert [feed.next(n)[1].tolist() for n in sizes] == labels(loader.epoch(epoch))


def test_an_epoch_that_the_sampler_was_told_is_kept():
    sampler = data.DistributedSampler(range(12), 2, 0)
    loader = data.DataLoader((mica.arange(12), mica.arange(12)), 3, sampler=sampler)
    orders = [flat(labels(loader)) for _ in range(4)]
    again = data.DataLoader((mica.arange(12), mica.arange(12)), 3, sampler=sampler)
    sampler.set_epoch(2)
    assert flat(labels(again)) == orders[2] and flat(labels(again)) == orders[3]
    assert len(set(map(tuple, orders))) == 4
