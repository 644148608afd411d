"""Data parallel by NCCL on one GPU: what DataParallel costs with one rank, how its buckets compare
with a plain loop of ncclAllReduce, and what runs under an all-reduce.

    python tests/python/one_gpu.py 1 python bench/distributed_nccl.py overhead
    python tests/python/one_gpu.py 2 python bench/distributed_nccl.py bandwidth
    python tests/python/one_gpu.py 2 python bench/distributed_nccl.py overlap
"""

import ctypes
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import mica
import mica.distributed as dist
import mica.nn.functional as F
import numpy as np


def seconds(run, rounds):
    mica.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(rounds):
        run()
    mica.cuda.synchronize()
    return (time.perf_counter() - begin) / rounds


def mlp(width, layers):
    mica.manual_seed(0)
    parts = []
    for _ in range(layers):
        parts += [mica.nn.Linear(width, width), mica.nn.ReLU()]
    return mica.nn.Sequential(*parts, mica.nn.Linear(width, 10)).to("cuda")


def step_of(net, parallel, compiles):
    optimizer = mica.optim.SGD(parallel.parameters() if parallel else net.parameters(), lr=1e-3)

    def step(x, y):
        (parallel or net).zero_grad()
        F.cross_entropy((parallel or net)(x), y).backward()
        if parallel:
            parallel.step(optimizer)
        else:
            optimizer.step()

    return mica.compile(step) if compiles else step


def overhead():
    x = mica.randn(256, 1024).to("cuda")
    y = mica.zeros(256, dtype="int64", device="cuda")
    for compiles in (True, False):
        plain = step_of(mlp(1024, 6), None, compiles)
        net = mlp(1024, 6)
        wrapped = step_of(net, dist.DataParallel(net), compiles)
        times = {plain: [], wrapped: []}
        for step in times:
            seconds(lambda s=step: s(x, y), 20)
        for _ in range(15):  # in turns
            for step, found in times.items():
                found.append(seconds(lambda s=step: s(x, y), 40))
        a, b = (statistics.median(times[s]) for s in (plain, wrapped))
        words = "compiled" if compiles else "eager"
        print(f"{words}: plain {1e6 * a:.1f} us, DataParallel {1e6 * b:.1f} us, {b / a:.4f} times")


class PlainNccl:
    """ncclAllReduce by hand, on a communicator of its own."""

    class Id(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_char * 128)]

    def __init__(self):
        self.library = ctypes.CDLL("libnccl.so.2")
        version = ctypes.c_int()
        self.library.ncclGetVersion(ctypes.byref(version))
        self.version = version.value
        own = self.Id()
        if dist.rank() == 0:
            self.ask("ncclGetUniqueId", ctypes.byref(own))
        told = mica.tensor(np.frombuffer(bytes(own), dtype="uint8").copy()).to("cuda")
        got = self.Id.from_buffer_copy(dist.broadcast(told).cpu().numpy().tobytes())
        self.comm = ctypes.c_void_p()
        self.library.ncclCommInitRank.argtypes = [
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.c_int,
            self.Id,
            ctypes.c_int,
        ]
        self.ask("ncclCommInitRank", ctypes.byref(self.comm), dist.world_size(), got, dist.rank())
        self.stream = ctypes.c_void_p(mica.cuda.current_stream().cuda_stream)

    def ask(self, name, *words):
        code = getattr(self.library, name)(*words)
        assert code == 0, f"{name}: {code}"

    def all_reduce(self, source, to):
        address = [t.__cuda_array_interface__["data"][0] for t in (source, to)]
        f32, total = 7, 0
        self.ask(
            "ncclAllReduce",
            *map(ctypes.c_void_p, address),
            ctypes.c_size_t(source.numel()),
            f32,
            total,
            self.comm,
            self.stream,
        )


def bandwidth():
    plain = PlainNccl()
    if dist.rank() == 0:
        print(f"NCCL {plain.version}")
    for mib in (4, 25):
        count = int(mib * (1 << 18))
        tensors = [mica.ones(count, device="cuda") for _ in range(4)]
        results = [mica.zeros(count, device="cuda") for _ in range(4)]

        def by_hand(tensors=tensors, results=results):
            for source, to in zip(tensors, results, strict=True):
                plain.all_reduce(source, to)

        def by_mica(tensors=tensors):
            for source in tensors:
                dist.all_reduce(source)

        compiled = mica.compile(lambda ts: [dist.all_reduce(t) for t in ts])

        def by_plan(compiled=compiled, tensors=tensors):
            compiled(tensors)

        times = {by_hand: [], by_mica: [], by_plan: []}
        for run in times:
            seconds(run, 2)
        for _ in range(5):  # in turns
            for run, found in times.items():
                found.append(seconds(run, 2))
        hand, eager, plan = (statistics.median(times[r]) / 4 for r in (by_hand, by_mica, by_plan))
        if dist.rank() == 0:
            size = 4 * count
            print(
                f"{mib} MiB: plain {1e6 * hand:.0f} us ({size / hand / 1e9:.2f} GB/s), eager "
                f"{100 * hand / eager:.0f} % of its bandwidth, compiled {100 * hand / plan:.0f} %",
                flush=True,
            )
    # The gradients of a network: 4 layers of 26 MB, with hardly anything to compute.
    width, layers = 2560, 4
    x = mica.randn(8, width).to("cuda")
    y = mica.zeros(8, dtype="int64", device="cuda")
    net = mlp(width, layers)
    total = sum(p.numel() for p in net.parameters())
    alone = step_of(net, None, True)
    alone(x, y)
    source, to = mica.ones(total // 4, device="cuda"), mica.zeros(total // 4, device="cuda")
    for compiles in (True, False):
        parallel = dist.DataParallel(net)
        step = step_of(net, parallel, compiles)
        for _ in range(2):
            step(x, y)
        times = {"step": [], "hand": [], "alone": []}
        for _ in range(5):
            times["step"].append(seconds(lambda s=step: s(x, y), 2))
            times["hand"].append(
                seconds(lambda: [plain.all_reduce(source, to) for _ in range(4)], 2)
            )
            times["alone"].append(seconds(lambda: alone(x, y), 2))
        found = {name: statistics.median(values) for name, values in times.items()}
        if dist.rank() == 0:
            print(
                f"{4e-6 * total:.0f} MB of gradients, {'compiled' if compiles else 'eager'}: step "
                f"{1e3 * found['step']:.2f} ms, the same bytes by ncclAllReduce "
                f"{1e3 * found['hand']:.2f} ms ({100 * found['hand'] / found['step']:.0f} %), step "
                f"without ranks {1e3 * found['alone']:.2f} ms",
                flush=True,
            )


def overlap():
    """Kernels as CUPTI saw them, by PyTorch's profiler, which sees all of the process."""
    import torch

    torch.zeros(1, device="cuda")
    width, layers = 2048, 8
    x = mica.randn(4096, width).to("cuda")
    y = mica.zeros(4096, dtype="int64", device="cuda")
    for compiles in (True, False):
        net = mlp(width, layers)
        parallel = dist.DataParallel(net, bucket_bytes=16 << 20)
        step = step_of(net, parallel, compiles)
        for _ in range(3):
            step(x, y)
        mica.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(2):
                step(x, y)
            mica.cuda.synchronize()
        place = Path(tempfile.mkdtemp()) / "trace.json"
        profile.export_chrome_trace(str(place))
        events = [
            (e["ts"], e["ts"] + e["dur"], e["name"])
            for e in json.loads(place.read_text())["traceEvents"]
            if e.get("cat") == "kernel"
        ]
        reduce = [e for e in events if e[2].startswith("nccl")]
        other = sorted(e for e in events if not e[2].startswith("nccl"))
        under = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in reduce for b in other)
        busy = sum(e[1] - e[0] for e in reduce)
        compute = sum(e[1] - e[0] for e in other)
        if dist.rank() == 0:
            print(
                f"{'compiled' if compiles else 'eager'}: {len(reduce)} NCCL kernels of "
                f"{busy:.0f} us, {len(other)} others of {compute:.0f} us, of which {under:.0f} us "
                "run while an NCCL kernel runs",
                flush=True,
            )
            begin = events[0][0] if events else 0
            for e in sorted(events)[: len(events) // 2]:
                print(f"  {e[0] - begin:10.0f} {e[1] - begin:10.0f} us  {e[2][:70]}")


if __name__ == "__main__":
    dist.init("nccl")
    {"overhead": overhead, "bandwidth": bandwidth, "overlap": overlap}[sys.argv[1]]()
