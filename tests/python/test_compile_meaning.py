"""A compiled call does what the eager call would have done, or raises and says why."""

import gc
import threading
import types
import weakref

import mica
import mica.nn.functional as F
import numpy as np
import pytest
from compile_calls import both
from mica import nn

SCALE = 2.0


def ones():
    return mica.ones(2)


class TestCrashes:
    def test_retain_grad_inside(self):
        w = mica.ones(3, requires_grad=True)

        @mica.compile
        def step(x):
            w.grad = None
            y = w * x
            y.retain_grad()
            (y * y).sum().backward()
            return y.grad

        for value in (2.0, 3.0):
            x = mica.full((3,), value)
            np.testing.assert_array_equal(step(x).numpy(), 2 * value)
            np.testing.assert_array_equal(w.grad.numpy(), 2 * value**2)
        gc.collect()

    def test_an_inner_function_after_an_outer_capture(self):
        @mica.compile
        def inner(x):
            return tuple(x[i] * 2 for i in range(len(x)))

        @mica.compile
        def outer(x):
            return sum(inner(x))

        for n in (2, 3):
            x = mica.ones(n, 4)
            assert len(inner(x)) == n
            assert outer(mica.ones(n + 3, 4)).tolist() == [2.0 * (n + 3)] * 4
            assert len(inner(x)) == n
            assert len(inner(mica.ones(n + 1, 4))) == n + 1

    def test_a_first_run_that_fails(self):
        table = mica.arange(6).reshape(3, 2)
        count = mica.zeros(1)

        @mica.compile
        def rows(index):
            count.add_(1)
            return table[index], [index]

        for _ in range(2):
            with pytest.raises(IndexError):
                rows(mica.tensor([0, 9]))
        found, (index,) = rows(mica.tensor([0, 2]))
        assert found.tolist() == [[0, 1], [4, 5]] and index.tolist() == [0, 2]
        assert count.item() == 3

    def test_writes_before_an_exception(self):
        def make():
            count = mica.zeros(2)
            w = mica.ones(2, requires_grad=True)

            def f(x, fails):
                count.add_(x)
                (w * x).sum().backward()
                if fails.shape[0] == 2:
                    raise LookupError("stop")
                return count * 1, w.grad * 1

            def guarded(x, fails):
                try:
                    return f(x, fails)
                except LookupError:
                    return (x,)

            return f, count, w

        for compiled in (False, True):
            f, count, w = make()
            f = mica.compile(f) if compiled else f
            for fails in (2, 1, 2, 1):
                if fails == 2:
                    with pytest.raises(LookupError, match="stop"):
                        f(ones(), mica.ones(2))
                else:
                    f(ones(), mica.ones(1))
            assert count.tolist() == [4, 4] and w.grad.tolist() == [4, 4]

    def test_threads_call_first(self):
        for _ in range(20):
            f = mica.compile(lambda x: (x * 2, [x + 1]))
            wrong = []

            def work(n, f=f, wrong=wrong):
                double, (more,) = f(mica.full((n,), n))
                if double.tolist() != [2 * n] * n or more.tolist() != [n + 1] * n:
                    wrong.append(n)

            threads = [threading.Thread(target=work, args=(i % 2 + 1,)) for i in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            assert not wrong and f.captures == 2


class TestGradients:
    @pytest.mark.parametrize("where", ["step", "both", "zero_grad"])
    def test_of_an_optimizer_compiled_alone(self, where):
        ends = []
        for compiled in (False, True):
            w = mica.zeros(2, requires_grad=True)
            opt = mica.optim.SGD([w], lr=1.0)
            step, clear = opt.step, opt.zero_grad
            if compiled and where != "zero_grad":
                step = mica.compile(step)
            if compiled and where != "step":
                clear = mica.compile(clear)
            seen = []
            for i in range(6):
                (w * ones() * (i + 1)).sum().backward()
                mica.nn.utils.clip_grad_norm_([w], 4.0)
                step()
                seen.append(w.tolist())
                if i % 3 == 2:
                    clear()
                    assert w.grad is None
            ends.append(seen)
            if compiled and where != "zero_grad":
                assert step.captures == 1
        assert ends[0] == ends[1]

    def test_accumulation_captures_twice(self):
        w = mica.zeros(2, requires_grad=True)
        step = mica.compile(lambda x: (w * x).sum().backward())
        first = None
        for i in range(1, 21):
            step(ones())
            assert w.grad.tolist() == [i, i]
            if i == 3:
                first = w.grad
        assert step.captures == 2 and first.tolist() == [3, 3]

    def test_update_without_zero_grad(self):
        ends = []
        for compiled in (False, True):
            w = mica.ones(2, requires_grad=True)
            opt = mica.optim.SGD([w], lr=0.5)

            def f(x, w=w, opt=opt):
                (w * x).sum().backward()
                opt.step()

            g = mica.compile(f) if compiled else f
            for _ in range(4):
                g(ones())
            ends.append((w.tolist(), w.grad.tolist()))
        assert ends[0] == ends[1]

    def test_a_write_to_the_leaf_keeps_its_gradient(self):
        ends = []
        for compiled in (False, True):
            w = mica.ones(2, requires_grad=True)
            opt = mica.optim.SGD([w], lr=0.5)

            def f(x, w=w, opt=opt):
                opt.zero_grad()
                (w * x).sum().backward()
                with mica.no_grad():
                    w.clamp_(-1, 0.75)

            g = mica.compile(f) if compiled else f
            for _ in range(3):
                g(ones())
                opt.step()
            ends.append(w.tolist())
        assert ends[0] == ends[1]

    def test_used_up_ones_say_so(self):
        net = nn.Linear(2, 2)
        opt = mica.optim.SGD(net.parameters(), lr=0.1)

        @mica.compile
        def step(x):
            opt.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            opt.step()
            return loss

        for _ in range(3):
            step(mica.ones(1, 2))
        assert step.captures == 1
        with pytest.raises(mica.Error, match="used it up in its update"):
            _ = net.weight.grad
        net.to(mica.float64).to(mica.float32)
        opt.zero_grad()
        assert net.weight.grad is None

    def test_frozen_parameters(self):
        ends = []
        for compiled in (False, True):
            a = mica.ones(2, requires_grad=True)
            b = mica.ones(2, requires_grad=True)
            opt = mica.optim.SGD([a, b], lr=0.5)

            def f(x, a=a, b=b, opt=opt):
                opt.zero_grad()
                (a * b * x).sum().backward()
                return a * 1

            g = mica.compile(f) if compiled else f
            g(ones())
            b.requires_grad = False
            g(ones())
            ends.append((a.grad.tolist(), b.grad))
        assert ends[0] == ends[1] == ([1, 1], None)

    def test_a_frozen_parameter_keeps_its_gradient(self):
        ends = []
        for compiled in (False, True):
            a = mica.ones(2, requires_grad=True)
            b = mica.ones(2, requires_grad=True)

            def f(x, a=a, b=b):
                (a * b * x).sum().backward()
                return a.grad * 1

            g = mica.compile(f) if compiled else f
            g(ones())
            b.requires_grad = False
            ends.append((g(ones()).tolist(), g(ones()).tolist(), b.grad.tolist()))
        assert ends[0] == ends[1] == ([2, 2], [3, 3], [1, 1])

    def test_of_others_are_clipped_inside(self):
        ends = []
        for compiled in (False, True):
            w = mica.zeros(2, requires_grad=True)

            def clip(w=w):
                return mica.nn.utils.clip_grad_norm_([w], 1.0)

            clip = mica.compile(clip) if compiled else clip
            seen = []
            for i in range(3):
                w.grad = None
                (w * mica.tensor([3.0, 4.0]) * (i + 1)).sum().backward()
                seen.append((clip().item(), w.grad.tolist()))
            ends.append(seen)
        assert ends[0] == ends[1] and [norm for norm, _ in ends[0]] == [5, 10, 15]

    def test_hooks_that_come_and_go(self):
        w = mica.ones(2, requires_grad=True)

        @mica.compile
        def step(x):
            w.grad = None
            (w * x).sum().backward()

        step(ones())
        handle = w.register_hook(lambda g: g * 10)
        step(ones())
        assert w.grad.tolist() == [10, 10]
        handle.remove()
        step(ones())
        assert w.grad.tolist() == [1, 1]


class TestWhatPythonRead:
    def test_closures_and_globals(self):
        def make():
            globals()["SCALE"] = 2.0
            k = 3.0
            options = types.SimpleNamespace(shift=1.0, names=["a"])

            def f(x):
                return x * k * SCALE + options.shift + len(options.names)

            def change(value, shift):
                nonlocal k
                k = value
                options.shift = shift
                options.names.append("b")

            return f, change

        both(
            make,
            (ones(),),
            lambda change: change(5.0, 2.0),
            (ones(),),
            lambda change: change(-1.0, 3.0),
            (ones(),),
            lambda _: globals().__setitem__("SCALE", 7.0),
            (ones(),),
        )

    def test_attributes_layers_parameters(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
                self.slope = 0.5

            def forward(self, x):
                return self.body(x) * self.slope

        def make():
            mica.manual_seed(1)
            net = Net()
            return mica.no_grad()(lambda x: net(x)), net

        def replace(net):
            net.body[1] = nn.Tanh()

        def other_body(net):
            net.body = nn.Linear(2, 2, bias=False)
            net.body.weight.data.fill_(2)

        def weight(net):
            net.body[0].weight = nn.Parameter(mica.ones(2, 2))

        f = both(
            make,
            (ones(),),
            (ones(),),
            replace,
            (ones(),),
            weight,
            (ones(),),
            lambda net: setattr(net, "slope", 4.0),
            (ones(),),
            other_body,
            (ones(),),
        )
        assert f.captures == 5

    def test_rebound_tensors_and_grad_mode(self):
        def make():
            w = mica.ones(2, requires_grad=True)

            def f(x):
                y = w * x
                return mica.tensor([float(y.requires_grad)]), y.detach()

            def change(value):
                nonlocal w
                w = value

            return f, change

        both(
            make,
            (ones(),),
            lambda change: change(mica.full((2,), 3.0)),
            (ones(),),
            lambda change: change(mica.full((2,), 4.0, requires_grad=True)),
            (ones(),),
        )
        f = mica.compile(lambda x: mica.tensor([float(mica.is_grad_enabled())]) * x)
        assert f(mica.ones(1)).item() == 1
        with mica.no_grad():
            assert f(mica.ones(1)).item() == 0
        assert f(mica.ones(1)).item() == 1 and f.captures == 2

    def test_a_buffer_that_counts(self):
        class Counter(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("n", mica.zeros(1))

            def forward(self, x):
                self.n = self.n + 1
                return x * self.n

        net = Counter()
        f = mica.compile(net)
        for i in range(1, 6):
            assert f(ones()).tolist() == [i, i]
            assert net.n.item() == i
        assert f.captures == 2
        net.n = mica.full((1,), 10.0)
        assert f(ones()).tolist() == [11, 11]
        assert dict(net.named_buffers())["n"].item() == 11

    def test_a_number_that_keeps_changing(self):
        k = 0.0
        f = mica.compile(lambda x: x * (k + 1) - 2 / (k + 4))
        for i in range(10):
            k = 0.5 * i
            np.testing.assert_allclose(f(ones()).numpy(), (k + 1) - 2 / (k + 4), rtol=1e-6)
        assert f.captures <= 5

    def test_a_number_that_counts(self):
        def make():
            state = types.SimpleNamespace(n=0)

            def f(x):
                state.n += 1
                return x * state.n

            return f, state

        set_back = [lambda state: setattr(state, "n", 0), (ones(),)] * 3
        both(make, *set_back)
        calls = [(ones(),)] * 7
        f = both(make, *calls, lambda state: setattr(state, "n", 40), *calls)
        assert f.captures <= 5

    def test_a_number_that_decides(self):
        def make():
            k = 0

            def f(x):
                return x + 1 if k % 2 else x.sum(k % 3 - 1) * mica.full((1,), k)

            def change():
                nonlocal k
                k += 1

            return f, change

        both(make, *[c for _ in range(8) for c in ((mica.ones(2, 2),), lambda change: change())])

    def test_garbage_is_collected(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.k = 2.0
                self.fast = mica.compile(self.forward)

            def forward(self, x):
                return x * self.k

        net = Net()
        assert net.fast(ones()).tolist() == [2, 2]
        gone = weakref.ref(net)
        del net
        gc.collect()
        assert gone() is None


class TestTrainedFromOutside:
    def test_forward_and_backward_are_two_plans(self):
        ends = []
        for compiled in (False, True):
            mica.manual_seed(2)
            net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
            opt = mica.optim.Adam(net.parameters(), lr=0.1)
            f = mica.compile(net) if compiled else net
            losses = []
            for i in range(5):
                x = mica.full((2, 3), 0.3 * i, requires_grad=True)
                loss = F.cross_entropy(f(x), mica.tensor([0, 1]))
                opt.zero_grad()
                loss.backward()
                opt.step()
                losses += [loss.item(), *x.grad.flatten().tolist()]
            ends.append(losses)
            if compiled:
                assert f.captures == 1
        np.testing.assert_allclose(ends[1], ends[0], rtol=1e-5, atol=1e-6)

    def test_writes_in_between_are_an_error(self):
        w = mica.ones(2, requires_grad=True)
        f = mica.compile(lambda x: w * w * x)
        y = f(ones())
        with mica.no_grad():
            w.add_(1)
        with pytest.raises(mica.Error, match="modified afterwards"):
            y.sum().backward()
        y = f(ones())
        y.sum().backward()
        assert w.grad.tolist() == [4, 4]
        with pytest.raises(mica.Error, match="second time"):
            y.sum().backward()
        with pytest.raises(mica.Unsupported, match="cannot be differentiated again"):
            mica.grad(f(ones()).sum(), w, create_graph=True)

    def test_results_that_can_be_differentiated_beside_one_that_cannot(self):
        w = mica.tensor([1.0, 2.0], requires_grad=True)
        buf = mica.tensor([3.0, 4.0])

        def f(x):
            first = w * buf
            buf[1:] = buf[:-1]
            return first, w * x, mica.autograd.checkpoint(lambda t: t * w, x)

        for call in (f, mica.compile(f)):
            buf.copy_(mica.tensor([3.0, 4.0]))
            w.grad = None
            first, second, third = call(mica.tensor([5.0, 6.0]))
            (second * third).sum().backward(retain_graph=True)
            assert w.grad.tolist() == [50, 144]
            with pytest.raises(mica.Error, match=r"mul: a tensor it saved .* modified"):
                first.sum().backward()


def test_a_history_written_to_an_argument_is_refused():
    w = mica.tensor([1.0, 2.0], requires_grad=True)

    def whole(x):
        x.mul_(w)
        return x * 2

    def part(x):
        x.view(2, 1)[0].copy_(w[:1])
        return (x * 2,)

    for f in (whole, part):
        x = mica.ones(2)
        with pytest.raises(
            mica.Unsupported, match=r"a history is written to argument 0 \(f32\[2\]\)"
        ):
            mica.compile(f)(x)
        assert x.tolist() == [1, 1] and not x.requires_grad
        with mica.no_grad():
            mica.compile(f)(x)
        assert x.tolist() == ([1, 2] if f is whole else [1, 1])
    x = mica.ones(2)
    mica.compile(lambda x: x.mul_(w.detach()))(x)
    assert x.tolist() == [1, 2]


def test_an_argument_detached_inside_has_no_history_outside():
    x = mica.ones(3, requires_grad=True)
    whole, parts = mica.compile(lambda t: (t, t.detach()))(x)
    assert whole is not None and whole.requires_grad
    assert not parts.requires_grad
    parts[0] = 5.0
    assert x.tolist() == [5, 1, 1]


def test_a_hook_on_an_argument_is_refused():
    def f(x):
        x.register_hook(lambda g: g * 2)
        return x * 3

    x = mica.ones(2, requires_grad=True)
    f(x).sum().backward()
    assert x.grad.tolist() == [6, 6]
    with pytest.raises(mica.Unsupported, match="a hook on its argument 0"):
        mica.compile(f)(mica.ones(2, requires_grad=True))
    g = mica.compile(lambda x: f(x * 1))
    x.grad = None
    g(mica.ones(2, requires_grad=True)).sum().backward()


def test_what_is_returned_as_it_came_is_that_tensor():
    w = mica.ones(2, requires_grad=True)
    f = mica.compile(lambda x: (w, x, x * w))
    for _ in range(2):
        for leaf in (mica.ones(2, requires_grad=True), mica.ones(2)):
            w.grad = None
            a, b, _ = f(leaf)
            (a * 2 + b * 3).sum().backward()
            assert w.grad.tolist() == [2, 2]
            assert leaf.grad is None if not leaf.requires_grad else leaf.grad.tolist() == [3, 3]
        with mica.no_grad():
            a, b, _ = f(leaf)
            assert a.requires_grad and b.requires_grad == leaf.requires_grad


def test_arguments_require_gradients_where_none_are_recorded_too():
    def f(x):
        return x * (2 if x.requires_grad else 3)

    g = mica.compile(f)
    with mica.no_grad():
        for x in (mica.ones(1), mica.ones(1, requires_grad=True), mica.ones(1)):
            assert g(x).item() == f(x).item() and not g(x).requires_grad
