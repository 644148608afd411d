"""What could end the process, or leave it waiting for ever: each in a process of its own."""

import os
import subprocess
import sys
import textwrap

import pytest


def run(code, *, timeout=30, **variables):
    """Runs a program; what it printed. It must end well, without a word on stderr."""
    done = subprocess.run(
        # Python 3.12 warns of a fork beside threads, which some of these are about.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


# Calls that let the GIL go, and calls that Python makes of C++ and C++ of Python.
BUSY = {
    "kernels": "a = mica.zeros(64, 64)\nwhile True: a = (a @ a).relu()",
    "forward": """
class Net(mica.nn.Module):
    def forward(self, x):
        return sum([x] * 3)
net = mica.nn.Sequential(mica.nn.ReLU(), Net(), mica.nn.ReLU())
x = mica.zeros(8, 8)
while True: net(x)
""",
    "loader": """
class Set:
    def __len__(self): return 1 << 20
    def __getitem__(self, i): return [float(i)], sum(range(100))
for _ in mica.data.DataLoader(Set(), batch_size=4, num_workers=2): pass
""",
}


@pytest.mark.parametrize("what", BUSY)
def test_daemon_threads_at_exit(what):
    run(
        f"""
        import threading, time
        import mica
        def busy():
            exec({BUSY[what]!r}, {{"mica": mica}})
        for _ in range(3):
            threading.Thread(target=busy, daemon=True).start()
        time.sleep(0.1)
        """
    )


def test_import_again():
    out = run(
        """
        import sys
        import mica
        x = mica.ones(2)
        for name in [n for n in sys.modules if n.split(".")[0] == "mica"]:
            del sys.modules[name]
        try:
            import mica
        except ImportError as e:
            print(e)
        print(x.sum().item())
        """
    )
    assert "cannot be loaded a second time in one process" in out[0]
    assert out[1] == "2.0"


FORK = """
import os, signal
import mica
mica.set_num_threads({threads})
x = mica.ones(300, 300)
(x @ x).sum().item()
child = os.fork()
if child == 0:
    signal.alarm(20)
    try:
        print((x @ x).sum().item(), flush=True)
    except mica.DeviceError as e:
        print(e, flush=True)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print((x @ x).sum().item())
"""


def test_fork_after_several_threads():
    out = run(FORK.format(threads=2))
    assert "start others by exec" in out[0]
    assert out[1] == "27000000.0"


def test_fork_after_one_thread():
    assert run(FORK.format(threads=1)) == ["27000000.0", "27000000.0"]


def test_fork_before_use():
    out = run(
        """
        import os
        import mica
        child = os.fork()
        if child > 0:
            os.waitpid(child, 0)
        print(mica.ones(1000).sum().item(), flush=True)
        if child == 0:
            os._exit(0)
        """
    )
    assert out == ["1000.0", "1000.0"]


# A fork meets other threads that hold locks, run compiled functions or make the list of operators.
FORK_BESIDE = """
import os, signal, threading, time
import mica
mica.set_num_threads(1)
x = mica.ones(4, 4)
f = mica.compile(lambda x: (x * 2).relu().sum())
f(x)
def work(k):
    while True:
        (x + x).relu() if k % 2 else f(x)
for k in range(4):
    threading.Thread(target=work, args=(k,), daemon=True).start()
for _ in range(60):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        (x @ x).sum().item()
        assert f(x).item() == 32
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("done", flush=True)
os._exit(0)
"""


def test_fork_beside_threads_at_work():
    assert run(FORK_BESIDE) == ["done"]


def test_fork_with_a_walk_over_a_loader():
    out = run(
        """
        import os, signal
        import mica
        class Set:
            def __len__(self): return 100
            def __getitem__(self, i): return [float(i)], 0
        walk = iter(mica.data.DataLoader(Set(), num_workers=1, batch_size=1))
        next(walk)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                next(walk)
            except mica.DeviceError as e:
                print(e, flush=True)
            del walk
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """
    )
    assert "began before the process was forked" in out[0]


def test_few_threads_to_be_had():
    out = run(
        """
        import resource
        import mica
        mica.set_num_threads(1)
        x = mica.ones(1 << 20)
        x + x  # its memory is kept for the next
        # Threads need address space for their stacks: there is room for some.
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (96 << 20), resource.RLIM_INFINITY))
        mica.set_num_threads(64)
        print((x + x).mean().item(), 1 <= mica.get_num_threads() < 64)
        """
    )
    assert out == ["2.0 True"]


def test_modules_nested_deep():
    out = run(
        """
        import mica
        from mica import nn
        net = nn.Linear(2, 2)
        for _ in range(40_000):
            net = nn.Sequential(net)
        try:
            net(mica.zeros(1, 2))
        except mica.Error as e:
            print(e)
        try:
            repr(net)
        except mica.Error as e:
            print(e)
        count = 0
        def see(module):
            global count
            count += 1
        net.eval().apply(see)
        print(count, len(net.parameters()))
        inside = net
        del net, inside
        """
    )
    assert "nested so deep" in out[0] and "nested so deep" in out[1]
    assert out[2] == "40001 2"


def test_modules_change_while_they_are_walked():
    out = run(
        """
        import threading, time
        import mica
        from mica import nn
        # In apply, in a forward and in a hook.
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        net.apply(lambda m: [net.append(nn.ReLU()) for _ in range(20)])
        class Grows(nn.Module):
            def forward(self, x):
                for _ in range(20):
                    net.append(nn.ReLU())
                return x
        net.append(Grows())
        net[1].register_forward_hook(lambda *_: net.append(nn.ReLU()) and None)
        net(mica.ones(1, 2))
        print(len(net))
        # From another thread, while C++ walks without the GIL.
        wide = nn.Sequential(*[nn.ReLU() for _ in range(10)])
        x, stop = mica.ones(4), False
        def walk():
            while not stop:
                wide(x)
                wide.parameters()
        threads = [threading.Thread(target=walk) for _ in range(2)]
        for t in threads:
            t.start()
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            wide.append(nn.ReLU())
            wide[0] = nn.ReLU()
            handle = wide[0].register_forward_hook(lambda *_: None)
            handle.remove()
        stop = True
        for t in threads:
            t.join()
        """
    )
    assert out == ["84"]


def test_a_bad_example_is_passed_over():
    out = run(
        """
        import mica
        class Set:
            def __len__(self): return 6
            def __getitem__(self, i):
                if i == 2: raise ValueError("bad")
                return [float(i)], 0
        for workers in (0, 2):
            walk, seen = iter(mica.data.DataLoader(Set(), 1, num_workers=workers)), []
            while True:
                try:
                    seen.append(next(walk)[0].item())
                except ValueError as e:
                    seen.append(str(e))
                except StopIteration:
                    break
            print(seen)
        """
    )
    assert out == ["[0.0, 1.0, 'bad', 3.0, 4.0, 5.0]"] * 2


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_set_that_asks_its_own_iterator(workers):
    out = run(
        f"""
        import mica
        class Set:
            def __len__(self): return 6
            def __getitem__(self, i):
                if i == 3: next(walk)
                return [float(i)], 0
        walk = iter(mica.data.DataLoader(Set(), 1, num_workers={workers}))
        for i in range(5):
            try:
                next(walk)
            except mica.Error as e:
                print(i, e)
        """
    )
    assert len(out) == 1 and out[0].startswith("3 data: the data set asks its own iterator")


def test_an_iterator_goes_without_waiting():
    out = run(
        """
        import threading, time
        import mica
        inside, go_on = threading.Event(), threading.Event()
        class Set:
            def __len__(self): return 6
            def __getitem__(self, i):
                inside.set()
                go_on.wait()
                return [float(i)], 0
        walk = iter(mica.data.DataLoader(Set(), 1, num_workers=1))
        inside.wait()
        start = time.monotonic()
        del walk
        print(time.monotonic() - start < 1)
        go_on.set()
        """
    )
    assert out == ["True"]


def test_sequences_that_lie():
    out = run(
        """
        import mica
        class Liar(list):
            def __len__(self): return 10
            def __getitem__(self, i): raise KeyError(i)
        class Long:
            def __len__(self): return 2**62
            def __getitem__(self, i): return self if i < 100_000 else 1 / 0
        class NoNumber:
            def __float__(self): raise KeyError
            def __index__(self): raise KeyError
        class Shrinks:
            def __float__(self):
                values.clear()
                return 1.0
        values = [Shrinks(), 2.0, 3.0]
        x = mica.zeros(3, 4)
        print(mica.tensor(Liar([1, 2])).tolist(), mica.zeros(Liar([1, 2])).shape)
        for call in (
            lambda: mica.tensor([NoNumber()]),
            lambda: mica.zeros([NoNumber(), 2]),
            lambda: x[NoNumber()],
            lambda: x[[NoNumber()]],
            lambda: x.reshape(Liar([NoNumber()])),
            lambda: mica.nn.functional.max_pool2d(mica.zeros(1, 1, 4, 4), [NoNumber(), 2]),
            lambda: mica.tensor(values),
            lambda: mica.optim.multi_step(Long(), 0.1),
            lambda: mica.data.Subset([1], Long()),
        ):
            try:
                print(call())
            except Exception as e:
                print(type(e).__name__)
        """
    )
    assert out[0] == "[1, 2] (1, 2)"
    assert all(name in ("TypeError", "ShapeError", "ValueError", "IndexError") for name in out[1:])
    assert len(out) == 10


def test_a_sequence_without_end_is_refused_at_once():
    out = run(
        """
        import mica
        class Endless:
            def __len__(self): return 2**62
            def __getitem__(self, i): return 1.0
        for call in (mica.tensor, mica.as_tensor, mica.zeros(3).copy_):
            try: call(Endless())
            except OverflowError as e: print(e)
        """,
        timeout=20,
    )
    assert out == ["a sequence says that it has 4611686018427387904 elements"] * 3


def test_a_long_tensor_of_nothing_is_shown_short():
    assert run("import mica; print(len(repr(mica.zeros(2**62, 0, 3))) < 200)") == ["True"]
