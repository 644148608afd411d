"""What layers say of themselves, by PyTorch's names, and how their parts are replaced."""

import copy
import math
import pickle

import mica
import numpy as np
import pytest
from mica import nn

# Attributes by layer: PyTorch's values, but that sizes of windows are those of all axes.
ATTRIBUTES = {
    "AdaptiveMaxPool2d(2)": {"output_size": (2, 2), "return_indices": False},
    "AvgPool2d(2, 1, 1)": {"count_include_pad": True, "divisor_override": None},
    "AvgPool2d(2, divisor_override=3)": {"divisor_override": 3, "kernel_size": (2, 2)},
    "Bilinear(2, 3, 4)": {"in1_features": 2, "in2_features": 3, "out_features": 4},
    "CELU(0.5)": {"alpha": 0.5},
    "ChannelShuffle(2)": {"groups": 2},
    "CircularPad2d(1)": {"padding": (1, 1, 1, 1)},
    "ConstantPad2d((1, 2, 3, 4), 0.5)": {"padding": (1, 2, 3, 4), "value": 0.5},
    "Conv2d(2, 4, (3, 5), 2, 1)": {"transposed": False, "output_padding": (0, 0)},
    "ConvTranspose2d(2, 4, 3, 2, 1, 1)": {"transposed": True, "padding_mode": "zeros"},
    "ELU(0.5)": {"alpha": 0.5},
    "Flatten()": {"start_dim": 1, "end_dim": -1},
    "Fold((4, 5), 2)": {"output_size": (4, 5), "kernel_size": (2, 2), "stride": (1, 1)},
    "GELU('tanh')": {"approximate": "tanh"},
    "GLU(1)": {"dim": 1},
    "GRU(2, 3)": {"mode": "GRU"},
    "Hardshrink(0.3)": {"lambd": 0.3},
    "Hardtanh(-2, 3)": {"min_val": -2, "max_val": 3},
    "LPPool2d(3, 2)": {"norm_type": 3, "kernel_size": (2, 2), "ceil_mode": False},
    "LSTM(2, 3)": {"mode": "LSTM"},
    "LeakyReLU(0.1)": {"negative_slope": 0.1},
    "LocalResponseNorm(2)": {"size": 2, "alpha": 1e-4, "beta": 0.75, "k": 1},
    "MultiheadAttention(4, 2, kdim=3, vdim=5)": {"kdim": 3, "vdim": 5, "head_dim": 2},
    "PReLU(3, 0.1)": {"num_parameters": 3, "init": 0.1},
    "PixelShuffle(2)": {"upscale_factor": 2},
    "PixelUnshuffle(3)": {"downscale_factor": 3},
    "RNN(2, 3, nonlinearity='relu')": {"mode": "RNN_RELU", "nonlinearity": "relu"},
    "RNNCell(2, 3)": {"nonlinearity": "tanh"},
    "ReflectionPad1d((1, 2))": {"padding": (1, 2)},
    "Softplus(2, 10)": {"beta": 2, "threshold": 10},
    "Softshrink()": {"lambd": 0.5},
    "Threshold(0.1, 2)": {"threshold": 0.1, "value": 2},
    "TransformerEncoderLayer(4, 2, 8, norm_first=True)": {"norm_first": True},
    "Unflatten(1, (2, 3))": {"dim": 1, "unflattened_size": (2, 3)},
    "Unfold(2, stride=3)": {"kernel_size": (2, 2), "stride": (3, 3), "padding": (0, 0)},
    "Upsample(scale_factor=2, mode='bilinear', align_corners=True)": {
        "scale_factor": 2, "size": None, "mode": "bilinear", "align_corners": True,
    },
    "Upsample(size=(4, 5), mode='nearest-exact')": {"size": (4, 5), "mode": "nearest-exact"},
    "UpsamplingNearest2d(size=4)": {"size": 4, "scale_factor": None, "mode": "nearest"},
    "ZeroPad2d((1, 0, 1, 0))": {"padding": (1, 0, 1, 0), "value": 0},
}  # fmt: skip


@pytest.mark.parametrize("made", ATTRIBUTES)
def test_a_layer_says_what_it_was_made_with(made):
    layer = eval(f"nn.{made}", {"nn": nn})
    assert {name: getattr(layer, name) for name in ATTRIBUTES[made]} == ATTRIBUTES[made]


def test_all_weights_are_by_layer_and_direction():
    lstm = nn.LSTM(2, 3, 2, bidirectional=True, proj_size=2)
    assert [len(names) for names in lstm.all_weights] == [5] * 4
    assert lstm.all_weights[1][0] is not None
    assert lstm.all_weights[3][4].shape == lstm.weight_hr_l1_reverse.shape
    assert len(nn.GRU(2, 3, bias=False).all_weights[0]) == 2


@pytest.mark.parametrize("make", [
    lambda: nn.RNN(2, 3, nonlinearity="relu"),
    lambda: nn.RNNCell(2, 3),
    lambda: nn.MultiheadAttention(4, 2),
], ids=["RNN", "RNNCell", "MultiheadAttention"])  # fmt: skip
def test_layers_whose_kind_is_no_option_are_pickled(make):
    layer = make()
    x = mica.rand(3, 2) if not isinstance(layer, nn.MultiheadAttention) else mica.rand(3, 4)
    args = (x, x, x) if isinstance(layer, nn.MultiheadAttention) else (x,)
    for other in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        first, second = layer(*args), other(*args)
        first, second = (y[0] if isinstance(y, tuple) else y for y in (first, second))
        np.testing.assert_array_equal(first.detach().numpy(), second.detach().numpy())


def test_layers_with_weights_take_dtype():
    assert nn.MultiheadAttention(4, 2, dtype=mica.float64).in_proj_weight.dtype == mica.float64
    layer = nn.TransformerEncoderLayer(4, 2, 8, dtype=mica.float64, device="cpu")
    assert {p.dtype for p in layer.parameters()} == {mica.float64}


def test_a_parameter_may_be_none_or_of_another_shape():
    layer = nn.Linear(3, 2)
    layer.bias = None
    assert layer.bias is None and list(layer.state_dict()) == ["weight"]
    assert layer(mica.ones(1, 3)).shape == (1, 2)
    layer.bias = nn.Parameter(mica.ones(2))
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    layer.weight = nn.Parameter(mica.zeros(2, 5))
    np.testing.assert_array_equal(layer(mica.ones(1, 5)).detach().numpy(), [[1, 1]])
    with pytest.raises(mica.ShapeError):
        layer(mica.ones(1, 3))
    norm = nn.BatchNorm1d(2)
    with pytest.raises(mica.ShapeError, match="running_mean"):
        norm.running_mean = mica.zeros(3)


def test_an_embedding_is_made_of_a_table():
    rows = mica.arange(6.0).reshape(3, 2)
    layer = nn.Embedding.from_pretrained(rows)
    np.testing.assert_array_equal(layer(mica.tensor([2, 0])).numpy(), [[4, 5], [0, 1]])
    assert not layer.weight.requires_grad and layer.num_embeddings == 3
    assert nn.Embedding.from_pretrained(rows, freeze=False).weight.requires_grad
    assert not nn.EmbeddingBag.from_pretrained(rows, mode="sum").weight.requires_grad
    with pytest.raises(ValueError, match="table of rows"):
        nn.Embedding.from_pretrained(mica.ones(3))
    assert nn.Embedding(3, 2, None, None, 2.0, False, True).weight.shape == (3, 2)
    with pytest.raises(mica.Unsupported, match="scale_grad_by_freq"):
        nn.Embedding(3, 2, scale_grad_by_freq=True)


def test_embedding_with_max_norm():
    layer = nn.Embedding(4, 2, max_norm=1.0, norm_type=1.0)
    with mica.no_grad():
        layer.weight.copy_(mica.tensor([[3.0, 1.0], [0.25, 0.5], [5.0, 5.0], [-2.0, 2.0]]))
    run = mica.compile(lambda i: layer(i))
    for call in (layer, run):
        y = call(mica.tensor([[0, 3], [1, 3]]))
        expected = [[[0.75, 0.25], [-0.5, 0.5]], [[0.25, 0.5], [-0.5, 0.5]]]
        np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-6)
    # Rows that nobody asked for stay as they are.
    assert layer.weight[2].tolist() == [5, 5] and layer.max_norm == 1 and layer.norm_type == 1
    layer(mica.tensor([2])).sum().backward()
    assert layer.weight.grad[2].tolist() == [1, 1]
    with pytest.raises(mica.Error, match="max_norm"):
        nn.Embedding(3, 2, max_norm=-1.0)


def test_options_that_are_set_later():
    conv = nn.Conv2d(1, 1, 3)
    run = mica.compile(lambda x: conv(x))
    x = mica.randn(1, 1, 9, 9)
    assert run(x).shape == (1, 1, 7, 7)
    conv.stride, conv.padding, conv.dilation = (2, 1), 1, 2
    assert conv.stride == (2, 1) and conv.padding == (1, 1) and conv.dilation == (2, 2)
    assert conv(x).shape == run(x).shape == (1, 1, 4, 7)
    conv.padding = "same"
    with pytest.raises(TypeError):
        conv.stride = "2"
    pool = nn.MaxPool2d(2)
    pool.kernel_size, pool.stride, pool.ceil_mode = 3, 2, True
    assert pool(x).shape == (1, 1, 4, 4)
    norm = nn.LayerNorm(2)
    norm.eps = 1.0
    np.testing.assert_allclose(norm(mica.tensor([-1.0, 1.0])).tolist(), [-(0.5**0.5), 0.5**0.5])
    relu = nn.LeakyReLU(0.1)
    relu.negative_slope = 0.5
    assert relu(mica.tensor([-2.0])).item() == -1


@pytest.mark.parametrize("of", ["module", "optimizer"])
def test_gradients_may_become_zeros(of):
    net = nn.Linear(2, 2, bias=False)
    optimizer = mica.optim.SGD(net.parameters(), lr=0.1)
    owner = net if of == "module" else optimizer
    owner.zero_grad(set_to_none=False)
    assert net.weight.grad is None
    net(mica.ones(1, 2)).sum().backward()
    owner.zero_grad(set_to_none=False)
    np.testing.assert_array_equal(net.weight.grad.numpy(), np.zeros((2, 2)))
    owner.zero_grad(set_to_none=True)
    assert net.weight.grad is None


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, math.inf])
def test_gradients_are_clipped_by_any_norm(norm_type):
    grads = [np.array([3.0, -4.0], "float32"), np.array([[12.0]], "float32")]
    params = [nn.Parameter(mica.zeros(*g.shape)) for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = mica.tensor(g)
    whole = np.concatenate([g.ravel() for g in grads])
    expected = np.linalg.norm(whole, norm_type)
    total = mica.nn.utils.get_total_norm([p.grad for p in params], norm_type)
    np.testing.assert_allclose(total.item(), expected, rtol=1e-6)
    before = mica.nn.utils.clip_grad_norm_(params, 1.0, norm_type=norm_type)
    np.testing.assert_allclose(before.item(), expected, rtol=1e-6)
    for p, g in zip(params, grads, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), g / expected, rtol=1e-5)
    params[0].grad = mica.tensor([math.inf, 0.0])
    with pytest.raises(mica.Error, match="norm of the gradients"):
        mica.nn.utils.clip_grad_norm_(params, 1.0, norm_type, error_if_nonfinite=True)
    np.testing.assert_allclose(params[1].grad.numpy(), grads[1] / expected, rtol=1e-5)


def test_small_words():
    x = mica.ones(2, 2)
    np.testing.assert_array_equal(x.fill_(mica.tensor(3)).numpy(), np.full((2, 2), 3))
    with pytest.raises(mica.ShapeError, match="without axes"):
        x.fill_(mica.ones(2))
    assert str(mica.device("cuda", 1)) == "cuda:1" and str(mica.device(type="cpu")) == "cpu"
    assert mica.int8.is_signed and mica.float32.is_signed
    assert not mica.uint8.is_signed and not mica.bool.is_signed
    assert mica.tril_indices(2, 2, dtype=mica.int32).dtype == mica.int32


def test_grad_takes_all_of_pytorchs_words():
    x, other = mica.ones(2, requires_grad=True), mica.ones(2, requires_grad=True)
    y = (x**3).sum()
    (first,) = mica.autograd.grad(
        outputs=y, inputs=x, grad_outputs=mica.ones_like(y), create_graph=True, only_inputs=True
    )
    (second,) = mica.autograd.grad(first.sum(), x)
    np.testing.assert_array_equal(second.numpy(), [6, 6])
    z = x.sum()
    assert mica.autograd.grad(z, (x, other), retain_graph=True)[1] is None
    zeros = mica.autograd.grad(z, (x, other), retain_graph=True, materialize_grads=True)[1]
    np.testing.assert_array_equal(zeros.numpy(), [0, 0])
    with pytest.raises(mica.Error, match="do not depend on input 1"):
        mica.autograd.grad(z, (x, other), allow_unused=False)
