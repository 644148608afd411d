#!/usr/bin/env python3
"""JPEG files to u8 images of one size, per second and core, beside Pillow and torchvision.

    OMP_NUM_THREADS=1 python3 bench/images.py photo.jpg [photo.jpg …] [--size 224] [--seconds 2]

Each reads the bytes, decodes and brings the image to a square, bilinear, as its users would: mica
decodes at a part of the size where that is enough (`at_least`), Pillow likewise (`draft`), and both
without; torchvision decodes whole. Prints one JSON line per way; those that are not installed are
left out.
"""

import argparse
import importlib.util
import json
import time

import mica
import mica.nn.functional as F


def by_mica(path, size, scaled):
    image = mica.io.read_image(path, channels=3, at_least=(size, size) if scaled else 0)
    x = F.interpolate(image.float().unsqueeze(0), size=(size, size), mode="bilinear")
    return (x + 0.5).clamp(0, 255).to(mica.uint8)


def by_pillow(path, size, scaled):
    import numpy
    from PIL import Image

    with Image.open(path) as image:
        if scaled:
            image.draft("RGB", (size, size))
        resized = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
        return numpy.asarray(resized)


def by_torchvision(path, size, _scaled):
    from torchvision.io import ImageReadMode, read_image
    from torchvision.transforms.functional import resize

    return resize(read_image(path, ImageReadMode.RGB), [size, size], antialias=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--seconds", type=float, default=2)
    args = parser.parse_args()
    mica.set_num_threads(1)
    ways = [("mica", by_mica, True), ("mica, decoded whole", by_mica, False)]
    if importlib.util.find_spec("PIL"):
        ways += [("Pillow", by_pillow, True), ("Pillow, decoded whole", by_pillow, False)]
    if importlib.util.find_spec("torchvision"):
        import torch

        torch.set_num_threads(1)
        ways += [("torchvision", by_torchvision, False)]
    for name, way, scaled in ways:
        for path in args.files:
            way(path, args.size, scaled)
        count, start = 0, time.process_time()
        while time.process_time() - start < args.seconds:
            way(args.files[count % len(args.files)], args.size, scaled)
            count += 1
        rate = count / (time.process_time() - start)
        line = {"workload": "jpeg_to_u8", "who": name, "size": args.size}
        print(json.dumps(line | {"value": round(rate, 1), "unit": "images/s/core"}), flush=True)


if __name__ == "__main__":
    main()
