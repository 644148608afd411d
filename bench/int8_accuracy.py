"""How much accuracy int8 costs: ResNet-18 trained on Fashion-MNIST, then quantised with each
calibration, the test images classified by engines in f32, bf16 and int8.

    PYTHONPATH=build/release/python python bench/int8_accuracy.py [--epochs 4] [--seeds 3]

Needs the data (MICA_DATA). One JSON line per run. Weights are kept in --keep, so that a second run
only measures.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import mica
from mica import data, models, optim, train

MEAN, STD = [0.2860], [0.3530]


def trained(seed: int, args: argparse.Namespace) -> mica.nn.Module:
    mica.manual_seed(seed)
    net = models.resnet18(num_classes=10, in_channels=1).to(args.device)
    kept = args.keep and args.keep / f"resnet18_{seed}.safetensors"
    if kept and kept.exists():
        net.load_state_dict(mica.io.load_safetensors(kept).tensors)
        return net
    images, labels = data.fashion_mnist(train=True)
    chosen = slice(0, args.limit)
    loader = data.DataLoader(
        data.TensorDataset(images[chosen], labels[chosen]),
        args.batch,
        shuffle=seed,
        augment=[data.flip(), data.normalize(MEAN, STD)],
        device=args.device,
    )
    optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    optimizer.schedule = optim.cosine(steps=args.epochs * len(loader))
    test, truth = data.fashion_mnist(train=False)
    tests = data.DataLoader(data.TensorDataset(normalized(test), truth), 500, device=args.device)
    train.Trainer(net, optimizer, epochs=args.epochs, progress=False).fit(loader, tests)
    if kept:
        args.keep.mkdir(parents=True, exist_ok=True)
        mica.io.save_safetensors(kept, net.state_dict())
    return net


def normalized(images: mica.Tensor) -> mica.Tensor:
    return (images - MEAN[0]) / STD[0]


def accuracy(engine: mica.inference.Engine, images: mica.Tensor, labels: mica.Tensor, n: int):
    right = 0
    for at in range(0, len(images), n):
        scores = engine(images[at : at + n])
        right += int((scores.argmax(1) == labels[at : at + n]).sum())
    return 100 * right / len(images)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--limit", type=int, default=60000, help="training images")
    parser.add_argument("--calibrate-with", type=int, default=512, help="training images")
    parser.add_argument("--keep", type=Path, help="a folder for the weights")
    args = parser.parse_args()
    n = 500
    images, labels = data.fashion_mnist(train=False)
    images, labels = normalized(images).to(args.device), labels.to(args.device)
    few = normalized(data.fashion_mnist(train=True)[0][: args.calibrate_with]).to(args.device)
    batches = [few[at : at + 64] for at in range(0, len(few), 64)]
    for seed in range(args.seeds):
        begin = time.process_time()
        net = trained(seed, args)
        seconds = time.process_time() - begin
        options = {"dynamic": {"input": {0: "batch"}}, "profiles": [{"batch": n}]}
        engines = {
            p: mica.inference.optimize(net, batches[0], precision=p, **options)
            for p in ("f32", "bf16")
        }
        for calibrate in ("minmax", "percentile", "entropy"):
            engines[f"int8 {calibrate}"] = mica.inference.optimize(
                net,
                batches[0],
                precision="int8",
                calibration=batches,
                calibrate=calibrate,
                **options,
            )
        line = {"seed": seed, "training_s": round(seconds)}
        line |= {name: accuracy(engine, images, labels, n) for name, engine in engines.items()}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
