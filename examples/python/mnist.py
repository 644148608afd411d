"""Trains LeNet on Fashion-MNIST: python mnist.py [--device cuda] [--images 2000]."""

import argparse

import mica
import mica.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if mica.cuda.is_available() else "cpu")
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--images", type=int, default=60_000, help="train on the first of them only")
args = parser.parse_args()

mica.manual_seed(1)
net = mica.models.lenet().to(args.device)
optimizer = mica.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)


@mica.compile
def step(x: mica.Tensor, y: mica.Tensor) -> mica.Tensor:
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


images, labels = (t[: args.images] for t in mica.data.fashion_mnist(train=True))
for epoch in range(args.epochs):
    for x, y in mica.data.batches(images, labels, 64, shuffle=1, epoch=epoch, device=args.device):
        loss = step(x, y)
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
accuracy = mica.train.accuracy(net, *mica.data.fashion_mnist(train=False))
print(f"accuracy on the test images: {accuracy:.1%}")
