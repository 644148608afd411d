#!/usr/bin/env python3
"""Inference on a GPU: mica's engines beside torch.compile (max-autotune), in one run.

    python3 bench/inference.py [--only TEXT] [--out FILE.json] [--profile FOLDER] [--wait 75]

ResNet-50 (f16 at batch 128 and 1, int8 at batch 128) and DeepLabV3 with its argmax (512 by 512, f16
and TF32). Each measurement has a process of its own. PyTorch's are started first, as max-autotune
takes long, and wait until it is their turn; one that is not ready in --wait seconds is left out.
mica runs between buffers that stay where they are, kernels timed; how long its file takes to load
in a process that has a context and libraries is measured too. The difference is the largest one to
eager f32, over the largest value; of masks it is the part of the pixels. --profile writes the
kernels of a replay.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

# name: (network, precision, batch, size, what has to be reached)
WORKLOADS = {
    "resnet50_f16_b128": ("resnet50", "f16", 128, 224, "42,000 images/s"),
    "resnet50_f16_b1": ("resnet50", "f16", 1, 224, "0.28 ms"),
    "deeplab_f16": ("deeplabv3_resnet50", "f16", 1, 512, "0.95 ms"),
    "deeplab_tf32": ("deeplabv3_resnet50", "tf32", 1, 512, "1.9 ms"),
    "resnet50_int8_b128": ("resnet50", "int8", 128, 224, "60,000 images/s"),
}


def median_seconds(run: Any, wait: Any, seconds: float = 0.15) -> float:
    """Median of seven groups of runs."""
    for _ in range(5):
        run()
    wait()
    begin = time.perf_counter()
    run()
    wait()
    count = max(5, int(seconds / (time.perf_counter() - begin)))
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        times.append((time.perf_counter() - begin) / count)
    return statistics.median(times)


def by_torch(name: str) -> None:
    """Prints "ready" when it is compiled and its times when there is a line to read."""
    import torch
    import torchvision.models as models

    network, precision, batch, size, _ = WORKLOADS[name]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    dtype = torch.float16 if precision == "f16" else torch.float32
    if network == "resnet50":
        net: Any = models.resnet50()
    else:
        net = models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None)
    net = net.to("cuda", dtype).eval().to(memory_format=torch.channels_last)
    x = torch.randn(batch, 3, size, size, device="cuda", dtype=dtype)
    x = x.to(memory_format=torch.channels_last)

    def compute(x: Any) -> Any:
        return net(x) if network == "resnet50" else net(x)["out"].argmax(1)

    compiled = torch.compile(compute, mode="max-autotune")
    begin = time.perf_counter()
    with torch.inference_mode():
        for _ in range(3):
            compiled(x)
        torch.cuda.synchronize()
        first = time.perf_counter() - begin
        print("ready", flush=True)
        sys.stdin.readline()
        seconds = median_seconds(lambda: compiled(x), torch.cuda.synchronize)
    version = f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"
    row = {"who": "torch.compile max-autotune", "version": version, "first_s": round(first, 1)}
    print(json.dumps(row | {"workload": name, "ms": seconds * 1e3}), flush=True)


def by_mica(name: str, file: str, profile: str) -> None:
    import mica

    network, precision, batch, size, _ = WORKLOADS[name]
    mica.manual_seed(0)
    mica.set_allow_tf32(precision != "f32")
    mica.set_autotune(True)
    net = getattr(mica.models, network)().to("cuda").eval()
    wide = mica.randn(batch, 3, size, size, device="cuda")

    def compute(x: Any) -> Any:
        return net(x) if network == "resnet50" else net(x)["out"]

    mica.set_allow_tf32(False)
    with mica.no_grad():
        few = min(batch, 8)
        wanted = compute(wide[:few]).cpu().numpy()
    mica.set_allow_tf32(True)
    x = wide
    options: dict[str, Any] = {}
    if precision == "f16":
        net.to(mica.float16)
        x = wide.to(mica.float16)
    elif precision == "int8":
        options = {
            "precision": "int8",
            "calibration": [wide[:few]],
            "dynamic": {"input": {0: "batch"}},
            "profiles": [{"batch": batch}],
            "calibrate": "minmax",
        }
    x = x.contiguous(memory_format=mica.channels_last)

    def whole(x: Any) -> Any:
        return compute(x) if network == "resnet50" else compute(x).argmax(1)

    begin = time.perf_counter()
    engine = mica.inference.optimize(whole, x, **options)
    binding = engine.bind((x,))
    binding.run()
    mica.cuda.synchronize()
    first = time.perf_counter() - begin
    seconds = median_seconds(binding.run, mica.cuda.synchronize)
    got = binding.outputs[0][:few].cpu().numpy()
    if network == "resnet50":
        difference = float(abs(got.astype("f4") - wanted).max() / abs(wanted).max())
    else:  # the part of the pixels that get another class
        difference = float((got != wanted.argmax(1)).mean())
    engine.save(file)
    cudnn = ctypes.CDLL("libcudnn.so.9").cudnnGetVersion()
    version = f"mica {mica.__version__}, cuDNN {cudnn}"
    row = {"who": "mica", "version": version, "first_s": round(first, 1)}
    row |= {"workload": name, "ms": seconds * 1e3, "difference": difference}
    print(json.dumps(row), flush=True)
    if profile:
        write_profile(name, binding.run, engine, Path(profile))


def write_profile(name: str, run: Any, engine: Any, folder: Path) -> None:
    """The GPU's kernels of one replay in their order, by PyTorch's profiler."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    repeats = 10
    torch.zeros(1, device="cuda")
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(repeats):
            run()
        torch.cuda.synchronize()
    events = [e for e in recorded.events() if "cuda" in str(e.device_type).lower()]
    events.sort(key=lambda e: e.time_range.start)
    each = len(events) // repeats
    middle = events[each * (repeats // 2) : each * (repeats // 2 + 1)]
    lines = [(e.time_range.end - e.time_range.start, e.name) for e in middle]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"kernels_{name}.txt", "w") as out:
        out.write(f"{sum(us for us, _ in lines):.1f} us in {each} kernels\n")
        for us, kernel in lines:
            out.write(f"{us:8.2f} {kernel[:200]}\n")
        out.write("\n" + "\n".join(engine.kernels) + "\n")
    for us, kernel in sorted(lines, reverse=True)[:12]:
        print(f"  {us:8.2f} us {kernel[:110]}", file=sys.stderr)


def load_time(name: str, file: str) -> None:
    """Loads an engine where a context and the libraries are there, and choices are on disk."""
    import mica

    mica.set_allow_tf32(True)
    mica.set_autotune(True)
    with mica.no_grad():
        x = mica.zeros(8, 64, 16, 16, device="cuda", dtype=mica.float16)
        x = x.contiguous(memory_format=mica.channels_last)
        conv = mica.nn.Conv2d(64, 64, 3).to("cuda").to(mica.float16)
        mica.relu(conv(x)).sum().item()
        mica.nn.Linear(64, 64).to("cuda")(mica.zeros(8, 64, device="cuda")).sum().item()
    mica.cuda.synchronize()
    begin = time.perf_counter()
    mica.inference.load(file, device="cuda")
    mica.cuda.synchronize()
    seconds = time.perf_counter() - begin
    print(json.dumps({"who": "mica load", "workload": name, "ms": seconds * 1e3}), flush=True)


class Worker:
    """A process that measures one thing; a thread reads what it prints."""

    def __init__(self, what: str, name: str, *more: str) -> None:
        command = [sys.executable, __file__, "--worker", what, name, *more]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.row: dict[str, Any] | None = None
        self.ready = False
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self) -> None:
        for line in self.process.stdout or ():
            self.ready = self.ready or line.startswith("ready")
            if line.startswith("{"):
                self.row = json.loads(line)

    def wait_until_ready(self, end: float) -> bool:
        while not self.ready and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        if not self.ready:
            self.process.kill()
        return self.ready

    def result(self) -> dict[str, Any] | None:
        """Lets it go on, and waits for its end."""
        with contextlib.suppress(BrokenPipeError):
            if self.process.stdin:
                self.process.stdin.write("\n")
                self.process.stdin.close()
        self.process.wait()
        self.reader.join()
        return self.row


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| workload | mica | torch.compile | times as fast | has to reach | file loads in |"]
    lines.append("|---|---|---|---|---|---|")
    for name, (_, _, batch, _, goal) in WORKLOADS.items():
        ours, theirs, load = (
            next((r["ms"] for r in rows if r["workload"] == name and r["who"] == who), 0)
            for who in ("mica", "torch.compile max-autotune", "mica load")
        )
        if not ours:
            continue

        def shown(ms: float, batch: int = batch) -> str:
            rate = f", {batch / ms * 1e3:,.0f} images/s" if batch > 1 else ""
            return f"{ms:.3f} ms{rate}" if ms else ""

        ratio = f"{theirs / ours:.2f}" if theirs else ""
        loads = f"{load:.0f} ms" if load else ""
        lines.append(f"| {name} | {shown(ours)} | {shown(theirs)} | {ratio} | {goal} | {loads} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="workloads with one of these in their names")
    parser.add_argument("--out")
    parser.add_argument("--profile", default="", help="a folder for the kernels of a replay")
    parser.add_argument("--wait", type=float, default=75, help="seconds for PyTorch to compile")
    parser.add_argument("--peers", default="torch", help="empty for none")
    parser.add_argument("--worker", nargs="+")
    args = parser.parse_args()
    if args.worker:
        what, *more = args.worker
        return {"torch": by_torch, "mica": by_mica, "load": load_time}[what](*more)
    names = [n for n in WORKLOADS if any(part in n for part in args.only.split(","))]
    begin = time.monotonic()
    peers = {n: Worker("torch", n) for n in names if args.peers and "int8" not in n}
    for name in list(peers):
        if not peers[name].wait_until_ready(begin + args.wait):
            print(f"{name}: PyTorch was not ready in {args.wait:.0f} s", file=sys.stderr)
            del peers[name]
    print(f"PyTorch took {time.monotonic() - begin:.0f} s to compile", file=sys.stderr)
    rows = []
    with tempfile.TemporaryDirectory() as folder:

        def measure(worker: Worker) -> None:
            row = worker.result()
            if row:
                rows.append(row)
                print(json.dumps(row), file=sys.stderr, flush=True)

        for name in names:
            file = str(Path(folder) / f"{name}.mica")
            measure(Worker("mica", name, file, args.profile))
            if name in peers:
                measure(peers[name])
            measure(Worker("load", name, file))
    if args.out:
        Path(args.out).write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))
    return None


if __name__ == "__main__":
    main()
