"""Writes optim.h: what PyTorch's optimizers, schedules and clipping compute. Run it with a Python
that has PyTorch; the numbers that are committed are of 2.15: python3 optim.py > optim.h"""

import math
import warnings

import torch
from torch.optim import (
    ASGD,
    LBFGS,
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Muon,
    NAdam,
    RAdam,
    RMSprop,
    Rprop,
)
from torch.optim import lr_scheduler as schedulers

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)

STEPS = 10


def parameters():
    """Numbers without pattern that a C++ test makes the same way."""

    def values(n, seed):
        return torch.tensor([math.sin(1.7 * (i + seed)) for i in range(n)])

    return [
        values(6, 1).reshape(2, 3).requires_grad_(),
        values(4, 20).requires_grad_(),
    ]


def loss(params):
    """Stretched parabolas whose minimum is not at zero."""
    total = 0
    for p in params:
        stretch = (torch.arange(p.numel()) + 1.0).reshape(p.shape)
        total = total + (stretch * (p - 0.3) ** 2).sum()
    return total


def train(make, clip=None):
    params = parameters()
    optimizer = make(params)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(params).backward()
        if clip:
            clip(params)
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in params]).tolist()


def train_matrices(make):
    params = parameters()
    params[1] = torch.tensor([math.sin(1.7 * (i + 20)) for i in range(8)]).reshape(4, 2)
    params[1].requires_grad_()
    optimizer = make(params)
    half = torch.bfloat16
    torch.bfloat16 = torch.float64
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(params).backward()
        optimizer.step()
    torch.bfloat16 = half
    return torch.cat([p.detach().flatten() for p in params]).tolist()


def bumpy(params):
    """Far enough from a parabola for a line search to have work."""
    return loss(params) + sum((p**4).sum() for p in params)


def train_closure(make):
    params = parameters()
    optimizer = make(params)

    def closure():
        optimizer.zero_grad()
        value = bumpy(params)
        value.backward()
        return value

    for _ in range(3):
        optimizer.step(closure)
    return torch.cat([p.detach().flatten() for p in params]).tolist()


def groups(params):
    return [{"params": params[:1]}, {"params": params[1:], "lr": 0.005, "momentum": 0.5}]


OPTIMIZERS = {
    "SgdPlain": lambda p: SGD(p, lr=0.03),
    "SgdMomentum": lambda p: SGD(p, lr=0.03, momentum=0.9),
    "SgdDampening": lambda p: SGD(p, lr=0.03, momentum=0.9, dampening=0.4, weight_decay=0.1),
    "SgdNesterov": lambda p: SGD(p, lr=0.03, momentum=0.8, weight_decay=0.05, nesterov=True),
    "SgdGroups": lambda p: SGD(groups(p), lr=0.03, momentum=0.9),
    "AdamDefaults": lambda p: Adam(p),
    "AdamEverything": lambda p: Adam(
        p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, amsgrad=True
    ),
    "AdamWDefaults": lambda p: AdamW(p, lr=0.05),
    "AdamWEverything": lambda p: AdamW(
        p, lr=0.2, betas=(0.7, 0.9), eps=1e-4, weight_decay=0.3, amsgrad=True
    ),
    "RmspropDefaults": lambda p: RMSprop(p),
    "RmspropMomentum": lambda p: RMSprop(p, lr=0.02, alpha=0.9, momentum=0.7, weight_decay=0.1),
    "RmspropCentered": lambda p: RMSprop(p, lr=0.02, alpha=0.8, eps=1e-2, centered=True),
    "RmspropEverything": lambda p: RMSprop(
        p, lr=0.01, alpha=0.8, eps=1e-2, centered=True, momentum=0.5
    ),
    "AdagradDefaults": lambda p: Adagrad(p),
    "AdagradEverything": lambda p: Adagrad(
        p, lr=0.3, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3
    ),
}


class Lion(torch.optim.Optimizer):
    """PyTorch has none; this is the paper's algorithm 2."""

    def __init__(self, params, **options):
        super().__init__(params, options)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                change = (beta1 * m + (1 - beta1) * p.grad).sign()
                p.copy_(p - lr * (change + decay * p))
                m.copy_(beta2 * m + (1 - beta2) * p.grad)


OPTIMIZERS |= {
    "AdadeltaDefaults": lambda p: Adadelta(p),
    "AdadeltaEverything": lambda p: Adadelta(p, lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1),
    "AdamaxDefaults": lambda p: Adamax(p),
    "AdamaxEverything": lambda p: Adamax(p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
    "NadamDefaults": lambda p: NAdam(p),
    "NadamEverything": lambda p: NAdam(
        p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, momentum_decay=0.1
    ),
    "NadamDecoupled": lambda p: NAdam(p, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
    "RadamDefaults": lambda p: RAdam(p),
    "RadamEverything": lambda p: RAdam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
    "RadamDecoupled": lambda p: RAdam(p, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
    "AdafactorDefaults": lambda p: Adafactor(p, lr=0.1),
    "AdafactorEverything": lambda p: Adafactor(
        p, lr=0.05, beta2_decay=-0.5, eps=(1e-4, 1e-2), d=2.0, weight_decay=0.1
    ),
    "AsgdDefaults": lambda p: ASGD(p, lr=0.03),
    "AsgdEverything": lambda p: ASGD(p, lr=0.03, lambd=0.01, alpha=0.5, t0=3, weight_decay=0.1),
    "RpropDefaults": lambda p: Rprop(p, lr=0.03),
    "RpropEverything": lambda p: Rprop(p, lr=0.1, etas=(0.3, 1.5), step_sizes=(1e-3, 0.2)),
    "Lion": lambda p: Lion(p, lr=0.05, betas=(0.9, 0.99), weight_decay=0.1),
}

# Of the matrices alone. PyTorch's Muon computes in bf16; with another type in its place the
# formulas are the same.
MATRICES = {
    "MuonDefaults": lambda p: Muon(p, lr=0.05),
    "MuonEverything": lambda p: Muon(
        p,
        lr=0.05,
        weight_decay=0.2,
        momentum=0.8,
        nesterov=False,
        ns_steps=3,
        adjust_lr_fn="match_rms_adamw",
    ),
}

# In steps of a closure.
CLOSURES = {
    "LbfgsPlain": lambda p: LBFGS(p, lr=0.1, max_iter=4),
    "LbfgsWolfe": lambda p: LBFGS(p, max_iter=4, history_size=3, line_search_fn="strong_wolfe"),
}

CLIPPED = {
    "ClipNorm": lambda p: torch.nn.utils.clip_grad_norm_(p, 1.5),
    "ClipValue": lambda p: torch.nn.utils.clip_grad_value_(p, 0.7),
}


def sequential(o):
    first = schedulers.LinearLR(o, start_factor=0.1, total_iters=5)
    then = schedulers.CosineAnnealingLR(o, T_max=20)
    return schedulers.SequentialLR(o, [first, then], milestones=[5])


SCHEDULES = {
    "Step": lambda o: schedulers.StepLR(o, step_size=4, gamma=0.5),
    "MultiStep": lambda o: schedulers.MultiStepLR(o, milestones=[2, 9, 9, 17], gamma=0.3),
    "Exponential": lambda o: schedulers.ExponentialLR(o, gamma=0.93),
    "Cosine": lambda o: schedulers.CosineAnnealingLR(o, T_max=24, eta_min=0.02),
    "Linear": lambda o: schedulers.LambdaLR(o, lambda t: max(0, 20 - t) / 20),
    "Warmup": lambda o: schedulers.LinearLR(o, total_iters=8),
    "WarmupCosine": sequential,
    "OneCycle": lambda o: schedulers.OneCycleLR(o, max_lr=0.4, total_steps=25),
    "OneCycleOptions": lambda o: schedulers.OneCycleLR(
        o, max_lr=0.4, total_steps=25, pct_start=0.5, div_factor=10, final_div_factor=100
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
    "CosineRestartsEven": lambda o: schedulers.CosineAnnealingWarmRestarts(o, T_0=6),
    "CyclicTriangular": lambda o: schedulers.CyclicLR(
        o, 0.1, 0.4, step_size_up=3, step_size_down=5, cycle_momentum=False
    ),
    "CyclicTriangular2": lambda o: schedulers.CyclicLR(
        o, 0.1, 0.4, step_size_up=4, mode="triangular2", cycle_momentum=False
    ),
    "CyclicExpRange": lambda o: schedulers.CyclicLR(
        o, 0.1, 0.4, step_size_up=4, mode="exp_range", gamma=0.9, cycle_momentum=False
    ),
    "OneCycleThreePhase": lambda o: schedulers.OneCycleLR(
        o, max_lr=0.4, total_steps=25, three_phase=True, anneal_strategy="linear"
    ),
    "Chained": lambda o: schedulers.ChainedScheduler(
        [
            schedulers.ConstantLR(o, factor=0.2, total_iters=4),
            schedulers.ExponentialLR(o, gamma=0.9),
            schedulers.MultiStepLR(o, milestones=[6, 11], gamma=0.5),
        ]
    ),
    "SequentialThree": lambda o: schedulers.SequentialLR(
        o,
        [
            schedulers.ConstantLR(o, factor=0.2, total_iters=40),
            schedulers.MultiStepLR(o, milestones=[2, 4], gamma=0.5),
            schedulers.ExponentialLR(o, gamma=0.9),
        ],
        milestones=[5, 13],
    ),
    "TimeDecay": lambda o: schedulers.LambdaLR(o, lambda t: 1 / (1 + 0.2 * t)),
}


def rates(make, steps=25):
    optimizer = SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    scheduler = make(optimizer)
    values = []
    for i in range(steps):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if i + 1 < steps:
            scheduler.step()
    return values


# The metrics of some epochs, for ReduceLROnPlateau.
METRICS = [5, 4, 4.1, 4, 3.999, 4.2, 4.3, 4.1, 3, 3.1, 3.2, 3.3, 3.4, 3.5, 3.6, 3.7, 3.8, 1, 2, 3]

PLATEAUS = {
    "PlateauDefaults": lambda o: schedulers.ReduceLROnPlateau(o, patience=2),
    "PlateauEverything": lambda o: schedulers.ReduceLROnPlateau(
        o,
        mode="max",
        factor=0.5,
        patience=1,
        threshold=0.05,
        threshold_mode="abs",
        cooldown=2,
        min_lr=0.03,
    ),
}


def plateau(make):
    optimizer = SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    scheduler = make(optimizer)
    values = []
    for metric in METRICS:
        scheduler.step(metric)
        values.append(optimizer.param_groups[0]["lr"])
    return values


def write(name, values):
    print(f"inline const std::vector<double> k{name} = {{")
    for i in range(0, len(values), 4):
        print("    " + " ".join(f"{v!r}," for v in values[i : i + 4]))
    print("};")


print("#pragma once\n")
print(f"// Made by optim.py with PyTorch {torch.__version__.split('+')[0]}.\n#include <vector>\n")
print("// clang-format off\nnamespace mica::golden {\n")
for name, make in OPTIMIZERS.items():
    write(name, train(make))
for name, make in MATRICES.items():
    write(name, train_matrices(make))
for name, make in CLOSURES.items():
    write(name, train_closure(make))
for name, clip in CLIPPED.items():
    write(name, train(OPTIMIZERS["SgdMomentum"], clip))
for name, make in SCHEDULES.items():
    write(name, rates(make))
for name, make in PLATEAUS.items():
    write(name, plateau(make))
write("Metrics", METRICS)
print("\n}  // namespace mica::golden\n// clang-format on")
