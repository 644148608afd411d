"""Writes optim.h: what PyTorch's optimizers, schedules and clipping compute. Run it with a Python
that has PyTorch; the numbers that are committed are of 1.13: python3 optim.py > optim.h"""

import math
import warnings

import torch
from torch.optim import SGD, Adagrad, Adam, AdamW, RMSprop
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


def write(name, values):
    print(f"inline const std::vector<double> k{name} = {{")
    for i in range(0, len(values), 4):
        print("    " + " ".join(f"{v!r}," for v in values[i : i + 4]))
    print("};")


print("#pragma once\n")
print(f"// Made by optim.py with PyTorch {torch.__version__[:4]}.\n#include <vector>\n")
print("// clang-format off\nnamespace mica::golden {\n")
for name, make in OPTIMIZERS.items():
    write(name, train(make))
for name, clip in CLIPPED.items():
    write(name, train(OPTIMIZERS["SgdMomentum"], clip))
for name, make in SCHEDULES.items():
    write(name, rates(make))
print("\n}  // namespace mica::golden\n// clang-format on")
