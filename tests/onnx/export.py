"""Networks of mica as files of ONNX: onnx's checker accepts them, and onnxruntime computes what
mica does, for other batches too.

Run by a Python that has onnx and onnxruntime, with mica on its path: tests/onnx/export.py [NAME…]
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import mica
import numpy as np
import onnxruntime
from mica import nn
from mica.nn import functional as F

import onnx

TOLERANCE = 1e-4  # of the largest result
OPSETS = (17, 18, 20, 22)


class Attention(nn.Module):
    """A block of a vision transformer: patches, attention with several heads, a mask of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, stride=4)
        self.position = nn.Parameter(mica.randn(1, 16, 32))
        self.norm = nn.LayerNorm(32)
        self.qkv = nn.Linear(32, 96)
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x: mica.Tensor) -> mica.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.position
        q, k, v = (
            t.reshape(t.shape[0], 16, 4, 8).transpose(1, 2)
            for t in self.qkv(self.norm(x)).chunk(3, dim=-1)
        )
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + a.transpose(1, 2).reshape(x.shape[0], 16, 32)
        return (x + self.mlp(x)).mean(1)


class Recurrent(nn.Module):
    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.layers = kind(6, 8, num_layers=2, bidirectional=True)

    def forward(self, x: mica.Tensor) -> mica.Tensor:
        y = self.layers(x.transpose(0, 1))[0]
        return y.transpose(0, 1)


class Sampling(nn.Module):
    def forward(self, x: mica.Tensor) -> list[mica.Tensor]:
        half = F.interpolate(x, size=(5, 7), mode="bilinear")
        return [
            half,
            F.interpolate(half, scale_factor=2, mode="nearest"),
            F.interpolate(x, size=(16, 12), mode="bicubic", align_corners=True),
            F.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False),
            F.adaptive_avg_pool2d(x, 4),
            F.pad(x, (1, 2, 0, 1), mode="reflect"),
            F.pad(x, (1, 0), value=2.0),
        ]


class Sums(nn.Module):
    def forward(self, x: mica.Tensor) -> list[mica.Tensor]:
        return [
            x.sum(1),
            x.mean((2, 3), keepdim=True),
            x.amax(-1),
            x.amin(2),
            x.prod(3),
            x.logsumexp(1),
            x.var(1, correction=0),
            x.std((1, 2), correction=0),
            x.argmax(1).to(mica.float32),
            mica.cumsum(x, 1),
            x.norm(dim=2),
            (x > 0).any(1).to(mica.float32),
            mica.topk(x, 3, dim=-1)[0],
            mica.flip(x, (1, 2)),
            mica.tril(x),
            mica.where(x > 0, x, x * 2),
            x[:, 1:, ::2],
        ]


class Functions(nn.Module):
    def forward(self, x: mica.Tensor) -> list[mica.Tensor]:
        y = x.abs() + 0.1
        return [
            *(f(x) for f in (F.silu, F.gelu, F.mish, F.elu, F.selu, F.leaky_relu, F.hardswish)),
            *(f(x) for f in (F.hardsigmoid, F.softplus, mica.tanh, mica.erf, mica.sin, mica.atan)),
            *(f(y) for f in (mica.log, mica.sqrt, mica.rsqrt, mica.log1p, mica.log2, mica.exp2)),
            F.gelu(x, approximate="tanh"),
            x.clamp(-0.5, 0.7),
            mica.maximum(x, y) - mica.minimum(x, 0 * y),
            x**2 / y,
            mica.floor(x) + mica.round(x) + mica.trunc(x) + mica.sign(x),
            mica.remainder(x, y),
            F.softmax(x, 1) + F.log_softmax(x, -1),
        ]


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.GroupNorm(2, 4), nn.BatchNorm2d(4), nn.PReLU(4)])
        self.last = nn.LayerNorm([8, 8])
        self.up = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)

    def forward(self, x: mica.Tensor) -> list[mica.Tensor]:
        return [*(part(x) for part in self.parts), self.last(x), self.up(x), F.normalize(x, dim=1)]


def images(channels: int, side: int) -> mica.Tensor:
    return mica.randn(2, channels, side, side)


def zoo(name: str, **options: Any) -> Callable[[], nn.Module]:
    return lambda: getattr(mica.models, name)(**options)


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], mica.Tensor]]] = {
    "lenet": (zoo("lenet"), lambda: images(1, 28)),
    **{
        name: (zoo(name), lambda: images(3, 64))
        for name in (
            "resnet18",
            "resnet50",
            "mobilenet_v2",
            "mobilenet_v3_large",
            "efficientnet_b0",
            "efficientnet_lite0",
            "densenet121",
            "convnext_tiny",
            "deeplabv3_resnet50",
        )
    },
    "unet": (zoo("unet", width=8), lambda: images(3, 32)),
    "attention": (Attention, lambda: images(3, 16)),
    "lstm": (lambda: Recurrent(nn.LSTM), lambda: mica.randn(2, 5, 6)),
    "gru": (lambda: Recurrent(nn.GRU), lambda: mica.randn(2, 5, 6)),
    "rnn": (lambda: Recurrent(nn.RNN), lambda: mica.randn(2, 5, 6)),
    "sampling": (Sampling, lambda: images(3, 8)),
    "sums": (Sums, lambda: images(4, 8)),
    "functions": (Functions, lambda: images(2, 4)),
    "norms": (Norms, lambda: images(4, 8)),
}


def flat(result: Any) -> list[np.ndarray]:
    if isinstance(result, mica.Tensor):
        return [result.numpy()]
    return [a for r in (result.values() if isinstance(result, dict) else result) for a in flat(r)]


def check(name: str, opset: int, path: str) -> float:
    mica.manual_seed(0)
    make, example = CASES[name]
    net = make()
    x = example()
    with mica.no_grad():
        for key, value in net.state_dict().items():
            if key.endswith("running_var"):
                value.copy_(mica.rand(*value.shape) + 0.5)
    net.eval()
    mica.onnx.export(net, x, path, dynamic_axes={"x": {0: "batch"}}, opset=opset, input_names=["x"])
    onnx.checker.check_model(onnx.load(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    worst = 0.0
    for batch in (x, mica.cat([x, x * 0.5, -x])):
        with mica.no_grad():
            wanted = flat(net(batch))
        for got, want in zip(session.run(None, {"x": batch.numpy()}), wanted, strict=True):
            assert got.shape == want.shape and got.dtype == want.dtype, (got.shape, want.shape)
            worst = max(worst, float(np.abs(got - want).max() / (np.abs(want).max() + 1e-30)))
    return worst


def main() -> int:
    names = sys.argv[1:] or list(CASES)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            # Every opset for what is small; one for the others.
            for opset in OPSETS if CASES[name][0] in (Attention, Sampling, Sums, Norms) else (17,):
                try:
                    worst = check(name, opset, os.path.join(folder, "net.onnx"))
                    good = worst <= TOLERANCE
                    print(f"{'ok    ' if good else 'FAILED'}  {name} opset {opset}: {worst:.1e}")
                except Exception as e:  # one failure does not hide the others
                    good = False
                    print(f"FAILED  {name} opset {opset}: {e}")
                failed += not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
