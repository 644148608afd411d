"""Convolution, batch norm and ReLU as one layer beside the three: equal results, and times.

python fused_conv_bn_relu.py --device cuda
"""

import argparse
import copy
import time
from collections.abc import Callable

import mica
from mica import nn

Step = Callable[[mica.Tensor, mica.Tensor], list[mica.Tensor]]


def training_step(layer: nn.Module) -> Step:
    """The output and every gradient: of the input, the weights, the norm's scale and shift."""

    def step(x: mica.Tensor, cotangent: mica.Tensor) -> list[mica.Tensor]:
        x = x.detach()
        x.requires_grad = True
        y = layer(x)
        return [y, *mica.autograd.grad((y * cotangent).sum(), [x, *layer.parameters()])]

    return step


def microseconds(step: Step, x: mica.Tensor, cotangent: mica.Tensor, device: str) -> float:
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        step(x, cotangent)
        if device != "cpu":
            mica.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return 1e6 * best


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if mica.cuda.is_available() else "cpu")
device = parser.parse_args().device
large = 8 if device == "cpu" else 256
for shape, out in [((4, 16, 32, 32), 32), ((large, 64, 56, 56), 64)]:
    mica.manual_seed(0)
    conv, norm = nn.Conv2d(shape[1], out, 3, padding=1), nn.BatchNorm2d(out)
    three = nn.Sequential(conv, norm, nn.ReLU()).to(device)
    one = nn.ConvBnAct2d(copy.deepcopy(conv), copy.deepcopy(norm))  # or nn.ConvBnAct2d(16, 32, 3)
    x, cotangent = mica.randn(*shape, device=device), mica.randn(shape[0], out, *shape[2:])
    cotangent = cotangent.to(device)
    print(f"{shape} to {out} channels on {device}")
    names = ["output", "input", "weight", "bias", "scale", "shift"]
    fused = mica.compile(training_step(one))
    for name, a, b in zip(
        names, training_step(three)(x, cotangent), fused(x, cotangent), strict=True
    ):
        scale = max(1.0, a.abs().max().item())
        difference = (a - b).abs().max().item() / scale
        print(f"  {name:7} differs by {difference:.1e} of {scale:.1e}")
        assert difference < (1e-2 if mica.allow_tf32() else 1e-3)
    steps: dict[str, Step] = {
        "three layers": training_step(three),
        "three layers, compiled": mica.compile(training_step(three)),
        "one layer": training_step(one),
        "one layer, compiled": fused,
    }
    for name, step in steps.items():
        print(f"  {microseconds(step, x, cotangent, device):9.0f} µs  {name}")
