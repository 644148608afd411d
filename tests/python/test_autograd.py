import mica
import numpy as np
import pytest


@pytest.fixture
def leaf(rng, device):
    def make(*shape):
        return mica.tensor(rng.standard_normal(shape), device=device, requires_grad=True)

    return make


def test_backward_against_differences(rng, leaf):
    x, w = leaf(3, 4), leaf(4, 2)
    cotangent = mica.tensor(rng.standard_normal((3, 2)), device=x.device)

    def value(x_array):
        x_tensor = mica.tensor(x_array, device=x.device)
        return ((x_tensor @ w).relu() * cotangent).sum().item()

    (x @ w).relu().backward(cotangent)
    base, step = x.detach().cpu().numpy().copy(), 1e-6
    for i in np.ndindex(base.shape):
        up, down = base.copy(), base.copy()
        up[i] += step
        down[i] -= step
        expected = (value(up) - value(down)) / (2 * step)
        np.testing.assert_allclose(x.grad.cpu().numpy()[i], expected, rtol=1e-6, atol=1e-8)


def test_gradients_accumulate_and_can_be_set(leaf):
    x = leaf(3)
    assert x.grad is None
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.cpu().numpy(), [5, 5, 5])
    x.grad = None
    assert x.grad is None
    x.grad = mica.ones(3, dtype=mica.float64, device=x.device)
    np.testing.assert_array_equal(x.grad.cpu().numpy(), [1, 1, 1])
    with pytest.raises(mica.ShapeError, match="set_grad"):
        x.grad = mica.ones(4, dtype=mica.float64, device=x.device)


def test_no_grad_as_context_and_decorator(leaf):
    x = leaf(2)

    @mica.no_grad()
    def double(t):
        return t * 2

    assert not double(x).requires_grad
    with mica.no_grad():
        assert not mica.is_grad_enabled()
        assert not (x * 2).requires_grad
        with mica.enable_grad():
            assert (x * 2).requires_grad
        assert not mica.is_grad_enabled()
    assert (x * 2).requires_grad and mica.is_grad_enabled()
    with pytest.raises(ValueError), mica.no_grad():
        raise ValueError
    assert mica.is_grad_enabled()


def test_detach_and_leaves(leaf):
    x = leaf(2)
    y = x * 2
    assert x.is_leaf and not y.is_leaf and y.requires_grad
    assert not y.detach().requires_grad
    x.requires_grad = False
    assert not (x * 2).requires_grad


def test_grad_does_not_touch_leaves(leaf):
    x, y = leaf(3), leaf(3)
    gx, gy, unused = mica.grad((x * y).sum(), [x, y, leaf(2)])
    np.testing.assert_array_equal(gx.cpu().numpy(), y.detach().cpu().numpy())
    np.testing.assert_array_equal(gy.cpu().numpy(), x.detach().cpu().numpy())
    assert unused is None and x.grad is None
    (only,) = mica.grad(x * 2, x, grad_outputs=mica.ones(3, dtype=mica.float64, device=x.device))
    np.testing.assert_array_equal(only.cpu().numpy(), [2, 2, 2])


def test_second_order(leaf):
    x = leaf(4)
    (g,) = mica.grad((x * x * x).sum(), x, create_graph=True)
    (h,) = mica.grad(g.sum(), x)
    np.testing.assert_allclose(h.cpu().numpy(), 6 * x.detach().cpu().numpy(), rtol=1e-12)


def test_backward_twice_and_modified_values_raise(leaf):
    x = leaf(3)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    with pytest.raises(mica.Error):
        loss.backward()
    y = x * 1.0
    loss = (y * y).sum()
    with mica.no_grad():
        y.fill_(0)
    with pytest.raises(mica.Error, match="modified"):
        loss.backward()


def test_backward_of_many_elements_needs_a_cotangent(leaf):
    with pytest.raises(mica.Error, match="one"):
        (leaf(3) * 2).backward()
