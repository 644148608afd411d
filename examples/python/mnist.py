"""Trains LeNet on Fashion-MNIST: python mnist.py [--device cuda] [--images 2000]."""

import argparse

import mica
import mica.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if mica.cuda.is_available() else "cpu")
parser.add_argument("--images", type=int, default=60_000, help="train on the first of them only")
args = parser.parse_args()

net = mica.models.lenet().to(args.device)
optimizer = mica.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)


@mica.compile  # forward, backward and update become one graph
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
