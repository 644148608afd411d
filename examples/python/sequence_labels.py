"""Labels the steps of sequences of several lengths: python sequence_labels.py [--device cuda].

A step's label says whether the brackets before it are balanced, which needs memory; padding is
neither learned from nor counted.
"""

import argparse

import mica
import mica.nn.functional as F
from mica import nn

STEPS, BATCH, PADDING = 24, 64, -100

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if mica.cuda.is_available() else "cpu")
args = parser.parse_args()
mica.manual_seed(0)


class Labeller(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2, 16)
        self.lstm = nn.LSTM(16, 32)
        self.out = nn.Linear(32, 2)

    def forward(self, x: mica.Tensor, lengths: mica.Tensor) -> mica.Tensor:
        y, _ = self.lstm(self.embedding(x), lengths=lengths)
        labels: mica.Tensor = self.out(y)
        return labels


def draw() -> tuple[mica.Tensor, mica.Tensor, mica.Tensor]:
    x = mica.randint(0, 2, (STEPS, BATCH))
    lengths = mica.randint(1, STEPS + 1, (BATCH,))
    balanced = ((2 * x - 1).cumsum(0) == 0).long()
    past = mica.arange(STEPS).unsqueeze(1) >= lengths
    labels = mica.where(past, PADDING, balanced)
    return x.to(args.device), lengths.to(args.device), labels.to(args.device)


net = Labeller().to(args.device)
optimizer = mica.optim.Adam(net.parameters(), lr=0.01)


@mica.compile  # lengths are read on the device: they change without another capture
def step(x: mica.Tensor, lengths: mica.Tensor, labels: mica.Tensor) -> mica.Tensor:
    logits = net(x, lengths)
    loss = F.cross_entropy(logits.reshape(-1, 2), labels.reshape(-1), ignore_index=PADDING)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


for _ in range(200):
    loss = step(*draw())
x, lengths, labels = draw()
real = labels != PADDING
right = ((net(x, lengths).argmax(-1) == labels) & real).sum().item() / real.sum().item()
print(f"last loss {loss.item():.3f}, {right:.1%} of the steps labelled right")
