"""Layers and networks in f32 and under bf16 autocast on the CPU, compiled, by turns.

    PYTHONPATH=build/release/python python bench/autocast.py [--threads 1] [--only resnet]

Of each the median of the rounds, in milliseconds that the process computed.
"""

import argparse
import contextlib
import statistics
import time

import mica
from mica import nn

NETWORKS = {
    "linear 1024 to 1024, 256 rows": (lambda: nn.Linear(1024, 1024), (256, 1024)),
    "linear 256 to 256, 32 rows": (lambda: nn.Linear(256, 256), (32, 256)),
    "mlp 784, 512, 512, 10, batch 64": (
        lambda: nn.Sequential(
            nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        ),
        (64, 784),
    ),
    "transformer layer 256, 8 x 64": (
        lambda: nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dropout=0.0),
        (8, 64, 256),
    ),
    "conv 64 to 64, 3x3, 8 x 32x32": (lambda: nn.Conv2d(64, 64, 3, padding=1), (8, 64, 32, 32)),
    "conv 3 to 64, 7x7, stride 2, 8 x 64x64": (
        lambda: nn.Conv2d(3, 64, 7, stride=2, padding=3),
        (8, 3, 64, 64),
    ),
    "resnet18, 8 x 64x64": (lambda: mica.models.resnet18(), (8, 3, 64, 64)),
    "resnet18, 64 x 28x28": (lambda: mica.models.resnet18(in_channels=1), (64, 1, 28, 28)),
    "mobilenet_v3_large, 8 x 64x64": (lambda: mica.models.mobilenet_v3_large(), (8, 3, 64, 64)),
    "efficientnet_b0, 8 x 64x64": (lambda: mica.models.efficientnet_b0(), (8, 3, 64, 64)),
    "convnext_tiny, 4 x 64x64": (lambda: mica.models.convnext_tiny(), (4, 3, 64, 64)),
    "lenet, batch 64": (lambda: mica.models.lenet(), (64, 1, 28, 28)),
    "lenet of 6 channels, batch 64": (lambda: mica.models.lenet6(), (64, 1, 28, 28)),
}


def calls_of(net, autocast):
    @mica.compile
    def forward(x):
        with mica.no_grad(), autocast():
            return net(x)

    @mica.compile
    def step(x):
        with autocast():
            loss = net(x).float().square().mean()
        return mica.autograd.grad([loss], list(net.parameters()))

    return {"forward": forward, "step": step}


def milliseconds(call, x):
    begin, count = time.process_time(), 0
    while time.process_time() - begin < 0.15:
        call(x)
        count += 1
    return (time.process_time() - begin) / count * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    mica.set_num_threads(options.threads)
    print("| | f32, ms | bf16, ms | times as fast |\n|---|---|---|---|")
    for name, (make, shape) in NETWORKS.items():
        if options.only not in name:
            continue
        net, x = make(), mica.randn(*shape)
        full = calls_of(net, contextlib.nullcontext)
        low = calls_of(net, lambda: mica.autocast("cpu", dtype=mica.bfloat16))
        for part in full:
            full[part](x), low[part](x)
            rounds = [
                (milliseconds(full[part], x), milliseconds(low[part], x))
                for _ in range(options.rounds)
            ]
            f32, bf16 = (statistics.median(r[i] for r in rounds) for i in (0, 1))
            print(f"| {name}, {part} | {f32:.3f} | {bf16:.3f} | {f32 / bf16:.2f} |", flush=True)


if __name__ == "__main__":
    main()
