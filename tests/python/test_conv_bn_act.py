"""nn.ConvBnAct2d beside the three layers it is made of."""

import copy

import mica
import numpy as np
import pytest
from mica import nn

ACTIVATIONS = {
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "hardswish": nn.Hardswish,
    "leaky_relu": nn.LeakyReLU,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    None: nn.Identity,
}


def random_case(rng):
    """Options of the layer, the activation's word, a shape of images that fits, with residual."""
    groups = int(rng.choice([1, 1, 2, 3]))
    kernel = tuple(int(k) for k in rng.integers(1, 4, 2))
    dilation = tuple(int(d) for d in rng.integers(1, 3, 2))
    options = {
        "in_channels": groups * int(rng.integers(1, 4)),
        "out_channels": groups * int(rng.integers(1, 4)),
        "kernel_size": kernel,
        "stride": tuple(int(s) for s in rng.integers(1, 3, 2)),
        "padding": tuple(int(p) for p in rng.integers(0, 3, 2)),
        "dilation": dilation,
        "groups": groups,
        "bias": bool(rng.integers(2)),
    }
    least = [d * (k - 1) + 2 for d, k in zip(dilation, kernel, strict=True)]
    size = [n + int(rng.integers(0, 6)) for n in least]
    shape = (int(rng.integers(2, 4)), options["in_channels"], *size)
    return options, rng.choice(list(ACTIVATIONS)), shape, bool(rng.integers(2))


def results(layers, x, residual, cotangent, parameters):
    """Output and all gradients; layers(x, residual) is called once."""
    inputs = [t for t in (x, residual) if t is not None]
    y = layers(x, residual)
    grads = mica.autograd.grad((y * cotangent).sum(), [*inputs, *parameters])
    return [y.detach(), *grads]


def make(options, activation, device, dtype="float64"):
    fused = nn.ConvBnAct2d(**options, activation=activation).to(device, dtype=dtype)
    with mica.no_grad():
        fused.bn.weight.copy_(mica.rand(options["out_channels"]) + 0.5)
        fused.bn.bias.copy_(mica.randn(options["out_channels"]))
        fused.bn.running_mean.copy_(mica.randn(options["out_channels"]))
        fused.bn.running_var.copy_(mica.rand(options["out_channels"]) + 0.5)
    conv = nn.Conv2d(**options).to(device, dtype=dtype)
    bn = nn.BatchNorm2d(options["out_channels"]).to(device, dtype=dtype)
    conv.load_state_dict(fused.conv.state_dict())
    bn.load_state_dict(fused.bn.state_dict())
    act = ACTIVATIONS[activation]()

    def separate(x, residual):
        y = bn(conv(x))
        return act(y if residual is None else y + residual)

    return fused, separate, conv, bn


def random_input(shape, device, dtype="float64"):
    t = mica.randn(*shape, device=device).to(dtype)
    t.requires_grad = True
    return t


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluating"])
def test_100_random_shapes_are_the_three_layers(device, training):
    rng = np.random.default_rng(5 + training)
    for number in range(100):
        options, activation, shape, with_residual = random_case(rng)
        fused, separate, conv, bn = make(options, activation, device)
        fused.train(training), bn.train(training)
        x = random_input(shape, device)
        out_shape = conv(x).shape
        residual = random_input(out_shape, device) if with_residual else None
        cotangent = mica.randn(*out_shape, device=device).to("float64")
        calls = [fused if number % 5 else mica.compile(fused), separate]
        parameters = [
            [*fused.conv.parameters(), *fused.bn.parameters()],
            [*conv.parameters(), *bn.parameters()],
        ]
        a, b = (
            results(f, x, residual, cotangent, p) for f, p in zip(calls, parameters, strict=True)
        )
        for mine, theirs in zip(a, b, strict=True):
            scale = max(1.0, theirs.abs().max().item())
            assert (mine - theirs).abs().max().item() < 1e-11 * scale, (options, activation)
        for key in ("running_mean", "running_var", "num_batches_tracked"):
            mine, theirs = (m.state_dict()[key].cpu().numpy() for m in (fused.bn, bn))
            assert np.allclose(mine, theirs, rtol=1e-13, atol=0)


def check_gradients(f, inputs, cotangent, parameters):
    """Of every input and parameter, along random directions."""
    tensors = [*inputs, *parameters]
    loss = (f(*inputs) * cotangent).sum()
    for t, gradient in zip(tensors, mica.autograd.grad(loss, tensors), strict=True):
        for _ in range(3):
            direction, values = mica.randn(*t.shape, device=t.device).to("float64"), []
            for step in (1e-6, -2e-6, 1e-6):  # the last one is the way back
                with mica.no_grad():
                    t.add_(direction * step)
                    values.append((f(*inputs) * cotangent).sum().item())
            along = (gradient * direction).sum().item()
            assert abs((values[0] - values[1]) / 2e-6 - along) < 1e-5 * max(1, abs(along))


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluating"])
@pytest.mark.parametrize("activation", ["silu", "relu"])
def test_gradients_are_those_of_differences(device, training, activation):
    mica.manual_seed(3)
    options = {"in_channels": 2, "out_channels": 4, "kernel_size": 3, "padding": 1, "groups": 2}
    fused, *_ = make(options | {"bias": True}, activation, device)
    fused.train(training)
    inputs = random_input((2, 2, 4, 3), device), random_input((2, 4, 4, 3), device)
    cotangent = mica.randn(2, 4, 4, 3, device=device).to("float64")
    for f in (fused, mica.compile(fused)):
        check_gradients(f, inputs, cotangent, fused.parameters())


@pytest.mark.parametrize("groups", [1, 2], ids=["dense", "depthwise"])
def test_gradients_with_every_kernel(device, groups):
    """Of every op that it is made of, eagerly and compiled, in training and evaluation."""
    mica.manual_seed(4)
    options = {"in_channels": 2, "out_channels": 2, "kernel_size": 3, "padding": 1, "bias": True}
    fused, *_ = make(options | {"groups": groups}, "relu", device)
    cotangent = mica.randn(2, 2, 4, 3, device=device).to("float64")
    parts = {"conv2d", "conv2d_dgrad", "conv2d_wgrad", "batch_norm", "batch_norm_grad", "anchored"}
    ran = set()
    for with_residual, training in ((False, True), (True, True), (True, False)):
        fused.train(training)
        inputs = [random_input((2, 2, 4, 3), device) for _ in range(1 + with_residual)]
        for op in parts:
            for kernel in mica._mica._kernel_names(op, device):
                mica.force_kernel(op, kernel)
                try:
                    for f in (fused, mica.compile(fused)):
                        check_gradients(f, inputs, cotangent, fused.parameters())
                    ran.add(op)
                except mica.Unsupported as refusal:
                    assert kernel in str(refusal)
                finally:
                    mica.force_kernel(op, "")
    assert ran == parts


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_lower_precision_eager_and_compiled(device, dtype):
    options = {"in_channels": 8, "out_channels": 16, "kernel_size": 3, "padding": 1, "bias": True}
    fused, separate, *_ = make(options, "relu", device, "float32")
    fused.to(dtype=dtype)
    assert fused.bn.weight.dtype == mica.float32
    x = mica.randn(2, 8, 9, 9, device=device)
    y = separate(x, None)
    low = fused(x.to(dtype))
    again = copy.deepcopy(fused)
    assert low.dtype == getattr(mica, dtype)
    rounds = device != "cpu" and mica.allow_tf32()
    bound = {"float32": 5e-3 if rounds else 1e-5, "bfloat16": 4e-2, "float16": 5e-3}[dtype]
    assert (low.float() - y).abs().max().item() < bound * y.abs().max().item()
    compiled = mica.compile(again)(x.to(dtype))
    assert (compiled.float() - y).abs().max().item() < bound * y.abs().max().item()


def test_weights_from_and_to_separate_layers(device):
    conv, bn = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
    fused = nn.ConvBnAct2d(conv, bn, activation=nn.Hardswish)
    assert fused.conv is conv and fused.bn is bn
    assert fused.conv.weight is conv.weight or mica.equal(fused.conv.weight, conv.weight)
    assert list(fused.state_dict()) == [
        *("conv.weight", "conv.bias", "bn.weight", "bn.bias"),
        *("bn.running_mean", "bn.running_var", "bn.num_batches_tracked"),
    ]
    other = nn.ConvBnAct2d(3, 4, 3, padding=1, bias=True, activation="hardswish")
    other.load_state_dict(fused.state_dict())
    x = mica.randn(2, 3, 5, 5)
    assert mica.equal(other(x), fused(x))
    twin = copy.deepcopy(fused)
    conv.weight.data.fill_(0)
    assert not mica.equal(twin(x), fused(x))
    assert "ConvBnAct2d(" in repr(fused) and "(act): Hardswish()" in repr(fused)


def test_what_does_not_fit_raises():
    with pytest.raises(mica.ShapeError, match="the convolution has 4 channels, the norm 5"):
        nn.ConvBnAct2d(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(5))
    with pytest.raises(mica.ShapeError, match="residual must have the result's shape"):
        nn.ConvBnAct2d(3, 4, 3)(mica.zeros(2, 3, 5, 5), mica.zeros(2, 4, 5, 5))
    with pytest.raises(mica.Error, match="activation must be one of 'relu'"):
        nn.ConvBnAct2d(3, 4, 3, activation="rely")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_gradients_in_lower_precision(device, dtype):
    """Of the layer called eagerly, beside those of its parts."""
    mica.manual_seed(5)
    fused = nn.ConvBnAct2d(8, 8, 3, padding=1).to(device, dtype=dtype)
    x = mica.randn(4, 8, 9, 9, device=device).to(dtype)
    cotangent = mica.randn(4, 8, 9, 9, device=device).to(dtype)
    results = []
    for layer in (fused, lambda t: fused.act(fused.bn(fused.conv(t)))):
        own = x.detach()
        own.requires_grad = True
        y = layer(own)
        results.append([y, *mica.grad([y], [own, *fused.parameters()], [cotangent])])
    bound = {"float32": 1e-4, "bfloat16": 3e-2, "float16": 5e-3}[dtype]
    for got, want in zip(*results, strict=True):
        scale = want.float().abs().max().item()
        assert (got.float() - want.float()).abs().max().item() <= bound * max(scale, 1e-3)
