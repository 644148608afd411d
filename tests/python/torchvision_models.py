"""Every image model beside torchvision's: keys, outputs, gradients.

    PYTHONPATH=build/release/python python tests/python/torchvision_models.py [MODEL …]

needs torch and torchvision. It builds each of torchvision's classes with random weights and
statistics, saves them in a file, loads the file into mica's network of that name and prints
one line: the number of keys, which must be the same, in the same order and of the same shapes; the
largest difference of the outputs in evaluation, eager and compiled, and of all gradients in
training (without dropout), relative to the largest values. f64 on the CPU, unless --dtype and
--device say otherwise.

    … --write-golden

writes tests/golden/torchvision_keys.json instead: the keys and shapes of each model as a hash.
"""

import argparse
import hashlib
import importlib.util
import json
import sys
import tempfile
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "torchvision_keys.json"
CLASSIFIERS = [
    *("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
    *("vgg11", "vgg11_bn", "vgg16", "vgg16_bn", "mobilenet_v2", "mobilenet_v3_large"),
    *("densenet121", "efficientnet_b0", "convnext_tiny", "vit_b_16"),
]
MODELS = [*CLASSIFIERS, "deeplabv3_resnet50"]
RANDOM_LAYERS = ("Dropout", "StochasticDepth")
# Ends of sums in f64; f32 adds a few digits over hundreds of layers.
BOUNDS = {"float64": 1e-9, "float32": 2e-2}
# PyTorch's gradient of hardsigmoid has the 1/6 of f32, in f64 too.
ROUNDED = {"mobilenet_v3_large": 1e-7}


SIDES = {"vit_b_16": 224}  # of images, where there is no choice


def options(name):
    """Few classes, so that the classifier does not outweigh the rest."""
    return {"num_classes": 5, "aux_loss": True} if name.startswith("deeplab") else {}


def digest(shapes):
    """Of {key: shape} in order."""
    text = json.dumps([[key, list(shape)] for key, shape in shapes.items()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def reference_of(name):
    import torch
    import torchvision

    torch.manual_seed(7)
    if name.startswith("deeplab"):
        net = torchvision.models.segmentation.deeplabv3_resnet50(
            weights=None, weights_backbone=None, **options(name)
        )
    else:
        net = getattr(torchvision.models, name)(weights=None)
    with torch.no_grad():
        for key, t in net.state_dict().items():
            if key.endswith("running_mean"):
                t.normal_(0, 0.1)
            elif key.endswith("running_var"):
                t.uniform_(0.5, 1.5)
            elif key.endswith("layer_scale"):
                t.normal_(0, 0.5)
            elif key == "heads.head.weight":  # zeros say nothing of what is before
                t.normal_(0, 0.1)
    return net


def shapes_of(state):
    return {key: tuple(t.shape) for key, t in state.items()}


def still(net, modules):
    """Training without what is random."""
    net.train()
    for module in modules:
        if type(module).__name__.startswith(RANDOM_LAYERS):
            module.eval()
    return net


def flat(output):
    return dict(output) if isinstance(output, dict) else {"out": output}


def largest_difference(mine, reference):
    """(of a tensor, its name), relative to the tensor's largest value.

    A bias before a batch norm has a gradient of 0 but for roundings: what is small beside the
    largest value of all tensors counts as that small."""
    import numpy as np

    floor = 1e-4 * max(np.abs(t).max() for t in reference.values())

    def difference(key):
        assert mine[key].shape == reference[key].shape, key
        scale = max(np.abs(reference[key]).max(), floor)
        return float(np.abs(mine[key] - reference[key]).max() / scale)

    return max((difference(key), key) for key in reference)


def torch_results(net, x, cotangents):
    import torch

    net.eval()
    with torch.no_grad():
        outputs = {k: t.cpu().numpy() for k, t in flat(net(x)).items()}
        outputs |= {f"compiled {k}": t for k, t in outputs.items()}
    still(net, net.modules())
    x.requires_grad_(True)
    torch.autograd.backward(list(flat(net(x)).values()), cotangents)
    gradients = {k: p.grad.cpu().numpy() for k, p in net.named_parameters()}
    return outputs, gradients | {"input": x.grad.cpu().numpy()}


def mica_results(net, x, cotangents):
    import mica

    net.eval()
    with mica.no_grad():
        outputs = {k: t.cpu().numpy() for k, t in flat(net(x)).items()}
        replayed = mica.compile(net)(x)
        outputs |= {f"compiled {k}": t.cpu().numpy() for k, t in flat(replayed).items()}
    still(net, [module for _, module in net.named_modules()])
    x.requires_grad = True
    results = list(flat(net(x)).values())
    total = sum((y * c).sum() for y, c in zip(results, cotangents, strict=True))
    total.backward()
    gradients = {k: p.grad.cpu().numpy() for k, p in net.named_parameters()}
    return outputs, gradients | {"input": x.grad.cpu().numpy()}


def save(state, folder):
    """As safetensors, or where that package is not installed, as torch saves."""
    if importlib.util.find_spec("safetensors"):
        from safetensors.torch import save_file

        save_file(state, folder / "weights.safetensors")
        return folder / "weights.safetensors"
    import torch

    torch.save(state, folder / "weights.pth")
    return folder / "weights.pth"


def compare(name, device, dtype, side):
    import mica
    import numpy as np
    import torch

    torch.backends.cudnn.allow_tf32 = False
    reference = reference_of(name)
    with tempfile.TemporaryDirectory() as folder:
        file = save(reference.state_dict(), Path(folder))
        net = getattr(mica.models, name)(**options(name))
        mine, theirs = shapes_of(net.state_dict()), shapes_of(reference.state_dict())
        assert list(mine.items()) == list(theirs.items()), sorted(set(mine) ^ set(theirs))[:6]
        net.load_state_dict(mica.load(file))
    net.to(device, dtype=dtype)
    reference.to(device, getattr(torch, dtype))
    rng = np.random.default_rng(3)
    side = SIDES.get(name, side)
    x = rng.standard_normal((2, 3, side, side)).astype(dtype)
    with torch.no_grad():
        shapes = [
            tuple(t.shape) for t in flat(reference.eval()(torch.tensor(x, device=device))).values()
        ]
    cotangents = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    theirs = torch_results(
        reference,
        torch.tensor(x, device=device),
        [torch.tensor(c, device=device) for c in cotangents],
    )
    mine = mica_results(
        net, mica.tensor(x, device=device), [mica.tensor(c, device=device) for c in cotangents]
    )
    assert list(mine[0]) == list(theirs[0]) and set(mine[1]) == set(theirs[1])
    output, _ = largest_difference(mine[0], theirs[0])
    gradient, worst = largest_difference(mine[1], theirs[1])
    bound = BOUNDS[dtype]
    fine = output < bound and gradient < max(bound, ROUNDED.get(name, 0))
    print(
        f"{'ok  ' if fine else 'FAIL'} {name:20} {len(shapes_of(reference.state_dict())):4} keys, "
        f"output {output:.1e}, gradients {gradient:.1e} ({worst})",
        flush=True,
    )
    return fine


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float64", choices=sorted(BOUNDS))
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--write-golden", action="store_true")
    args = parser.parse_args()
    if args.write_golden:
        table = {}
        for name in MODELS:
            shapes = shapes_of(reference_of(name).state_dict())
            table[name] = {"keys": len(shapes), "hash": digest(shapes)}
        GOLDEN.write_text(json.dumps(table, indent=1) + "\n")
        return 0
    results = [compare(m, args.device, args.dtype, args.side) for m in args.models or MODELS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
