"""Writes state_dicts.txt: the names, dtypes and shapes of PyTorch's state for every kind of layer.

    python3 tests/golden/make_state_dicts.py

One line for a layer's name and then one for each entry, as `  weight f32 [20, 1, 5, 5]`.
"""

from pathlib import Path

import torch
from torch import nn

LAYERS = {
    "Linear": nn.Linear(3, 4),
    "Linear without bias": nn.Linear(3, 4, bias=False),
    "Bilinear": nn.Bilinear(3, 4, 5),
    "Conv1d": nn.Conv1d(4, 6, 3, groups=2),
    "Conv2d": nn.Conv2d(4, 6, (3, 5), groups=2),
    "Conv3d": nn.Conv3d(4, 6, 3, bias=False),
    "ConvTranspose1d": nn.ConvTranspose1d(4, 6, 3, groups=2),
    "ConvTranspose2d": nn.ConvTranspose2d(4, 6, (3, 5), groups=2),
    "ConvTranspose3d": nn.ConvTranspose3d(4, 6, 3, bias=False),
    "BatchNorm1d": nn.BatchNorm1d(5),
    "BatchNorm2d": nn.BatchNorm2d(5),
    "BatchNorm2d without affine": nn.BatchNorm2d(5, affine=False),
    "BatchNorm2d without statistics": nn.BatchNorm2d(5, track_running_stats=False),
    "BatchNorm3d": nn.BatchNorm3d(5),
    "InstanceNorm1d": nn.InstanceNorm1d(5),
    "InstanceNorm2d with all": nn.InstanceNorm2d(5, affine=True, track_running_stats=True),
    "InstanceNorm3d with affine": nn.InstanceNorm3d(5, affine=True),
    "LayerNorm": nn.LayerNorm((4, 5)),
    "LayerNorm without affine": nn.LayerNorm(5, elementwise_affine=False),
    "GroupNorm": nn.GroupNorm(2, 6),
    "Embedding": nn.Embedding(7, 3, padding_idx=1),
    "PReLU": nn.PReLU(3),
    "Sequential": nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.Sequential(nn.BatchNorm2d(2), nn.ReLU()), nn.Linear(2, 2)
    ),
    "ModuleList": nn.ModuleList([nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)]),
    "ModuleDict": nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.PReLU()}),
    "MultiheadAttention": nn.MultiheadAttention(6, 2),
    "MultiheadAttention of widths": nn.MultiheadAttention(6, 2, bias=False, kdim=4, vdim=5),
    "Transformer": nn.Transformer(4, 2, 1, 2, 6),
}
DTYPES = {torch.float32: "f32", torch.int64: "i64"}


def main():
    lines = []
    for name, layer in LAYERS.items():
        lines.append(name)
        for key, value in sorted(layer.state_dict().items()):
            lines.append(f"  {key} {DTYPES[value.dtype]} {list(value.shape)}")
    Path(__file__).with_name("state_dicts.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
