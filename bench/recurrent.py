"""LSTM and GRU in f32 on the CPU, mica beside PyTorch: forward, and forward and backward.

    PYTHONPATH=build/release/python python bench/recurrent.py [--torch PYTHON] [--cpu-time]

mica's calls are compiled, PyTorch's eager, as its users run them. The gradients are those of the
input and of all weights. The two take turns, each in a process of its own; the median of the
rounds counts.
"""

import functools

import turns

# Steps, sequences, units (and inputs), layers
SHAPES = (
    (64, 64, 256, 1),
    (128, 32, 512, 2),
    (32, 256, 128, 1),
    (100, 1, 256, 2),
    (100, 1, 32, 1),
    (50, 8, 64, 2),
    (28, 128, 64, 1),
    (20, 16, 16, 1),
)


def names(_device):
    return [
        f"{kind} {part}, {'x'.join(map(str, shape))}"
        for kind in ("LSTM", "GRU")
        for shape in SHAPES
        for part in ("forward", "training")
    ]


def in_torch(kind, part, shape):
    import torch

    steps, batch, units, layers = shape
    layer = getattr(torch.nn, kind)(units, units, layers)
    x = torch.rand(steps, batch, units) * 2 - 1
    dy = torch.rand(steps, batch, units) * 2 - 1

    def forward():
        with torch.no_grad():
            layer(x)

    grown = x.clone().requires_grad_()
    leaves = [grown, *layer.parameters()]
    training = lambda: torch.autograd.grad(layer(grown)[0], leaves, dy)  # noqa: E731
    return forward if part == "forward" else training


def in_mica(kind, part, shape):
    import mica

    steps, batch, units, layers = shape
    layer = getattr(mica.nn, kind)(units, units, layers)
    x = mica.rand(steps, batch, units) * 2 - 1
    dy = mica.rand(steps, batch, units) * 2 - 1

    @mica.compile
    def forward(x):
        with mica.no_grad():
            return layer(x)[0]

    @mica.compile
    def training(x, dy):  # of a tensor outside, the forward pass could be computed once for all
        x = x.detach()
        x.requires_grad = True
        return mica.autograd.grad([layer(x)[0]], [x, *layer.parameters()], [dy])

    return functools.partial(forward, x) if part == "forward" else lambda: training(x, dy)


def calls(library, device):
    make = {"torch": in_torch, "mica": in_mica}[library.__name__]
    split = {name: name.replace(",", "").split() for name in names(device)}
    return {
        name: make(kind, part, tuple(int(n) for n in shape.split("x")))
        for name, (kind, part, shape) in split.items()
    }


turns.main(calls, names, __doc__)
