"""PyTorch's schedulers, against the rates that PyTorch gives (tests/unit/golden/optim.py)."""

import math
import re
from pathlib import Path

import mica
import pytest
from mica import nn, optim
from mica.optim import lr_scheduler as schedulers

TEXT = (Path(__file__).resolve().parents[1] / "unit" / "golden" / "optim.h").read_text()
GOLDEN = {
    name: [float(v) for v in values.replace("\n", " ").split(",") if v.strip()]
    for name, values in re.findall(r"k(\w+) = \{(.*?)\};", TEXT, re.DOTALL)
}

MAKERS = {
    "Step": lambda o: schedulers.StepLR(o, step_size=4, gamma=0.5),
    "MultiStep": lambda o: schedulers.MultiStepLR(o, milestones=[2, 9, 9, 17], gamma=0.3),
    "Exponential": lambda o: schedulers.ExponentialLR(o, gamma=0.93),
    "Cosine": lambda o: schedulers.CosineAnnealingLR(o, T_max=24, eta_min=0.02),
    "Linear": lambda o: schedulers.LambdaLR(o, lambda t: max(0, 20 - t) / 20),
    "Warmup": lambda o: schedulers.LinearLR(o, total_iters=8),
    "WarmupCosine": lambda o: schedulers.SequentialLR(
        o,
        [
            schedulers.LinearLR(o, start_factor=0.1, total_iters=5),
            schedulers.CosineAnnealingLR(o, T_max=20),
        ],
        milestones=[5],
    ),
    "OneCycle": lambda o: schedulers.OneCycleLR(
        o, max_lr=0.4, total_steps=25, cycle_momentum=False
    ),
    "OneCycleOptions": lambda o: schedulers.OneCycleLR(
        o,
        max_lr=[0.4],
        epochs=5,
        steps_per_epoch=5,
        pct_start=0.5,
        div_factor=10,
        final_div_factor=100,
        cycle_momentum=False,
    ),
    "OneCycleThreePhase": lambda o: schedulers.OneCycleLR(
        o,
        max_lr=0.4,
        total_steps=25,
        three_phase=True,
        anneal_strategy="linear",
        cycle_momentum=False,
    ),
    "ConstantFactor": lambda o: schedulers.ConstantLR(o, factor=0.2, total_iters=7),
    "LinearFactors": lambda o: schedulers.LinearLR(
        o, start_factor=0.2, end_factor=0.7, total_iters=9
    ),
    "Polynomial": lambda o: schedulers.PolynomialLR(o, total_iters=11, power=1.7),
    "CosinePeriodic": lambda o: schedulers.CosineAnnealingLR(o, T_max=7, eta_min=0.02),
    "CosineRestarts": lambda o: schedulers.CosineAnnealingWarmRestarts(
        o, T_0=3, T_mult=2, eta_min=0.02
    ),
    "CyclicTriangular": lambda o: schedulers.CyclicLR(
        o, 0.1, 0.4, step_size_up=3, step_size_down=5, cycle_momentum=False
    ),
    "CyclicTriangular2": lambda o: schedulers.CyclicLR(
        o, 0.1, 0.4, step_size_up=4, mode="triangular2", cycle_momentum=False
    ),
    "CyclicExpRange": lambda o: schedulers.CyclicLR(
        o, [0.1], [0.4], step_size_up=4, mode="exp_range", gamma=0.9, cycle_momentum=False
    ),
    "Chained": lambda o: schedulers.ChainedScheduler(
        [
            schedulers.ConstantLR(o, factor=0.2, total_iters=4),
            schedulers.ExponentialLR(o, gamma=0.9),
            schedulers.MultiStepLR(o, milestones=[6, 11], gamma=0.5),
        ],
        o,
    ),
    "TimeDecay": lambda o: schedulers.LambdaLR(o, [lambda t: 1 / (1 + 0.2 * t)]),
}
# Functions that ask `t < 20` and the like cannot be traced.
EAGER_ALONE = {"Linear"}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_rates_are_those_of_pytorch(name, compiled, device):
    w = nn.Parameter(mica.zeros(1, dtype=mica.float64, device=device))
    optimizer = optim.SGD([w], lr=0.4)
    scheduler = MAKERS[name](optimizer)

    def step():
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()
        scheduler.step()

    if compiled and name in EAGER_ALONE:
        with pytest.raises(mica.Error):
            mica.compile(step)()
        return
    run = mica.compile(step) if compiled else step
    at = 0.0
    for epoch, rate in enumerate(GOLDEN[name]):
        assert math.isclose(optimizer.param_groups[0]["lr"], rate, rel_tol=1e-12, abs_tol=1e-16)
        assert scheduler.get_last_lr() == [optimizer.param_groups[0]["lr"]]
        assert scheduler.last_epoch == epoch
        run()
        at -= rate
        assert math.isclose(w.item(), at, rel_tol=1e-12)
    if compiled:
        assert run.captures == 1


def test_multiplicative(device):
    optimizer = optim.SGD([nn.Parameter(mica.zeros(1, device=device))], lr=0.5)
    scheduler = schedulers.MultiplicativeLR(optimizer, lambda epoch: 0.5 if epoch > 1 else 1.0)
    rates = []
    for _ in range(4):
        rates.append(optimizer.lr)
        scheduler.step()
    assert rates == [0.5, 0.5, 0.25, 0.125]


@pytest.mark.parametrize("name", ["PlateauDefaults", "PlateauEverything"])
def test_plateau(name, device):
    optimizer = optim.SGD([nn.Parameter(mica.zeros(1, device=device))], lr=0.4)
    options = (
        {"patience": 2}
        if name == "PlateauDefaults"
        else {
            "mode": "max",
            "factor": 0.5,
            "patience": 1,
            "threshold": 0.05,
            "threshold_mode": "abs",
            "cooldown": 2,
            "min_lr": 0.03,
        }
    )
    scheduler = schedulers.ReduceLROnPlateau(optimizer, **options)
    for metric, rate in zip(GOLDEN["Metrics"], GOLDEN[name], strict=True):
        scheduler.step(metric)
        assert math.isclose(optimizer.param_groups[0]["lr"], rate, rel_tol=1e-12)


def test_resumes(device):
    def make():
        optimizer = optim.SGD([nn.Parameter(mica.zeros(1, device=device))], lr=0.4)
        return optimizer, schedulers.CosineAnnealingLR(optimizer, T_max=7)

    optimizer, scheduler = make()
    for _ in range(3):
        scheduler.step()
    other, resumed = make()
    resumed.load_state_dict(scheduler.state_dict())
    scheduler.step()
    resumed.step()
    assert other.lr == optimizer.lr and resumed.last_epoch == 4


def test_what_is_refused(device):
    optimizer = optim.SGD([nn.Parameter(mica.zeros(1, device=device))], lr=0.4)
    with pytest.raises(ValueError, match="expected 1 rates, got 2"):
        schedulers.OneCycleLR(optimizer, [0.1, 0.2], 10)
    first = schedulers.StepLR(optimizer, 2)
    schedulers.LambdaLR(optimizer, lambda epoch: 1.0)
    with pytest.raises(mica.Error, match="another scheduler"):
        first.step()


def one_cycle_momenta(n, pct_start, lines, three_phase, least=0.85, most=0.95):
    """PyTorch's phases, by its own words."""
    rise = pct_start * n - 1
    phases = [(rise, most, least), (n - 1, least, most)]
    if three_phase:
        phases = [(rise, most, least), (2 * pct_start * n - 2, least, most), (n - 1, most, most)]
    for step in range(n):
        start = 0.0
        for end, a, b in phases:
            if step <= end or end == n - 1:
                part = (step - start) / (end - start)
                yield (
                    a + (b - a) * part
                    if lines
                    else b + (a - b) / 2 * (math.cos(math.pi * part) + 1)
                )
                break
            start = end


def cyclic_momenta(n, up, down, mode, gamma, least=0.8, most=0.9):
    for step in range(n):
        cycle = math.floor(1 + step / (up + down))
        x = 1 + step / (up + down) - cycle
        ratio = up / (up + down)
        height = x / ratio if x <= ratio else (x - 1) / (ratio - 1)
        scale = {"triangular": 1, "triangular2": 0.5 ** (cycle - 1), "exp_range": gamma**step}
        yield most - (most - least) * height * scale[mode]


CYCLES = {
    "cosine": (
        lambda o: schedulers.OneCycleLR(o, 0.4, 20, pct_start=0.3),
        lambda: one_cycle_momenta(20, 0.3, False, False),
    ),
    "three lines": (
        lambda o: schedulers.OneCycleLR(
            o,
            0.4,
            20,
            anneal_strategy="linear",
            three_phase=True,
            base_momentum=0.6,
            max_momentum=0.9,
        ),
        lambda: one_cycle_momenta(20, 0.3, True, True, 0.6, 0.9),
    ),
    "triangular": (
        lambda o: schedulers.CyclicLR(o, 0.1, 0.4, 3, 5),
        lambda: cyclic_momenta(20, 3, 5, "triangular", 1),
    ),
    "triangular2": (
        lambda o: schedulers.CyclicLR(o, 0.1, 0.4, 4, mode="triangular2", max_momentum=0.99),
        lambda: cyclic_momenta(20, 4, 4, "triangular2", 1, most=0.99),
    ),
    "exp_range": (
        lambda o: schedulers.CyclicLR(o, 0.1, 0.4, 4, mode="exp_range", gamma=0.9),
        lambda: cyclic_momenta(20, 4, 4, "exp_range", 0.9),
    ),
}


class SGDByHand:
    def __init__(self, p, nesterov=False):
        self.p, self.m, self.nesterov, self.decay = p, None, nesterov, 0.1

    def step(self, g, lr, momentum):
        g += self.decay * self.p
        self.m = g if self.m is None else momentum * self.m + g
        self.p -= lr * (g + momentum * self.m if self.nesterov else self.m)


class AdamByHand:
    def __init__(self, p, decoupled=False):
        self.p, self.m, self.v, self.t, self.decoupled = p, 0.0, 0.0, 0, decoupled

    def step(self, g, lr, momentum):
        self.t += 1
        if self.decoupled:
            self.p *= 1 - lr * 0.1
        else:
            g += 0.1 * self.p
        self.m = momentum * self.m + (1 - momentum) * g
        self.v = 0.99 * self.v + 0.01 * g * g
        size = math.sqrt(self.v / (1 - 0.99**self.t)) + 1e-8
        self.p -= lr / (1 - momentum**self.t) * self.m / size


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", ["SGD", "SGD nesterov", "Adam", "AdamW"])
@pytest.mark.parametrize("name", CYCLES)
def test_momentum_cycles(name, kind, compiled, device):
    w = nn.Parameter(mica.full((1,), 0.7, dtype=mica.float64, device=device))
    betas = {"betas": (0.5, 0.99), "weight_decay": 0.1}
    optimizer = {
        "SGD": lambda: optim.SGD([w], lr=0.1, weight_decay=0.1),
        "SGD nesterov": lambda: optim.SGD(
            [w], lr=0.1, momentum=0.5, weight_decay=0.1, nesterov=True
        ),
        "Adam": lambda: optim.Adam([w], lr=0.1, **betas),
        "AdamW": lambda: optim.AdamW([w], lr=0.1, **betas),
    }[kind]()
    make, momenta = CYCLES[name]
    scheduler = make(optimizer)
    by_hand = (
        SGDByHand(0.7, "nesterov" in kind) if "SGD" in kind else AdamByHand(0.7, kind == "AdamW")
    )

    def step():
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
        scheduler.step()

    run = mica.compile(step) if compiled else step
    for momentum in momenta():
        group = optimizer.param_groups[0]
        shown = group["momentum"] if "SGD" in kind else group["betas"][0]
        assert math.isclose(shown, momentum, rel_tol=1e-12)
        by_hand.step(2 * by_hand.p, group["lr"], momentum)
        run()
        assert math.isclose(w.item(), by_hand.p, rel_tol=1e-9)
    if compiled:
        assert run.captures == 1


def test_cycled_momentum_resumes_and_is_refused(device):
    def make():
        w = nn.Parameter(mica.ones(2, device=device))
        optimizer = optim.SGD([w], lr=0.1, momentum=0.9)
        return w, optimizer, schedulers.OneCycleLR(optimizer, 0.4, 20)

    def step(w, optimizer, scheduler):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
        scheduler.step()

    first, second = make(), make()
    for _ in range(5):
        step(*first)
    for own, other in zip(first[1:], second[1:], strict=True):
        other.load_state_dict(own.state_dict())
    with mica.no_grad():
        second[0].copy_(first[0])
    for _ in range(5):
        step(*first)
        step(*second)
    assert first[0].tolist() == second[0].tolist()
    first[1].param_groups[0]["momentum"] = 0.25
    assert first[1].param_groups[0]["momentum"] == 0.25
    lion = optim.Lion([nn.Parameter(mica.ones(1, device=device))], lr=0.1)
    with pytest.raises(mica.Unsupported, match="no momentum that a scheduler could set"):
        schedulers.OneCycleLR(lion, 0.4, 20)
    with pytest.raises(mica.Error, match=r"momenta in \(0, 1\), got 0"):
        schedulers.CyclicLR(optim.SGD([first[0]], lr=0.1), 0.1, 0.4, base_momentum=0.0)
    with pytest.raises(mica.Unsupported, match="scale_fn"):
        schedulers.CyclicLR(optim.SGD([first[0]], lr=0.1), 0.1, 0.4, scale_fn=lambda x: x)


def test_the_optimizer_of_a_chain_is_that_of_its_schedulers(device):
    optimizer = optim.SGD([nn.Parameter(mica.zeros(1, device=device))], lr=0.5)
    part = schedulers.ExponentialLR(optimizer, gamma=0.5)
    assert part.optimizer is optimizer
    chain = schedulers.ChainedScheduler([part])
    chain.step()
    assert optimizer.param_groups[0]["lr"] == 0.25
