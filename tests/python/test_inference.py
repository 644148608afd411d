"""Engines: networks without their code, in other precisions, for other sizes, in files."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import mica
import numpy as np
import pytest
from conftest import DEVICE
from mica import nn

TOLERANCE = {"rtol": 1e-5, "atol": 1e-6} if DEVICE == "cpu" else {"rtol": 1e-4, "atol": 1e-5}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(8 * 4 * 4, 5)

    def forward(self, x: mica.Tensor, scale: mica.Tensor) -> dict[str, Any]:
        y = mica.nn.functional.max_pool2d(mica.relu(self.norm(self.conv(x))), 2)
        logits = self.fc(self.drop(y.reshape(len(x), -1)))
        return {"logits": logits * scale, "features": (y, y.mean())}


def randn(*shape: int) -> mica.Tensor:
    return mica.randn(*shape, device=DEVICE)


def ones(*shape: int, **options: Any) -> mica.Tensor:
    return mica.ones(*shape, device=DEVICE, **options)


def zeros(*shape: int, **options: Any) -> mica.Tensor:
    return mica.zeros(*shape, device=DEVICE, **options)


def trained_net() -> Net:
    mica.manual_seed(1)
    net = Net().to(DEVICE)
    for _ in range(3):
        net(randn(4, 3, 8, 8), ones(1))  # running statistics of their own
    return net


def example(rows: int = 2) -> tuple[mica.Tensor, mica.Tensor]:
    return randn(rows, 3, 8, 8), mica.tensor([2.0]).to(DEVICE)


def logits_of(net: Net, arguments: tuple[mica.Tensor, mica.Tensor]) -> np.ndarray:
    was = net.training
    net.eval()
    with mica.no_grad():
        result = net(*arguments)["logits"].cpu().numpy()
    net.train(was)
    return result


def test_an_engine_computes_what_the_network_does_in_evaluation() -> None:
    net, arguments = trained_net(), example()
    engine = mica.inference.optimize(net, arguments)
    assert net.training and net.norm.training
    result = engine(*arguments)
    assert list(result) == ["logits", "features"]
    assert not result["logits"].requires_grad
    np.testing.assert_allclose(
        result["logits"].cpu().numpy(), logits_of(net, arguments), **TOLERANCE
    )
    assert not any("batch_norm" in line for line in engine.dump().splitlines())
    assert [name for name, _, _ in engine.inputs] == ["x", "scale"]
    with mica.no_grad():
        net.fc.weight.zero_()  # the engine's weights are its own
    assert (
        engine(*arguments)["logits"].cpu().numpy().tolist()
        == result["logits"].cpu().numpy().tolist()
    )


@pytest.mark.parametrize(
    "precision, tolerance", [("f16", 5e-3), ("bf16", 4e-2), (mica.float16, 5e-3)]
)
def test_low_precision_keeps_inputs_and_results(precision: Any, tolerance: float) -> None:
    net, arguments = trained_net(), example()
    engine = mica.inference.optimize(net, arguments, precision=precision)
    result = engine(*arguments)["logits"]
    assert result.dtype == mica.float32
    want = logits_of(net, arguments)
    assert np.abs(result.cpu().numpy() - want).max() <= tolerance * np.abs(want).max()
    assert f"conv.weight  {'b' if precision == 'bf16' else ''}f16[8, 3, 3, 3]" in engine.dump()


def test_sizes_may_be_dynamic(tmp_path: Path) -> None:
    net = trained_net()
    engine = mica.inference.optimize(
        net, example(1), dynamic={"x": {0: "batch"}}, profiles=[{"batch": 1}, {"batch": 4}]
    )
    assert engine.plans == 2
    engine.save(tmp_path / "net.mica")
    again = mica.inference.load(tmp_path / "net.mica", device=DEVICE)
    assert again.profiles == [{"batch": 1}, {"batch": 4}]
    assert again.inputs[0] == ("x", "float32", ("batch", 3, 8, 8))
    for rows in (1, 4, 7):
        arguments = example(rows)
        for e in (engine, again):
            np.testing.assert_allclose(
                e(*arguments)["logits"].cpu().numpy(), logits_of(net, arguments), **TOLERANCE
            )
    with pytest.raises(mica.ShapeError, match=r"input 'x': expected a shape of \[batch, 3, 8, 8\]"):
        engine(zeros(2, 3, 9, 8), ones(1))
    with pytest.raises(mica.DTypeError, match="input 'scale': expected f32, got f64"):
        engine(zeros(2, 3, 8, 8), ones(1, dtype=mica.float64))


def test_products_of_dynamic_sizes() -> None:
    def tokens(x: mica.Tensor, table: mica.Tensor) -> mica.Tensor:
        rows = x.reshape(x.shape[0] * x.shape[1], 4) @ table
        return rows.reshape(x.shape[0], x.shape[1], 3) + mica.arange(
            x.shape[1], device=x.device
        ).reshape(-1, 1)

    table = randn(4, 3)
    engine = mica.inference.optimize(
        tokens, (randn(2, 6, 4), table), dynamic={"x": {0: "batch", 1: "length"}}
    )
    for shape in ((1, 1, 4), (3, 5, 4), (2, 9, 4)):
        x = randn(*shape)
        np.testing.assert_allclose(
            engine(x, table).cpu().numpy(), tokens(x, table).cpu().numpy(), **TOLERANCE
        )
    assert "2*batch" not in engine.dump() and "batch*length" in engine.dump()


def test_what_depends_on_sizes_otherwise_is_refused() -> None:
    def pooled(x: mica.Tensor) -> mica.Tensor:
        return x.reshape(x.shape[0] // 2, -1)

    with pytest.raises(mica.Unsupported, match="for other sizes of batch"):
        mica.inference.optimize(pooled, zeros(4, 4), dynamic={"x": {0: "batch"}})
    with pytest.raises(mica.Error, match="no input 'y', only x"):
        mica.inference.optimize(pooled, zeros(4, 4), dynamic={"y": {0: "batch"}})


def test_effects_are_refused() -> None:
    state = zeros(2)

    def counts(x: mica.Tensor) -> mica.Tensor:
        state.copy_(x)
        return x + 1

    with pytest.raises(mica.Unsupported, match="writes to tensors outside"):
        mica.inference.optimize(counts, ones(2))
    with pytest.raises(mica.Unsupported, match="writes to tensors outside"):
        mica.inference.optimize(lambda x: mica.nn.functional.dropout(x, 0.5), ones(2))


def test_a_tensor_that_is_overwritten_as_a_whole() -> None:
    def in_place(x: mica.Tensor) -> mica.Tensor:
        y = x + 1
        y.relu_()
        y *= 3
        return y

    x = mica.tensor([-3.0, 1.0]).to(DEVICE)
    assert mica.inference.optimize(in_place, x)(x).tolist() == [0.0, 6.0]


def test_bound_inputs_and_outputs_stay_where_they_are() -> None:
    net = trained_net()
    engine = mica.inference.optimize(net, example())
    x, scale = example()
    logits = zeros(2, 5)
    outputs = (logits, zeros(2, 8, 4, 4), mica.zeros((), device=DEVICE))
    binding = engine.bind((x, scale), outputs)
    for seed in range(3):
        mica.manual_seed(seed)
        x.copy_(randn(2, 3, 8, 8))
        binding.run()
        np.testing.assert_allclose(logits.cpu().numpy(), logits_of(net, (x, scale)), **TOLERANCE)
    if DEVICE == "cpu":
        array = x.numpy()  # memory that others write to
        array[:] = 0.5
        binding.run()
        np.testing.assert_allclose(logits.numpy(), logits_of(net, (x, scale)), **TOLERANCE)
    assert engine.bind((x, scale)).outputs[0].shape == (2, 5)
    with pytest.raises(mica.ShapeError, match="output 'logits': expected"):
        engine.bind((x, scale), (zeros(2, 4), *outputs[1:]))


def test_threads_share_an_engine() -> None:
    net = trained_net()
    engine = mica.inference.optimize(net, example())
    inputs = [example() for _ in range(8)]
    wanted = [logits_of(net, arguments) for arguments in inputs]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(20):
            got = engine(*inputs[i])["logits"].cpu().numpy()
            if not np.allclose(got, wanted[i], **TOLERANCE):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_a_file_needs_no_code(tmp_path: Path) -> None:
    net, (x, scale) = trained_net(), example()
    mica.inference.optimize(net, (x, scale), precision="f32").save(tmp_path / "net.mica")
    mica.save({"x": x.cpu(), "want": mica.tensor(logits_of(net, (x, scale)))}, tmp_path / "data")
    code = (
        "import mica, sys, numpy as np; d = mica.load(sys.argv[2])\n"
        "r = mica.inference.load(sys.argv[1])(d['x'], mica.tensor([2.0]))\n"
        "assert list(r) == ['logits', 'features'] and len(r['features']) == 2\n"
        "assert np.allclose(r['logits'].numpy(), d['want'].numpy(), rtol=1e-4, atol=1e-5)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "net.mica", tmp_path / "data"],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    # A safetensors file, which other readers open.
    assert "conv.weight" in " ".join(mica.io.load_safetensors(tmp_path / "net.mica").tensors)


def rewritten(data: bytes, change: Any) -> bytes:
    """The file with another network in its head."""
    length = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8 : 8 + length])
    network = json.loads(head["__metadata__"]["network"])
    change(network, head["__metadata__"])
    head["__metadata__"]["network"] = json.dumps(network)
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def test_damaged_files_say_so(tmp_path: Path) -> None:
    path = tmp_path / "net.mica"
    mica.inference.optimize(nn.Linear(3, 2).to(DEVICE), ones(1, 3)).save(path)
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(mica.IoError, match=r"net\.mica: damaged: its hash is"):
        mica.inference.load(path)
    path.write_bytes(rewritten(data, lambda n, m: m.update(format="mica engine 9")))
    with pytest.raises(mica.IoError, match=r"expected an engine .* got 'mica engine 9'"):
        mica.inference.load(path)
    path.write_bytes(rewritten(data, lambda n, m: n["calls"].pop()))
    with pytest.raises(mica.IoError, match="damaged"):
        mica.inference.load(path)
    mica.io.save_safetensors(path, {"x": ones(2)})
    with pytest.raises(mica.IoError, match="expected an engine"):
        mica.inference.load(path)
    with pytest.raises(mica.IoError, match="cannot be opened"):
        mica.inference.load(tmp_path / "none.mica")


def stripes(count: int, seed: int) -> tuple[mica.Tensor, np.ndarray]:
    """Noisy images of stripes in four directions."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, count)
    i, j = np.mgrid[:12, :12]
    directions = np.stack([i, j, i + j, i - j])
    phase = rng.uniform(0, 6, (count, 1, 1))
    images = np.sin(directions[labels] * 1.3 + phase) + rng.normal(0, 1.1, (count, 12, 12))
    return mica.tensor(images[:, None].astype(np.float32)).to(DEVICE), labels


@pytest.fixture(scope="module")
def classifier() -> nn.Module:
    mica.manual_seed(3)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 9, 64),
        nn.ReLU(),
        nn.Linear(64, 4),
    ).to(DEVICE)
    optimizer = mica.optim.Adam(net.parameters(), lr=2e-3)
    for seed in range(60):
        x, labels = stripes(64, seed)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), mica.tensor(labels).to(DEVICE)).backward()
        optimizer.step()
    return net


@pytest.mark.parametrize("calibrate", ["minmax", "percentile", "entropy"])
def test_int8_keeps_the_accuracy(classifier: nn.Module, calibrate: str, tmp_path: Path) -> None:
    x, labels = stripes(4000, 1000)
    batches = [stripes(64, seed)[0] for seed in range(200, 204)]
    exact = mica.inference.optimize(classifier, x)
    engine = mica.inference.optimize(
        classifier,
        batches[0],
        precision="int8",
        calibration=batches,
        calibrate=calibrate,
        dynamic={"input": {0: "batch"}},
    )
    # On CUDA those whose channels are whole vectors; the others are computed in halves.
    assert engine.dump().count(" = quantized_") == (4 if DEVICE == "cpu" else 2)
    assert " i8[32, 16, 3, 3]" in engine.dump()

    def accuracy(e: mica.inference.Engine) -> float:
        return float((e(x).cpu().numpy().argmax(1) == labels).mean())

    assert accuracy(exact) > 0.9
    assert abs(accuracy(engine) - accuracy(exact)) <= 0.005
    engine.save(tmp_path / "net.mica")
    assert (
        mica.inference.load(tmp_path / "net.mica", device=DEVICE)(x).tolist() == engine(x).tolist()
    )


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 32, 3, padding=1)
        self.convs = nn.ModuleList([nn.Conv2d(32, 32, 3, padding=1) for _ in range(2)])
        self.last = nn.Conv2d(32, 64, 1, stride=2, bias=False)
        self.short = nn.Conv2d(32, 64, 1, stride=2)
        self.fc = nn.Linear(64, 16)

    def forward(self, x: mica.Tensor) -> mica.Tensor:
        x = mica.nn.functional.max_pool2d(mica.relu(self.first(x)), 2)
        y = mica.relu(self.convs[0](x))
        x = mica.relu(self.convs[1](y) + x)
        y = self.last(x)
        x = mica.relu(y + self.short(x))
        return self.fc(x.mean((2, 3)))


def test_int8_of_a_network_with_residuals() -> None:
    mica.manual_seed(5)
    net = Residual().to(DEVICE).eval()
    batches = [randn(8, 3, 16, 16) for _ in range(3)]
    engine = mica.inference.optimize(
        net, batches[0], precision="int8", calibration=batches, calibrate="minmax"
    )
    if DEVICE != "cpu":
        joined = [k for k in engine.kernels if "quantized_conv2d_cudnn" in k]
        assert len(joined) >= 3, engine.kernels  # with residuals, ReLU and rounding to bytes
    with mica.no_grad():
        want = net(batches[1]).cpu().numpy()
    got = engine(batches[1]).cpu().numpy()
    assert np.linalg.norm(got - want) <= 0.05 * np.linalg.norm(want)


def test_int8_wants_calibration(classifier: nn.Module) -> None:
    x = stripes(2, 0)[0]
    with pytest.raises(mica.Error, match="int8 wants batches to calibrate with"):
        mica.inference.optimize(classifier, x, precision="int8")
    with pytest.raises(mica.Error, match='expected "minmax", "percentile" or "entropy"'):
        mica.inference.optimize(
            classifier, x, precision="int8", calibration=[x], calibrate="median"
        )


def test_images_in_another_memory_format() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 2)).to(DEVICE)
    x = randn(2, 3, 6, 6)
    engine = mica.inference.optimize(net, x)
    last = x.contiguous(memory_format=mica.channels_last)
    np.testing.assert_allclose(engine(last).cpu().numpy(), engine(x).cpu().numpy(), **TOLERANCE)
