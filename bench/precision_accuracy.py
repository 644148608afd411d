#!/usr/bin/env python3
"""ResNet-18 on Fashion-MNIST as an image folder, in each precision: the mean accuracy over seeds.

    python3 bench/precision_accuracy.py [--device cuda] [--epochs 10] [--seeds 3]

Writes the images as PNG files first (needs the data, MICA_DATA), then trains each run from scratch
by the Trainer, the precisions by turns; one JSON line per run and one per precision. Runs of one
seed begin with the same weights and see the same images in the same order.
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
    if root.exists():
        return
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
    start = time.perf_counter(), time.process_time()
    accuracy = 100 * trainer.fit(*loaders).epochs[-1].test_accuracy
    line = {"workload": "resnet18_fashion", "precision": precision, "seed": seed}
    line |= {"accuracy": round(accuracy, 2), "seconds": round(time.perf_counter() - start[0], 1)}
    line |= {"cpu_seconds": round(time.process_time() - start[1], 1)}
    print(json.dumps(line), flush=True)
    return accuracy


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if mica.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--limit", type=int, default=60000, help="images to train on")
    parser.add_argument("--tests", type=int, default=10000, help="images that are classified")
    parser.add_argument("--threads", type=int, help="on the CPU (else all)")
    parser.add_argument("--folder", help="where the images are written, and found again")
    parser.add_argument("--precisions", default="f32,tf32,bf16,f16")
    args = parser.parse_args()
    if args.threads:
        mica.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as root:
        root = Path(args.folder or root)
        write_folder(root / "train", True, args.limit)
        write_folder(root / "test", False, args.tests)
        results = {precision: [] for precision in args.precisions.split(",")}
        for seed in range(args.seeds):
            for precision, accuracies in results.items():
                accuracies.append(run(root, precision, seed, args))
        for precision, accuracies in results.items():
            mean = round(statistics.mean(accuracies), 2)
            print(json.dumps({"precision": precision, "mean_accuracy": mean}), flush=True)


if __name__ == "__main__":
    main()
