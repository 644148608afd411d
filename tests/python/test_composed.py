"""What Python makes of operators: layers, hooks, pickled modules, PyTorch's other words."""

import copy
import functools
import inspect
import pickle
import subprocess
import sys

import mica
import mica.nn.functional as F
import numpy as np
import pytest
from mica import nn


def test_values_against_numpy():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4, 6))
    x = mica.tensor(a)
    near = np.testing.assert_allclose
    near(x.quantile(0.3, dim=1), np.quantile(a, 0.3, axis=1), rtol=1e-12)
    near(mica.cov(x), np.cov(a), rtol=1e-12)
    near(mica.corrcoef(x), np.corrcoef(a), rtol=1e-12)
    near(mica.kron(x[:2], x[2:]), np.kron(a[:2], a[2:]), rtol=1e-12)
    near(mica.sinc(x), np.sinc(a), rtol=1e-12)
    near(mica.rot90(x), np.rot90(a))
    near(mica.trapezoid(x), np.trapz(a) if hasattr(np, "trapz") else np.trapezoid(a), rtol=1e-12)
    near(x.diag_embed()[1], np.diag(a[1]))
    near(mica.vander(x[0], 4), np.vander(a[0], 4), rtol=1e-12)
    n = rng.integers(0, 9, 30)
    assert mica.bincount(mica.tensor(n)).tolist() == np.bincount(n).tolist()
    assert mica.isin(mica.tensor(n), mica.tensor([3, 4])).tolist() == np.isin(n, [3, 4]).tolist()
    b = rng.integers(-30, 30, 30)
    assert mica.gcd(mica.tensor(n), mica.tensor(b)).tolist() == np.gcd(n, b).tolist()
    assert mica.lcm(mica.tensor(n), mica.tensor(b)).tolist() == np.lcm(n, b).tolist()
    mantissa, exponent = mica.frexp(x)
    near(mantissa, np.frexp(a)[0])
    assert exponent.tolist() == np.frexp(a)[1].tolist()
    for how in ("tril", "triu"):
        rows = getattr(mica, how + "_indices")(4, 5, 1)
        assert rows.tolist() == np.array(getattr(np, how + "_indices")(4, 1, 5)).tolist()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.unfold(1, 2, 1),
        lambda x: mica.cdist(x, x[:2] + 1),
        lambda x: x.logcumsumexp(1),
        lambda x: x.quantile(0.4, dim=0),
        lambda x: x.scatter_reduce(0, mica.tensor([[0, 1, 1, 2]]), x[:1] * 2, "prod"),
        lambda x: x.scatter_reduce(0, mica.tensor([[0, 1, 1, 2]]), x[:1] * 2, "mean"),
        lambda x: mica.kron(x, x),
        lambda x: x.renorm(2, 0, 0.5),
        lambda x: F.max_pool2d_with_indices(x.reshape(1, 1, 3, 4), 2)[0],
        lambda x: F.embedding_bag(mica.tensor([[0, 1], [2, 2]]), x, mode="max"),
        lambda x: mica.rsub(x, 2, alpha=3),
        lambda x: x.as_strided((2, 3), (4, 1), 1),
    ],
)
def test_gradients(function):
    x = mica.tensor(np.random.default_rng(1).standard_normal((3, 4)), requires_grad=True)
    assert mica.autograd.gradcheck(function, (x,))


def test_max_unpool_puts_values_back():
    for axes in (1, 2, 3):
        x = mica.randn(2, 3, *[6] * axes)
        pool, unpool = getattr(F, f"max_pool{axes}d_with_indices"), getattr(F, f"max_unpool{axes}d")
        values, where = pool(x, 2)
        assert mica.equal(values, getattr(F, f"max_pool{axes}d")(x, 2))
        back = unpool(values, where, 2)
        assert back.shape == x.shape and mica.equal(back[back != 0], x[back != 0])
        assert (back != 0).sum() == values.numel()
        layer = getattr(nn, f"MaxUnpool{axes}d")(2)
        assert mica.equal(layer(values, where, output_size=x.shape), back)


def test_random_layers():
    x = mica.randn(64, 64)
    drop = nn.AlphaDropout(0.4)
    y = drop(x)
    assert abs(y.mean().item()) < 0.05 and abs(y.std().item() - 1) < 0.05
    assert mica.equal(drop.eval()(x), x)
    whole = nn.FeatureAlphaDropout(0.5)(mica.ones(4, 8, 5))
    assert (whole == whole[:, :, :1]).all()
    slopes = -nn.RReLU(0.1, 0.3)(-mica.ones(1000))
    assert slopes.min() >= 0.1 and slopes.max() <= 0.3 and slopes.std() > 0.03
    assert mica.allclose(nn.RReLU(0.1, 0.3).eval()(-mica.ones(3)), mica.full((3,), -0.2))
    pooled = nn.FractionalMaxPool2d(2, output_size=4)(mica.randn(2, 3, 9, 8))
    assert pooled.shape == (2, 3, 4, 4)
    assert nn.FractionalMaxPool3d(2, output_ratio=0.5)(mica.randn(1, 2, 8, 8, 6)).shape[2:] == (
        4,
        4,
        3,
    )
    drawn = mica.zeros(20000).exponential_(2.0)
    assert abs(drawn.mean().item() - 0.5) < 0.02
    assert abs(mica.zeros(20000).geometric_(0.25).mean().item() - 4) < 0.15
    assert abs(mica.poisson(mica.full((20000,), 3.0)).mean().item() - 3) < 0.1
    assert abs(mica.zeros(20001).cauchy_(1.0).median().item() - 1) < 0.1
    assert abs(mica.zeros(20000).log_normal_(0.0, 0.5).log().std().item() - 0.5) < 0.02


def test_lazy_layers_take_their_size_from_the_first_input():
    cases = {
        "LazyLinear": ((3,), (2, 5), nn.Linear(5, 3)),
        "LazyConv2d": ((4, 3), (2, 5, 7, 7), nn.Conv2d(5, 4, 3)),
        "LazyConvTranspose1d": ((4, 3), (2, 5, 7), nn.ConvTranspose1d(5, 4, 3)),
        "LazyBatchNorm1d": ((), (4, 5), nn.BatchNorm1d(5)),
        "LazyInstanceNorm3d": ((), (2, 5, 3, 3, 3), nn.InstanceNorm3d(5)),
    }
    for name, (args, shape, plain) in cases.items():
        layer = getattr(nn, name)(*args)
        assert layer.has_uninitialized_params() and not layer.state_dict()
        x = mica.randn(*shape)
        layer(x)
        assert not layer.has_uninitialized_params()
        assert list(layer.state_dict()) == list(plain.state_dict())
        plain.load_state_dict(layer.state_dict())
        assert mica.allclose(layer.eval()(x), plain.eval()(x))
        assert len(layer.parameters()) == len(plain.parameters())


def test_embedding_bag_and_adaptive_softmax():
    bag = nn.EmbeddingBag(7, 3, mode="sum", padding_idx=2)
    rows = bag(mica.tensor([1, 2, 4, 4]), mica.tensor([0, 3]))
    w = bag.weight.detach().numpy()
    np.testing.assert_allclose(rows.detach(), [w[1] + w[4], w[4]], rtol=1e-6)
    soft = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 12], div_value=2.0)
    x, y = mica.randn(6, 8), mica.randint(0, 20, (6,))
    log_p = soft.log_prob(x)
    np.testing.assert_allclose(log_p.exp().sum(1).detach(), np.ones(6), rtol=1e-5)
    output, loss = soft(x, y)
    np.testing.assert_allclose(output.detach(), log_p.detach()[range(6), y], rtol=1e-5)
    assert mica.allclose(loss, -output.mean()) and soft.predict(x).shape == (6,)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, padding="same", padding_mode="circular")
        self.norm = nn.BatchNorm2d(3)
        self.tail = nn.Sequential(nn.Flatten(), nn.LeakyReLU(0.3), nn.Linear(48, 2, bias=False))
        self.register_buffer("scale", mica.full((1,), 2.0), persistent=False)
        self.note = {"made": [1, 2]}

    def forward(self, x):
        return self.tail(self.norm(self.conv(x))) * self.scale


def test_modules_can_be_pickled():
    net = Net()
    net(mica.randn(4, 1, 4, 4))  # moves the running statistics
    net.conv.tag = "first"
    net.tail[2].weight.requires_grad = False
    for again in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert str(again) == str(net) and again.note == net.note and again.conv.tag == "first"
        assert "scale" not in again.state_dict() and again.scale == 2
        x = mica.randn(2, 1, 4, 4)
        assert mica.equal(again.eval()(x), net.eval()(x))
        assert [p.requires_grad for p in again.parameters()] == [True] * 4 + [False]
        again.train(), net.train()
    layers = [nn.LSTM(2, 3), nn.Dropout(0.2), nn.Embedding(4, 2, padding_idx=1), nn.GroupNorm(2, 4)]
    for layer in [*layers, nn.LayerNorm(4), nn.MaxPool2d(2), nn.ModuleDict({"a": nn.ReLU()})]:
        again = pickle.loads(pickle.dumps(layer))
        assert str(again) == str(layer)
        assert all(map(mica.equal, again.parameters(), layer.parameters()))
    with pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(mica.models.resnet18())


def test_full_backward_hooks():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    seen = []
    first = net[2].register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    net[0].register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    x = mica.randn(5, 3, requires_grad=True)
    y = net(x)
    plain = copy.deepcopy(net[0].weight)
    y.sum().backward()
    (grad_input,), (grad_output,) = seen[0]
    assert mica.equal(grad_output, mica.ones(5, 2))
    assert mica.allclose(grad_input, mica.ones(5, 2) @ net[2].weight)
    twice = net[0].weight.grad.clone()
    first.remove()
    other = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    other.load_state_dict(net.state_dict())
    other(x.detach()).sum().backward()
    assert mica.allclose(twice, other[0].weight.grad * 2) and mica.equal(plain, net[0].weight)
    net(x).sum().backward()
    assert len(seen) == 1


def test_forward_hooks_with_keyword_arguments():
    class Scaled(nn.Module):
        def forward(self, x, scale=1.0):
            return x * scale

    net = Scaled()
    seen = []
    net.register_forward_pre_hook(lambda m, a, k: (a, {"scale": k["scale"] * 2}), with_kwargs=True)
    net.register_forward_hook(lambda m, a, k, y: seen.append(k["scale"]), with_kwargs=True)
    assert net(mica.ones(1), scale=3.0) == 6 and seen == [6.0]


def test_other_words_of_pytorch():
    x = mica.tensor([[1.0, 2.0, 4.0], [3.0, 5.0, 9.0]])
    assert x.sum(axis=1, keepdims=True).tolist() == [[7], [17]]
    assert x.std(0, unbiased=False).tolist() == [1.0, 1.5, 2.5]
    assert mica.add(x, x, alpha=2)[0].tolist() == [3, 6, 12]
    assert mica.sub(x, 1, alpha=2)[0].tolist() == [-1, 0, 2]
    assert mica.div(mica.tensor([7, -7]), 2, rounding_mode="trunc").tolist() == [3, -3]
    assert mica.div(mica.tensor([7.0, -7.0]), 2, rounding_mode="floor").tolist() == [3, -4]
    assert mica.div(x, 2, rounding_mode=None)[0].tolist() == [0.5, 1, 2]
    assert x.sum(dtype=mica.float64).dtype == mica.float64
    assert mica.tensor([200, 100], dtype=mica.uint8).sum(dtype=mica.int32).item() == 300
    out = mica.zeros(2, 3)
    assert mica.mul(x, 2, out=out) is out and out[1, 2] == 18
    assert mica.zeros(size=(2, 1), requires_grad=True, pin_memory=False).requires_grad
    assert mica.randperm(4, dtype=mica.int32, device="cpu").dtype == mica.int32
    assert [t.tolist() for t in mica.where(x > 4)] == [[1, 1], [1, 2]]
    assert x.nonzero(as_tuple=True)[0].tolist() == [0, 0, 0, 1, 1, 1]
    assert x[range(2), [0, 2]].tolist() == [1, 9]
    assert x.clone().add_(x, alpha=-1).abs().max() == 0
    assert x.sort(stable=True)[0].tolist() == x.tolist()
    with pytest.raises(TypeError, match="expected arguments"):
        mica.sum(x, flavour=1)
    with pytest.raises(mica.Error, match="rounding_mode"):
        mica.div(x, 2, rounding_mode="up")


def test_generators_draw_apart_from_the_device():
    mica.manual_seed(5)
    wanted = mica.rand(6)
    own = mica.Generator().manual_seed(5)
    mica.manual_seed(9)
    first = mica.rand(3)
    assert mica.equal(mica.rand(6, generator=own), wanted)
    state = own.get_state()
    more = mica.randn(2, generator=own)
    own.set_state(state)
    assert mica.equal(mica.randn(2, generator=own), more)
    second = mica.rand(3)
    mica.manual_seed(9)
    assert mica.equal(mica.rand(3), first) and mica.equal(mica.rand(3), second)
    assert own.initial_seed() == 5 and mica.Generator.default().initial_seed() == 9


def test_tensors_by_the_names_of_their_dtypes():
    assert mica.LongTensor([1, 2]).dtype == mica.long and mica.FloatTensor(2, 3).shape == (2, 3)
    assert isinstance(mica.ones(1), mica.FloatTensor)
    assert not isinstance(mica.ones(1), mica.LongTensor)
    assert mica.ones(1).type() == "torch.FloatTensor" and mica.Tensor(2, 1).shape == (2, 1)
    assert mica.ones(1).type(mica.LongTensor).dtype == mica.int64
    assert mica.Tensor([1, 2]).dtype == mica.float32 and mica.Tensor().numel() == 0


def test_memory_can_be_given_to_a_tensor():
    p = nn.Parameter(mica.ones(2))
    p.data = mica.zeros(3)
    assert p.requires_grad and p.tolist() == [0, 0, 0]
    (p * 2).sum().backward()
    assert p.grad.tolist() == [2, 2, 2]
    with pytest.raises(mica.Error, match="no recorded operation"):
        (p * 2).data = mica.zeros(3)


def test_signatures_can_be_inspected():
    assert list(inspect.signature(nn.Linear).parameters)[:3] == [
        "in_features",
        "out_features",
        "bias",
    ]
    assert inspect.signature(mica.optim.AdamW).parameters["lr"].default == 0.001
    assert list(inspect.signature(mica.sum).parameters) == ["input", "dim", "keepdim"]
    assert list(inspect.signature(Net).parameters) == []


def test_what_modules_list_can_be_walked_with_next():
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    walk = net.parameters()
    assert next(walk).shape == (3, 2) and next(walk).shape == (3,) and len(walk) == 4
    assert net.named_parameters(prefix="net")[0][0] == "net.0.weight"
    assert next(net.named_modules())[0] == "" and next(net.children()) is net[0]


def test_layers_tell_what_they_were_made_with():
    conv = nn.Conv2d(4, 6, (3, 1), stride=2, padding=1, groups=2, dtype=mica.float64)
    assert (conv.in_channels, conv.out_channels, conv.kernel_size) == (4, 6, (3, 1))
    assert (conv.stride, conv.padding, conv.groups, conv.dilation) == ((2, 2), (1, 1), 2, (1, 1))
    assert conv.weight.dtype == mica.float64 and conv.padding_mode == "zeros"
    norm = nn.BatchNorm1d(3)
    norm.momentum, norm.eps = 0.5, 1e-3
    norm(mica.tensor([[0.0, 2.0, 4.0], [2.0, 2.0, 0.0]]))
    assert norm.running_mean.tolist() == [0.5, 1.0, 1.0] and norm.eps == 1e-3
    drop = nn.Dropout(0.5)
    drop.p = 0.0
    assert mica.equal(drop(mica.ones(100)), mica.ones(100)) and drop.inplace is False
    layers = nn.ModuleList([nn.ReLU()])
    layers += [nn.Tanh()]
    layers.insert(0, nn.Linear(1, 1))
    del layers[1]
    assert [type(m).__name__ for m in layers] == ["Linear", "Tanh"]


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes_of_convolutions(mode):
    x = mica.randn(2, 3, 6, 5)
    for padding, sides in ((1, [1, 1, 1, 1]), ("same", [1, 1, 1, 1])):
        conv = nn.Conv2d(3, 4, 3, padding=padding, padding_mode=mode)
        around = F.pad(x, sides, mode)
        assert mica.allclose(conv(x), F.conv2d(around, conv.weight, conv.bias), atol=1e-5)


# Their locks stand in one list, which fork() walks through: memory that was freed with a lock in it
# and then written to ends the process.
RAISING = """
import os
from mica import nn

for make in (
    lambda: nn.Sequential(nn.ReLU(), 3),
    lambda: nn.ModuleList([nn.ReLU(), 3]),
    lambda: nn.ModuleDict({"a": 1}),
    lambda: nn.Linear(2, 2, dtype="int7"),
):
    for _ in range(50):
        try:
            make()
        except Exception:
            continue
        raise AssertionError("it did not raise")
    written = [b"\\xff" * n for n in range(300, 900) for _ in range(8)]
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_a_constructor_that_raises_takes_its_module_down():
    subprocess.run([sys.executable, "-c", RAISING], check=True, timeout=60)


@pytest.mark.parametrize("shape", [(9, 5), (5, 9), (2, 7, 6)])
def test_singular_values_by_random_projections(shape):
    rng = np.random.default_rng(3)
    a = rng.standard_normal((*shape[:-1], 3)) @ rng.standard_normal((*shape[:-2], 3, shape[-1]))
    u, values, v = mica.svd_lowrank(mica.tensor(a), q=4)
    near = functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
    near(u @ values.diag_embed() @ v.mT, a)
    near(u.mT @ u, np.broadcast_to(np.eye(4), (*shape[:-2], 4, 4)))
    near(values, np.linalg.svd(a, compute_uv=False)[..., :4])
    near(
        mica.pca_lowrank(mica.tensor(a), q=4)[1],
        np.linalg.svd(a - a.mean(-2, keepdims=True), compute_uv=False)[..., :4],
    )
    less = mica.tensor(a)
    near(mica.svd_lowrank(less, q=2, M=less)[1], np.zeros((*shape[:-2], 2)))


def test_binomial_counts():
    mica.manual_seed(5)
    count = mica.tensor([0.0, 1.0, 10.0, 10.0, 10.0]).expand(4000, 5)
    drawn = mica.binomial(count, mica.tensor([0.5, 0.3, 0.0, 1.0, 0.2]))
    assert drawn.shape == (4000, 5) and (drawn == drawn.round()).all()
    assert drawn[:, 0].max() == 0 and drawn[:, 2].max() == 0 and drawn[:, 3].min() == 10
    np.testing.assert_allclose(drawn.mean(0), [0, 0.3, 0, 10, 2], atol=0.1)
    np.testing.assert_allclose(drawn.var(0), [0, 0.21, 0, 0, 1.6], atol=0.15)


def test_i0_of_large_numbers():
    numbers = np.array([0.0, 19.999999, 20.000001, 700.0, 709.0, -709.0])
    np.testing.assert_allclose(mica.i0(mica.tensor(numbers)), np.i0(numbers), rtol=1e-12)
    # e^713 is past float64, what it is divided by brings it back.
    beyond = mica.i0(mica.tensor([713.0, 800.0], dtype=mica.float64))
    assert 6.70e307 < beyond[0] < 6.71e307 and beyond[1] == np.inf
