"""What is written as ONNX is read again and computes the same; tests/onnx asks onnxruntime."""

from __future__ import annotations

from pathlib import Path

import mica
import numpy as np
import pytest
from mica import nn
from mica.nn import functional as F


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)

    def forward(self, x: mica.Tensor) -> dict[str, mica.Tensor]:
        y = F.silu(self.norm(self.conv(x)))
        small = F.avg_pool2d(y, 2)
        large = F.interpolate(small, size=x.shape[2:], mode="bilinear")
        return {"out": self.up(y + large), "mean": y.mean((2, 3))}


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: mica.Tensor) -> mica.Tensor:
        x = self.embedding(x) + mica.arange(x.shape[1]).to(mica.float32).reshape(-1, 1) * 0.1
        q, k, v = (
            t.reshape(t.shape[0], t.shape[1], 2, 8).transpose(1, 2)
            for t in self.qkv(self.norm(x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.gelu(y.transpose(1, 2).reshape(x.shape[0], x.shape[1], 16))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTM(4, 6, bidirectional=True), nn.GRU(12, 5)

    def forward(self, x: mica.Tensor) -> mica.Tensor:
        return self.gru(self.lstm(x.transpose(0, 1))[0])[0]


TOKENS = {"x": {0: "batch", 1: "length"}}
CASES = {
    "block": (Block, lambda n: mica.randn(n, 3, 8, 8), {"x": {0: "batch"}}),
    "attention": (Attention, lambda n: mica.randint(0, 20, (n, n + 3)), TOKENS),
    "recurrent": (Recurrent, lambda n: mica.randn(n, 5, 4), {"x": {0: "batch"}}),
    "lenet": (mica.models.lenet, lambda n: mica.randn(n, 1, 28, 28), {"x": {0: "batch"}}),
}


@pytest.mark.parametrize("name", CASES)
def test_round_trip(name: str, tmp_path: Path) -> None:
    make, example, dynamic = CASES[name]
    mica.manual_seed(0)
    net = make()
    path = tmp_path / "net.onnx"
    mica.onnx.export(net, example(2), path, dynamic_axes=dynamic, input_names=["x"])
    assert net.training
    net.eval()
    loaded = mica.onnx.load(path)
    for rows in (2, 5):
        x = example(rows)
        with mica.no_grad():
            want, got = net(x), loaded(x)
        wanted = list(want.values()) if isinstance(want, dict) else [want]
        results = list(got) if isinstance(got, (list, tuple)) else [got]
        for a, b in zip(results, wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_names_of_inputs_and_outputs(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    mica.onnx.export(Block(), mica.randn(1, 3, 4, 4), path)
    loaded = mica.onnx.load(path)
    assert mica.onnx.input_names(loaded) == ["x"]
    assert mica.onnx.output_names(loaded) == ["out", "mean"]
    mica.onnx.export(
        Block(), mica.randn(1, 3, 4, 4), path, input_names=["image"], output_names=["a", "b"]
    )
    assert mica.onnx.input_names(mica.onnx.load(path)) == ["image"]
    assert mica.onnx.output_names(mica.onnx.load(path)) == ["a", "b"]


def test_an_engine_of_a_loaded_model(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    net = mica.models.lenet()
    x = mica.randn(2, 1, 28, 28)
    mica.onnx.export(net, x, path, dynamic_axes={"input": [0]})
    engine = mica.inference.optimize(mica.onnx.load(path), x)
    net.eval()
    np.testing.assert_allclose(engine(x).numpy(), net(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_what_cannot_be_written_is_listed_at_once(tmp_path: Path) -> None:
    class Net(nn.Module):
        def forward(self, x: mica.Tensor) -> mica.Tensor:
            return mica.roll(x, 1) + mica.atan2(x, x + 1)

    with pytest.raises(mica.Unsupported, match="cannot be written as ONNX:") as error:
        mica.onnx.export(Net(), mica.ones(3), tmp_path / "net.onnx")
    assert "roll" in str(error.value) and "atan2" in str(error.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(mica.Unsupported, match="opsets 17 to 22 can be written, not 9"):
        mica.onnx.export(nn.Linear(2, 2), mica.ones(1, 2), tmp_path / "net.onnx", opset=9)
