"""One network trained in three ways: python three_ways.py [--images 2000].

By functions, where each layer's backward is called by hand; by modules and an optimizer; by `fit`.
All start from the same weights, see the same batches and end with the same weights.
"""

import argparse

import mica
import mica.nn.functional as F
from mica import nn

LR = 0.1
NAMES = ("0.weight", "0.bias", "2.weight", "2.bias")
State = dict[str, mica.Tensor]


def network() -> nn.Sequential:
    mica.manual_seed(0)
    return nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))


def leaf(t: mica.Tensor) -> mica.Tensor:
    """The same values without history: where one layer ends and the next begins."""
    t = t.detach()
    t.requires_grad = True
    return t


def by_functions(loader: mica.data.DataLoader) -> State:
    start = network().state_dict()
    w1, b1, w2, b2 = parameters = [leaf(start[name].clone()) for name in NAMES]
    for x, y in loader:
        # Forward. Each function gets the values of the one before it, and its own history.
        hidden = F.linear(x, w1, b1)
        hidden_in = leaf(hidden)
        active = F.relu(hidden_in)
        active_in = leaf(active)
        logits = F.linear(active_in, w2, b2)
        logits_in = leaf(logits)
        loss = F.cross_entropy(logits_in, y)
        # Backward, from the last to the first. Each call takes the gradient of what a layer
        # returned, and gives those of what it was given.
        (d_logits,) = mica.grad(loss, [logits_in])
        d_active, d_w2, d_b2 = mica.grad(logits, [active_in, w2, b2], [d_logits])
        (d_hidden,) = mica.grad(active, [hidden_in], [d_active])
        d_w1, d_b1 = mica.grad(hidden, [w1, b1], [d_hidden])
        # Update.
        with mica.no_grad():
            for p, d in zip(parameters, (d_w1, d_b1, d_w2, d_b2), strict=True):
                p.add_(-LR * d)
    return dict(zip(NAMES, parameters, strict=True))


def by_modules(loader: mica.data.DataLoader) -> State:
    net = network()
    optimizer = mica.optim.SGD(net.parameters(), lr=LR)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net.state_dict()


def by_fit(loader: mica.data.DataLoader) -> State:
    net = network()
    optimizer = mica.optim.SGD(net.parameters(), lr=LR)
    mica.train.Trainer(net, optimizer, epochs=1).fit(loader, loader)
    return net.state_dict()


parser = argparse.ArgumentParser()
parser.add_argument("--images", type=int, default=60_000, help="train on the first of them only")
args = parser.parse_args()
images, labels = (t[: args.images] for t in mica.data.fashion_mnist(train=True))
loader = mica.data.DataLoader((images.flatten(1), labels), batch_size=64)

states = {way.__name__: way(loader) for way in (by_functions, by_modules, by_fit)}
for name, state in states.items():
    farthest = max((state[n] - states["by_modules"][n]).abs().max().item() for n in NAMES)
    net = network()
    net.load_state_dict(state)
    accuracy = mica.train.accuracy(net, images.flatten(1), labels)
    print(f"{name:<12} accuracy {accuracy:.1%}, weights within {farthest:.1e} of by_modules")
    assert farthest < 1e-4
