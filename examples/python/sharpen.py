"""Sharpens a photo by convolution, and writes both as PNG.

    python sharpen.py --photo cat.jpg

Without a photo it draws one: rings and a checkerboard, blurred.
"""

import argparse

import mica
from mica.nn import functional


def filtered(photo: mica.Tensor, weights: list[list[float]]) -> mica.Tensor:
    """Each channel of (C, H, W) by itself; pixels outside are those of the edge."""
    kernel = mica.tensor(weights, dtype=photo.dtype, device=photo.device).reshape(1, 1, 3, 3)
    wide = functional.pad(photo.unsqueeze(1), (1, 1, 1, 1), mode="replicate")
    return functional.conv2d(wide, kernel).squeeze(1)


def sharpened(photo: mica.Tensor) -> mica.Tensor:
    """Each pixel and four times what it differs by from its neighbours' mean."""
    return filtered(photo, [[0, -1, 0], [-1, 5, -1], [0, -1, 0]]).clamp(0, 1)


def drawn(side: int = 160) -> mica.Tensor:
    at = mica.linspace(-1, 1, side)
    y, x = at.reshape(-1, 1), at.reshape(1, -1)
    rings = (mica.cos((x * x + y * y) * 40) > 0).float()
    board = ((x * 8).floor() + (y * 8).floor()).remainder(2).float()
    rows = x + mica.zeros(side, side)
    photo = mica.stack([rings, board, (rows + 1) / 2])
    blur = [[1 / 16, 2 / 16, 1 / 16], [2 / 16, 4 / 16, 2 / 16], [1 / 16, 2 / 16, 1 / 16]]
    return filtered(filtered(photo, blur), blur)


def contrast(photo: mica.Tensor) -> float:
    """The mean step between neighbours."""
    return float((photo[:, :, 1:] - photo[:, :, :-1]).abs().mean().item())


parser = argparse.ArgumentParser()
parser.add_argument("--photo", help="a PNG or JPEG file")
parser.add_argument("--device", default="cpu")
arguments = parser.parse_args()
before = mica.io.read_image(arguments.photo).float() / 255 if arguments.photo else drawn()
before = before.to(arguments.device)
after = sharpened(before)
print(f"mean step between neighbours: {contrast(before):.4f}, sharpened {contrast(after):.4f}")
assert contrast(after) > contrast(before)
for name, photo in (("before", before), ("after", after)):
    mica.io.write_png(f"{name}.png", (photo * 255).round().to(mica.uint8).cpu())
