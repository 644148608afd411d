"""Values and gradients of every layer against committed ones; state dicts against PyTorch's."""

import json
from pathlib import Path

import mica
import mica.nn.functional as F
import numpy as np
import pytest
from layer_cases import CASES, GOLDEN, project, run_mica
from mica import nn

TOLERANCE = {"float64": 1e-9, "float32": 3e-4}
STATE_DICTS = Path(__file__).resolve().parents[1] / "golden" / "state_dicts.txt"


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_golden(name, dtype, device):
    golden = json.loads(GOLDEN.read_text())[name]
    results = run_mica(name, dtype, device)
    assert set(results) == set(golden)
    for key, array in results.items():
        expected = golden[key]
        assert list(array.shape) == expected["shape"], key
        got = project(name, key, array)
        scale = max(1, np.abs(expected["projections"]).max())
        np.testing.assert_allclose(
            got, expected["projections"], rtol=0, atol=TOLERANCE[dtype] * scale, err_msg=key
        )


def test_every_layer_has_a_case():
    made = {name.split()[0] for name in CASES}
    others = {
        "Dropout": "random in training, nothing else",
        "ChannelShuffle": "PyTorch's has no gradient; an op case holds it",
        "ClippedReLU": "not in PyTorch; an op case holds it",
        "Module": "abstract",
        "ModuleDict": "calls nothing",
        "ModuleList": "calls nothing",
        "ParameterDict": "calls nothing",
        "ParameterList": "calls nothing",
    }
    layers = {
        name
        for name, value in vars(nn).items()
        if isinstance(value, type) and issubclass(value, nn.Module) and not name.startswith("_")
    }
    assert layers == made | set(others)


# Layer and function of the activations that PyTorch can make write over their input.
INPLACE = {
    "ReLU": F.relu,
    "ReLU6": F.relu6,
    "LeakyReLU": F.leaky_relu,
    "ELU": F.elu,
    "SELU": F.selu,
    "SiLU": F.silu,
    "Mish": F.mish,
    "Hardtanh": F.hardtanh,
    "Hardsigmoid": F.hardsigmoid,
    "Hardswish": F.hardswish,
}


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_is_taken_and_has_no_effect(name, device):
    array = np.linspace(-9, 9, 19, dtype=np.float32)
    x = mica.tensor(array, device=device)
    layer, function = getattr(nn, name), INPLACE[name]
    for call in (layer(inplace=True), lambda x: function(x, inplace=True), layer(), function):
        np.testing.assert_array_equal(call(x).cpu().numpy(), function(x).cpu().numpy())
    np.testing.assert_array_equal(x.cpu().numpy(), array)


def test_inplace_of_dropouts(device):
    x = mica.ones(2, 3, 4, 5, device=device)
    dropouts = [nn.Dropout(0.5, True), nn.Dropout2d(0.5, inplace=True)]
    for call in [*dropouts, lambda x: F.dropout(x, 0.5, True, True)]:
        assert set(call(x).cpu().numpy().ravel()) <= {0, 2}
    assert (x == 1).all()


# As tests/golden/make_state_dicts.py makes them in PyTorch.
STATES = {
    "Linear": lambda: nn.Linear(3, 4),
    "Linear without bias": lambda: nn.Linear(3, 4, bias=False),
    "Bilinear": lambda: nn.Bilinear(3, 4, 5),
    "Conv1d": lambda: nn.Conv1d(4, 6, 3, groups=2),
    "Conv2d": lambda: nn.Conv2d(4, 6, (3, 5), groups=2),
    "Conv3d": lambda: nn.Conv3d(4, 6, 3, bias=False),
    "ConvTranspose1d": lambda: nn.ConvTranspose1d(4, 6, 3, groups=2),
    "ConvTranspose2d": lambda: nn.ConvTranspose2d(4, 6, (3, 5), groups=2),
    "ConvTranspose3d": lambda: nn.ConvTranspose3d(4, 6, 3, bias=False),
    "BatchNorm1d": lambda: nn.BatchNorm1d(5),
    "BatchNorm2d": lambda: nn.BatchNorm2d(5),
    "BatchNorm2d without affine": lambda: nn.BatchNorm2d(5, affine=False),
    "BatchNorm2d without statistics": lambda: nn.BatchNorm2d(5, track_running_stats=False),
    "BatchNorm3d": lambda: nn.BatchNorm3d(5),
    "InstanceNorm1d": lambda: nn.InstanceNorm1d(5),
    "InstanceNorm2d with all": lambda: nn.InstanceNorm2d(5, affine=True, track_running_stats=True),
    "InstanceNorm3d with affine": lambda: nn.InstanceNorm3d(5, affine=True),
    "LayerNorm": lambda: nn.LayerNorm((4, 5)),
    "LayerNorm without affine": lambda: nn.LayerNorm(5, elementwise_affine=False),
    "GroupNorm": lambda: nn.GroupNorm(2, 6),
    "Embedding": lambda: nn.Embedding(7, 3, padding_idx=1),
    "PReLU": lambda: nn.PReLU(3),
    "Sequential": lambda: nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.Sequential(nn.BatchNorm2d(2), nn.ReLU()), nn.Linear(2, 2)
    ),
    "ModuleList": lambda: nn.ModuleList([nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)]),
    "ModuleDict": lambda: nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.PReLU()}),
}


def test_state_dicts_are_pytorchs():
    expected, name = {}, None
    for line in STATE_DICTS.read_text().splitlines():
        if not line.startswith(" "):
            name = line
            expected[name] = []
        else:
            expected[name].append(line.strip())
    short = {mica.float32: "f32", mica.int64: "i64"}
    assert {
        name: [f"{k} {short[t.dtype]} {list(t.shape)}" for k, t in make().state_dict().items()]
        for name, make in STATES.items()
    } == expected
