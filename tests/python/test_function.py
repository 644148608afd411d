"""Functions with gradients of their own, hooks, checkpoints, checks and modes."""

import gc
import threading
import weakref

import mica
import numpy as np
import pytest
from mica import autograd, nn


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x**3 * factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2 * ctx.factor, None


class TwoOut(autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.needed = ctx.needs_input_grad
        ctx.save_for_backward(a, b)
        return a * b, a + b

    @staticmethod
    def backward(ctx, g, h):
        _, b = ctx.saved_tensors
        assert ctx.needed == (True, False)
        return g * b + h, None


@pytest.fixture
def leaf(device):
    def make(*shape):
        x = mica.uniform(shape, 0.5, 2.0, dtype=mica.float64, device=device)
        x.requires_grad = True
        return x

    return make


def test_function(leaf):
    x = leaf(4)
    y = Cube.apply(x, 2.0)
    assert y.requires_grad
    y.sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), 6 * x.detach().cpu().numpy() ** 2, rtol=1e-12)
    assert autograd.gradcheck(lambda t: Cube.apply(t, 2.0), [leaf(3)])
    assert autograd.gradgradcheck(lambda t: Cube.apply(t, 2.0), [leaf(3)])
    with mica.no_grad():
        assert not Cube.apply(x, 1.0).requires_grad


def test_function_of_several(leaf):
    a, b = leaf(3), leaf(3).detach()
    product, total = TwoOut.apply(a, b)
    (product.sum() + 2 * total.sum()).backward()
    np.testing.assert_allclose(a.grad.cpu().numpy(), b.cpu().numpy() + 2, rtol=1e-12)


def test_function_is_compiled(leaf):
    x = leaf(4)

    @mica.compile
    def gradient(t):
        (g,) = mica.grad(Cube.apply(x, 2.0).sum() * t, x)
        return g

    two = mica.full((), 2, dtype=mica.float64, device=x.device)
    for _ in range(2):
        np.testing.assert_allclose(
            gradient(two).cpu().numpy(), 12 * x.detach().cpu().numpy() ** 2, rtol=1e-12
        )
    assert gradient.captures == 1


def test_functions_that_are_wrong(leaf):
    class Raises(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError("in backward")

    class Few(Cube):
        @staticmethod
        def backward(ctx, g):
            return g

    class Shaped(Cube):
        @staticmethod
        def backward(ctx, g):
            return g.sum(), None

    class NoTensor(Cube):
        @staticmethod
        def forward(ctx, x, factor):
            return 3

    with pytest.raises(ZeroDivisionError, match="in backward"):
        Raises.apply(leaf(2)).sum().backward()
    with pytest.raises(mica.Error, match="gave 1 gradients for 2 arguments"):
        Few.apply(leaf(2), 1.0).sum().backward()
    with pytest.raises(mica.ShapeError, match="Shaped"):
        Shaped.apply(leaf(2), 1.0).sum().backward()
    with pytest.raises(TypeError, match=r"NoTensor\.forward must return a tensor"):
        NoTensor.apply(leaf(2), 1.0)
    with pytest.raises(NotImplementedError, match="forward"):
        autograd.Function.apply(leaf(2))


def test_contexts_go_with_the_graph(leaf):
    class Keeps(Cube):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.big = factor
            return x * 1

    class Big:
        pass

    big = Big()
    gone = weakref.ref(big)
    y = Keeps.apply(leaf(2), big)
    del big
    gc.collect()
    assert gone() is not None
    del y
    gc.collect()
    assert gone() is None


def test_hooks(leaf):
    x = leaf(3)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g.sum().item()))
    doubled = x * 2
    doubled.register_hook(lambda g: g * 10)
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.sum().item()))
    doubled.sum().backward()
    assert seen == [60, 60]
    np.testing.assert_array_equal(x.grad.cpu().numpy(), [20, 20, 20])
    handle.remove()
    (x * 1).sum().backward()
    assert seen == [60, 60, 63]

    def fails(g):
        raise KeyError("hook")

    x.register_hook(fails)
    with pytest.raises(KeyError, match="hook"):
        (x * 1).sum().backward()


def test_checkpoint(leaf):
    x, calls = leaf(4), []

    def block(t, power):
        calls.append(1)
        return t.exp() ** power

    y = autograd.checkpoint(block, x, 2)
    y.sum().backward()
    assert len(calls) == 2
    np.testing.assert_allclose(
        x.grad.cpu().numpy(), 2 * np.exp(2 * x.detach().cpu().numpy()), rtol=1e-12
    )
    a, b = autograd.checkpoint(lambda t: (t * 2, t * 3), x)
    assert (b - a).sum().item() == pytest.approx(x.sum().item())


def test_checkpoint_of_a_module_draws_the_same_numbers(device):
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).to(device)
    x = mica.rand(4, 8, device=device)
    mica.manual_seed(3)
    autograd.checkpoint(net, x).sum().backward()
    first = net[0].weight.grad.cpu().numpy()
    net.zero_grad()
    mica.manual_seed(3)
    net(x).sum().backward()
    np.testing.assert_allclose(net[0].weight.grad.cpu().numpy(), first, rtol=1e-6)


def test_gradcheck_finds_a_wrong_gradient(leaf):
    class Wrong(Cube):
        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x**2 * ctx.factor, None

    result = autograd.gradcheck(lambda t: Wrong.apply(t, 1.0), [leaf(3)])
    assert not result and result.worst > 0.1 and "input 0" in result.message


def test_backward_of_several(leaf):
    x = leaf(2)
    autograd.backward([(x * 2).sum(), (x * 3).sum()])
    np.testing.assert_array_equal(x.grad.cpu().numpy(), [5, 5])


def test_modes(leaf):
    x = leaf(2)

    @mica.set_grad_enabled(False)
    def double(t):
        return t * 2

    assert mica.is_grad_enabled() and not double(x).requires_grad
    with mica.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert mica.is_grad_enabled()
    mica.set_grad_enabled(False)
    assert not mica.is_grad_enabled()
    mica.set_grad_enabled(True)

    modes = []

    def other():
        modes.append(mica.is_grad_enabled())

    with mica.no_grad():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert modes == [True]


def test_anomaly_mode(leaf):
    x = leaf(2)
    with autograd.detect_anomaly():
        assert autograd.is_anomaly_enabled()
        with pytest.raises(mica.Error, match="log"):
            (x - 10).log()
    assert not autograd.is_anomaly_enabled()
    with autograd.set_detect_anomaly(True):
        assert autograd.is_anomaly_enabled()
    (x - 10).log()
