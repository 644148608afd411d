"""Calls of all that the package offers, with arguments nobody meant: a value or a typed error."""

import inspect
import os
import random
import re
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

from child import in_child, limit_memory

# What changes the process for those that come after, waits on purpose, or writes where it is told.
LEFT_OUT = re.compile(
    r"(^|\.)(set_|manual_seed|seed|compile$|force_kernel|_|Trainer|fit$|gradcheck|share_memory|cuda$"
    r"|detect_anomaly|empty_cache|synchronize|MetricsLog|EventWriter|save_|write_|fashion_mnist|mnist)"
)
WORDS = re.compile(
    r"std::|bad_cast|basic_string|vector::|json\.exception|filesystem error|bad_alloc|stoi|_M_"
)


class Liar(list):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        raise KeyError(i)


class NoNumber:
    def __index__(self):
        raise KeyError

    def __float__(self):
        raise KeyError

    def __array__(self, *args, **kwargs):
        raise KeyError


class Endless:
    def __iter__(self):
        while True:
            yield self

    def __len__(self):
        return 2**62

    def __getitem__(self, i):
        return self


def values(mica, np):
    shapes = [(), (1,), (3,), (0,), (2, 3), (3, 2), (1, 3, 4, 4), (2, 0, 3), (1,) * 8]
    dtypes = [mica.float32, mica.float64, mica.int64, mica.bool, mica.uint8, mica.bfloat16]
    tensors = [mica.ones(*s, dtype=d) for s in shapes for d in dtypes]
    tensors += [
        mica.ones(2, 3, requires_grad=True),
        mica.ones(2, 3).t(),
        mica.full((3,), float("nan")),
    ]
    numbers = [-(2**63), -(2**31), -3, -1, 0, 1, 2, 3, 8, 2**31, 2**62, 2**64, 0.5, -0.0, 1e308]
    numbers += [float("nan"), float("inf"), True, False, 1j, np.float32(2), np.int64(-1)]
    things = [
        None,
        "",
        "mean",
        "sum",
        "none",
        "reflect",
        "bilinear",
        "cpu",
        "cuda:9",
        "ij,jk->ik",
        "\0\x1b[31m",
    ]
    things += [
        b"\xff",
        (),
        [],
        {},
        (2, 2),
        [1, -1],
        (2**40, 2**40),
        [[1, 2], [3]],
        Liar([1, 2]),
        NoNumber(),
    ]
    things += [
        [NoNumber()],
        Endless(),
        slice(None, None, -2),
        ...,
        dtypes[0],
        mica.device("cpu"),
        mica.Tensor,
    ]
    things += [
        lambda *args: None,
        lambda *args: args[0],
        np.ones((2, 3)),
        np.array(["a"]),
        mica.nn.ReLU(),
    ]
    things += [
        mica.nn.Linear(3, 2),
        mica.optim.SGD([mica.ones(2, requires_grad=True)], lr=0.1),
        print,
        int,
    ]
    things += [[tensors[0], tensors[3]], {"a": tensors[1]}, range(3), object()]
    return tensors * 2 + numbers * 3 + things


def targets(mica):
    """Everything callable, by name; methods are called on an object of their class."""
    found = {}
    for name in (
        "",
        "nn",
        "nn.functional",
        "nn.init",
        "nn.utils",
        "optim",
        "data",
        "io",
        "autograd",
        "models",
    ):
        module = mica
        try:
            for part in filter(None, name.split(".")):
                module = getattr(module, part)
        except AttributeError:
            continue
        for key in dir(module):
            full = f"{name}.{key}".strip(".")
            value = getattr(module, key)
            if callable(value) and not LEFT_OUT.search(full) and not LEFT_OUT.search(key):
                found[full] = value
    for key in dir(mica.Tensor):
        value = getattr(mica.Tensor, key)
        hidden = key.startswith("_") and key not in (
            "__getitem__",
            "__setitem__",
            "__add__",
            "__pow__",
            "__matmul__",
            "__rsub__",
            "__floordiv__",
            "__eq__",
        )
        if callable(value) and not hidden and not LEFT_OUT.search(key.strip("_")):
            found["Tensor." + key] = value
    return found


def parameters(function):
    """The names of its arguments, from its signature or its docstring."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return re.findall(r"(\w+): ", (function.__doc__ or "").split("\n")[0])


def attack(seed, seconds):
    import mica
    import numpy as np

    warnings.simplefilter("ignore")
    os.chdir(tempfile.mkdtemp())
    mica.cuda.is_available()  # whose libraries take more than what is left then
    limit_memory(3 << 30)
    rng = random.Random(seed)
    pool, all_targets = values(mica, np), targets(mica)
    names = sorted(all_targets)
    known = {name: parameters(all_targets[name]) for name in names}
    log = Path("last").open("wb", buffering=0)  # noqa: SIM115
    allowed = (
        mica.Error,
        TypeError,
        ValueError,
        IndexError,
        KeyError,
        AttributeError,
        OverflowError,
        NotImplementedError,
        MemoryError,
        StopIteration,
        BufferError,
        RecursionError,
        ZeroDivisionError,
    )

    def late(*_):
        raise TimeoutError

    signal.signal(signal.SIGPROF, late)  # by processor time: others may have the cores
    count, end, live = 0, time.monotonic() + seconds, []
    while time.monotonic() < end:
        name = rng.choice(names)
        args = [rng.choice(pool) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4)))]
        if name.startswith("Tensor."):
            args.insert(0, rng.choice(pool[:57]))
        kwargs = {}
        if known[name] and rng.random() < 0.4:
            kwargs = {
                k: rng.choice(pool) for k in rng.sample(known[name], min(2, len(known[name])))
            }
        log.seek(0)
        log.write(
            f"{name} {[type(a).__name__ for a in args]} {sorted(kwargs)}".encode()[:200].ljust(200)
        )
        signal.setitimer(signal.ITIMER_PROF, 20)
        try:
            result = all_targets[name](*args, **kwargs)
            if isinstance(result, mica.nn.Module) and rng.random() < 0.5:
                result = result(rng.choice(pool))
            if rng.random() < 0.2:
                repr(result)
            live = [*live[-8:], result]
            if isinstance(result, mica.Tensor) and result.numel() < 10000:
                pool[rng.randrange(50, 57)] = result
            signal.setitimer(signal.ITIMER_PROF, 0)
        except TimeoutError:
            print("found", seed, count, name, "took more than 20 s:", args, kwargs)
        except allowed as e:
            if WORDS.search(str(e)):
                print("found", seed, count, name, "words:", repr(str(e))[:300])
        except Exception as e:
            print("found", seed, count, name, type(e).__name__, repr(str(e))[:300])
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        count += 1
    print(count)


def torture(group):
    group.turns(
        ["calls"],
        lambda kind, number: in_child(group, kind, "calls.py", group.seed * 100_000 + number),
    )


if __name__ == "__main__":
    attack(int(sys.argv[1]), float(sys.argv[2]))
