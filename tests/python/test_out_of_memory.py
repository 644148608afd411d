"""Memory that runs out at any moment leaves a process that works, and as much memory as before."""

import gc

import mica
import numpy as np
import pytest
from mica import _mica, nn


def lenet(device):
    mica.manual_seed(1)
    return nn.Sequential(
        *(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10)),
    ).to(device)


def make_step(device, compiled):
    net = lenet(device)
    opt = mica.optim.Adam(net.parameters(), lr=1e-3)

    def step(x, y):
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    return net, mica.compile(step) if compiled else step


@pytest.fixture
def batch(device):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4, 1, 28, 28), dtype=np.float32)
    return mica.tensor(x, device=device), mica.tensor(rng.integers(0, 10, 4), device=device)


@pytest.mark.parametrize("compiled", [False, True])
def test_every_allocation_of_a_step_fails(compiled, batch, device):
    mica.set_deterministic(True)
    net, step = make_step(device, compiled)
    _mica._fail_allocation(2**62)
    wanted = [step(*batch).item() for _ in range(2)]  # the first captures, prepares and times
    count = _mica._fail_allocation(0)
    assert count >= (2 if compiled else 50)  # a plan has one block for all
    del net, step
    gc.collect()
    failed = 0
    # On CUDA all of them; on the CPU, where a step takes long, some.
    stride = 1 if device != "cpu" else max(1, count // 12)
    for n in range(1, count + 1, stride):
        net, step = make_step(device, compiled)
        before = [p.clone() for p in net.parameters()]
        _mica._fail_allocation(n)
        try:
            step(*batch).item()
        except mica.OutOfMemory as error:
            failed += 1
            assert str(n) in str(error)
        finally:
            _mica._fail_allocation(0)
        # What a step that failed left is thrown away; then everything is as if it had not been.
        with mica.no_grad():
            for p, value in zip(net.parameters(), before, strict=True):
                p.copy_(value)
                p.grad = None
        fresh_net, fresh = make_step(device, compiled)
        assert [fresh(*batch).item() for _ in range(2)] == wanted, n
        assert np.isfinite(step(*batch).item())
        del net, step, before, fresh_net, fresh
    assert failed >= count // stride // 2
    gc.collect()
    held = mica.memory_stats(device)["allocated"]
    assert held < 64 << 20
