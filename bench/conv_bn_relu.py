#!/usr/bin/env python3
"""nn.ConvBnAct2d, compiled, at the shapes of `peers/torch_peer.py conv_bn_relu`; JSON lines.

    python3 bench/conv_bn_relu.py [--device cpu]

Microseconds, images in channels_last: `eval` of a forward pass with running statistics (an engine
bound to its buffers), `train` of forward, all gradients and SGD's step. What is read and what is
given are tensors that stay where they are, as those of a CUDA graph. What a call takes from Python
is in it.
"""

import argparse
import json
import statistics
import time

import mica
from mica import nn

SHAPES = [(4, 16, 32, 32), (256, 64, 56, 64), (256, 128, 28, 128), (256, 256, 14, 256)]


def microseconds(call, device, warmup=10, repeats=5, inner=20):
    def wait():
        if device != "cpu":
            mica.cuda.synchronize()

    for _ in range(warmup):
        call()
    wait()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(inner):
            call()
        wait()
        times.append(1e6 * (time.perf_counter() - start) / inner)
    return statistics.median(times)


def measure(shape, dtype, device):
    n, channels, side, out = shape
    layer = nn.ConvBnAct2d(channels, out, 3, padding=1, bias=True).to(device, dtype=dtype)
    shapes = (n, channels, side, side), (n, out, side, side)
    x, dy = (
        mica.randn(*shape, device=device).to(dtype).contiguous(memory_format=mica.channels_last)
        for shape in shapes
    )
    y = mica.empty_like(dy)
    dx = mica.empty_like(x)
    optimizer = mica.optim.SGD(layer.parameters(), lr=1e-6)

    @mica.compile
    def train():
        leaf = x.detach()
        leaf.requires_grad = True
        wanted = [leaf, *layer.parameters()]
        gradients = mica.autograd.grad([layer(leaf)], wanted, [dy])
        dx.copy_(gradients[0])
        for parameter, gradient in zip(wanted[1:], gradients[1:], strict=True):
            parameter.grad = gradient
        optimizer.step()
        optimizer.zero_grad()

    layer.eval()
    yield "eval", microseconds(mica.inference.optimize(layer, x).bind([x], [y]).run, device)
    layer.train()
    yield "train", microseconds(train, device, inner=5 if device == "cpu" else 20)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if mica.cuda.is_available() else "cpu")
    device = parser.parse_args().device
    mica.set_allow_tf32(True)
    mica.set_autotune(True)
    for shape in SHAPES:
        if device == "cpu":
            shape = (min(shape[0], 8), *shape[1:])
        for dtype in ["float32"] if device == "cpu" else ["float32", "float16", "bfloat16"]:
            n, channels, side, out = shape
            tag = f"{n}x{channels}x{side}x{side}->{out} {dtype}"
            for variant, value in measure(shape, dtype, device):
                line = {"who": "mica", "workload": "conv_bn_relu", "variant": f"{variant} {tag}"}
                print(json.dumps(line | {"value": round(value, 2), "unit": "us"}), flush=True)


if __name__ == "__main__":
    main()
