"""Reads the images of Fashion-MNIST row by row: python mnist_rows.py [--images 2000]."""

import argparse

import mica
import mica.nn.functional as F
from mica import nn

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if mica.cuda.is_available() else "cpu")
parser.add_argument("--images", type=int, default=60_000, help="train on the first of them only")
args = parser.parse_args()


class RowReader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.GRU(28, 128, batch_first=True)
        self.out = nn.Linear(128, 10)

    def forward(self, x: mica.Tensor) -> mica.Tensor:
        _, h = self.rows(x.reshape(-1, 28, 28))
        classes: mica.Tensor = self.out(h[-1])
        return classes


net = RowReader().to(args.device)
optimizer = mica.optim.Adam(net.parameters(), lr=0.002)


@mica.compile
def step(x: mica.Tensor, y: mica.Tensor) -> mica.Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss


images, labels = (t[: args.images] for t in mica.data.fashion_mnist(train=True))
for x, y in mica.data.DataLoader((images, labels), shuffle=True, device=args.device):
    loss = step(x, y)
accuracy = mica.train.accuracy(net, *mica.data.fashion_mnist(train=False))
print(f"last loss {loss.item():.3f}, accuracy on the test images {accuracy:.1%}")
