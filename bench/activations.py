#!/usr/bin/env python3
"""A linear layer and a convolution with an activation after it, compiled: kernels and time beside
ReLU's.

    python3 bench/activations.py [--device cpu] [--threads 1] [--cpu-time]

`forward` is without a gradient; `train` gives the results and the gradients of input, weight and
bias. The activations take turns; a ratio is the median over the rounds of a time by ReLU's in the
same round.
"""

import argparse
import statistics
import time

import mica
from mica import nn
from mica.nn import functional

ACTIVATIONS = {
    "relu": functional.relu,
    "none": lambda x: x,
    "silu": functional.silu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "hardswish": functional.hardswish,
}
LAYERS = {
    "linear 512x256 to 1024": (lambda: nn.Linear(256, 1024), (512, 256)),
    "linear 256x768 to 3072": (lambda: nn.Linear(768, 3072), (256, 768)),
    "conv 3x3, 64 channels, 8x64x28x28": (lambda: nn.Conv2d(64, 64, 3, padding=1), (8, 64, 28, 28)),
    "conv 3x3, 16 to 32, 8x16x56x56": (lambda: nn.Conv2d(16, 32, 3, padding=1), (8, 16, 56, 56)),
    "conv 1x1, 128 channels, 8x128x28x28": (lambda: nn.Conv2d(128, 128, 1), (8, 128, 28, 28)),
}


def compiled(layer, shape, activation, dtype, device, mode):
    mica.manual_seed(0)
    net = layer().to(device, dtype=dtype)
    x = mica.randn(*shape, device=device).to(dtype)
    if mode == "forward":

        @mica.compile
        def forward(x):
            with mica.no_grad():
                return activation(net(x))

        return forward, lambda: forward(x)
    dy = mica.randn(*net(x).shape, device=device).to(dtype)

    @mica.compile
    def train(x, dy):
        leaf = x.detach()
        leaf.requires_grad = True
        y = activation(net(leaf))
        return y.detach(), *mica.autograd.grad([y], [leaf, *net.parameters()], [dy])

    return train, lambda: train(x, dy)


def rounds_of(calls, options):
    """Of each round the microseconds of each call."""
    clock = time.process_time if options.cpu_time else time.perf_counter
    wait = mica.cuda.synchronize if options.device == "cuda" else lambda: None

    def microseconds(call, count):
        begin = clock()
        for _ in range(count):
            call()
        wait()
        return (clock() - begin) / count * 1e6

    for call in calls.values():
        microseconds(call, 3)
    count = max(1, int(2e4 / microseconds(calls["relu"], 3)))
    names = list(calls)
    all_rounds = []
    for r in range(options.rounds):
        order = names[r % len(names) :] + names[: r % len(names)]
        all_rounds.append({name: microseconds(calls[name], count) for name in order})
    return all_rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--cpu-time", action="store_true", help="what the process computed")
    parser.add_argument("--only", default="", help="layers whose names have this in them")
    options = parser.parse_args()
    mica.set_num_threads(options.threads)
    columns = [name for name in ACTIVATIONS if name != "relu"]
    print("| layer | dtype | | ReLU, µs |", *(f"{c} |" for c in columns))
    print("|---|---|---|---|" + "---|" * len(columns))
    for name, (layer, shape) in LAYERS.items():
        for dtype in (mica.float32, mica.bfloat16):
            for mode in ("forward", "train"):
                if options.only not in name:
                    continue
                made = {
                    a: compiled(layer, shape, f, dtype, options.device, mode)
                    for a, f in ACTIVATIONS.items()
                }
                all_rounds = rounds_of({a: call for a, (_, call) in made.items()}, options)
                kernels = {a: len(function.kernels) for a, (function, _) in made.items()}
                relu = statistics.median(r["relu"] for r in all_rounds)
                cells = [
                    f"{statistics.median(r[c] / r['relu'] for r in all_rounds):.3f} ({kernels[c]})"
                    for c in columns
                ]
                kind = str(dtype).split(".")[-1]
                print(
                    f"| {name} | {kind} | {mode} | {relu:.0f} ({kernels['relu']}) |",
                    *(f"{c} |" for c in cells),
                    flush=True,
                )


if __name__ == "__main__":
    main()
