"""The network of `mica train charlm` in mica and in PyTorch (cuDNN): seconds of an epoch, bits.

    PYTHONPATH=build/cuda/python python bench/charlm.py --data data/kjv.txt [--epochs 2]

One JSON line for each. Both train on the same streams of characters with the state carried along,
in bf16 by autocast, with dropout, clipping and AdamW; mica's step is compiled, PyTorch's update
fused. Spelling names anew, which is the same work for both, is left out. Where the two want
different versions of cuDNN, --peers mica and --peers torch run them one by one.
"""

import argparse
import importlib.util
import json
import math
import time
from pathlib import Path

import numpy as np


def read(a):
    """The streams, (steps, N), that are learned and that are tested, and how many logits."""
    data = Path(a.data).read_bytes()
    known, tokens = np.unique(np.frombuffer(data, np.uint8), return_inverse=True)
    tokens = tokens.astype(np.int64)

    def streams(part, count):
        steps = len(part) // count
        return np.ascontiguousarray(part[: steps * count].reshape(count, steps).T)

    end = len(tokens) - len(tokens) // 20
    kinds = (len(known) + 63) // 64 * 64  # of a size that products like
    return streams(tokens[:end], a.batch), streams(tokens[end:], 8), kinds


def windows(streams, length):
    for at in range(0, len(streams) - 1 - length, length):
        yield streams[at : at + length], streams[at + 1 : at + length + 1]


def by_torch(a, learned, tested, kinds):
    import torch
    from torch import nn
    from torch.nn import functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(kinds, a.embedding)
            self.lstm = nn.LSTM(a.embedding, a.hidden, a.layers, dropout=a.dropout)
            self.out = nn.Linear(a.hidden, kinds)

        def forward(self, x, state):
            y = functional.dropout(self.embedding(x), a.dropout, self.training)
            y, state = self.lstm(y, state)
            return self.out(functional.dropout(y, a.dropout, self.training)), state

    torch.manual_seed(0)
    net = Net().to(a.device)
    optimizer = torch.optim.AdamW(net.parameters(), a.lr, weight_decay=0, fused=True)
    learned, tested = (torch.tensor(t, device=a.device) for t in (learned, tested))

    def loss_of(x, y, state):
        with torch.autocast(a.device, torch.bfloat16, enabled=a.device == "cuda"):
            logits, state = net(x, state)
            loss = functional.cross_entropy(logits.flatten(0, 1), y.flatten())
        return loss, tuple(s.detach() for s in state)

    def learn():
        state, total, count = None, torch.zeros((), device=a.device), 0
        for x, y in windows(learned, a.sequence):
            loss, state = loss_of(x, y, state)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            total += loss.detach()
            count += 1
        return total.item() / count

    def test():
        net.eval()
        state, total, count = None, 0.0, 0
        with torch.no_grad():
            for x, y in windows(tested, a.sequence):
                loss, state = loss_of(x, y, state)
                total += loss.item()
                count += 1
        net.train()
        return total / count

    return "PyTorch " + torch.__version__, learn, test


def by_mica(a, learned, tested, kinds):
    import mica
    from mica import nn
    from mica.nn import functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(kinds, a.embedding)
            self.lstm = nn.LSTM(a.embedding, a.hidden, a.layers, dropout=a.dropout)
            self.out = nn.Linear(a.hidden, kinds)

        def forward(self, x, state):
            y = functional.dropout(self.embedding(x), a.dropout, self.training)
            y, state = self.lstm(y, state)
            return self.out(functional.dropout(y, a.dropout, self.training)), state

    mica.manual_seed(0)
    net = Net().to(a.device)
    optimizer = mica.optim.AdamW(net.parameters(), a.lr, weight_decay=0)

    def walk(streams, f):
        shape = (a.layers, streams.shape[1], a.hidden)
        state = [mica.zeros(*shape, device=a.device) for _ in range(2)]
        total = mica.zeros(1, device=a.device)
        streams = mica.tensor(streams).to(a.device)

        @mica.compile
        def step(x, y):
            with mica.autocast(a.device, mica.bfloat16, enabled=a.device == "cuda"):
                logits, after = net(x, tuple(state))
                loss = functional.cross_entropy(logits.flatten(0, 1), y.flatten())
            f(loss)
            for s, t in zip(state, after, strict=True):
                s.copy_(t.detach())
            total.add_(loss.detach())

        def run():
            for t in (*state, total):
                t.fill_(0)
            count = 0
            for x, y in windows(streams, a.sequence):
                step(x, y)
                count += 1
            return total.item() / count

        return run

    def update(loss):
        optimizer.zero_grad()
        loss.backward()
        mica.optim.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    learn, walk_test = walk(learned, update), walk(tested, lambda loss: None)

    def test():
        net.eval()
        with mica.no_grad():
            loss = walk_test()
        net.train()
        return loss

    return "mica", learn, test


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=56)
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--embedding", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--dropout", type=float, default=0.25)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--peers", nargs="+", default=["mica", "torch"])
    a = parser.parse_args()
    peers = {"mica": by_mica, "torch": by_torch}
    learned, tested, kinds = read(a)
    for name in a.peers:
        if not importlib.util.find_spec(name):
            continue
        peer, learn, test = peers[name](a, learned, tested, kinds)
        for epoch in range(a.epochs):
            start = time.perf_counter()
            bits = learn() / math.log(2)
            seconds = time.perf_counter() - start
            line = {"peer": peer, "epoch": epoch + 1, "seconds": round(seconds, 3)}
            bits = {"bits": round(bits, 4), "test_bits": round(test() / math.log(2), 4)}
            print(json.dumps(line | bits), flush=True)


if __name__ == "__main__":
    main()
