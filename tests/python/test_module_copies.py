"""copy.copy and copy.deepcopy of modules."""

import copy
import pickle

import mica
import numpy as np
import pytest
from layer_cases import CASES, draw_inputs
from mica import nn


class Tied(nn.Module):
    """Shared parameters, a shared module, a buffer, a list of tensors and a part that knows it."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(3, 3, bias=False)
        self.decode = nn.Linear(3, 3)
        self.decode.weight = self.encode.weight
        self.again = self.decode
        self.scale = nn.Parameter(mica.ones(3), requires_grad=False)
        self.register_buffer("seen", mica.zeros(1))
        self.norm = nn.BatchNorm1d(3)
        self.notes = {"list": [1, 2]}
        self.norm_owner = (self,)

    def forward(self, x):
        return self.again(self.norm(self.encode(x)) * self.scale)


def values(module):
    return {name: t.cpu().numpy().copy() for name, t in module.state_dict().items()}


def assert_equal_values(a, b):
    assert list(a) == list(b)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


def test_a_deep_copy_is_another_module(device):
    net = Tied().to(device).eval()
    net.encode.train()
    x = mica.rand(5, 3, device=device)
    mica.manual_seed(1)
    drawn = mica.rand(2).tolist()
    mica.manual_seed(1)
    other = copy.deepcopy(net)
    assert mica.rand(2).tolist() == drawn  # the copy took nothing from the generator
    assert type(other) is Tied and repr(other) == repr(net)
    assert_equal_values(values(net), values(other))
    assert not other.training and other.encode.training
    assert other.scale.requires_grad is False and other.encode.weight.requires_grad
    assert other.seen.device == net.seen.device
    np.testing.assert_array_equal(net(x).detach().cpu().numpy(), other(x).detach().cpu().numpy())
    # What was shared is shared, and with nobody else.
    assert other.again is other.decode is not net.decode
    assert other.norm_owner[0] is other
    assert len(other.parameters()) == len(net.parameters()) == 5
    before = values(net)
    for p in other.parameters():
        with mica.no_grad():
            p.fill_(7)
    other.notes["list"].append(3)
    other.train()(x)
    assert other.decode.weight.sum().item() == 63
    assert_equal_values(before, values(net))
    assert net.notes == {"list": [1, 2]} and not net.training


def test_a_deep_copy_learns_alone():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    net(mica.ones(1, 2)).sum().backward()
    other = copy.deepcopy(net)
    assert [p.grad for p in other.parameters()] == [None] * 4  # as PyTorch has it
    other(mica.ones(1, 2)).sum().backward()
    before = values(net)
    mica.optim.SGD(other.parameters(), lr=1).step()
    assert_equal_values(before, values(net))
    other.reset_parameters()
    assert_equal_values(before, values(net))
    assert (other[0].weight != net[0].weight).any()


@pytest.mark.parametrize("name", CASES)
def test_every_layer_can_be_copied(name):
    layer = CASES[name][0](nn).to(mica.float64).eval()
    x = [mica.tensor(array) for array in draw_inputs(name)]
    for other in (copy.deepcopy(layer), copy.copy(layer)):
        assert type(other) is type(layer) and other is not layer and repr(other) == repr(layer)
        np.testing.assert_array_equal(layer(*x).detach().numpy(), other(*x).detach().numpy())
    other = copy.deepcopy(layer).train()
    with mica.no_grad():
        for p in other.parameters():
            p.fill_(0.5)
    before = values(layer)
    changed = other(*x)
    assert_equal_values(before, values(layer))
    if layer.parameters():  # the copy computes with its own
        assert (changed.detach().numpy() != layer.train()(*x).detach().numpy()).any()


def test_models_of_cpp_and_dtypes():
    net = mica.models.lenet().to(mica.float64)
    other = copy.deepcopy(net)
    assert other[0].weight.dtype is mica.float64 and len(other) == len(net)
    x = mica.rand(1, 1, 28, 28, dtype=mica.float64)
    np.testing.assert_array_equal(net(x).detach().numpy(), other(x).detach().numpy())
    assert [n for n, _ in other.named_parameters()] == [n for n, _ in net.named_parameters()]
    assert mica.nn.summary(other.to(mica.float32), (1, 1, 28, 28)).parameters == 431080


def test_a_layer_that_python_extends():
    class Scaled(nn.Linear):
        def __init__(self, n):
            super().__init__(n, n)
            self.scale = nn.Parameter(mica.full((n,), 2.0))
            self.name = ["scaled"]

        def forward(self, x):
            return super().forward(x) * self.scale

    net = nn.Sequential(nn.ModuleDict({"a": Scaled(2)})["a"], nn.ParameterList([mica.ones(1)]))
    other = copy.deepcopy(net)
    assert other[0].name == ["scaled"] and other[0].name is not net[0].name
    assert [n for n, _ in other.named_parameters()] == ["0.weight", "0.bias", "0.scale", "1.0"]
    with mica.no_grad():
        other[0].scale.fill_(0)
    assert other[0](mica.ones(1, 2)).sum().item() == 0 != net[0](mica.ones(1, 2)).sum().item()


def test_a_shallow_copy_shares_its_parts():
    net = Tied()
    other = copy.copy(net)
    assert type(other) is Tied and other.encode is net.encode and other.notes is net.notes
    assert other.scale.data_ptr() == net.scale.data_ptr()
    other.extra = nn.Linear(1, 1)
    other.encode = nn.Linear(3, 3)
    assert not hasattr(net, "extra") and net.encode.bias is None
    layer = nn.Linear(2, 2)
    assert copy.copy(layer).weight.data_ptr() == layer.weight.data_ptr()
    other.eval()
    assert net.training


def test_parameters_stay_parameters():
    p = nn.Parameter(mica.ones(2), requires_grad=False)
    for other in (copy.copy(p), copy.deepcopy(p)):
        assert type(other) is nn.Parameter and not other.requires_grad
    net = nn.Module()
    net.p = copy.deepcopy(p)
    assert [name for name, _ in net.named_parameters()] == ["p"]
    # Two Python objects of one tensor are one tensor in the copy too.
    layer = nn.Linear(2, 2)
    a, b = copy.deepcopy([layer.weight, layer.weight])
    assert a.data_ptr() == b.data_ptr() != layer.weight.data_ptr()


def test_what_cannot_be_copied_says_so():
    net = nn.Module()
    w = mica.ones(2, requires_grad=True)
    net.register_buffer("result", w * 2)
    with pytest.raises(mica.Error, match=r"deepcopy: this tensor is a result.*detach"):
        copy.deepcopy(net)
    with pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(mica.models.resnet18(num_classes=2))  # of a class that Python does not know


def test_running_statistics_can_be_assigned():
    norm = nn.BatchNorm1d(2).eval()
    norm.running_mean = mica.tensor([1.0, 2.0])
    assert norm.running_mean.tolist() == [1, 2]
    np.testing.assert_allclose(norm(mica.tensor([[1.0, 2.0]])).detach().numpy(), [[0, 0]])
    with pytest.raises(mica.ShapeError, match="'running_mean' must have shape"):
        norm.running_mean = mica.ones(3)
    assert nn.BatchNorm1d(2, track_running_stats=False).running_mean is None
