#!/usr/bin/env python3
"""What Python adds to the same work in C++; where PyTorch is installed, what it takes beside it.

    python3 bench/python_overhead.py                        add, launch, step and train
    python3 bench/python_overhead.py add --device cpu --json
    OMP_NUM_THREADS=1 python3 bench/python_overhead.py step train --device cpu --batch 64

add    `a + b` of one-element tensors, eager, in microseconds per call
launch a kernel from source on two tensors and two numbers, in microseconds of the host per launch
step   a compiled training step of LeNet, called from Python and by `mica bench`
train  an epoch of LeNet by mica.train.Trainer, and by `mica train`; needs Fashion-MNIST (MICA_DATA)

Both sides of a comparison run by turns; a figure is the median over the turns. `mica` must be on
PATH, and the package on PYTHONPATH or installed.
"""

import argparse
import importlib.util
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import timeit

import mica
import mica.nn.functional as F

TURNS = 5


def row(what, who, values, unit, limit=None):
    return {
        "what": what,
        "who": who,
        "value": statistics.median(values),
        "unit": unit,
        "turns": values,
        "limit": limit,
    }


def measure_add(args):
    """Per call, with the loop around it, which takes some hundredths of a microsecond."""
    for device in dict.fromkeys(("cpu", args.device)):
        yield from measure_add_on(device)


def measure_add_on(device):
    libraries = {"mica": mica}
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        libraries["torch"] = torch
    calls = 100_000 if device == "cpu" else 20_000
    for grad in (False, True):
        operands = {}
        for name, library in libraries.items():
            a = library.ones(1, device=device)
            b = library.ones(1, device=device)
            a.requires_grad = grad
            operands[name] = {"a": a, "b": b}
        times = {name: [] for name in libraries}
        for turn in range(TURNS + 1):
            for name, library in libraries.items():
                seconds = timeit.timeit("a + b", globals=operands[name], number=calls)
                if device.startswith("cuda"):
                    library.cuda.synchronize()
                if turn:  # the first one warms up
                    times[name].append(seconds / calls * 1e6)
        what = f"a + b on {device}" + (", recorded" if grad else "")
        for name in libraries:
            # The limit of what is not recorded: the other's figure, on the CPU also a microsecond.
            others = [statistics.median(times[o]) for o in libraries if o != name]
            others += [1.0] if device == "cpu" else []
            limit = min(others) if name == "mica" and not grad and others else None
            yield row(what, name, times[name], "µs", limit)


LOOP = "for (long i = 0; i < n; ++i) y[i] = a * x[i];"
CPU_KERNEL = f"void scale(const float* x, float* y, float a, long n) {{ {LOOP} }}"
CUDA_KERNEL = (
    'extern "C" __global__ void scale(const float* x, float* y, float a, long n) {'
    " if (threadIdx.x < n) y[threadIdx.x] = a * x[threadIdx.x]; }"
)


def measure_launch(args):
    """From Python, with the loop around it."""
    for device in dict.fromkeys(("cpu", args.device)):
        x, y = (mica.ones(64, device=device) for _ in range(2))
        if device == "cpu":
            launch = mica.cpu.kernel(CPU_KERNEL, "scale")
        else:
            launch = mica.cuda.kernel(CUDA_KERNEL, "scale")[1, 64]
        names = {"launch": launch, "x": x, "y": y}
        times = []
        for _ in range(TURNS + 1):
            times.append(timeit.timeit("launch(x, y, 2.0, 64)", globals=names, number=5000) * 200)
            synchronize()
        # The first turn warms up; 5000 calls in seconds times 200 are microseconds of one.
        yield row(f"a launch on {device}", "mica", times[1:], "µs", 5.0)


def json_lines(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)}:\n{result.stderr}")
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def synchronize():
    if mica.cuda.is_available():
        mica.cuda.synchronize()


def step_seconds(step, steps):
    """As `mica bench` measures: the median of five groups."""
    for _ in range(10):
        step()
    synchronize()
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        synchronize()
        times.append((time.perf_counter() - begin) / steps)
    return statistics.median(times)


def lenet_step(batch, device):
    """The step of `mica bench lenet_train`, and the same with the batch as its arguments."""
    mica.manual_seed(0)
    net = mica.models.lenet().to(device)
    optimizer = mica.optim.SGD(net.parameters(), lr=0.02)
    x = mica.rand(batch, 1, 28, 28).to(device)
    y = mica.randint(0, 10, (batch,)).to(device)
    last = mica.zeros((), device=device)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        last.copy_(loss.detach())

    def closed():
        step(x, y)

    closed_over = mica.compile(closed)
    given = mica.compile(step)
    return closed_over, lambda: given(x, y)


def measure_step(args):
    mica.set_allow_tf32(True)  # as `mica bench` does
    mica.set_autotune(True)
    steps = 200 if args.device.startswith("cuda") else 20
    command = ["mica", "bench", "lenet_train", "--json", "--no-compile-time", "--steps", str(steps)]
    command += ["--device", args.device, "--batch", str(args.batch)]
    closed, given = lenet_step(args.batch, args.device)
    times = {"C++": [], "Python": [], "Python, batch as arguments": []}
    for _ in range(TURNS):
        rows = [r for r in json_lines(command) if r["variant"] == "compiled"]
        times["C++"].append(rows[0]["us_per_step"])
        times["Python"].append(step_seconds(closed, steps) * 1e6)
        times["Python, batch as arguments"].append(step_seconds(given, steps) * 1e6)
    limit = 1.05 * statistics.median(times["C++"])
    for who, values in times.items():
        yield row("compiled LeNet step", who, values, "µs", limit if who == "Python" else None)


def python_epoch(args):
    """The set-up of `mica train lenet`."""
    mica.set_allow_tf32(False)
    mica.set_autotune(False)
    mica.manual_seed(0)
    options = {"device": args.device, "resident": args.device.startswith("cuda")}
    images, labels = mica.data.fashion_mnist(train=True, normalize=True)
    test_set = mica.data.fashion_mnist(train=False, normalize=True)
    part = (images[: args.images], labels[: args.images])
    train = mica.data.DataLoader(part, args.batch, shuffle=0, **options)
    test = mica.data.DataLoader(test_set, 1000, **options)
    net = mica.models.lenet().to(args.device)
    optimizer = mica.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    optimizer.schedule = mica.optim.cosine(steps=args.epochs * len(train))
    with tempfile.TemporaryDirectory() as out:
        trainer = mica.train.Trainer(net, optimizer, epochs=args.epochs, out=out, progress=False)
        outcome = trainer.fit(train, test)
    return [epoch.seconds for epoch in outcome.epochs]


def measure_train(args):
    command = ["mica", "train", "lenet", "--json", "--epochs", str(args.epochs)]
    command += ["--precision", "f32"]
    command += ["--device", args.device, "--batch", str(args.batch), "--limit", str(args.images)]
    times = {"C++": [], "Python": []}
    for _ in range(TURNS):
        with tempfile.TemporaryDirectory() as out:
            seconds = [r["seconds"] for r in json_lines([*command, "--out", f"{out}/run"])]
        # The first epoch also makes the plans.
        times["C++"].append(statistics.median(seconds[1:]) * 1e3)
        times["Python"].append(statistics.median(python_epoch(args)[1:]) * 1e3)
    limit = 1.03 * statistics.median(times["C++"])
    for who, values in times.items():
        yield row("an epoch of LeNet", who, values, "ms", limit if who == "Python" else None)


MEASURES = {
    "add": measure_add,
    "launch": measure_launch,
    "step": measure_step,
    "train": measure_train,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=[[], *MEASURES], default=[])
    parser.add_argument("--device", default="cuda" if mica.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--images", type=int, help="of an epoch (60000 on CUDA, 6400 on the CPU)")
    parser.add_argument("--json", action="store_true", help="one object per row")
    args = parser.parse_args()
    args.images = args.images or (60_000 if args.device.startswith("cuda") else 6_400)
    if not shutil.which("mica"):
        sys.exit("python_overhead: no `mica` on PATH")
    for what in args.what or MEASURES:
        for r in MEASURES[what](args):
            if args.json:
                print(json.dumps(r), flush=True)
                continue
            verdict = ""
            if r["limit"]:
                word = "within" if r["value"] <= r["limit"] else "ABOVE"
                verdict = f"{word} the limit of {r['limit']:.3f}"
            value = f"{r['value']:>10.3f} {r['unit']}"
            print(f"{r['what']:<29} {r['who']:<27} {value}  {verdict}", flush=True)


if __name__ == "__main__":
    main()
