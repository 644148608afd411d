import math

import mica
import numpy as np
import pytest
from mica import nn, optim

OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: optim.Adam(p, lr=0.1, betas=(0.8, 0.9), amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.1),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.1, momentum=0.5, centered=True),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1),
}


def take_steps(p, optimizer, count):
    for _ in range(count):
        optimizer.zero_grad()
        ((p - 1) ** 2).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_resumes_bit_for_bit(name, device):
    p = nn.Parameter(mica.zeros(5, device=device))
    optimizer = OPTIMIZERS[name](p)
    optimizer.schedule = optim.one_cycle(steps=20)
    take_steps(p, optimizer, 4)
    q = nn.Parameter(p.detach().clone())
    other = OPTIMIZERS[name](q)
    other.load_state_dict(optimizer.state_dict())
    assert other.steps == 4 and other.schedule == optimizer.schedule
    take_steps(p, optimizer, 4)
    take_steps(q, other, 4)
    np.testing.assert_array_equal(p.detach().cpu().numpy(), q.detach().cpu().numpy())
    assert p.detach().cpu().numpy()[0] > 0


def test_parameter_groups(device):
    a, b = (nn.Parameter(mica.ones(1, device=device)) for _ in range(2))
    optimizer = optim.SGD([{"params": a}, {"params": [b], "lr": 0.25}], lr=0.5)
    (a + b).sum().backward()
    optimizer.step()
    assert a.item() == 0.5 and b.item() == 0.75
    optimizer.set_lr(0.125, group=1)
    optimizer.step()
    assert a.item() == 0 and b.item() == 0.625
    with pytest.raises(TypeError, match="SGD: a group has no option 'betas'"):
        optim.SGD([{"params": a, "betas": 1}])
    with pytest.raises(TypeError, match="SGD: expected a dict for each group, got Parameter"):
        optim.SGD([{"params": a}, b])


def test_param_groups(device, tmp_path):
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)).to(device)
    groups = [{"params": net[0].parameters()}, {"params": net[1].parameters(), "lr": 0.25}]
    optimizer = optim.SGD(groups, lr=0.5, momentum=0.9)
    first, second = optimizer.param_groups
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.25]
    assert [len(g["params"]) for g in optimizer.param_groups] == [2, 2]
    assert first["momentum"] == 0.9 and "nesterov" in first and "betas" not in first
    assert sorted(first) == sorted(dict(first)) == sorted(first.keys()) and len(first) == 6
    assert dict(second.items())["lr"] == 0.25 and "'lr': 0.25" in repr(second)
    assert optim.Adam(net.parameters(), betas=(0.5, 0.6)).param_groups[0]["betas"] == (0.5, 0.6)
    with pytest.raises(KeyError):
        first["betas"]
    with pytest.raises(TypeError, match="'momentum' cannot be set"):
        first["momentum"] = 0.5
    with pytest.raises(mica.Error, match="lr must not be negative"):
        first["lr"] = -1

    # As PyTorch's users do; a step that was compiled before sees it, and so does the schedule.
    @mica.compile
    def step(x):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    optimizer.schedule = optim.exponential(0.5)
    step(mica.ones(1, 2, device=device))
    for group in optimizer.param_groups:
        group["lr"] *= 0.5
    assert second["lr"] == 0.125 and optimizer.current_lr(1) == 0.0625
    second["lr"] = 0.0
    before = [p.detach().cpu().tolist() for p in net.parameters()]
    step(mica.ones(1, 2, device=device))
    after = [p.detach().cpu().tolist() for p in net.parameters()]
    assert step.captures == 1 and after[2:] == before[2:] and after[0] != before[0]

    path = str(tmp_path / "state.safetensors")
    mica.io.save_safetensors(path, optimizer.state_dict())
    other = optim.SGD(groups, lr=0.5, momentum=0.9)
    other.load_state_dict(mica.io.load_safetensors(path).tensors)
    assert [g["lr"] for g in other.param_groups] == [0.25, 0.0]


def test_schedules():
    schedule = optim.cosine(steps=10, min_lr=0.1).warmup(5, start=0)
    assert schedule.at(0) == 0
    assert schedule.lr_at(2, 5) == 2
    assert math.isclose(schedule.at(10), 0.55)
    assert optim.multi_step([2, 4], gamma=0.5).at(4) == 0.25
    p = nn.Parameter(mica.zeros(1))
    optimizer = optim.SGD(p, lr=1)
    optimizer.schedule = optim.time_decay(1)
    take_steps(p, optimizer, 1)
    assert optimizer.current_lr() == 0.5 and optimizer.lr == 1


def test_clipping(device):
    p = nn.Parameter(mica.zeros(2, device=device))
    (p * mica.tensor([3.0, 4.0], device=device)).sum().backward()
    assert optim.clip_grad_norm_([p], 2.5).item() == 5
    np.testing.assert_allclose(p.grad.cpu().numpy(), [1.5, 2], rtol=1e-6)
    optim.clip_grad_value_(p, 1.75)
    np.testing.assert_allclose(p.grad.cpu().numpy(), [1.5, 1.75], rtol=1e-6)
