"""Modules: made in C++, made in Python, and one inside the other."""

import copy
import gc
import pickle
import subprocess
import sys
import weakref

import mica
import mica.nn.functional as F
import numpy as np
import pytest
from mica import nn


class Scale(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.factor = nn.Parameter(mica.ones(n))
        self.register_buffer("calls", mica.zeros(1))
        self.plain = [1, 2]

    def forward(self, x):
        if self.training:
            self.calls.add_(1)
        return x * self.factor


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.scale = Scale(8)
        self.fc2 = nn.Linear(8, 3, bias=False)

    def forward(self, x):
        return self.fc2(self.scale(self.fc1(x)).relu())


NET_REPR = """Net(
  (fc1): Linear(in=4, out=8)
  (scale): Scale()
  (fc2): Linear(in=8, out=3, bias=false)
)"""


def names(module):
    return [name for name, _ in module.named_parameters()]


def test_assigned_members_are_registered_in_order():
    net = Net()
    assert names(net) == ["fc1.weight", "fc1.bias", "scale.factor", "fc2.weight"]
    assert [name for name, _ in net.named_buffers()] == ["scale.calls"]
    assert [name for name, _ in net.named_children()] == ["fc1", "scale", "fc2"]
    assert net.scale is net.scale and isinstance(net.scale, Scale)
    assert isinstance(net.fc1.weight, nn.Parameter) and net.fc1.weight.requires_grad
    assert net.fc2.bias is None
    assert net.scale.plain == [1, 2]
    assert repr(net) == NET_REPR


def test_python_module_inside_a_cpp_sequential(device):
    net = nn.Sequential(nn.Linear(4, 8), Scale(8), nn.ReLU(), nn.Linear(8, 3)).to(device)
    assert names(net) == ["0.weight", "0.bias", "1.factor", "3.weight", "3.bias"]
    x = mica.rand(5, 4, device=device)
    y = net(x)
    expected = net[3]((net[0](x) * net[1].factor).relu())
    np.testing.assert_allclose(y.detach().cpu().numpy(), expected.detach().cpu().numpy(), rtol=1e-6)
    assert net[1].calls.item() == 1
    y.sum().backward()
    assert net[1].factor.grad is not None and net[0].weight.grad is not None


def test_python_module_in_sequential_learns(device):
    net = nn.Sequential(nn.Linear(2, 16), Scale(16), nn.ReLU(), nn.Linear(16, 2)).to(device)
    x = mica.uniform((256, 2), -1, 1, device=device)
    array = x.cpu().numpy()
    target = mica.tensor((array[:, 0] * array[:, 1] > 0).astype(np.int64), device=device)
    optimizer = mica.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    losses = []
    for _ in range(150):
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.25 * losses[0]
    assert not np.allclose(net[1].factor.detach().cpu().numpy(), 1)


def test_a_layer_derived_in_python_is_called_from_cpp():
    class Doubled(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    layer = Doubled(3, 2)
    x = mica.rand(4, 3)
    expected = 2 * F.linear(x, layer.weight, layer.bias).detach().numpy()
    np.testing.assert_array_equal(layer(x).detach().numpy(), expected)
    np.testing.assert_array_equal(nn.Sequential(layer)(x).detach().numpy(), expected)


def test_errors_pass_through_cpp():
    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("from Python")

    with pytest.raises(KeyError, match="from Python"):
        nn.Sequential(Broken())(mica.ones(1))

    class Wrong(nn.Module):
        def forward(self, x):
            return 3

    with pytest.raises(TypeError, match=r"Wrong.forward\(…\): expected a tensor.*got int"):
        nn.Sequential(Wrong())(mica.ones(1))
    with pytest.raises(RuntimeError, match="forward"):
        nn.Sequential(nn.Module())(mica.ones(1))
    with pytest.raises(mica.Error, match="__init__"):

        class Early(nn.Module):
            def __init__(self):
                self.fc = nn.Linear(1, 1)

        Early()
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'missing'"):
        _ = Net().missing
    with pytest.raises(TypeError, match=r"expected an nn\.Module, got int"):
        nn.Sequential(3)


def test_forward_may_take_and_return_more():
    class Two(nn.Module):
        def forward(self, x, y, scale=1):
            return x + y, (x - y) * scale

    total, difference = Two()(mica.ones(2), mica.ones(2), scale=3)
    assert total.sum().item() == 4 and difference.sum().item() == 0


def test_members_can_be_replaced_and_deleted():
    net = Net()
    net.fc2 = nn.Linear(8, 5)
    assert net(mica.rand(2, 4)).shape == (2, 5)
    net.scale.factor = nn.Parameter(mica.zeros(8))
    assert net.scale.factor.detach().numpy().sum() == 0
    net.scale.calls = mica.full((1,), 7)
    assert net.state_dict()["scale.calls"].item() == 7
    del net.fc2
    assert "fc2.weight" not in names(net) and not hasattr(net, "fc2")
    net.extra = None
    net.extra = nn.Linear(5, 5)
    assert "extra.weight" in names(net) and net.extra is not None
    net.extra = None
    assert "extra.weight" not in names(net) and net.extra is None
    with pytest.raises(TypeError, match=r"'fc1' is an nn\.Module and cannot be replaced by int"):
        net.fc1 = 3
    with pytest.raises(TypeError, match=r"'factor' is an nn\.Parameter and cannot be replaced"):
        net.scale.factor = mica.zeros(8)
    with mica.no_grad():
        net.fc1.weight.copy_(mica.zeros(8, 4))
    assert net.state_dict()["fc1.weight"].sum().item() == 0


def test_state_dict_round_trip(device):
    a, b = Net().to(device), Net()
    state = {name: t.cpu() for name, t in a.state_dict().items()}
    assert set(state) == {*names(a), "scale.calls"}
    b.load_state_dict(state)
    x = mica.rand(3, 4)
    ours = b(x).detach().numpy()
    theirs = a(x.to(device)).detach().cpu().numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    state.pop("fc1.bias")
    with pytest.raises(mica.Error, match=r"fc1\.bias"):
        b.load_state_dict(state)


def test_modes_and_freezing():
    net = nn.Sequential(nn.Dropout(0.5), Scale(4))
    assert net.training and net.eval() is net
    assert not net.training and not net[1].training
    net(mica.ones(2, 4))
    assert net[1].calls.item() == 0
    assert net.train().training
    net.freeze()
    assert not any(p.requires_grad for p in net.parameters())
    net.unfreeze()
    net(mica.ones(2, 4)).sum().backward()
    assert net[1].factor.grad is not None
    net.zero_grad()
    assert net[1].factor.grad is None


def test_layers(device):
    x = mica.rand(2, 3, 8, 8, device=device)
    conv = nn.Conv2d(3, 6, kernel_size=(3, 3), stride=2, padding=1, groups=3).to(device)
    assert conv(x).shape == (2, 6, 4, 4) and conv.weight.shape == (6, 1, 3, 3)
    assert nn.MaxPool2d(kernel_size=3, stride=2, padding=1)(x).shape == (2, 3, 4, 4)
    assert nn.Flatten()(x).shape == (2, 192)
    assert nn.Flatten(0, 1)(x).shape == nn.Flatten(start_dim=-4, end_dim=-3)(x).shape == (6, 8, 8)
    norm = nn.BatchNorm2d(num_features=3, momentum=0.5).to(device)
    norm(x)
    mean = x.cpu().numpy().mean((0, 2, 3))
    np.testing.assert_allclose(norm.running_mean.cpu().numpy(), 0.5 * mean, rtol=1e-4)
    assert names(norm) == ["weight", "bias"]
    assert norm.num_batches_tracked.item() == 1
    # What takes the place of a statistic is what the layer uses.
    norm.running_mean = mica.full((3,), 100.0, device=device)
    assert norm.eval()(x).mean().item() < -50 and norm.state_dict()["running_mean"][0] == 100
    with pytest.raises(mica.ShapeError):
        norm.running_mean = mica.zeros(4, device=device)
    assert nn.InstanceNorm2d(3).running_var is None
    assert nn.Dropout(0.25).p == nn.Dropout2d(0.25).p == 0.25
    assert nn.BatchNorm2d(3, affine=False).weight is None
    assert len(nn.Sequential(nn.ReLU()).append(nn.ReLU())) == 2
    with pytest.raises(IndexError):
        nn.Sequential(nn.ReLU())[1]


def test_optimizer(device):
    p = nn.Parameter(mica.ones(3, device=device))
    optimizer = mica.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True)
    expected, momentum = np.ones(3), np.zeros(3)
    for lr in (0.1, 0.1, 0.05):
        optimizer.lr = lr
        assert optimizer.lr == lr
        (p * 2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        g = 2 + 0.01 * expected
        momentum = 0.9 * momentum + g
        expected = expected - lr * (g + 0.9 * momentum)
    np.testing.assert_allclose(p.detach().cpu().numpy(), expected, rtol=1e-5)
    with pytest.raises(TypeError, match="expected tensors, got int"):
        mica.optim.SGD([1], lr=0.1)


def test_cycles_are_collected():
    class Child(nn.Module):
        def forward(self, x):
            return x

    child = Child()
    parent = nn.Sequential(child, nn.ReLU())
    child.__dict__["parent"] = parent
    gone = weakref.ref(child)
    del child, parent
    gc.collect()
    assert gone() is None


def test_modules_outlive_their_names():
    net = nn.Sequential(nn.Sequential(Scale(2)))
    gc.collect()
    assert net(mica.ones(1, 2)).sum().item() == 2
    inner = net[0]
    del net
    gc.collect()
    assert inner(mica.ones(1, 2)).sum().item() == 2


def test_nothing_leaks_at_exit():
    script = """
import mica
from mica import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
    def forward(self, x):
        return self.fc(x)
net = nn.Sequential(Net(), nn.ReLU())
first = mica.models.lenet()[0]
optimizer = mica.optim.SGD(net.parameters(), lr=0.1)
@mica.compile
def step(x):
    loss = net(x).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss
kept = [step(mica.ones(1, 2)), net(mica.ones(1, 2)), mica.ones(3).numpy()]
try:
    step(1)
except TypeError as e:
    error = e
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stderr == ""


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_pooling_layers_give_indices(axes, device):
    pool = getattr(nn, f"MaxPool{axes}d")(2, return_indices=True)
    assert pool.return_indices and "return_indices" in repr(pool)
    x = mica.randn(2, 3, *(6, 4, 8)[:axes], device=device)
    expected = getattr(F, f"max_pool{axes}d_with_indices")(x, 2)
    layers = [pool, copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))]
    for layer in [*layers, nn.Sequential(nn.Identity(), pool), mica.compile(pool)]:
        values, indices = layer(x)
        assert indices.dtype == mica.int64
        assert mica.equal(values, expected[0]) and mica.equal(indices, expected[1])
    assert mica.equal(getattr(nn, f"MaxPool{axes}d")(2)(x), expected[0])


def test_layers_take_one_image_without_the_axis_of_the_batch(device):
    x = mica.randn(3, 8, 6, device=device)
    for layer in (
        nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
        nn.ConvTranspose2d(3, 4, (3,), stride=[2]),
        nn.MaxPool2d(2),
        nn.AvgPool2d(2),
        nn.AdaptiveAvgPool2d(2),
        nn.AdaptiveMaxPool2d((3, 2)),
        nn.InstanceNorm2d(3),
        nn.Unfold(2),
    ):
        layer.to(device)
        assert mica.equal(layer(x), layer(x.unsqueeze(0))[0])
    assert nn.Conv1d(3, 4, kernel_size=(3,), stride=(2,)).to(device)(x[:, 0]).shape == (4, 2)
