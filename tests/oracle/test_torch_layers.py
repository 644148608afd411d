"""Every layer and loss beside PyTorch's: values, gradients, and state through safetensors.

    PYTHONPATH=build/release/python python -m pytest tests/oracle/test_torch_layers.py

Skipped where PyTorch is not installed; tests/python holds the committed values then.
"""

import json
import os
import struct
import sys
from pathlib import Path

import mica
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from layer_cases import (
    CASES,
    GOLDEN,
    draw_cotangent,
    draw_inputs,
    draw_state,
    has_gradient,
    project,
    run_mica,
)

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

DEVICE = os.environ.get("MICA_TEST_DEVICE", "cpu")
TOLERANCE = {"float64": 1e-10, "float32": 2e-4}
# Where PyTorch itself is less exact: a constant in the gradient is a float.
OF_TORCH = {"CELU": 1e-7, "Hardsigmoid": 1e-7}


def torch_layer(name, dtype):
    layer = CASES[name][0](torch.nn).to(getattr(torch, dtype))
    shapes = {key: tuple(t.shape) for key, t in layer.state_dict().items()}
    values = {
        k: torch.tensor(v, dtype=getattr(torch, dtype)) for k, v in draw_state(name, shapes).items()
    }
    layer.load_state_dict(layer.state_dict() | values)
    return layer


def run_torch(name, dtype):
    layer = torch_layer(name, dtype)
    inputs = []
    for array, wanted in zip(draw_inputs(name), has_gradient(name), strict=True):
        t = torch.tensor(array)
        if array.dtype.kind == "f":
            t = t.to(getattr(torch, dtype))
        inputs.append(t.requires_grad_(wanted))
    y = layer(*inputs)
    results = {"output": y}
    y.backward(torch.tensor(draw_cotangent(name, tuple(y.shape)), dtype=getattr(torch, dtype)))
    results |= {f"input {i}": t.grad for i, t in enumerate(inputs) if t.requires_grad}
    results |= {key: p.grad for key, p in layer.named_parameters()}
    results |= {
        key: t for key, t in layer.named_buffers() if key.startswith("running") and layer.training
    }
    return {key: t.detach().numpy() for key, t in results.items()}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, dtype):
    ours, theirs = run_mica(name, dtype, DEVICE), run_torch(name, dtype)
    assert set(ours) == set(theirs)
    for key, expected in theirs.items():
        scale = max(1, np.abs(expected).max(initial=0))
        atol = max(TOLERANCE[dtype], OF_TORCH.get(name, 0)) * scale
        np.testing.assert_allclose(ours[key], expected, rtol=0, atol=atol, err_msg=key)


@pytest.mark.parametrize("name", CASES)
def test_committed_values(name):
    golden = json.loads(GOLDEN.read_text())[name]
    for key, array in run_torch(name, "float64").items():
        assert list(array.shape) == golden[key]["shape"]
        tolerance = OF_TORCH.get(name, 1e-9)
        np.testing.assert_allclose(
            project(name, key, array), golden[key]["projections"], rtol=tolerance, atol=tolerance
        )


DTYPES = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64}


def write_safetensors(path, tensors):
    """The format by its description, without the library that is not everywhere."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    header, data = {}, b""
    for key, t in tensors.items():
        raw = t.contiguous().numpy().tobytes()
        header[key] = {
            "dtype": names[t.dtype],
            "shape": list(t.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    header.pop("__metadata__", None)
    tensors = {}
    for key, entry in header.items():
        begin, end = entry["data_offsets"]
        array = np.frombuffer(
            data[begin:end], torch.empty(0, dtype=DTYPES[entry["dtype"]]).numpy().dtype
        )
        tensors[key] = torch.from_numpy(array.copy().reshape(entry["shape"]))
    return tensors


@pytest.mark.parametrize("name", CASES)
def test_state_goes_both_ways(name, tmp_path):
    theirs = torch_layer(name, "float32")
    if not theirs.state_dict():
        return
    write_safetensors(tmp_path / "torch.safetensors", theirs.state_dict())
    ours = CASES[name][0](mica.nn).to(DEVICE)
    ours.load_state_dict(mica.io.load_safetensors(tmp_path / "torch.safetensors").tensors)
    for key, t in theirs.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[key].cpu().numpy(), t.numpy(), err_msg=key)
    mica.io.save_safetensors(tmp_path / "mica.safetensors", ours.state_dict())
    back = CASES[name][0](torch.nn)
    back.load_state_dict(read_safetensors(tmp_path / "mica.safetensors"))
    for key, t in theirs.state_dict().items():
        assert torch.equal(back.state_dict()[key], t), key
