#!/usr/bin/env python3
"""PyTorch's times for single operators, one JSON line each, with the names of `mica bench ops`.

    python3 bench/peers/torch_ops.py --device cpu --threads 2
    python3 bench/peers/torch_ops.py --device cuda --only conv2d

On CUDA cuDNN may choose by timing, and convolutions may take the faster of both memory formats.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F


class Bench:
    def __init__(self, args):
        self.args = args
        self.cuda = args.device.startswith("cuda")
        self.long = 0.01 if self.cuda else 0.03  # seconds of one measurement, at least

    def wants(self, name):
        return self.args.only in name

    def sync(self):
        if self.cuda:
            torch.cuda.synchronize()

    def seconds(self, call):
        call()
        self.sync()
        calls, times = 1, []
        while len(times) < 7:
            start = time.perf_counter()
            for _ in range(calls):
                call()
            self.sync()
            seconds = time.perf_counter() - start
            if seconds < self.long:
                calls, times = max(calls + 1, int(calls * 1.2 * self.long / seconds)), []
                continue
            times.append(seconds / calls)
        return sorted(times)[len(times) // 2]

    def row(self, name, *calls):
        """Of several ways to make the call the fastest counts."""
        if not self.wants(name):
            return
        line = {
            "peer": "torch " + torch.__version__,
            "workload": "ops",
            "variant": name,
            "us": min(self.seconds(call) for call in calls) * 1e6,
            "device": self.args.device,
            "threads": torch.get_num_threads(),
        }
        print(json.dumps(line), flush=True)

    def uniform(self, *shape, low=0.1, high=2.0, dtype=torch.float32):
        return torch.empty(shape, device=self.args.device).uniform_(low, high).to(dtype)


def backward(f, *inputs):
    """A backward pass of f(*inputs), which can be repeated."""
    with torch.enable_grad():
        inputs = [t.detach().requires_grad_() for t in inputs]
        y = f(*inputs)
    dy = torch.full_like(y, 0.5)
    return lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True)


def elementwise(bench, x, y):
    row = bench.row
    row("copy", lambda: x.clone())
    row("add", lambda: x + y)
    row("add a row", lambda: x + y[:1])
    row("relu", lambda: torch.relu(x))
    row("cast to f16", lambda: x.half())
    row("cast to f64", lambda: x.double())
    row("transposed copy", lambda: x.t().contiguous())
    less = x < y
    row("where", lambda: torch.where(less, x, y))
    row("dropout", lambda: F.dropout(x, 0.5))
    row("relu, backward", backward(torch.relu, x))
    row("gelu, backward", backward(F.gelu, x))
    for name in ("exp", "log", "sin", "tanh", "erf", "sigmoid", "sqrt"):
        row(name, lambda f=getattr(torch, name): f(x))
    row("silu", lambda: F.silu(x))
    row("gelu", lambda: F.gelu(x))
    row("pow", lambda: torch.pow(x, y))


def reductions(bench, x):
    row = bench.row
    row("sum", lambda: x.sum())
    row("sum over rows", lambda: x.sum(1))
    row("sum over columns", lambda: x.sum(0))
    short = x.reshape(-1, 128)
    row("sum over rows of 128", lambda: short.sum(1))
    row("max over rows", lambda: x.amax(1))
    row("max over columns", lambda: x.amax(0))
    row("argmax over rows", lambda: x.argmax(1))
    row("var over rows", lambda: x.var(1))
    row("logsumexp over rows", lambda: x.logsumexp(1))


def order(bench, rows):
    row = bench.row
    row("cumsum over 1024", lambda: torch.cumsum(rows, 1))
    index = torch.randperm(len(rows)).to(rows.device)
    row("gather rows", lambda: torch.index_select(rows, 0, index))
    some = rows[: len(rows) // 16]
    row("sort rows of 1024", lambda: torch.sort(some, dim=1, stable=True))
    line = rows[:1000].flatten()
    row("sort 1 M", lambda: torch.sort(line, dim=0, stable=True))
    row("topk 10 of rows of 1024", lambda: torch.topk(some, 10, 1))


def of_dtype(bench, dtype):
    row, suffix = bench.row, "" if dtype == torch.float32 else ", f16"
    x = bench.uniform(262144 if bench.cuda else 16384, 1024, dtype=dtype)
    weight = bench.uniform(1024, dtype=dtype)
    if dtype != torch.float32:
        row("add" + suffix, lambda: x + x)
        row("relu" + suffix, lambda: torch.relu(x))
        row("sum" + suffix, lambda: x.sum())
        row("sum over columns" + suffix, lambda: x.sum(0))
        row("sum over rows" + suffix, lambda: x.sum(1))
    row("softmax over 1024" + suffix, lambda: torch.softmax(x, 1))
    row("softmax over 1024, backward" + suffix, backward(lambda x: torch.softmax(x, 1), x))
    row("log_softmax over 1024" + suffix, lambda: torch.log_softmax(x, 1))

    def norm(x, w, b):
        return F.layer_norm(x, (1024,), w, b)

    row("layer_norm over 1024" + suffix, lambda: norm(x, weight, weight))
    row("layer_norm over 1024, backward" + suffix, backward(norm, x, weight, weight))
    classes = (torch.rand(len(x), device=x.device) * 1000).long()
    row("cross_entropy of 1024" + suffix, lambda: F.cross_entropy(x, classes))
    row(
        "cross_entropy of 1024, backward" + suffix,
        backward(lambda x: F.cross_entropy(x, classes), x),
    )
    del x

    images = bench.uniform(256 if bench.cuda else 16, 64, 112, 112, low=-1, high=1, dtype=dtype)
    weight = bench.uniform(64)

    def batch_norm(x, w, b):
        return F.batch_norm(x, None, None, w, b, training=True)

    for memory_format in (torch.contiguous_format, torch.channels_last):
        last = ", channels_last" if memory_format == torch.channels_last else ""
        x = images.contiguous(memory_format=memory_format)
        for name, f, inputs in (
            ("max_pool2d 2x2", lambda x: F.max_pool2d(x, 2), [x]),
            ("max_pool2d 3x3 stride 2", lambda x: F.max_pool2d(x, 3, 2, 1), [x]),
            ("avg_pool2d 2x2", lambda x: F.avg_pool2d(x, 2), [x]),
            ("batch_norm, training", batch_norm, [x, weight, weight]),
        ):
            row(f"{name}{last}{suffix}", lambda f=f, inputs=inputs: f(*inputs))
            row(f"{name}, backward{last}{suffix}", backward(f, *inputs))


def images(bench):
    x = bench.uniform(256 if bench.cuda else 16, 64, 112, 112, low=-1, high=1)
    bench.row(
        "row-major to channels_last",
        lambda: x.contiguous(memory_format=torch.channels_last),
    )
    small = x[: len(x) // 4]
    bench.row("bilinear upsampling", lambda: F.interpolate(small, (224, 224), mode="bilinear"))


def updates(bench):
    def parameters():
        made = [bench.uniform(160000, low=-1, high=1).requires_grad_() for _ in range(160)]
        for p in made:
            p.grad = bench.uniform(160000, low=-1, high=1)
        return made

    calls = {"sgd": [], "adam": []}
    for options in [{"foreach": True}, {"fused": True}]:
        calls["sgd"].append(torch.optim.SGD(parameters(), lr=0.01, **options).step)
        calls["adam"].append(torch.optim.Adam(parameters(), lr=0.01, **options).step)
    for name, steps in calls.items():
        bench.row(f"{name}_update, 160 tensors, 25.6 M parameters", *steps)


ARITHMETIC = {
    "f32": torch.float32,
    "tf32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
}
PRODUCTS = (
    ("256", 1, 256, 256, 256, False),
    ("1024", 1, 1024, 1024, 1024, False),
    ("2048", 1, 2048, 2048, 2048, False),
    ("4096", 1, 4096, 4096, 4096, False),
    ("8192", 1, 8192, 8192, 8192, False),
    ("256x800 by 800x500", 1, 256, 500, 800, False),
    ("32768x1024 by 1024x1024", 1, 32768, 1024, 1024, False),
    ("64x4096 by transposed 4096x4096", 1, 64, 4096, 4096, True),
    ("128 of 512x64 by transposed 64x512", 128, 512, 512, 64, True),
    ("128 of 512x512 by 512x64", 128, 512, 64, 512, False),
)
CONVOLUTIONS = (
    ("20x1x5x5 on 256x1x28x28", (256, 1, 28, 28), (20, 1, 5, 5), 1, 0, 1),
    ("50x20x5x5 on 256x20x12x12", (256, 20, 12, 12), (50, 20, 5, 5), 1, 0, 1),
    ("16x3x3x3 on 256x3x32x32", (256, 3, 32, 32), (16, 3, 3, 3), 1, 1, 1),
    ("32x16x3x3 on 256x16x16x16", (256, 16, 16, 16), (32, 16, 3, 3), 1, 1, 1),
    ("64x3x7x7 stride 2 on 64x3x224x224", (64, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1),
    ("64x64x3x3 on 64x64x56x56", (64, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1),
    ("64x256x1x1 on 64x256x56x56", (64, 256, 56, 56), (64, 256, 1, 1), 1, 0, 1),
    ("256x256x3x3 on 64x256x14x14", (64, 256, 14, 14), (256, 256, 3, 3), 1, 1, 1),
    ("512x512x3x3 on 64x512x7x7", (64, 512, 7, 7), (512, 512, 3, 3), 1, 1, 1),
    ("128 groups 3x3 on 64x128x28x28", (64, 128, 28, 28), (128, 1, 3, 3), 1, 1, 128),
)


def convolution(bench, arithmetic, name, xs, ws, stride, padding, groups):
    def gradients(y, x, w, mask):
        return torch.ops.aten.convolution_backward(
            y, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, mask
        )

    name = f"{name}, {arithmetic}"
    calls = {"conv2d": [], "conv2d_dgrad": [], "conv2d_wgrad": []}
    if not any(bench.wants(f"{op} {name}") for op in calls):
        return
    if not bench.cuda:
        xs = (xs[0] // 8, *xs[1:])
    dtype = ARITHMETIC[arithmetic]
    for memory_format in (torch.contiguous_format, torch.channels_last):
        x, w = (
            bench.uniform(*shape, low=-1, high=1, dtype=dtype).contiguous(
                memory_format=memory_format
            )
            for shape in (xs, ws)
        )
        y = F.conv2d(x, w, None, stride, padding, 1, groups)
        calls["conv2d"].append(
            lambda x=x, w=w: F.conv2d(x, w, None, stride, padding, 1, groups)
        )
        calls["conv2d_dgrad"].append(
            lambda y=y, x=x, w=w: gradients(y, x, w, [True, False, False])
        )
        calls["conv2d_wgrad"].append(
            lambda y=y, x=x, w=w: gradients(y, x, w, [False, True, False])
        )
    for op, ways in calls.items():
        bench.row(f"{op} {name}", *ways)


def products(bench):
    for arithmetic in ARITHMETIC if bench.cuda else ["f32"]:
        torch.backends.cuda.matmul.allow_tf32 = arithmetic == "tf32"
        torch.backends.cudnn.allow_tf32 = arithmetic == "tf32"
        for name, batch, m, n, k, transposed in PRODUCTS:
            if not bench.wants(f"matmul {name}, {arithmetic}"):
                continue
            if not bench.cuda and batch * m * n * k > 1 << 33:
                continue
            dtype = ARITHMETIC[arithmetic]
            a = bench.uniform(batch, m, k, low=-1, high=1, dtype=dtype)
            if transposed:
                b = bench.uniform(batch, n, k, low=-1, high=1, dtype=dtype).transpose(1, 2)
            else:
                b = bench.uniform(batch, k, n, low=-1, high=1, dtype=dtype)
            if batch == 1:
                a, b = a[0], b[0]
            bench.row(f"matmul {name}, {arithmetic}", lambda a=a, b=b: a @ b)
        for c in CONVOLUTIONS:
            convolution(bench, arithmetic, *c)


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--device", default="cpu")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--only", default="", help="rows whose name contains this text")
    args = p.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.backends.cudnn.benchmark = True
    bench = Bench(args)
    side = 16384 if bench.cuda else 4096
    x = bench.uniform(side, side)
    for _ in range(1000 if bench.cuda else 0):  # until its clock is up
        x.clone()
    elementwise(bench, x, bench.uniform(side, side))
    reductions(bench, x)
    order(bench, x.reshape(-1, 1024))
    del x
    of_dtype(bench, torch.float32)
    if bench.cuda:
        of_dtype(bench, torch.float16)
    images(bench)
    updates(bench)
    products(bench)


if __name__ == "__main__":
    with torch.no_grad():
        main()
