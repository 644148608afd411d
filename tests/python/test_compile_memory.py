"""Memory that compiled functions share with others, write to and keep: as eager calls do."""

import mica
import numpy as np
import pytest
from compile_calls import both
from mica import nn


class TestMemory:
    def test_an_argument_that_is_written_elsewhere(self):
        def make():
            w = mica.arange(4.0)

            def f(x):
                before = x * 2
                w.add_(1)
                return before, x * 2, w * 1

            return f, w

        f, w = make()
        g = mica.compile(f)
        assert [t.tolist() for t in g(w)] == [[0, 2, 4, 6], [2, 4, 6, 8], [1, 2, 3, 4]]
        assert [t.tolist() for t in g(w)] == [[2, 4, 6, 8], [4, 6, 8, 10], [2, 3, 4, 5]]
        both(make, (mica.ones(4),), (mica.zeros(4),))

    def test_items_are_assigned(self):
        def make():
            w = mica.zeros(2, 3)

            def f(x):
                w[0] = x
                w[:, 1] = x.sum()
                y = x.clone()
                y[1] = 7
                return y, w * 1

            return (f,)

        both(make, (mica.arange(3.0),), (mica.ones(3),))

    def test_view_of_captured_and_transposed_tensors(self):
        w = mica.arange(6.0).reshape(2, 3)
        f = mica.compile(lambda x: w.view(6) + x)
        assert f(mica.ones(6)).tolist() == [1, 2, 3, 4, 5, 6]
        for bad in (lambda x: x.t().view(6), lambda x: w.t().view(6)):
            for g in (bad, mica.compile(bad)):
                with pytest.raises(ValueError, match="use reshape"):
                    g(mica.ones(2, 3))

    def test_a_saved_view_that_is_written(self):
        w = mica.ones(4, requires_grad=True)
        scale = mica.ones(4)

        def f(x):
            loss = (w.reshape(2, 2) * scale.view(2, 2) * x).sum()
            scale.add_(1)
            loss.backward()

        for g in (f, mica.compile(f)):
            with pytest.raises(mica.Error, match="modified afterwards"):
                g(mica.ones(2, 2))

    def test_named_tuples_stay(self):
        f = mica.compile(lambda x: (mica.sort(x), [x.max(0)]))
        for _ in range(2):
            ordered, (most,) = f(mica.tensor([3.0, 1.0, 2.0]))
            assert ordered.values.tolist() == [1, 2, 3] and ordered.indices.tolist() == [1, 2, 0]
            assert most.values.item() == 3


def test_in_place_arithmetic_never_broadcasts_its_left_side():
    """Where the memory is shared and a gradient flows, `t += x` is `t = t + x`."""
    w = mica.ones(3, requires_grad=True)
    kept = mica.ones(1)

    def grow():
        t = kept.detach()
        t += w * 2
        return t

    for function in (grow, mica.compile(grow)):
        with pytest.raises(mica.ShapeError, match="in place"):
            function()


class TestWritesInPlace:
    """Where a gradient flows, tensors that share memory share what is written, and its history."""

    def gradients(self, make):
        """Of w, for a function that computes a result from it: eagerly and compiled."""
        found = []
        for compiled in (False, True):
            w = mica.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)

            def f(x, w=w):
                y = make(w, x)
                return y, mica.grad((y * mica.tensor([1.0, 10.0, 100.0, 1000.0])).sum(), w)[0]

            f = mica.compile(f) if compiled else f
            found.append([[t.tolist() for t in f(mica.full((4,), v))] for v in (2.0, 3.0)])
        assert found[0] == found[1]
        return found[0][0]

    def test_through_a_view(self):
        def make(w, x):
            y = w * x
            y[1:3].mul_(w[:2])
            return y

        y, gradient = self.gradients(make)
        assert y == [2, 4, 12, 8]
        # y = 2w0, 2w1w0, 2w2w1, 2w3
        assert gradient == [2 + 10 * 4, 10 * 2 + 100 * 6, 100 * 4, 2000]

    def test_a_view_follows_its_base(self):
        def make(w, x):
            y = w * x
            v = y.view(2, 2).t()
            y.mul_(w)
            return v.reshape(4)

        y, gradient = self.gradients(make)
        assert y == [2, 18, 8, 32]  # 2w0², 2w2², 2w1², 2w3²
        assert gradient == [4, 100 * 8, 10 * 12, 1000 * 16]

    def test_views_of_a_tensor_without_history(self):
        def make(w, x):
            y = mica.zeros(4)
            a, b = y[:2], y.view(2, 2)
            a.copy_(w[2:])
            y[3] = w[0] * x[0]
            a += 1
            return b.reshape(4) * 1

        y, gradient = self.gradients(make)
        assert y == [4, 5, 0, 2]
        assert gradient == [2000, 0, 1, 10]

    def test_scatter_and_activations(self):
        def make(w, x):
            y = w * x - 5
            y.relu_()
            y.scatter_(0, mica.tensor([0]), w[3:])
            y[mica.tensor([1])] = w[:1]
            return y

        y, gradient = self.gradients(make)
        assert y == [4, 1, 1, 3]
        assert gradient == [10, 0, 200, 2001]

    def test_of_higher_order(self):
        w = mica.tensor([1.0, 2.0, 3.0], dtype=mica.float64, requires_grad=True)
        y = w * w
        y[:2].mul_(w[1:])
        (first,) = mica.grad(y.sum(), w, create_graph=True)
        np.testing.assert_allclose(first.tolist(), [4, 1 + 12, 4 + 6])
        (second,) = mica.grad((first * mica.tensor([1.0, 0.0, 0.0]).double()).sum(), w)
        np.testing.assert_allclose(second.tolist(), [4, 2, 0])  # 2 w0 w1

    def test_what_is_refused(self):
        w = mica.ones(4, requires_grad=True)
        with pytest.raises(mica.Error, match="a view of a tensor f32\\[4\\] that requires a grad"):
            w[:2].mul_(2)
        with pytest.raises(mica.Error, match="requires a gradient"):
            w.mul_(2)
        y = w * 1
        with pytest.raises(mica.Unsupported, match="made by detach"):
            y.detach().mul_(w)
        y = w.exp()
        y[0] = 0
        with pytest.raises(mica.Error, match="modified afterwards"):
            y.sum().backward()

    def test_long_chains_of_views(self):
        x = mica.zeros(2)
        v = x
        for _ in range(50_000):
            v = v[:]
            v = v.view(2)
        del v
        w = mica.ones(2, requires_grad=True)
        v = x
        for _ in range(1000):
            v = v.view(2)
        x.copy_(w)
        v.sum().backward()
        assert w.grad.tolist() == [1, 1]


def test_inputs_that_no_gradient_reads_may_be_written():
    """y = x * w is not the gradient of w alone: x is kept, w is not."""
    for f in (lambda x, w: x * w, lambda x, w: x @ w, lambda x, w: mica.lerp(x, x + 1, w)):
        for wanted in (0, 1):
            for compiled in (False, True):
                x, w = mica.ones(2, 2), mica.full((2, 2), 3.0)
                leaf, other = (x, w) if wanted == 0 else (w, x)
                leaf.requires_grad = True

                def step(other, f=f, leaf=leaf, wanted=wanted):
                    y = f(leaf, other) if wanted == 0 else f(other, leaf)
                    with mica.no_grad():
                        leaf.mul_(2)  # what the optimizer does, before backward
                    return mica.grad(y.sum(), leaf)[0]

                gradient = (mica.compile(step) if compiled else step)(other)
                assert gradient.shape == (2, 2)


def test_frozen_layers_keep_nothing():
    """Of frozen layers before the first that is trained nothing is kept; between, no inputs."""
    mica.manual_seed(1)
    n = 256
    net = nn.Sequential(*(nn.Linear(n, n, bias=False) for _ in range(8)))
    for layer in net:
        layer.weight.requires_grad = False
    first = mica.ones(n, requires_grad=True)  # trained, in front of them
    x = mica.ones(4096, n)

    def held():
        before = mica.memory_stats("cpu")["allocated"]
        y = net(x + first)
        return mica.memory_stats("cpu")["allocated"] - before, y

    size = 4096 * n * 4
    frozen, y = held()
    assert frozen < 1.5 * size  # the result alone
    del y
    for layer in net:
        layer.weight.requires_grad = True
    trained, y = held()
    assert trained > 8 * size and y.requires_grad


def test_a_view_of_an_argument_that_has_gaps_is_copied_from_where_it_starts(device):
    base = mica.arange(24, dtype=mica.float64, device=device).reshape(3, 8)
    x = base[:, ::2]
    f = mica.compile(lambda x: (x[0:2, None, 1:3], x * 2))
    view, twice = f(x)
    assert view.tolist() == x[0:2, None, 1:3].tolist()
    assert twice.tolist() == (x * 2).tolist()


def test_a_slice_of_a_table_is_written_where_the_table_lies(device):
    def make():
        table = mica.arange(12.0, device=device).reshape(4, 3).clone()
        order = mica.tensor([[2], [1], [0]], device=device)

        def f(place, row):
            table.copy_(table.index_copy(0, place, row))
            # Read in another order than it is written in: not over itself.
            turned = (row * 2).reshape(3, 1)
            square = mica.scatter(turned, 0, order, turned)
            return table.sum(1), square

        return f

    eager, compiled = make(), mica.compile(make())
    for place, row in ((2, [5.0, 6, 7]), (0, [-1.0, 0, 1]), (2, [1.0, 1, 1])):
        given = (
            mica.tensor([place], device=device),
            mica.tensor([row], device=device),
        )
        for found, wanted in zip(compiled(*given), eager(*given), strict=True):
            assert found.tolist() == wanted.tolist()
