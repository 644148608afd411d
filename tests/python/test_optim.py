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
    "adadelta": lambda p: optim.Adadelta(p),
    "adamax": lambda p: optim.Adamax(p, lr=0.1),
    "nadam": lambda p: optim.NAdam(p, lr=0.1),
    "radam": lambda p: optim.RAdam(p, lr=0.1),
    "adafactor": lambda p: optim.Adafactor(p, lr=0.1, weight_decay=0.1),
    "asgd": lambda p: optim.ASGD(p, lr=0.1, t0=3),
    "rprop": lambda p: optim.Rprop(p, lr=0.1),
    "lion": lambda p: optim.Lion(p, lr=0.1),
    "in python": lambda p: Momentum(p, lr=0.1),
}


class Momentum(optim.Optimizer):
    """SGD with momentum, written over tensors."""

    def __init__(self, params, lr=0.1, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum}, state=["buffer"])

    def update(self, param, grad, state, group):
        state["buffer"].mul_(group["momentum"]).add_(grad)
        param.sub_(group["lr"] * state["buffer"])


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
    with pytest.raises(TypeError, match="'params' cannot be set"):
        first["params"] = []
    with pytest.raises(mica.Error, match="decides which states there are"):
        first["momentum"] = 0.0
    with pytest.raises(mica.Error, match="lr must be finite"):
        first["lr"] = float("nan")

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
    assert second["lr"] == 0.0625 and optimizer.current_lr(1) == 0.0625
    second["lr"] = 0.0
    before = [p.detach().cpu().tolist() for p in net.parameters()]
    step(mica.ones(1, 2, device=device))
    after = [p.detach().cpu().tolist() for p in net.parameters()]
    assert step.captures == 1 and after[2:] == before[2:] and after[0] != before[0]

    path = str(tmp_path / "state.safetensors")
    mica.io.save_safetensors(path, optimizer.state_dict())
    other = optim.SGD(groups, lr=0.5, momentum=0.9)
    other.load_state_dict(mica.io.load_safetensors(path).tensors)
    assert [other.lr, other.current_lr(1)] == [0.25, 0.0]


def test_free_keys_and_added_groups(device):
    a, b, c = (nn.Parameter(mica.ones(2, device=device)) for _ in range(3))
    optimizer = optim.SGD([{"params": a, "name": "first"}], lr=0.5)
    group = optimizer.param_groups[0]
    assert group["name"] == "first" and group.get("nothing", 3) == 3
    group["note"] = [1, 2]
    assert optimizer.param_groups[0]["note"] == [1, 2]

    @mica.compile
    def step(x):
        optimizer.zero_grad()
        ((a + b + c) * x).sum().backward()
        optimizer.step()

    one = mica.ones(2, device=device)
    step(one)
    optimizer.add_param_group({"params": [b], "lr": 0.25, "name": "second"})
    assert [g["name"] for g in optimizer.param_groups] == ["first", "second"]
    step(one)
    optimizer.param_groups[1]["weight_decay"] = 1.0
    step(one)
    assert step.captures == 3
    assert (a.tolist()[0], b.tolist()[0], c.tolist()[0]) == (-0.5, 0.75 - 0.25 * 1.75, 1.0)


def test_an_optimizer_in_python_is_the_one_in_cpp(device):
    start = [[0.5, -1.0], [2.0, 0.25]]

    def train(make, compiled, dtype=mica.float32):
        p = nn.Parameter(mica.tensor(start, device=device, dtype=dtype))
        optimizer = make(p)

        def step():
            optimizer.zero_grad()
            ((p - 1) ** 2).sum().backward()
            optimizer.step()

        run = mica.compile(step) if compiled else step
        for _ in range(5):
            run()
        assert optimizer.steps == 5
        if compiled:
            assert run.captures == 1
        return p.detach().float().cpu().numpy()

    def sgd(p):
        return optim.SGD(p, lr=0.1, momentum=0.9)

    for dtype in (mica.float32, mica.bfloat16):
        want = train(sgd, False, dtype)
        for compiled in (False, True):
            got = train(Momentum, compiled, dtype)
            np.testing.assert_allclose(got, want, rtol=1e-5 if dtype == mica.float32 else 1e-2)


def test_options_of_an_optimizer_in_python(device):
    p = nn.Parameter(mica.zeros(1, device=device))
    optimizer = Momentum([{"params": p, "name": "only"}], lr=0.5)
    assert optimizer.param_groups[0]["momentum"] == 0.9
    optimizer.param_groups[0]["momentum"] = 0.0
    p.grad = mica.ones(1, device=device)
    optimizer.step()
    optimizer.step()
    assert p.item() == -1
    q = nn.Parameter(mica.zeros(1, device=device))
    q.grad = mica.ones(1, device=device)
    optimizer.add_param_group({"params": q, "lr": 0.25})
    optimizer.step()
    assert q.item() == -0.25 and len(optimizer.state_dict()) == 5
    with pytest.raises(TypeError, match="needs 'params' and 'lr'"):
        optim.Optimizer(p, {})
    with pytest.raises(AttributeError, match="update"):
        unwritten = optim.Optimizer(p, {"lr": 1.0})
        unwritten.step()


def test_a_step_where_a_flag_allows(device):
    for make in (lambda p: optim.Adam(p, lr=0.1), Momentum):
        p = nn.Parameter(mica.zeros(3, device=device))
        optimizer = make(p)

        @mica.compile
        def step(flag, p=p, optimizer=optimizer):
            optimizer.zero_grad()
            ((p - 1) ** 2).sum().backward()
            optimizer.step(where=flag)

        step(mica.tensor(True, device=device))
        after = p.tolist()
        step(mica.tensor(False, device=device))
        assert p.tolist() == after and optimizer.steps == 1 and after[0] > 0
        step(mica.tensor(True, device=device))
        assert p.tolist() != after and optimizer.steps == 2 and step.captures == 1


def test_accumulation(device):
    x = mica.randn(8, 3, dtype=mica.float64, device=device)
    y = mica.randn(8, 2, dtype=mica.float64, device=device)
    weights = []
    for parts in (1, 4):
        mica.manual_seed(3)
        net = nn.Linear(3, 2).to(device).double()
        optimizer = optim.SGD(net.parameters(), lr=0.1)

        @mica.compile
        def step(x, y, net=net, optimizer=optimizer, parts=parts):
            optimizer.zero_grad()
            loss = optim.accumulate_backward(lambda a, b: ((net(a) - b) ** 2).mean(), (x, y), parts)
            optimizer.step()
            return loss

        losses = [step(x, y).item() for _ in range(3)]
        weights.append((losses, net.weight.detach().cpu().numpy()))
    np.testing.assert_allclose(weights[0][0], weights[1][0], atol=1e-12)
    np.testing.assert_allclose(weights[0][1], weights[1][1], atol=1e-12)


def test_muon_lbfgs_and_ema(device):
    p = nn.Parameter(mica.eye(3, device=device))
    optimizer = optim.Muon(p, lr=0.1, adjust_lr_fn="match_rms_adamw")
    ema = optim.EMA([p], decay=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        ((p - 1) ** 2).sum().backward()
        optimizer.step()
        ema.update()
    inside = p.tolist()
    with ema:
        assert p.tolist() == ema.averages[0].tolist() != inside
    assert p.tolist() == inside
    q = nn.Parameter(mica.zeros(2, device=device))
    lbfgs = optim.LBFGS([q], line_search_fn="strong_wolfe")
    goal = mica.tensor([1.0, 2.0], device=device)
    value = mica.compile(lambda: ((q - goal) ** 2).sum())

    def closure():
        lbfgs.zero_grad()
        loss = value()
        loss.backward()
        return loss

    assert lbfgs.step(closure).item() == 5
    np.testing.assert_allclose(q.tolist(), [1, 2], atol=1e-5)


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
