"""Values and gradients of every layer against committed ones; state dicts against PyTorch's."""

import json
from pathlib import Path

import mica
import mica.nn.functional as F
import numpy as np
import pytest
from layer_cases import (
    CASES,
    GOLDEN,
    draw_cotangent,
    draw_inputs,
    has_gradient,
    project,
    run_mica,
)
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
        "ConvBnAct2d": "not in PyTorch; test_conv_bn_act.py",
        "CTCLoss": "test_recurrent.py",
        "GRU": "test_recurrent.py",
        "GRUCell": "test_recurrent.py",
        "LSTM": "test_recurrent.py",
        "LSTMCell": "test_recurrent.py",
        "LayerNorm2d": "torchvision's; test_models.py",
        "MultiheadAttention": "test_transformer.py",
        "Permute": "torchvision's; test_models.py",
        "RNN": "test_recurrent.py",
        "RNNCell": "test_recurrent.py",
        "RotaryEmbedding": "test_transformer.py",
        "SqueezeExcitation": "torchvision's; test_models.py",
        "StochasticDepth": "random in training, nothing else",
        "SwiGLU": "test_transformer.py",
        "Transformer": "test_transformer.py",
        "TransformerDecoder": "test_transformer.py",
        "TransformerDecoderLayer": "test_transformer.py",
        "TransformerEncoder": "test_transformer.py",
        "TransformerEncoderLayer": "test_transformer.py",
        "Module": "abstract",
        "ModuleDict": "calls nothing",
        "ModuleList": "calls nothing",
        "ParameterDict": "calls nothing",
        "ParameterList": "calls nothing",
        "MultiLabelMarginLoss": "its function has cases",
        "TripletMarginWithDistanceLoss": "its function has cases",
    }
    layers = {
        name
        for name, value in vars(nn).items()
        if isinstance(value, type)
        and issubclass(value, nn.Module)
        and not name.startswith("_")
        and not value.__module__.startswith("mica.nn.la")  # layers, lazy: test_composed.py
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
    "CELU": F.celu,
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
    functions = [lambda x, f=f: f(x, 0.5, True, True) for f in (F.dropout, F.dropout2d)]
    for call in dropouts + functions:
        assert set(call(x).cpu().numpy().ravel()) <= {0, 2}
    assert (x == 1).all()
    np.testing.assert_array_equal(nn.Threshold(2, 3, True)(x).cpu().numpy(), 3)
    assert (F.threshold(x, 2, 3, inplace=True) == 3).all()


def resize(length, size):
    """(size, length): the weights of points in places evenly spread over a line of them."""
    places = np.linspace(0, length - 1, size)
    return np.stack([np.interp(places, np.arange(length), row) for row in np.eye(length)], 1)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def poisson(x, t):
    large = np.maximum(t, 2)
    stirling = large * np.log(large) - large + np.log(2 * np.pi * large) / 2
    return np.mean(np.exp(x) - t * x + np.where(t > 1, stirling, 0))


def gaussian(x, t, v):
    return (np.log(v) + (x - t) ** 2 / v) / 2


def multi_margin(x, target, p, margin):
    own = np.arange(len(x)), target
    losses = np.maximum(0, margin - x[own][:, None] + x) ** p
    losses[own] = 0
    return losses.sum(1) / x.shape[1]


# Layers that are a formula, in NumPy.
FORMULAS = {
    "CELU": lambda x: np.maximum(x, 0) + 0.7 * np.expm1(np.minimum(x, 0) / 0.7),
    "GLU": lambda x: x[:, :2] / (1 + np.exp(-x[:, 2:])),
    "Hardshrink": lambda x: x * (np.abs(x) > 0.5),
    "Softshrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
    "Threshold": lambda x: np.where(x > 0.3, x, -2.0),
    "Softmax2d": lambda x: softmax(x, 1),
    "UpsamplingNearest2d": lambda x: x.repeat(2, 2).repeat(2, 3),
    "UpsamplingBilinear2d": lambda x: resize(6, 9) @ x @ resize(5, 7).T,
    "PoissonNLLLoss": poisson,
    "PoissonNLLLoss of rates": lambda x, t: np.mean(x - t * np.log(x + 1e-8)),
    "GaussianNLLLoss": lambda x, t, v: gaussian(x, t, v).mean() + np.log(2 * np.pi) / 2,
    "GaussianNLLLoss by row": lambda x, t, v: gaussian(x, t, v).sum(),
    "MultiMarginLoss": lambda x, t: multi_margin(x, t, 1, 1.0).mean(),
    "MultiMarginLoss squared": lambda x, t: multi_margin(x, t, 2, 0.5),
    "MultiLabelSoftMarginLoss": lambda x, t: (np.log1p(np.exp(x)) - t * x).mean(1),
    "PairwiseDistance": lambda a, b: np.sqrt(((a - b + 1e-6) ** 2).sum(1)),
    "PairwiseDistance of p 3": lambda a, b: np.cbrt((np.abs(a - b + 1e-6) ** 3).sum(1))[:, None],
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name, device):
    """Values in float64, and gradients by differences."""
    formula, inputs = FORMULAS[name], draw_inputs(name)
    results = run_mica(name, "float64", device)
    np.testing.assert_allclose(results["output"], formula(*inputs), rtol=1e-12, atol=1e-12)
    cotangent, step = draw_cotangent(name, results["output"].shape), 1e-6
    for i, x in enumerate(inputs):
        if not has_gradient(name)[i]:
            continue
        expected = np.empty_like(x)
        for at in np.ndindex(x.shape):
            value, ends = x[at], []
            for x[at] in (value + step, value - step):
                ends.append((formula(*inputs) * cotangent).sum())
            x[at] = value
            expected[at] = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(results[f"input {i}"], expected, rtol=1e-6, atol=1e-7)


def test_weights_of_classes(device):
    rng = np.random.default_rng(3)
    x, target, weight = rng.standard_normal((5, 3)), rng.integers(0, 3, 5), np.array([0.5, 2.0, 1])
    logits = mica.tensor(x, device=device)
    loss = nn.MultiMarginLoss(weight=mica.tensor(weight)).to(device)
    expected = (multi_margin(x, target, 1, 1.0) * weight[target]).mean()
    assert abs(loss(logits, mica.tensor(target, device=device)).item() - expected) < 1e-12
    loss = nn.MultiLabelSoftMarginLoss(mica.tensor(weight)).to(device)
    expected = ((np.log1p(np.exp(x)) - x) * weight).mean()
    assert abs(loss(logits, mica.ones_like(logits)).item() - expected) < 1e-12


def test_a_small_variance_counts_as_eps_and_can_grow(device):
    x = mica.tensor([[1.0, 3.0]], device=device)
    var = mica.tensor([0.1], device=device, requires_grad=True)  # of the row
    loss = F.gaussian_nll_loss(x, mica.zeros_like(x), var, eps=0.5, reduction="sum")
    assert abs(loss.item() - (np.log(0.5) + 10 / 1.0)) < 1e-5
    loss.backward()
    assert abs(var.grad.item() - (1 / 0.5 - 5 / 0.5**2)) < 1e-4
    with pytest.raises(mica.ShapeError, match=r"var must be \[1, 2\], \[1, 1\] or \[1\]"):
        F.gaussian_nll_loss(x, x, mica.ones(2, device=device))


def attention(q, k, v, added, scale=None):
    scores = q @ np.swapaxes(k, -1, -2) * (scale or q.shape[-1] ** -0.5) + added
    return softmax(scores, -1) @ v


def test_attention(device):
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(s) for s in ((2, 3, 4, 6), (2, 3, 5, 6), (2, 3, 5, 7))]
    q, k, v = (mica.tensor(a, device=device, requires_grad=True) for a in arrays)
    seen = rng.random((2, 1, 4, 5)) < 0.6
    seen[..., 0] = True
    causal = np.tri(4, 5, dtype=bool)
    bias = rng.standard_normal((4, 5))

    def hidden(mask):
        return np.where(mask, 0, -np.inf)

    def tensor(array):
        return mica.tensor(array, device=device)

    for options, added in (
        ({}, 0.0),
        ({"scale": 0.3}, 0.0),
        ({"is_causal": True}, hidden(causal)),
        ({"attn_mask": tensor(seen)}, hidden(seen)),
        ({"attn_mask": tensor(hidden(seen))}, hidden(seen)),
        ({"attn_mask": tensor(bias)}, bias),
    ):
        y = F.scaled_dot_product_attention(q, k, v, **options)
        expected = attention(*arrays, added, options.get("scale"))
        np.testing.assert_allclose(y.detach().cpu().numpy(), expected, rtol=1e-9, atol=1e-12)
    assert mica.autograd.gradcheck(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, tensor(seen)), [q, k, v]
    )
    dropped = F.scaled_dot_product_attention(q, k, mica.ones_like(v), dropout_p=0.5)
    assert (dropped.detach().cpu().numpy() != 1).any()
    with pytest.raises(mica.Error, match="not both"):
        F.scaled_dot_product_attention(q, k, v, tensor(seen), is_causal=True)
    with pytest.raises(mica.ShapeError, match="expected query"):
        F.scaled_dot_product_attention(q, v, v)
    with pytest.raises(mica.DTypeError, match="mask must be bool or f64"):
        F.scaled_dot_product_attention(q, k, v, mica.ones(4, 5, device=device))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_attention_to_nothing_is_zero_and_so_is_its_gradient(dtype, device):
    mask = np.array([[True, False, True], [False, False, False]])
    for given in (mica.tensor(mask), mica.tensor(np.where(mask, 0, -np.inf)).to(dtype)):
        q, k, v = (
            (20 * mica.randn(n, 4)).to(dtype).to(device).detach().requires_grad_()
            for n in (2, 3, 3)
        )
        y = F.scaled_dot_product_attention(q, k, v, given.to(device))
        assert (y[1] == 0).all() and (y[0] != 0).all()
        y.float().sum().backward()
        for t in (q, k, v):
            assert t.grad.isfinite().all()
        assert (q.grad[1] == 0).all() and (v.grad[1] == 0).all()


def test_normalize(device):
    x = np.random.default_rng(6).standard_normal((3, 4))
    t = mica.tensor(x, device=device)
    expected = x / np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(F.normalize(t).cpu().numpy(), expected, rtol=1e-12)
    expected = x / np.abs(x).sum(0)
    np.testing.assert_allclose(F.normalize(t, 1.0, dim=0).cpu().numpy(), expected, rtol=1e-12)
    zero = mica.zeros(2, 3, device=device, requires_grad=True)
    y = F.normalize(zero, eps=0.5)
    y.sum().backward()
    assert (y == 0).all() and (zero.grad == 2).all()


def test_gumbel_softmax(device):
    p = np.array([0.5, 0.3, 0.2], np.float32)
    logits = mica.tensor(np.log(p), device=device).expand(20000, 3)
    hard = F.gumbel_softmax(logits, hard=True).cpu().numpy()
    assert set(np.unique(hard.round(5))) == {0, 1} and (hard.sum(1).round(5) == 1).all()
    np.testing.assert_allclose(hard.mean(0), p, atol=0.02)
    leaf = mica.randn(4, 3, device=device, requires_grad=True)
    soft = F.gumbel_softmax(leaf, tau=0.5, dim=0)
    np.testing.assert_allclose(soft.detach().sum(0).cpu().numpy(), 1, rtol=1e-5)
    (F.gumbel_softmax(leaf, hard=True, dim=0)[0]).sum().backward()
    assert leaf.grad.isfinite().all() and (leaf.grad != 0).any()


def test_channel_dropouts_as_functions(device):
    for n in (1, 2, 3):
        drop, x = getattr(F, f"dropout{n}d"), mica.ones(8, 16, *[3] * n, device=device)
        y = drop(x).cpu().numpy().reshape(128, -1)
        assert set(np.unique(y)) == {0, 2} and (y == y[:, :1]).all()
        assert (drop(x, training=False) == 1).all()
        with pytest.raises(mica.ShapeError, match=f"dropout{n}d: expected rank 2 to {n + 2}"):
            drop(x.reshape(-1))


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
    "MultiheadAttention": lambda: nn.MultiheadAttention(6, 2),
    "MultiheadAttention of widths": lambda: nn.MultiheadAttention(6, 2, bias=False, kdim=4, vdim=5),
    "Transformer": lambda: nn.Transformer(4, 2, 1, 2, 6),
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
        name: sorted(
            f"{k} {short[t.dtype]} {list(t.shape)}" for k, t in make().state_dict().items()
        )
        for name, make in STATES.items()
    } == expected
