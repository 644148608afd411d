"""Data sets of Python and C++ through one loader; transforms; files."""

import gc
import gzip
import struct
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import mica
import numpy as np
import pytest
from mica import data


class Squares(data.Dataset):
    def __init__(self, n=20):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return np.full((2, 3), i, np.float32), i * i


class Plain:
    """Derived from nothing."""

    def __len__(self):
        return 5

    def __getitem__(self, i):
        return mica.full((1,), i), mica.tensor(i)


def walk(loader):
    return [(x.cpu().numpy(), y.cpu().numpy()) for x, y in loader]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_python_dataset(device, workers):
    loader = data.DataLoader(Squares(), batch_size=6, num_workers=workers, device=device)
    assert len(loader) == 4 and loader.examples == 20
    batches = walk(loader)
    assert [x.shape for x, _ in batches] == [(6, 2, 3)] * 3 + [(2, 2, 3)]
    y = np.concatenate([y for _, y in batches])
    assert y.dtype == np.int64
    np.testing.assert_array_equal(y, np.arange(20) ** 2)


def test_any_object_will_do(device):
    y = np.concatenate([y for _, y in walk(data.DataLoader(Plain(), 2, device=device))])
    np.testing.assert_array_equal(y, range(5))
    with pytest.raises(TypeError, match="__len__ and __getitem__, got int"):
        data.DataLoader(3)

    class Half(data.Dataset):
        pass

    with pytest.raises(TypeError, match="Half must define __len__"):
        len(Half())


def test_orders():
    def order(loader):
        return np.concatenate([y for _, y in walk(loader)]).tolist()

    a = data.DataLoader(Squares(), 6, shuffle=3, num_workers=2)
    first, second = order(a), order(a)
    assert first != second and sorted(first) == sorted(second)
    b = data.DataLoader(Squares(), 6, shuffle=3)
    assert order(b) == first and order(b.epoch(1)) == second
    assert order(b.epoch(1, first_batch=2)) == second[12:]
    mica.manual_seed(5)
    c = order(data.DataLoader(Squares(), 6, shuffle=True))
    mica.manual_seed(5)
    assert order(data.DataLoader(Squares(), 6, shuffle=True)) == c != first


@pytest.mark.parametrize("resident", [False, True])
def test_drop_last(device, resident):
    def labels(**options):
        loader = data.DataLoader(
            Squares(), 6, shuffle=3, device=device, resident=resident, **options
        )
        batches = [y for _, y in walk(loader)]
        assert len(loader) == len(batches) and loader.examples == sum(map(len, batches))
        return np.concatenate(batches).tolist()

    assert len(labels()) == 20 and labels(drop_last=True) == labels()[:18]
    loader = data.DataLoader(Squares(), 32, drop_last=True)
    assert loader.drop_last and len(loader) == 0 and list(loader) == []


def test_arrays_go_in_directly(device):
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    y = np.arange(8)
    for source in (data.TensorDataset(x, y), (x, y)):
        (batch,) = walk(data.DataLoader(source, 8, device=device, resident=True))
        np.testing.assert_array_equal(batch[0], x)
        np.testing.assert_array_equal(batch[1], y)
    images = np.full((2, 1, 2, 2), 255, np.uint8)
    ((pixels, _),) = walk(data.DataLoader((images, y[:2]), 2))
    np.testing.assert_array_equal(pixels, np.ones((2, 1, 2, 2), np.float32))
    with pytest.raises(mica.ShapeError):
        data.DataLoader((x, y[:3]))


def test_methods():
    squares = Squares()
    assert len(squares.first(3)) == 3
    assert [y.item() for _, y in squares.subset([4, 2])] == [16, 4]
    doubled = squares.map(lambda x, y: (x * 2, y + 1))
    x, y = doubled[3]
    assert x.numpy()[0, 0] == 6 and y.item() == 10
    assert doubled[-1][1].item() == 362
    assert sorted(y.item() for _, y in squares.shuffle(1)) == [i * i for i in range(20)]
    assert data.DataLoader(squares.first(5)).dataset[2][1].item() == 4
    named = data.TensorDataset(np.zeros((2, 1)), np.zeros(2), class_names=["a", "b"])
    assert named.class_names == ["a", "b"]
    with pytest.raises(IndexError):
        named[2]


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_say_which_example(workers):
    class Broken(Squares):
        def __getitem__(self, i):
            if i == 13:
                raise LookupError("no such file")
            return super().__getitem__(i)

    with pytest.raises(LookupError, match="no such file") as e:
        walk(data.DataLoader(Broken(), 4, num_workers=workers))
    assert e.value.__notes__ == ["data: in example 13"]
    assert e.traceback[-1].name == "__getitem__"

    class Odd(Squares):
        def __getitem__(self, i):
            return {"x": [np.zeros(2), "text"]}

    with pytest.raises(TypeError, match=r'example\["x"\]\[1\]: expected a tensor.* got str'):
        walk(data.DataLoader(Odd(), 4, num_workers=workers))

    class Ragged(Squares):
        def __getitem__(self, i):
            return np.zeros(i), 0

    with pytest.raises(mica.ShapeError):
        walk(data.DataLoader(Ragged(), 4, num_workers=workers))


def test_a_walk_may_be_left():
    class Slow(Squares):
        def __getitem__(self, i):
            time.sleep(0.001)
            return super().__getitem__(i)

    for _ in range(5):
        for _ in data.DataLoader(Slow(), 2, num_workers=3):
            break


def test_a_walk_may_be_collected_by_its_own_thread():
    class Collects(Squares):
        def __getitem__(self, i):
            gc.collect()
            time.sleep(0.001)
            return super().__getitem__(i)

    class Holder:
        pass

    for _ in range(5):
        holder = Holder()
        holder.itself, holder.walk = holder, iter(data.DataLoader(Collects(), 2, num_workers=2))
        next(holder.walk)
        del holder
        time.sleep(0.01)


def test_two_threads_walk_at_once():
    sums = []

    def work():
        sums.append(
            sum(int(y.sum()) for _, y in walk(data.DataLoader(Squares(), 4, num_workers=2)))
        )

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sums == [sum(i * i for i in range(20))] * 3


def run_script(script):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60
    )


def test_exit_in_the_middle_of_a_walk():
    result = run_script("""
        import time
        import mica
        class Slow:
            def __len__(self):
                return 1000
            def __getitem__(self, i):
                time.sleep(0.002)
                return mica.zeros(2), 0
        walk = iter(mica.data.DataLoader(Slow(), 4, num_workers=3))
        next(walk)
    """)
    assert result.returncode == 0 and result.stderr == ""


def test_keyboard_interrupt_ends_a_walk():
    result = run_script("""
        import os, signal, threading, time
        import mica
        class Slow:
            def __len__(self):
                return 100000
            def __getitem__(self, i):
                time.sleep(0.001)
                return mica.zeros(2), 0
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            for _ in mica.data.DataLoader(Slow(), 4, num_workers=2):
                pass
        except KeyboardInterrupt:
            print("interrupted")
    """)
    assert result.stdout == "interrupted\n", result.stderr


def test_transforms(device):
    x = np.arange(2 * 1 * 4 * 4, dtype=np.float32).reshape(2, 1, 4, 4)
    t = mica.tensor(x, device=device)
    np.testing.assert_allclose(
        data.normalize([1.0], [2.0])(t, [0, 1]).cpu().numpy(), (x - 1) / 2, rtol=1e-6
    )
    np.testing.assert_array_equal(data.flip(1.0)(t, [0, 1]).cpu().numpy(), x[..., ::-1])
    np.testing.assert_array_equal(data.vertical_flip(1.0)(t, [0, 1]).cpu().numpy(), x[:, :, ::-1])
    assert data.resize((8, 6))(t, [0, 1]).shape == (2, 1, 8, 6)
    crop = data.pad_crop(2)
    a = crop(t, [0, 1], seed=1).cpu().numpy()
    np.testing.assert_array_equal(a, crop(t, [0, 1], seed=1).cpu().numpy())
    np.testing.assert_array_equal(a[1:], crop(t[1:], [1], seed=1).cpu().numpy())
    parameters = crop.draw([0, 1], seed=1)
    assert parameters.shape[0] == 2 and data.normalize([0.0], [1.0]).draw([0, 1]) is None
    np.testing.assert_array_equal(a, crop.apply(t, parameters.to(device)).cpu().numpy())
    assert data.rotate(10)(t, [0, 1]).shape == x.shape
    assert data.color_jitter(brightness=0.1)(t / 32, [0, 1]).shape == x.shape


def test_transforms_of_python(device):
    scale = data.Transform("scale", lambda x: x * 10)
    shift = data.Transform(
        "shift",
        lambda x, p: x + p.reshape(-1, 1, 1, 1),
        count=1,
        draw=lambda numbers: [round(100 * n) for n in numbers],
    )
    images, labels = np.ones((6, 1, 2, 2), np.float32), np.zeros(6)
    for workers in (0, 2):
        loader = data.DataLoader(
            (images, labels),
            3,
            shuffle=1,
            num_workers=workers,
            device=device,
            augment=[scale, shift],
        )
        values = np.concatenate([x for x, _ in walk(loader)])
        assert (values >= 10).all() and len(np.unique(values)) > 2
        assert (values == values.round()).all()

    def fails(x):
        raise ArithmeticError("in a transform")

    with pytest.raises(ArithmeticError, match="in a transform"):
        walk(data.DataLoader((images, labels), augment=[data.Transform("f", fails)], num_workers=1))


def test_feed(device):
    x = np.arange(8, dtype=np.float32).reshape(8, 1)
    loader = data.DataLoader((x, np.zeros(8)), 2, shuffle=3, device=device, resident=True)
    feed = data.Feed(loader)
    total = mica.zeros(1, device=device)

    @mica.compile
    def step():
        batch, _ = feed.next(2)
        total.add_(batch.sum().reshape(1))

    feed.start(0)
    step.repeat(4)
    assert total.item() == 28
    assert step.captures == 1 and step.kernels


def test_files(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,label\n1,2,0\n3,4,1\n")
    x, y = data.read_csv(tmp_path / "a.csv", header=True, label_name="label")
    assert x.numpy().tolist() == [[1, 2], [3, 4]] and y.numpy().tolist() == [0, 1]
    header = struct.pack(">BBBBI", 0, 0, 8, 1, 3)
    with gzip.open(tmp_path / "a.idx.gz", "wb") as f:
        f.write(header + bytes([1, 2, 3]))
    assert data.read_idx(tmp_path / "a.idx.gz").numpy().tolist() == [1, 2, 3]
    for name, value in (("cat", 10), ("dog", 200)):
        (tmp_path / "images" / name).mkdir(parents=True)
        mica.io.write_png(
            tmp_path / "images" / name / "1.png", mica.full((3, 4, 5), value, dtype=mica.uint8)
        )
    folder = data.image_folder(tmp_path / "images")
    assert folder.class_names == ["cat", "dog"] and len(folder) == 2
    image, label = folder[1]
    assert image.shape == (3, 4, 5) and image.numpy().max() == 200 and label.item() == 1
    with pytest.raises(OSError, match=r"no\.csv"):
        data.read_csv(tmp_path / "no.csv")


def test_a_data_set_that_holds_its_loader_is_collected():
    class Holds:
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return [float(i)], 0

    for walked in (False, True):
        dataset = Holds()
        dataset.loader = data.DataLoader(dataset, 2)
        if walked:
            assert len(list(dataset.loader)) == 2
        gone = weakref.ref(dataset)
        del dataset
        gc.collect()
        assert gone() is None
