"""compile as a decorator: one graph for forward, backward and update."""

import copy
import gc
import pickle
import threading
import weakref

import mica
import mica.nn.functional as F
import numpy as np
import pytest
from mica import nn


def make_step(net, optimizer):
    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def weights(net):
    return {name: p.detach().cpu().numpy().copy() for name, p in net.named_parameters()}


@pytest.fixture
def batches(rng, device):
    return [
        (
            mica.tensor(rng.standard_normal((8, 1, 28, 28)).astype(np.float32), device=device),
            mica.tensor(rng.integers(0, 10, 8), device=device),
        )
        for _ in range(10)
    ]


def train(batches, device, compiled):
    mica.manual_seed(3)
    net = mica.models.lenet().to(device)
    optimizer = mica.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    step = make_step(net, optimizer)
    if compiled:
        step = mica.compile(step)
    losses = [step(x, y) for x, y in batches]
    return weights(net), [loss.item() for loss in losses], step


def test_compiled_training_is_eager_training(batches, device):
    mica.set_deterministic(True)
    eager, eager_losses, _ = train(batches, device, compiled=False)
    compiled, losses, step = train(batches, device, compiled=True)
    assert step.captures == 1
    assert losses == eager_losses
    for name in eager:
        np.testing.assert_array_equal(compiled[name], eager[name], err_msg=name)


def test_what_a_step_returned_stays(batches, device):
    net = mica.models.lenet().to(device)
    optimizer = mica.optim.SGD(net.parameters(), lr=0.1)
    step = mica.compile(make_step(net, optimizer))
    first = step(*batches[0])
    before = first.item()
    second = step(*batches[1])
    assert first.item() == before != second.item()
    if device.startswith("cuda"):
        assert step.is_one_launch


def test_learning_rate_changes_without_a_new_capture(batches, device):
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
    optimizer = mica.optim.SGD(net.parameters(), lr=0.1)
    step = mica.compile(make_step(net, optimizer))
    step(*batches[0])
    optimizer.lr = 0
    before = weights(net)
    step(*batches[1])
    after = weights(net)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])
    assert step.captures == 1


def test_python_modules_are_captured(device):
    class Twice(nn.Module):
        calls = 0

        def forward(self, x):
            Twice.calls += 1
            return x * 2

    net = nn.Sequential(nn.Linear(3, 3), Twice()).to(device)

    @mica.compile
    @mica.no_grad()
    def forward(x):
        return net(x)

    for _ in range(3):
        x = mica.rand(2, 3, device=device)
        np.testing.assert_allclose(
            forward(x).cpu().numpy(), 2 * net[0](x).detach().cpu().numpy(), rtol=1e-5
        )
    # Counted as eagerly; after its third value the number is read at each call.
    assert Twice.calls == 3 and forward.captures == 3


def test_results_keep_their_structure(device):
    @mica.compile
    def structured(x, y):
        return x + y, [x - y, (x * y,)], None

    @mica.compile
    def nothing(x):
        x + 1

    x = mica.full((2,), 3, device=device)
    y = mica.full((2,), 2, device=device)
    for _ in range(2):
        total, (difference, (product,)), none = structured(x, y)
        assert [t.sum().item() for t in (total, difference, product)] == [10, 2, 12]
        assert none is None
        assert nothing(x) is None


def test_structure_follows_the_shape_it_was_captured_with(device):
    @mica.compile
    def rows(x):
        return tuple(x[i] * 2 for i in range(len(x)))

    for n in (2, 3, 2, 3):
        assert len(rows(mica.ones(n, 4, device=device))) == n
    assert rows.captures == 2


def test_decorator_keeps_the_name_and_refuses_other_arguments():
    @mica.compile
    def plus_one(x):
        """Adds one."""
        return x + 1

    assert plus_one.__name__ == "plus_one" and plus_one.__wrapped__.__doc__ == "Adds one."
    with pytest.raises(TypeError, match=r"argument 1: expected a tensor, .* got range"):
        plus_one(range(3))
    with pytest.raises(TypeError, match=r"result: expected a tensor, .* got range"):
        mica.compile(lambda x: range(3))(mica.ones(1))


def test_an_error_in_the_body_leaves_everything_usable(device):
    fail = True

    @mica.compile
    def sometimes(x):
        if fail:
            raise LookupError("not yet")
        return x * 2

    with pytest.raises(LookupError, match="not yet"):
        sometimes(mica.ones(2, device=device))
    fail = False
    assert sometimes(mica.ones(2, device=device)).sum().item() == 4


def test_compiled_functions_nest(device):
    @mica.compile
    def inner(x):
        return x * 2, x + 1

    @mica.compile
    def outer(x):
        a, b = inner(x)
        return a + b

    x = mica.ones(2, device=device)
    for _ in range(2):
        assert outer(x).sum().item() == 8
        assert inner(x)[0].sum().item() == 4


def test_threads(device):
    @mica.compile
    def double(x):
        return x * 2

    errors = []

    def work(value):
        try:
            for _ in range(20):
                x = mica.full((64,), value, device=device)
                assert double(x).sum().item() == 128 * value and double.kernels
                assert (x + x).sum().item() == 128 * value
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_weights_written_through_numpy_are_seen():
    w = mica.tensor([1.0, 2.0, 3.0])
    held = np.ones(3, np.float32)
    adopted = mica.from_numpy(held)
    f = mica.compile(lambda x: x * mica.exp(w) + mica.exp(adopted))
    x = mica.tensor([1.0, 1.0, 1.0])
    f(x)
    view = w.numpy()
    exported = np.from_dlpack(w)
    for value in (0.5, 0.25):
        view[0] = value
        held[1] = value
        np.testing.assert_allclose(f(x).numpy(), np.exp(exported) + np.exp(held), rtol=1e-6)


class Scaled(mica.nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by
        self.weight = mica.nn.Parameter(mica.ones(3))

    @mica.compile
    def forward(self, x):
        return x * self.weight * self.by


def test_methods_are_compiled_for_each_object(device):
    x = mica.ones(3, device=device)
    double, triple = Scaled(2).to(device), Scaled(3).to(device)
    for _ in range(2):
        assert double(x).tolist() == [2] * 3 and triple.forward(x).tolist() == [3] * 3
    assert double.forward.captures == 1
    assert double.forward is double.forward is not triple.forward
    assert Scaled.forward.__name__ == "forward"
    double.by = 4
    assert double(x).tolist() == [4] * 3

    for other in (copy.copy(double), copy.deepcopy(double), pickle.loads(pickle.dumps(double))):
        other.by = 5
        assert other(x).tolist() == [5] * 3 and double(x).tolist() == [4] * 3

    gone = weakref.ref(triple)
    del triple
    gc.collect()
    assert gone() is None


def test_compile_makes_decorators_too():
    @mica.compile(max_plans=1)
    def twice(x):
        return x * 2

    assert twice(mica.ones(2)).tolist() == [2, 2]
    twice(mica.ones(3))
    twice(mica.ones(2))
    assert twice.captures == 3

    class Slotted:
        __slots__ = ()

        @mica.compile()
        def step(self, x):
            return x

    with pytest.raises(TypeError, match=r"Slotted.step is a method, .* have no __dict__"):
        Slotted().step(mica.ones(1))
