"""Writes lenet_losses.json: PyTorch's first losses of LeNet on Fashion-MNIST.

    python3 tests/golden/make_lenet_losses.py [--data DIR]

The initial weights come from a formula that the C++ test computes too, to the bit: a hash of the
element's place gives 24 bits, which become a number in ±1/sqrt(fan in).

The learning rate is one at which PyTorch in f32 agrees with itself in f64 to 2e-7, with and without
oneDNN. At 0.02 it is 3e-5 away by the twentieth step: where values of a pooling window are nearly
equal, rounding decides which one has the gradient, and the steps make much of that.
"""

import argparse
import gzip
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

BATCH, STEPS, LR, MOMENTUM = 64, 20, 0.01, 0.9


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(),
        nn.Linear(500, 10),
    )


def weights(nth, shape, fan_in):
    """Of the nth parameter: element i from the number nth * 2^24 + i."""
    x = np.arange(np.prod(shape), dtype=np.uint32) + np.uint32(nth << 24)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        x ^= x >> np.uint32(shift)
        x *= np.uint32(factor)
    unit = ((x >> np.uint32(8)).astype(np.float32) - np.float32(2**23)) / np.float32(2**23)
    return torch.from_numpy((unit * np.float32(1 / np.sqrt(fan_in))).reshape(shape))


def read_idx(path, header, count):
    with gzip.open(path) as file:
        return np.frombuffer(file.read(header + count)[header:], dtype=np.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default="/usr/share/datasets/fashion-mnist")
    data = parser.parse_args().data
    images = BATCH * STEPS
    pixels = read_idx(data / "train-images-idx3-ubyte.gz", 16, images * 28 * 28)
    labels = read_idx(data / "train-labels-idx1-ubyte.gz", 8, images)
    x = torch.from_numpy(pixels.copy()).float().div(255).reshape(STEPS, BATCH, 1, 28, 28)
    y = torch.from_numpy(labels.copy()).long().reshape(STEPS, BATCH)

    model = lenet()
    fan_in = 0
    with torch.no_grad():
        for nth, parameter in enumerate(model.parameters()):
            if parameter.dim() > 1:  # a bias has its weight's
                fan_in = parameter[0].numel()
            parameter.copy_(weights(nth, tuple(parameter.shape), fan_in))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[step]), y[step])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    golden = {
        "what": "losses of lenet on the first images of Fashion-MNIST, in the file's order",
        "torch": torch.__version__,
        "batch": BATCH,
        "lr": LR,
        "momentum": MOMENTUM,
        "losses": losses,
    }
    path = Path(__file__).with_name("lenet_losses.json")
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
