"""Finds shapes that are drawn over photos: a U-Net trained by the Trainer, with a report.

python segmentation.py --count 2000 --side 64 --epochs 10 --out runs/shapes

Photos are those of scikit-image where it is installed, else images of Fashion-MNIST.
"""

import argparse
import importlib.util
from pathlib import Path

import mica
import mica.nn.functional as F
import numpy as np
from mica import data, train

CLASSES = ["photo", "disc", "square", "triangle"]
IGNORED = -100  # pixels that count for nothing: the edges of shapes


def photos(side: int) -> list[np.ndarray]:
    """Images u8 (3, H, W), at least as large as what is cut out."""
    found = importlib.util.find_spec("skimage")
    files = sorted(Path(found.origin).parent.glob("data/*")) if found and found.origin else []
    names = [f for f in files if f.suffix in (".png", ".jpg")]
    read = [mica.io.read_image(f, channels=3).numpy() for f in names]
    read = [image for image in read if min(image.shape[1:]) >= side]
    if read:
        return read
    images, _ = data.fashion_mnist(train=False)
    grey = (255 * images[:60, 0].numpy()).clip(0, 255).astype(np.uint8)
    scale = side // 28 + 1
    return [np.stack([g.repeat(scale, 0).repeat(scale, 1)] * 3) for g in grey]


def draw(rng: np.random.Generator, photo: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """A piece of a photo with shapes over it, and the classes of its pixels."""
    top, left = (int(rng.integers(0, n - side + 1)) for n in photo.shape[1:])
    image = photo[:, top : top + side, left : left + side].copy()
    mask = np.zeros((side, side), np.int64)
    y, x = np.mgrid[:side, :side]
    for _ in range(int(rng.integers(1, 4))):
        shape, size = int(rng.integers(1, 4)), rng.uniform(0.12, 0.22) * side
        dy, dx = y - rng.uniform(size, side - size), x - rng.uniform(size, side - size)
        distance = {
            1: np.hypot(dy, dx),
            2: np.maximum(abs(dy), abs(dx)),
            3: np.maximum(dy, abs(dx) * 1.7 - dy) + 0.3 * size,
        }[shape] - size
        image[:, distance < 0] = rng.integers(0, 256, (3, 1)) * 0.7 + 0.3 * image[:, distance < 0]
        mask[distance < 0] = shape
        mask[abs(distance) < 0.7] = IGNORED
    return image, mask


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if mica.cuda.is_available() else "cpu")
parser.add_argument("--count", type=int, default=128, help="images that are drawn")
parser.add_argument("--side", type=int, default=32)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--width", type=int, default=8)
parser.add_argument("--precision", default="")
parser.add_argument("--out", default="")
args = parser.parse_args()

rng = np.random.default_rng(0)
all_photos = photos(args.side)
pairs = [draw(rng, all_photos[i % len(all_photos)], args.side) for i in range(args.count)]
x, y = (np.stack(part) for part in zip(*pairs, strict=True))
tests = args.count // 8
augment = [data.flip(), data.random_resized_crop(args.side, least=0.5), data.color_jitter(0.2, 0.2)]
loaders = (
    data.DataLoader(
        (x[tests:], y[tests:]), 16, shuffle=1, device=args.device, augment=augment, masks=True
    ),
    data.DataLoader((x[:tests], y[:tests]), 16, device=args.device),
)
# A class that has few pixels counts for more.
counts = np.bincount(y[y >= 0], minlength=len(CLASSES))
weight = mica.tensor((counts.sum() / (len(CLASSES) * counts)) ** 0.5, dtype="float32")
weight = weight.to(args.device)


def loss(logits: mica.Tensor, classes: mica.Tensor) -> mica.Tensor:
    return F.cross_entropy(logits, classes, weight=weight, ignore_index=IGNORED)


mica.manual_seed(0)
net = mica.models.unet(num_classes=len(CLASSES), width=args.width).to(args.device)
optimizer = mica.optim.Adam(net.parameters(), lr=3e-3)
optimizer.schedule = mica.optim.cosine(steps=args.epochs * len(loaders[0]))
trainer = train.Trainer(
    net,
    optimizer,
    epochs=args.epochs,
    loss=loss,
    metrics=[train.MeanIoU(IGNORED), train.Accuracy(IGNORED)],
    precision=args.precision,
    out=args.out,
    title="Shapes over photos",
    progress=False,
    on_epoch=lambda r: print(f"epoch {r.epoch}: mean IoU {r.metrics['mean_iou']:.3f}"),
)
trainer.fit(*loaders)
if args.out:
    print(f"report: {args.out}/report.html")
