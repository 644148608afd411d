"""Forward hooks: what they see and replace, wherever a call comes from."""

import copy
import gc
import weakref

import mica
import numpy as np
import pytest
from mica import nn, ones


def test_hooks_see_each_call_in_order():
    layer, calls = nn.Linear(2, 3), []
    layer.register_forward_pre_hook(lambda m, args: calls.append(("a", m, args)))
    layer.register_forward_pre_hook(lambda m, args: calls.append(("b", m, args)))
    layer.register_forward_hook(lambda m, args, out: calls.append(("c", m, args, out)))
    x = ones(1, 2)
    y = layer(x)
    assert [c[0] for c in calls] == ["a", "b", "c"]
    assert all(c[1] is layer for c in calls)
    assert calls[0][2][0] is x and calls[2][3] is y
    # A call from C++ is one too, and comes once.
    calls.clear()
    nn.Sequential(nn.Identity(), nn.Sequential(layer))(x)
    assert [c[0] for c in calls] == ["a", "b", "c"]
    assert calls[0][1] is layer and type(calls[0][2]) is tuple


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: nn.Sequential(m)], ids=["python", "cpp"])
def test_hooks_replace_input_and_output(wrap):
    inner = nn.Identity()
    net = wrap(inner)
    a = inner.register_forward_pre_hook(lambda m, args: args[0] + 1)
    b = inner.register_forward_pre_hook(lambda m, args: (args[0] * 10,))
    c = inner.register_forward_hook(lambda m, args, out: out + args[0])
    d = inner.register_forward_hook(lambda m, args, out: None)
    assert net(ones(1)).item() == 40
    for handle, expected in ((a, 20), (c, 10), (b, 1), (d, 1)):
        handle.remove()
        handle.remove()
        assert net(ones(1)).item() == expected


def test_any_arguments_and_results():
    class Pair(nn.Module):
        def forward(self, a, b, *, scale=1):
            return {"sum": (a + b) * scale}

    net, seen = Pair(), []
    net.register_forward_pre_hook(lambda m, args: (args[1], args[0] * 2))
    net.register_forward_hook(lambda m, args, out: seen.append(out["sum"].item()))
    assert net(ones(1), ones(1), scale=3)["sum"].item() == 9 and seen == [9]
    net.register_forward_hook(lambda m, args, out: out["sum"])
    assert net(ones(1), ones(1)).item() == 3

    bad = nn.Identity()
    bad.register_forward_hook(lambda m, args, out: "text")
    assert bad(ones(1)) == "text"
    with pytest.raises(TypeError, match=r"the result of a hook: expected a tensor.*got str"):
        nn.Sequential(bad)(ones(1))
    with pytest.raises(TypeError, match="expected a function as a hook, got int"):
        bad.register_forward_hook(3)


def test_errors_come_through_and_hooks_may_take_themselves_away():
    layer, calls = nn.ReLU(), []

    def once(module, args, out):
        calls.append(1)
        handle.remove()

    handle = layer.register_forward_hook(once)
    layer(ones(1))
    nn.Sequential(layer)(ones(1))
    assert calls == [1]

    def broken(module, args):
        raise LookupError("in a hook")

    layer.register_forward_pre_hook(broken)
    for net in (layer, nn.Sequential(layer)):
        with pytest.raises(LookupError, match="in a hook"):
            net(ones(1))


def test_hooks_have_gradients_and_are_captured(device):
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)).to(device)
    kept = []
    net[0].register_forward_hook(lambda m, args, out: out * 2)
    handle = net[0].register_forward_hook(lambda m, args, out: kept.append(out))
    x = mica.rand(4, 2, device=device)
    net(x).sum().backward()
    assert kept.pop().shape == (4, 2)
    handle.remove()
    gradient = net[0].weight.grad.cpu().numpy()
    net.zero_grad()
    (net[1](net[0].forward(x) * 2)).sum().backward()
    np.testing.assert_allclose(net[0].weight.grad.cpu().numpy(), gradient, rtol=1e-5)
    compiled = mica.compile(lambda x: net(x).detach())
    np.testing.assert_allclose(
        compiled(x).cpu().numpy(), net(x).detach().cpu().numpy(), rtol=1e-5, atol=1e-6
    )


def test_models_of_cpp_have_hooks_too():
    net, shapes = mica.models.lenet(), []
    handles = [
        m.register_forward_hook(lambda m, args, out: shapes.append(tuple(out.shape)))
        for m in net.children()
        if isinstance(m, nn.Linear)
    ]
    gc.collect()
    net(mica.rand(2, 1, 28, 28))
    assert shapes == [(2, 500), (2, 10)]
    for handle in handles:
        handle.remove()
    net(mica.rand(2, 1, 28, 28))
    assert len(shapes) == 2


def test_copies_keep_their_hooks():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = []
            self.register_forward_hook(self.count)

        def count(self, module, args, out):
            self.calls.append(module)

        def forward(self, x):
            return x

    net = Counting()
    other = copy.deepcopy(net)
    other(ones(1))
    assert other.calls == [other] and net.calls == []
    shallow = copy.copy(net)
    shallow(ones(1))
    assert net.calls == [shallow]
    gone = [weakref.ref(m) for m in (net, other, shallow)]
    del net, other, shallow
    gc.collect()
    assert [r() for r in gone] == [None] * 3


def test_cycles_through_hooks_are_collected():
    def closure():
        net = nn.Linear(2, 2)
        net.register_forward_hook(lambda m, args, out: net)
        return net

    def method():
        class Net(nn.Module):
            def hook(self, module, args):
                return None

            def forward(self, x):
                return x

        net = Net()
        net.register_forward_pre_hook(net.hook)
        net(ones(1))
        return net

    def part():
        net = nn.Sequential(nn.ReLU(), nn.Linear(2, 2))
        net[0].register_forward_hook(lambda m, args, out: net and None)
        net(ones(1, 2))
        return net

    def handle():
        net = nn.Sequential(nn.ReLU())
        net[0].register_forward_hook(lambda m, args, out: handles and None)
        handles = [net[0].register_forward_hook(lambda m, args, out: None), net]
        return net

    def extractor():
        """Around a model of C++, whose modules are no Python objects."""

        class Extractor(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = mica.models.lenet()
                self.body[5].register_forward_hook(self.keep)

            def keep(self, module, args, out):
                self.features = out.detach()

            def forward(self, x):
                self.body(x)
                return self.features

        net = Extractor()
        assert net(mica.rand(1, 1, 28, 28)).shape == (1, 500)
        return net

    for make in (closure, method, part, handle, extractor):
        gone = weakref.ref(make())
        gc.collect()
        assert gone() is None, make.__name__
    # And what lives keeps its hooks.
    net, model, calls = nn.Linear(2, 2), mica.models.lenet(), []
    net.register_forward_hook(lambda m, args, out: calls.append(net is m))
    model[0].register_forward_hook(lambda m, args, out: calls.append(m is model[0]))
    gc.collect()
    net(ones(1, 2))
    model(mica.rand(1, 1, 28, 28))
    assert calls == [True, True]


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: nn.Sequential(m)], ids=["python", "cpp"])
def test_hooks_that_come_first_and_hooks_after_errors(wrap):
    class Raises(nn.Module):
        def forward(self, x):
            if x.shape[0] == 2:
                raise KeyError("two rows")
            return x

    layer, calls = Raises(), []
    layer.register_forward_pre_hook(lambda m, args: calls.append("before"))
    layer.register_forward_pre_hook(lambda m, args: calls.append("first"), prepend=True)
    layer.register_forward_hook(lambda m, args, y: calls.append("after"))
    layer.register_forward_hook(lambda m, args, y: calls.append("zeroth"), prepend=True)
    seen = []
    always = layer.register_forward_hook(lambda m, args, y: seen.append(y), always_call=True)
    copied = copy.deepcopy(layer)
    wrap(layer)(ones(1))
    assert calls == ["first", "before", "zeroth", "after"] and seen[0].shape == (1,)
    calls.clear()
    with pytest.raises(KeyError, match="two rows"):
        wrap(layer)(ones(2))
    assert calls == ["first", "before"] and seen[1] is None
    with pytest.raises(KeyError):
        copied(ones(2))
    assert len(seen) == 3
    always.remove()
    # A hook that raises keeps none of the others from being called; its own error is dropped.
    layer.register_forward_hook(lambda m, args, y: 1 / 0, always_call=True)
    layer.register_forward_hook(lambda m, args, y: seen.append("last"), always_call=True)
    with pytest.raises(KeyError, match="two rows"):
        wrap(layer)(ones(2))
    assert seen[3:] == ["last"]
