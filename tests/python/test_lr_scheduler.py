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
    "OneCycle": lambda o: schedulers.OneCycleLR(o, max_lr=0.4, total_steps=25),
    "OneCycleOptions": lambda o: schedulers.OneCycleLR(
        o,
        max_lr=[0.4],
        epochs=5,
        steps_per_epoch=5,
        pct_start=0.5,
        div_factor=10,
        final_div_factor=100,
    ),
    "OneCycleThreePhase": lambda o: schedulers.OneCycleLR(
        o, max_lr=0.4, total_steps=25, three_phase=True, anneal_strategy="linear"
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
        o, 0.1, 0.4, step_size_up=3, step_size_down=5
    ),
    "CyclicTriangular2": lambda o: schedulers.CyclicLR(
        o, 0.1, 0.4, step_size_up=4, mode="triangular2"
    ),
    "CyclicExpRange": lambda o: schedulers.CyclicLR(
        o, [0.1], [0.4], step_size_up=4, mode="exp_range", gamma=0.9
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
    with pytest.raises(mica.Unsupported, match="cycle_momentum"):
        schedulers.OneCycleLR(optimizer, 0.1, 10, cycle_momentum=True)
    with pytest.raises(ValueError, match="expected 1 rates, got 2"):
        schedulers.OneCycleLR(optimizer, [0.1, 0.2], 10)
    first = schedulers.StepLR(optimizer, 2)
    schedulers.LambdaLR(optimizer, lambda epoch: 1.0)
    with pytest.raises(mica.Error, match="another scheduler"):
        first.step()
