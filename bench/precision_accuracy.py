#!/usr/bin/env python3
"""ResNet-18 on Fashion-MNIST as an image folder, in each precision: the mean accuracy over seeds.

    python3 bench/precision_accuracy.py [--device cuda] [--epochs 10] [--seeds 3]

Writes the images as PNG files first (needs the data, MICA_DATA), then trains each run from scratch
by the Trainer; one JSON line per run and one per precision.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import mica
from mica import data, models, optim, train


def write_folder(root, train_set, limit):
    images, labels = data.fashion_mnist(train=train_set)
    for i, label in enumerate(labels[:limit].tolist()):
        folder = root / f"class{label}"
        folder.mkdir(parents=True, exist_ok=True)
        pixels = (images[i] * 255).round().to(mica.uint8)
        mica.io.write_png(folder / f"{i:05}.png", pixels)


def run(folders, precision, seed, args):
    mica.manual_seed(seed)
    options = {"device": args.device, "resident": True}
    augment = [data.pad_crop(2), data.flip(), data.normalize([0.2860], [0.3530])]
    loaders = (
        data.DataLoader(
            data.image_folder(folders / "train", channels=1),
            args.batch,
            shuffle=seed,
            augment=augment,
            **options,
        ),
        data.DataLoader(
            data.image_folder(folders / "test", channels=1), 500, augment=augment[2:], **options
        ),
    )
    net = models.resnet18(num_classes=10, in_channels=1).to(args.device)
    optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    optimizer.schedule = optim.cosine(steps=args.epochs * len(loaders[0]))
    trainer = train.Trainer(net, optimizer, epochs=args.epochs, precision=precision, progress=False)
    start = time.perf_counter()
    outcome = trainer.fit(*loaders)
    return outcome.epochs[-1].test_accuracy, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if mica.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--limit", type=int, default=60000, help="images of each set")
    parser.add_argument("--precisions", default="f32,tf32,bf16,f16")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        for name in ("train", "test"):
            write_folder(Path(root) / name, name == "train", args.limit)
        for precision in args.precisions.split(","):
            results = []
            for seed in range(args.seeds):
                accuracy, seconds = run(Path(root), precision, seed, args)
                results.append(accuracy)
                line = {"workload": "resnet18_fashion", "precision": precision, "seed": seed}
                line |= {"accuracy": round(100 * accuracy, 2), "seconds": round(seconds, 1)}
                print(json.dumps(line), flush=True)
            mean = round(100 * statistics.mean(results), 2)
            print(json.dumps({"precision": precision, "mean_accuracy": mean}), flush=True)


if __name__ == "__main__":
    main()
