"""What no tensor can be made of gives a clear exception: no crash, and nothing is left behind."""

import array
import gc
import os
import pickle
import resource
import signal
import threading
import time
import weakref

import mica
import numpy as np
import pytest


class BadIndex:
    def __index__(self):
        raise RuntimeError("no index")


class BadFloat:
    def __float__(self):
        raise RuntimeError("no float")


class Exporter:
    """Speaks DLPack wrongly."""

    def __init__(self, capsule, device=(1, 0)):
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **kwargs):
        if isinstance(self.capsule, Exception):
            raise self.capsule
        return self.capsule

    def __dlpack_device__(self):
        return self.device


class CudaArray:
    def __init__(self, interface):
        self.__cuda_array_interface__ = interface


RECURSIVE = []
RECURSIVE.append(RECURSIVE)
DEEP = 1.0
for _ in range(10000):
    DEEP = [DEEP]
RECORD = np.zeros(2, dtype=[("a", "f4"), ("b", "u1")])

NO_TENSOR = {
    "ragged": ([[1, 2], [3]], ValueError, "different lengths"),
    "mixed": ([[1], 2], ValueError, "mixed|lists"),
    "objects": (np.array([1, "a"], object), TypeError, "dtype object"),
    "text": ("abc", TypeError, "no numbers"),
    "texts": (["a"], TypeError, "no numbers"),
    "none": ([None], TypeError, "no numbers"),
    "dict": ({}, TypeError, "no numbers"),
    "bad index": (BadIndex(), TypeError, "no numbers"),
    "bad float": ([BadFloat()], TypeError, "no numbers"),
    "recursive": (RECURSIVE, ValueError, "at most 8"),
    "deep": (DEEP, ValueError, "at most 8"),
    "large": ([2**64], OverflowError, "int64"),
    "date": (np.datetime64("2020-01-01"), TypeError, "datetime64"),
    "dates": (np.zeros(2, "M8[s]"), TypeError, "datetime64"),
    "bytes array": (np.zeros(2, "S3"), TypeError, "no numbers"),
    "records": (RECORD, TypeError, "no numbers"),
    "long double": (np.longdouble(1), TypeError, "no numbers"),
    "nine axes": (np.zeros((1,) * 9), ValueError, "at most 8"),
}


@pytest.mark.parametrize("name", NO_TENSOR)
def test_no_tensor_can_be_made_of(name):
    value, error, text = NO_TENSOR[name]
    for make in (mica.tensor, mica.asarray):
        with pytest.raises(error, match=text):
            make(value)


def test_numbers_that_do_not_fit():
    for value, dtype in ((-1, "uint8"), (256, "uint8"), (2**31, "int32"), (1e300, "int64")):
        with pytest.raises(OverflowError, match=dtype):
            mica.tensor([value], dtype=dtype)
    with pytest.raises(OverflowError, match="int32"):
        mica.tensor(float("nan"), dtype=mica.int32)
    assert mica.tensor(2**70, dtype=mica.float64).item() == 2.0**70


def test_unusual_memory_is_copied():
    assert mica.tensor(np.arange(3, dtype=">f4")).tolist() == [0, 1, 2]
    assert mica.tensor(RECORD["a"]).tolist() == [0, 0]
    assert mica.tensor(array.array("d", [1, 2])).tolist() == [1, 2]
    assert mica.tensor(b"ab").tolist() == [97, 98]
    assert mica.tensor(np.arange(6.0).reshape(2, 3)[::-1, ::-2]).tolist() == [[5, 3], [2, 0]]
    for what in (b"ab", RECORD["a"], np.arange(3, dtype=">f4"), np.float32(1)):
        with pytest.raises(TypeError, match=r"shared|array"):
            mica.from_numpy(what)


SHAPES = {
    "negative": ((-1,), ValueError),
    "more than 2^63": ((2**62, 2**62), ValueError),
    "more than there is": ((2**45,), MemoryError),
    "no 64 bits": ((2**63,), TypeError),
    "text": (("a",), TypeError),
    "fraction": ((2.5,), TypeError),
    "nested": (([2, [3]],), TypeError),
    "nine": ((1,) * 9, ValueError),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name, device):
    shape, error = SHAPES[name]
    for make in (mica.zeros, mica.empty, mica.rand):
        with pytest.raises(error):
            make(*shape, device=device)


def test_huge_views_have_no_memory(device):
    t = mica.ones(1, device=device).expand(2**60)
    assert t[2**59 :: 2**58].tolist() == [1, 1]
    with pytest.raises(MemoryError):
        t.clone()
    with pytest.raises(ValueError):
        mica.ones(3, device=device).repeat(2**62)


def test_bad_exporters():
    for exporter, error in (
        (Exporter(3), TypeError),
        (Exporter(None), TypeError),
        (Exporter(ValueError("no")), ValueError),
        (Exporter(3, "x"), TypeError),
        (Exporter(3, (99, 0)), mica.DeviceError),
        (CudaArray(3), TypeError),
        (CudaArray({"shape": (2,)}), TypeError),
        (CudaArray({"shape": (2,), "typestr": "<M8", "data": (0, False)}), TypeError),
    ):
        with pytest.raises(error):
            mica.from_dlpack(exporter)
    t = mica.ones(2)
    for arguments in ({"dl_device": 3}, {"max_version": ()}, {"copy": "a"}, {"stream": 2**70}):
        with pytest.raises(TypeError):
            t.__dlpack__(**arguments)


def test_devices_do_not_mix(device):
    t, nowhere = mica.ones(2, device=device), mica.ones(2, device="null")
    for call in (
        lambda: t + nowhere,
        lambda: t[nowhere.long()],
        lambda: mica.cat([t, nowhere]),
        lambda: mica.where(nowhere.bool(), t, t),
    ):
        with pytest.raises(mica.DeviceError, match="devices"):
            call()
    for read in (float, lambda x: x.tolist(), np.asarray, memoryview, pickle.dumps):
        with pytest.raises((NotImplementedError, BufferError)):
            read(nowhere[0])
    with pytest.raises(mica.DeviceError):
        mica.ones(2, device="cuda:99")


def test_integers_that_are_no_indices():
    t = mica.ones(2)
    with pytest.raises(IndexError, match="too large"):
        t[2**70]
    with pytest.raises(RuntimeError, match="no index"):
        t[BadIndex() :]
    with pytest.raises(TypeError):
        t[BadIndex()]
    assert t[2**70 :].shape == (0,) and t[:: 2**62].shape == t[:: -(2**63)].shape == (1,)


@pytest.mark.filterwarnings("ignore:nanobind")
def test_a_tensor_that_was_never_made():
    ghost = mica.Tensor.__new__(mica.Tensor)
    for use in (repr, len, lambda t: t + 1, lambda t: t.shape, lambda t: mica.ones(2)[t]):
        with pytest.raises((TypeError, RuntimeError)):
            use(ghost)


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def one_round(array):
    """Conversions, indexing and exceptions, about twenty of them."""
    t = mica.from_numpy(array)
    t.numpy()
    np.from_dlpack(mica.from_dlpack(t.T))
    memoryview(t).release()
    mica.tensor([[1, 2], [3, 4]])[[1, 0], ::-1].tolist()
    u = t[1:, None] + 1
    u[u > 3] = 0
    u += t[0]
    pickle.loads(pickle.dumps(u))
    t.__dlpack__(max_version=(1, 0))
    x = t.clone().requires_grad_()
    y = x * x
    y.retain_grad()
    y.sum().backward()
    repr(x)
    for bad in (
        lambda: mica.tensor([[1], [2, 3]]),
        lambda: t[7],
        lambda: t["a"],
        lambda: t + "a",
        lambda: mica.from_dlpack(array[::-1]),
        lambda: mica.matmul(t, u),
        lambda: x.numpy(),
        lambda: mica.zeros(2**45),
    ):
        try:
            bad()
        except (TypeError, ValueError, IndexError, RuntimeError, MemoryError):
            pass
        else:
            raise AssertionError


def test_nothing_leaks_in_100000_calls():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)

    def rounds(n):
        for _ in range(n):
            one_round(array)
        gc.collect()
        return resident(), mica.memory_stats("cpu")["allocated"], len(gc.get_objects())

    rounds(300)
    before = rounds(100)
    after = rounds(4500)  # of 22 calls
    assert after[1] == before[1]
    assert after[2] - before[2] < 100
    assert after[0] - before[0] < 2 << 20


def test_memory_outlives_its_tensor_in_threads():
    """Views that are let go in other threads while new ones are made."""
    parts, stop = [], threading.Event()

    def drop():
        while not stop.is_set() or parts:
            if parts:
                parts.pop()
            else:
                time.sleep(0.001)

    threads = [threading.Thread(target=drop) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(500):
        t = mica.from_numpy(np.full(1000, i))
        parts.extend([t[::2], t.numpy(), memoryview(t), np.from_dlpack(t), t.__dlpack__()])
        assert t[5].item() == i
    stop.set()
    for thread in threads:
        thread.join()


def test_other_threads_run_meanwhile():
    """A large operator lets go of the GIL."""
    a = mica.rand(1200, 1200)
    ticks, stop = [0], threading.Event()

    def tick():
        while not stop.is_set():
            ticks[0] += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=tick)
    thread.start()
    time.sleep(0.02)
    start, began = ticks[0], time.perf_counter()
    while time.perf_counter() - began < 0.3:
        mica.matmul(a, a)
    stop.set()
    thread.join()
    assert ticks[0] - start > 20


def long_chain(x, n):
    for _ in range(n):
        x = x.sin()
    return x.sum()


def test_keyboard_interrupt_in_backward():
    x = mica.rand(10, requires_grad=True)
    loss = long_chain(x, 200_000)  # takes longer than the wait on any machine
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        interrupt_after(0.03)
        loss.backward()
    assert time.perf_counter() - began < 5
    long_chain(x, 3).backward()  # what comes after is as ever
    assert x.grad.shape == x.shape


def interrupt_after(seconds):
    # On a busy machine it may come before start() has returned.
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()


def test_keyboard_interrupt_between_operators():
    a = mica.rand(200, 200)
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        interrupt_after(0.1)
        while time.perf_counter() - began < 20:
            a = mica.matmul(a, a) * 0.01
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("kind", ["leaf", "after", "result"])
def test_a_hook_that_holds_its_tensor_is_collected(kind):
    class Marker:
        pass

    def make():
        marker = Marker()
        w = mica.ones(3, requires_grad=True)
        t = w * 2 if kind == "result" else w
        hook = t.register_post_accumulate_grad_hook if kind == "after" else t.register_hook
        hook(lambda g: None if marker and t is not None else g)
        (t * t).sum().backward()
        return weakref.ref(marker), weakref.ref(t)

    alive = [make() for _ in range(3)]
    gc.collect()
    assert all(m() is None and t() is None for m, t in alive)


def test_hooks_of_tensors_that_others_hold_stay():
    calls = []
    w = mica.ones(3, requires_grad=True)
    opt = mica.optim.SGD([w], lr=0.1)
    w.register_hook(lambda g: calls.append(g) or None)
    gc.collect()
    (w * 2).sum().backward()
    assert len(calls) == 1
    del w
    gc.collect()
    (opt.param_groups[0]["params"][0] * 2).sum().backward()
    assert len(calls) == 2


def test_a_data_set_that_holds_its_loader_is_collected():
    class Set:
        def __init__(self):
            self.loader = mica.data.DataLoader(self, 2)

        def __len__(self):
            return 4

        def __getitem__(self, i):
            return mica.ones(2)

    seen = []
    for _ in range(3):
        one = Set()
        assert len(list(one.loader)) == 2
        seen.append(weakref.ref(one))
    del one
    gc.collect()
    assert all(ref() is None for ref in seen)
