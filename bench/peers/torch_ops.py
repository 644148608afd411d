#!/usr/bin/env python3
"""PyTorch's times for single operators, one JSON line each, with the names of `mica bench ops`.

    python3 bench/peers/torch_ops.py --device cpu --threads 2
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F

LONG = 0.03  # seconds of one measurement, at least


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--device", default="cpu")
    p.add_argument("--threads", type=int, default=0)
    args = p.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    cuda = args.device.startswith("cuda")

    def sync():
        if cuda:
            torch.cuda.synchronize()

    def row(name, call):
        call()
        sync()
        calls, times = 1, []
        while len(times) < 7:
            start = time.perf_counter()
            for _ in range(calls):
                call()
            sync()
            seconds = time.perf_counter() - start
            if seconds < LONG:
                calls, times = max(calls + 1, int(calls * 1.2 * LONG / seconds)), []
                continue
            times.append(seconds / calls)
        us = sorted(times)[len(times) // 2] * 1e6
        line = {
            "peer": "torch " + torch.__version__,
            "workload": "ops",
            "variant": name,
            "us": us,
            "device": args.device,
            "threads": torch.get_num_threads(),
        }
        print(json.dumps(line), flush=True)

    def uniform(*shape, low=0.1, high=2.0):
        return torch.empty(shape, device=args.device).uniform_(low, high)

    side = 16384 if cuda else 4096
    x, y = uniform(side, side), uniform(side, side)
    row("copy", lambda: x.clone())
    row("add", lambda: x + y)
    row("add a row", lambda: x + y[:1])
    row("relu", lambda: torch.relu(x))
    row("cast to f16", lambda: x.half())
    row("cast to f64", lambda: x.double())
    row("transposed copy", lambda: x.t().contiguous())
    row("sum", lambda: x.sum())
    row("sum over rows", lambda: x.sum(1))
    row("sum over columns", lambda: x.sum(0))
    row("max over rows", lambda: x.amax(1))
    row("argmax over rows", lambda: x.argmax(1))
    row("var over rows", lambda: x.var(1))
    less = x < y
    row("where", lambda: torch.where(less, x, y))
    row("dropout", lambda: F.dropout(x, 0.5))
    for name in ("exp", "log", "sin", "tanh", "erf", "sigmoid", "sqrt"):
        row(name, lambda f=getattr(torch, name): f(x))
    row("silu", lambda: F.silu(x))
    row("gelu", lambda: F.gelu(x))
    row("pow", lambda: torch.pow(x, y))

    rows = x.reshape(-1, 1024)
    weight, bias = torch.ones(1024, device=args.device), torch.zeros(1024, device=args.device)
    row("softmax over 1024", lambda: torch.softmax(rows, 1))
    row("log_softmax over 1024", lambda: torch.log_softmax(rows, 1))
    row("layer_norm over 1024", lambda: F.layer_norm(rows, (1024,), weight, bias))
    row("cumsum over 1024", lambda: torch.cumsum(rows, 1))
    index = torch.randperm(len(rows)).to(args.device)
    row("gather rows", lambda: torch.index_select(rows, 0, index))
    short_rows = rows[: len(rows) // 16]
    row("sort rows of 1024", lambda: torch.sort(short_rows, dim=1, stable=True))
    line = rows[:1000].flatten()
    row("sort 1 M", lambda: torch.sort(line, dim=0, stable=True))
    row("topk 10 of rows of 1024", lambda: torch.topk(short_rows, 10, 1))

    images = uniform(256 if cuda else 16, 64, 112, 112, low=-1, high=1)
    last = images.contiguous(memory_format=torch.channels_last)
    row(
        "row-major to channels_last",
        lambda: images.contiguous(memory_format=torch.channels_last),
    )
    row("max_pool2d 2x2", lambda: F.max_pool2d(images, 2))
    row("max_pool2d 2x2, channels_last", lambda: F.max_pool2d(last, 2))
    row("max_pool2d 3x3 stride 2", lambda: F.max_pool2d(images, 3, 2, 1))
    row("avg_pool2d 2x2", lambda: F.avg_pool2d(images, 2))
    row("avg_pool2d 2x2, channels_last", lambda: F.avg_pool2d(last, 2))
    row(
        "batch_norm, training",
        lambda: F.batch_norm(images, None, None, weight[:64], bias[:64], training=True),
    )
    small = images[: len(images) // 4]
    row("bilinear upsampling", lambda: F.interpolate(small, (224, 224), mode="bilinear"))

    for size in (256, 1024, 2048):
        a = uniform(size, size, low=-1, high=1)
        row(f"matmul {size}", lambda a=a: a @ a)
    for name, xs, ws, padding in (
        ("conv2d 20x1x5x5 on 64x1x28x28", (64, 1, 28, 28), (20, 1, 5, 5), 0),
        ("conv2d 50x20x5x5 on 64x20x12x12", (64, 20, 12, 12), (50, 20, 5, 5), 0),
        ("conv2d 64x64x3x3 on 8x64x56x56", (8, 64, 56, 56), (64, 64, 3, 3), 1),
        ("conv2d 256x256x3x3 on 8x256x14x14", (8, 256, 14, 14), (256, 256, 3, 3), 1),
    ):
        a, w = uniform(*xs, low=-1, high=1), uniform(*ws, low=-1, high=1)
        row(name, lambda a=a, w=w, padding=padding: F.conv2d(a, w, padding=padding))

    params = [uniform(160000, low=-1, high=1).requires_grad_() for _ in range(160)]
    for param in params:
        param.grad = uniform(160000, low=-1, high=1)
    optimizer = torch.optim.SGD(params, lr=0.01, foreach=True)
    row("sgd_update, 160 tensors, 25.6 M parameters", optimizer.step)


if __name__ == "__main__":
    with torch.no_grad():
        main()
