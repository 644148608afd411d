"""Parametrizations, weight_norm and spectral_norm; values of PyTorch's are told by their laws."""

import copy

import mica
import numpy as np
import pytest
from mica import nn
from mica.nn.utils import (
    parametrizations,
    parametrize,
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
    weight_norm,
)

LAYERS = {
    "linear": (lambda: nn.Linear(6, 4), (3, 6)),
    "conv": (lambda: nn.Conv2d(2, 3, 3), (2, 2, 5, 5)),
    "transposed": (lambda: nn.ConvTranspose2d(2, 3, 3), (2, 2, 5, 5)),
}


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, x):
        return x / 2


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("how", [parametrizations.weight_norm, weight_norm])
def test_weight_norm_leaves_values_and_trains_length_and_direction(kind, how):
    make, shape = LAYERS[kind]
    layer, x = make(), mica.randn(shape)
    before, weight = layer(x).detach(), layer.weight.detach().clone()
    assert how(layer) is layer
    keys = sorted(layer.state_dict())
    if how is weight_norm:
        assert keys == ["bias", "weight_g", "weight_v"]
        g, v = layer.weight_g, layer.weight_v
    else:
        assert keys == [
            "bias", "parametrizations.weight.original0", "parametrizations.weight.original1"
        ]  # fmt: skip
        g, v = (getattr(layer.parametrizations.weight, f"original{i}") for i in (0, 1))
    np.testing.assert_allclose(layer(x).detach(), before, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.weight.detach(), weight, rtol=1e-5)
    assert sum(p is not None for p in layer.parameters()) == 3
    layer(x).square().sum().backward()
    # The direction's gradient has no part along it: its length changes nothing.
    along = (v.grad * v).flatten(1).sum(1) if kind != "transposed" else (v.grad * v).sum((1, 2, 3))
    assert along.abs().max().item() < 1e-3 * v.grad.abs().max().item()
    with mica.no_grad():
        g.mul_(2)
    np.testing.assert_allclose(layer.weight.detach(), 2 * weight, rtol=1e-5)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("how", [parametrizations.spectral_norm, spectral_norm])
def test_spectral_norm_divides_by_the_largest_singular_value(kind, how):
    make, shape = LAYERS[kind]
    layer, x = make(), mica.randn(shape)
    axis = 1 if kind == "transposed" else 0
    weight = np.moveaxis(layer.weight.detach().numpy(), axis, 0)
    largest = np.linalg.svd(weight.reshape(weight.shape[0], -1))[1][0]
    how(layer, n_power_iterations=100)
    layer(x)
    made = np.moveaxis(layer.weight.detach().numpy(), axis, 0)
    np.testing.assert_allclose(made, weight / largest, rtol=1e-3, atol=1e-5)
    state = mica.nn.Module.state_dict(layer)
    layer.eval()
    first = layer(x)
    assert (layer(x) == first).all()  # nothing moves in evaluation
    layer(x).sum().backward()
    assert all(p.grad is not None for p in layer.parameters())
    assert any(name.endswith("_u") for name in state)


def test_removed_ones_leave_a_plain_layer():
    x = mica.randn(2, 6)
    for put, take in (
        (weight_norm, remove_weight_norm),
        (spectral_norm, remove_spectral_norm),
        (parametrizations.weight_norm, lambda m: parametrize.remove_parametrizations(m, "weight")),
    ):
        layer = nn.Linear(6, 4)
        put(layer)
        layer.eval()
        before = layer(x).detach()
        assert isinstance(layer, nn.Linear) and type(layer) is not nn.Linear
        take(layer)
        assert type(layer) is nn.Linear and sorted(layer.state_dict()) == ["bias", "weight"]
        np.testing.assert_allclose(layer(x).detach(), before, rtol=1e-4, atol=1e-6)
        assert isinstance(layer.weight, nn.Parameter)
        layer(x).sum().backward()
        assert layer.weight.grad is not None
        with pytest.raises(ValueError, match="weight"):
            take(layer)


def test_parametrizations_are_applied_in_order_and_assigned_through():
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert parametrize.is_parametrized(layer, "weight") and not parametrize.is_parametrized(
        layer, "bias"
    )
    weight = layer.weight.detach()
    assert (weight == weight.t()).all()
    np.testing.assert_allclose(
        layer(mica.eye(3)).detach(), weight.t() + layer.bias.detach(), rtol=1e-5
    )
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert parametrize.type_before_parametrizations(layer) is nn.Linear

    other = nn.Linear(3, 3)
    parametrize.register_parametrization(other, "weight", Doubled())
    other.weight = mica.eye(3)
    assert (other.weight == mica.eye(3)).all()
    assert other.parametrizations.weight.original[0, 0].item() == 0.5
    with pytest.raises(ValueError, match="no parameter or buffer 'nothing'"):
        parametrize.register_parametrization(other, "nothing", Doubled())


def test_a_module_of_python_and_a_copy():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(mica.randn(3, 3))

        def forward(self, x):
            return x @ self.w

    net = Net()
    parametrize.register_parametrization(net, "w", Symmetric())
    assert list(net.state_dict()) == ["parametrizations.w.original"]
    x = mica.randn(2, 3)
    again = copy.deepcopy(net)
    assert (again(x) == net(x)).all()
    with mica.no_grad():
        again.parametrizations.w.original.zero_()
    assert not (again(x) == net(x)).all()


def test_compiled_steps_train_what_is_behind():
    losses = {}
    for compiled in (False, True):
        mica.manual_seed(3)
        layer = weight_norm(nn.Linear(6, 4))
        optimizer = mica.optim.SGD(layer.parameters(), lr=0.05)
        x = mica.randn(8, 6)

        def step(x, layer=layer, optimizer=optimizer):
            optimizer.zero_grad()
            loss = layer(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = mica.compile(step) if compiled else step
        losses[compiled] = [run(x).item() for _ in range(5)]
        assert layer.weight.isfinite().all()  # not a tensor of the capture
    np.testing.assert_allclose(losses[True], losses[False], rtol=1e-5)
    assert losses[True][-1] < losses[True][0]


def test_a_weight_that_is_a_parameter_takes_parameters():
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="'weight' is a parameter"):
        layer.weight = mica.ones(2, 2)
    del layer.weight
    layer.weight = mica.ones(2, 2) * 3
    assert layer(mica.ones(1, 2)).shape == (1, 2) and list(layer.state_dict()) == ["bias"]
    layer.weight = nn.Parameter(mica.zeros(2, 2))
    assert sorted(layer.state_dict()) == ["bias", "weight"]


def test_lists_of_modules_have_places_without_one():
    places = nn.ModuleList([None, nn.Linear(1, 1), None])
    assert len(places) == 3 and places[0] is None and places[-1] is None
    assert list(places.state_dict()) == ["1.weight", "1.bias"]
    assert [m is None for m in copy.deepcopy(places)] == [True, False, True]
    places[0] = nn.ReLU()
    places.append(None)
    assert len(places) == 4 and isinstance(places[0], nn.ReLU)
    del places[0]
    assert [m is None for m in places] == [False, True, True]
    assert list(places.state_dict()) == ["0.weight", "0.bias"]


def test_optimizers_take_pytorchs_words_for_how():
    p = nn.Parameter(mica.ones(2))
    mica.optim.RMSprop([p], lr=0.1, foreach=True, capturable=False, fused=None)
    with pytest.raises(TypeError, match=r"SGD.* unexpected keyword argument 'speed'"):
        mica.optim.SGD([p], speed=3)
    with pytest.raises(mica.Unsupported, match="negate the loss"):
        mica.optim.Adam([p], maximize=True)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)], ids=str)
@pytest.mark.parametrize("how", [None, "matrix_exp", "cayley"])
def test_orthogonal_stays_so_while_it_learns(shape, how):
    layer = nn.Linear(shape[1], shape[0], bias=False, dtype=mica.float64)
    start = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0][: shape[0], : shape[1]]
    if shape == (3, 3):
        start = np.linalg.qr(start)[0]
    layer.weight.data = mica.tensor(start)
    mica.nn.utils.parametrizations.orthogonal(layer, orthogonal_map=how)
    assert sorted(layer.state_dict()) == [
        "parametrizations.weight.0.base", "parametrizations.weight.original",
    ]  # fmt: skip
    np.testing.assert_allclose(layer.weight.detach().numpy(), start, atol=1e-12)
    target = mica.tensor(np.random.default_rng(1).normal(size=(5, shape[0])))
    x = mica.tensor(np.random.default_rng(2).normal(size=(5, shape[1])))
    optimizer = mica.optim.SGD(layer.parameters(), lr=0.05)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = ((layer(x) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    weight = layer.weight.detach().numpy()
    product = weight.T @ weight if shape[0] >= shape[1] else weight @ weight.T
    np.testing.assert_allclose(product, np.eye(min(shape)), atol=1e-10)
    with pytest.raises(mica.Unsupported, match="orthogonal_map"):
        mica.nn.utils.parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="householder")
