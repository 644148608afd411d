"""mica's fused ConvBnAct2d inside PyTorch, beside torch's convolution, batch norm and ReLU.

    python torch_layer.py --device cuda

Values and all gradients are compared, then both are trained by a torch optimizer and timed.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from typing import Any

import mica
from mica import interop

try:
    import torch
except ImportError:
    print("torch is not installed")
    sys.exit(0)


def unfused(layer: Any) -> Any:
    """torch's three layers with the weights of the fused one."""
    state = {k: v.clone() for k, v in layer.state_dict().items()}
    out, channels = state["conv.weight"].shape[:2]
    conv = torch.nn.Conv2d(channels, out, 3, padding=1, bias="conv.bias" in state)
    norm = torch.nn.BatchNorm2d(out)
    own = torch.nn.ModuleDict({"conv": conv, "bn": norm}).to(state["conv.weight"])
    own.load_state_dict(state, strict=False)
    norm.float()
    return torch.nn.Sequential(conv, norm, torch.nn.ReLU())


def gradients(layer: Any, x: Any, cotangent: Any) -> list[Any]:
    own = x.clone().requires_grad_()
    y = layer(own)
    return [y.detach(), *torch.autograd.grad(y, [own, *layer.parameters()], cotangent)]


def microseconds(step: Callable[[], None], device: str) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(10 if device == "cuda" else 1):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / (10 if device == "cuda" else 1))
    return 1e6 * best


def step_of(layer: Any, x: Any, cotangent: Any) -> Callable[[], None]:
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-6)
    own = x.clone().requires_grad_()

    def step() -> None:
        optimizer.zero_grad()
        own.grad = None
        layer(own).backward(cotangent)
        optimizer.step()

    return step


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cpu")
device = parser.parse_args().device
if device == "cuda" and not torch.cuda.is_available():
    print("this torch has no CUDA")
    sys.exit(0)
n, side = (256, 56) if device == "cuda" else (4, 14)
dtype = torch.float16 if device == "cuda" else torch.float32

torch.manual_seed(1)
mica.manual_seed(1)
net = mica.nn.ConvBnAct2d(64, 64, 3, padding=1)
fused = interop.TorchModule(net).to(device=device, dtype=dtype)
theirs = unfused(fused)
x = torch.randn(n, 64, side, side, device=device, dtype=dtype)
x = x.to(memory_format=torch.channels_last)
cotangent = torch.randn_like(x)
theirs.to(memory_format=torch.channels_last)

worst = 0.0
for ours, want in zip(gradients(fused, x, cotangent), gradients(theirs, x, cotangent), strict=True):
    error = (ours.float() - want.float()).abs().max() / want.float().abs().max()
    worst = max(worst, error.item())
print(f"largest difference of values and gradients: {worst:.2g} of the largest value")
assert worst < (2e-2 if dtype == torch.float16 else 1e-4)
with interop.one_stream() if device == "cuda" else contextlib.nullcontext():
    times = {
        "torch, three layers": microseconds(step_of(theirs, x, cotangent), device),
        "mica, one layer": microseconds(step_of(fused, x, cotangent), device),
    }
for name, taken in times.items():
    print(f"{name:20} {taken:10.1f} µs a training step at {n} x 64 x {side}^2, {dtype}")
