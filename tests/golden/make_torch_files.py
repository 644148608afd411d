"""Writes torch_archive.pt, torch_legacy.pt and torch_module.pt: what torch.save makes of tensors
and plain data, in both of its formats, and of a module, which is refused. Run it with a Python
that has PyTorch; the files that are committed are of 2.15."""

from pathlib import Path

import torch

HERE = Path(__file__).parent


def contents():
    t = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    net = torch.nn.Linear(4, 3)
    with torch.no_grad():
        net.weight.copy_(t)
        net.bias.fill_(0.5)
    return {
        "model": net.state_dict(),
        "epoch": 3,
        "lr": 0.25,
        "name": "Grüße",
        "flags": [True, False, None],
        "pair": (1, -5),
        "large": 2**40,
        7: "a number as a key",
        "transposed": t.t(),
        "view": t[1:, 2:],
        "expanded": t[:1].expand(5, 4),
        "half": t.half(),
        "bfloat16": t.bfloat16(),
        "double": t.double(),
        "int64": t.long(),
        "uint8": t.byte(),
        "uint16": t.to(torch.uint16),
        "bool": t > 3,
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(t.clone()),
        "size": t.shape,
        "device": t.device,
        "dtype": t.dtype,
    }


def main():
    torch.save(contents(), HERE / "torch_archive.pt")
    legacy = {key: value for key, value in contents().items() if key != "uint16"}
    torch.save(legacy, HERE / "torch_legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(torch.nn.Linear(2, 2), HERE / "torch_module.pt")


if __name__ == "__main__":
    main()
