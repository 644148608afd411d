"""Other Python threads run while the library works."""

import sys
import threading
import time

import mica
import numpy as np
import pytest

TICK = 0.0005


@pytest.fixture
def ticks():
    """A list that another thread adds to. No thread takes the GIL from one that does not let go of
    it by itself: without that, a tick could come between a call and the look at the list."""
    found, running = [], True

    def tick():
        while running:
            found.append(None)
            time.sleep(TICK)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    thread = threading.Thread(target=tick)
    thread.start()
    yield found
    running = False
    thread.join()
    sys.setswitchinterval(before)


# Each makes what it needs and returns what is to run beside other threads.


def matmul(path):
    x = mica.randn(2048, 2048)
    return lambda: x @ x


def item(path):
    x = mica.randn(16_000_000)
    return lambda: x.sum().item()


def copy_of_an_array(path):
    array = np.ones(32_000_000, np.float32)
    return lambda: mica.tensor(array)


def numpy(path):
    x = mica.ones(16_000_000, dtype=mica.bfloat16)
    return lambda: x.numpy(force=True)


def weights(path):
    return lambda: mica.nn.Linear(4000, 4000)


def init(path):
    x = mica.empty(16_000_000)
    return lambda: mica.nn.init.normal_(x)


def save(path):
    tensors = {"x": mica.ones(16_000_000)}
    return lambda: mica.io.save_safetensors(path / "x.safetensors", tensors)


def load(path):
    mica.io.save_safetensors(path / "x.safetensors", {"x": mica.ones(16_000_000)})
    return lambda: mica.io.load_safetensors(path / "x.safetensors").tensors["x"].clone()


def encode_png(path):
    image = mica.randint(0, 256, (3, 1024, 1024), dtype=mica.uint8)
    return lambda: mica.io.encode_png(image)


def backward(path):
    x = mica.randn(1024, 1024, requires_grad=True)
    loss = (x @ x @ x @ x).sum()
    return lambda: loss.backward(retain_graph=True)


def clip(path):
    x = mica.zeros(16_000_000, requires_grad=True)
    x.grad = mica.ones(16_000_000)
    return lambda: mica.optim.clip_grad_norm_([x], 1.0)


def step(path):
    x = mica.zeros(16_000_000, requires_grad=True)
    x.grad = mica.ones(16_000_000)
    optimizer = mica.optim.Adam([x])
    return lambda: optimizer.step()


def compiled(path):
    x = mica.randn(2048, 2048)
    function = mica.compile(lambda x: x @ x)
    function(x)
    return lambda: function(x)


def fit(path):
    x, y = mica.randn(4096, 1024), mica.zeros(4096, dtype=mica.int64)
    loader = mica.data.DataLoader((x, y), batch_size=512)
    net = mica.nn.Sequential(mica.nn.Linear(1024, 1024), mica.nn.ReLU(), mica.nn.Linear(1024, 10))
    optimizer = mica.optim.SGD(net.parameters(), lr=0.01)
    trainer = mica.train.Trainer(net, optimizer, epochs=2, progress=False)
    return lambda: trainer.fit(loader, loader)


WORK = [matmul, item, copy_of_an_array, numpy, weights, init, save, load, encode_png, backward]
WORK += [clip, step, compiled, fit]


def share(ticks, work):
    """Of the time of the work, the part in which the other thread ran."""
    start, before, seconds = time.perf_counter(), len(ticks), 0
    while seconds < 0.2:
        work()
        seconds = time.perf_counter() - start
    return (len(ticks) - before) * TICK / seconds


@pytest.mark.parametrize("prepare", WORK, ids=lambda prepare: prepare.__name__)
def test_threads_run_beside(prepare, ticks, tmp_path):
    work = prepare(tmp_path)
    # Nothing where the GIL is held, nearly everything where it is not; the machine may be busy.
    assert any(share(ticks, work) > 0.1 for _ in range(3))
