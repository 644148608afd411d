"""Every layer and loss once, as both mica and PyTorch make it, with fixed weights and inputs.

    PYTHONPATH=build/release/python python tests/python/layer_cases.py

writes tests/golden/layers.json from float64 on the CPU. Instead of whole tensors it holds a few
random projections of each: they tell a wrong element as well, and stay short.
"""

import json
import math
import zlib
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "layers.json"
PROJECTIONS = 3

IMAGE = (2, 4, 6, 5)
LINE = (2, 4, 9)
VOLUME = (2, 4, 4, 5, 3)
BY_RANK = {1: LINE, 2: IMAGE, 3: VOLUME}

# name: (make, shapes of inputs); `make` gets mica.nn or torch.nn.
LAYERS = {
    "Linear": (lambda nn: nn.Linear(5, 3), [(2, 4, 5)]),
    "Linear without bias": (lambda nn: nn.Linear(5, 3, bias=False), [(4, 5)]),
    "Bilinear": (lambda nn: nn.Bilinear(3, 4, 5), [(6, 3), (6, 4)]),
    "Conv2d same": (lambda nn: nn.Conv2d(4, 6, 3, padding="same", dilation=2), [IMAGE]),
    "LayerNorm": (lambda nn: nn.LayerNorm((6, 5)), [IMAGE]),
    "LayerNorm without affine": (
        lambda nn: nn.LayerNorm(5, elementwise_affine=False),
        [(3, 5)],
    ),
    "RMSNorm": (lambda nn: nn.RMSNorm(5, eps=1e-5), [(3, 5)]),
    "GroupNorm": (lambda nn: nn.GroupNorm(2, 4), [IMAGE]),
    "LocalResponseNorm": (lambda nn: nn.LocalResponseNorm(3, alpha=0.1, k=2.0), [IMAGE]),
    "PReLU": (lambda nn: nn.PReLU(4), [IMAGE]),
    "Flatten": (lambda nn: nn.Flatten(), [IMAGE]),
    "Unflatten": (lambda nn: nn.Unflatten(1, (2, 2)), [IMAGE]),
    "Identity": (lambda nn: nn.Identity(), [(3, 4)]),
    "PixelShuffle": (lambda nn: nn.PixelShuffle(2), [IMAGE]),
    "PixelUnshuffle": (lambda nn: nn.PixelUnshuffle(2), [(1, 2, 4, 6)]),
    "Upsample nearest": (lambda nn: nn.Upsample(scale_factor=2), [IMAGE]),
    "Upsample bilinear": (
        lambda nn: nn.Upsample(size=(9, 7), mode="bilinear", align_corners=True),
        [IMAGE],
    ),
    "Upsample bicubic": (
        lambda nn: nn.Upsample(scale_factor=1.5, mode="bicubic", align_corners=False),
        [IMAGE],
    ),
    "Unfold": (lambda nn: nn.Unfold(3, padding=1, stride=2), [IMAGE]),
    "Fold": (lambda nn: nn.Fold((6, 5), 3, padding=1), [(2, 18, 30)]),
    "Sequential": (
        lambda nn: nn.Sequential(nn.Conv2d(4, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2)),
        [IMAGE],
    ),
}
for _n, _shape in BY_RANK.items():
    LAYERS |= {
        f"Conv{_n}d": (
            lambda nn, n=_n: getattr(nn, f"Conv{n}d")(4, 6, 3, stride=2, padding=1, groups=2),
            [_shape],
        ),
        f"ConvTranspose{_n}d": (
            lambda nn, n=_n: getattr(nn, f"ConvTranspose{n}d")(
                4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=1
            ),
            [_shape],
        ),
        f"BatchNorm{_n}d": (lambda nn, n=_n: getattr(nn, f"BatchNorm{n}d")(4), [_shape]),
        f"BatchNorm{_n}d evaluating": (
            lambda nn, n=_n: getattr(nn, f"BatchNorm{n}d")(4).eval(),
            [_shape],
        ),
        f"InstanceNorm{_n}d": (
            lambda nn, n=_n: getattr(nn, f"InstanceNorm{n}d")(
                4, affine=True, track_running_stats=True
            ),
            [_shape],
        ),
        f"Dropout{_n}d evaluating": (
            lambda nn, n=_n: getattr(nn, f"Dropout{n}d")(0.3).eval(),
            [_shape],
        ),
        f"MaxPool{_n}d": (
            lambda nn, n=_n: getattr(nn, f"MaxPool{n}d")(2, stride=1, padding=1, ceil_mode=True),
            [_shape],
        ),
        f"AvgPool{_n}d": (
            lambda nn, n=_n: getattr(nn, f"AvgPool{n}d")(
                2, stride=2, padding=1, count_include_pad=False
            ),
            [_shape],
        ),
        f"AdaptiveAvgPool{_n}d": (
            lambda nn, n=_n: getattr(nn, f"AdaptiveAvgPool{n}d")(2),
            [_shape],
        ),
        f"AdaptiveMaxPool{_n}d": (
            lambda nn, n=_n: getattr(nn, f"AdaptiveMaxPool{n}d")(2),
            [_shape],
        ),
        f"ConstantPad{_n}d": (lambda nn, n=_n: getattr(nn, f"ConstantPad{n}d")(1, 3.5), [_shape]),
    }
    for _kind in ("ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"):
        LAYERS[f"{_kind}{_n}d"] = (
            lambda nn, n=_n, kind=_kind: getattr(nn, f"{kind}{n}d")(
                tuple((1, 2, 1, 0, 1, 1)[: 2 * n])
            ),
            [_shape],
        )
for _n in (1, 2, 3):
    LAYERS[f"LPPool{_n}d"] = (
        lambda nn, n=_n: nn.Sequential(nn.Softplus(), getattr(nn, f"LPPool{n}d")(3, 2)),
        [BY_RANK[_n]],
    )
for _name in [
    *("ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "GELU", "SiLU", "Mish", "Softplus"),
    *("Sigmoid", "LogSigmoid", "Tanh", "Hardswish", "Hardsigmoid", "Hardtanh"),
    *("Softsign", "Tanhshrink", "Hardshrink", "Softshrink"),
]:
    LAYERS[_name] = (lambda nn, name=_name: getattr(nn, name)(), [(4, 5)])
LAYERS["GELU tanh"] = (lambda nn: nn.GELU(approximate="tanh"), [(4, 5)])
for _name in ("Softmax", "LogSoftmax", "Softmin"):
    LAYERS[_name] = (lambda nn, name=_name: getattr(nn, name)(1), [(3, 4, 2)])

LAYERS |= {
    "CELU": (lambda nn: nn.CELU(0.7), [(4, 5)]),
    "GLU": (lambda nn: nn.GLU(1), [(3, 4, 2)]),
    "Threshold": (lambda nn: nn.Threshold(0.3, -2.0), [(4, 5)]),
    "Softmax2d": (lambda nn: nn.Softmax2d(), [IMAGE]),
    "UpsamplingNearest2d": (lambda nn: nn.UpsamplingNearest2d(scale_factor=2), [IMAGE]),
    "UpsamplingBilinear2d": (lambda nn: nn.UpsamplingBilinear2d(size=(9, 7)), [IMAGE]),
}

# Integers below a limit, and the signs 1 and -1, stand for themselves among the shapes.
CLASSES = ("classes", (6,), 4)
INDICES = ("classes", (2, 3), 7)
SIGNS = ("signs", (6, 4))
ROW_SIGNS = ("signs", (6,))
UNIT = ("unit", (6, 4))
VARIANCES = ("variances", (6, 4))
ROW_VARIANCES = ("variances", (6, 1))
COUNTS = ("counts", (6, 4))
ROWS = (6, 4)

LAYERS["Embedding"] = (lambda nn: nn.Embedding(7, 3, padding_idx=1), [INDICES])

LOSSES = {
    "CrossEntropyLoss": (lambda nn: nn.CrossEntropyLoss(label_smoothing=0.1), [ROWS, CLASSES]),
    "CrossEntropyLoss sum": (lambda nn: nn.CrossEntropyLoss(reduction="sum"), [ROWS, CLASSES]),
    "NLLLoss": (lambda nn: nn.NLLLoss(ignore_index=2), [ROWS, CLASSES]),
    "MSELoss": (lambda nn: nn.MSELoss(), [ROWS, UNIT]),
    "MSELoss none": (lambda nn: nn.MSELoss(reduction="none"), [ROWS, UNIT]),
    "L1Loss": (lambda nn: nn.L1Loss(), [ROWS, UNIT]),
    "SmoothL1Loss": (lambda nn: nn.SmoothL1Loss(beta=0.5), [ROWS, UNIT]),
    "HuberLoss": (lambda nn: nn.HuberLoss(delta=0.7), [ROWS, UNIT]),
    "BCELoss": (lambda nn: nn.BCELoss(), [UNIT, UNIT]),
    "BCEWithLogitsLoss": (lambda nn: nn.BCEWithLogitsLoss(), [ROWS, UNIT]),
    "KLDivLoss": (lambda nn: nn.KLDivLoss(reduction="batchmean"), [ROWS, UNIT]),
    "SoftMarginLoss": (lambda nn: nn.SoftMarginLoss(), [ROWS, SIGNS]),
    "HingeEmbeddingLoss": (lambda nn: nn.HingeEmbeddingLoss(), [ROWS, SIGNS]),
    "CosineEmbeddingLoss": (
        lambda nn: nn.CosineEmbeddingLoss(margin=0.1),
        [ROWS, ROWS, ROW_SIGNS],
    ),
    "MarginRankingLoss": (lambda nn: nn.MarginRankingLoss(margin=0.2), [ROWS, ROWS, SIGNS]),
    "TripletMarginLoss": (lambda nn: nn.TripletMarginLoss(), [ROWS, ROWS, ROWS]),
    "CosineSimilarity": (lambda nn: nn.CosineSimilarity(), [ROWS, ROWS]),
    "PoissonNLLLoss": (lambda nn: nn.PoissonNLLLoss(full=True), [ROWS, COUNTS]),
    "PoissonNLLLoss of rates": (lambda nn: nn.PoissonNLLLoss(False), [UNIT, COUNTS]),
    "GaussianNLLLoss": (lambda nn: nn.GaussianNLLLoss(full=True), [ROWS, ROWS, VARIANCES]),
    "GaussianNLLLoss by row": (
        lambda nn: nn.GaussianNLLLoss(reduction="sum"),
        [ROWS, ROWS, ROW_VARIANCES],
    ),
    "MultiMarginLoss": (lambda nn: nn.MultiMarginLoss(), [ROWS, CLASSES]),
    "MultiMarginLoss squared": (
        lambda nn: nn.MultiMarginLoss(2, margin=0.5, reduction="none"),
        [ROWS, CLASSES],
    ),
    "MultiLabelSoftMarginLoss": (
        lambda nn: nn.MultiLabelSoftMarginLoss(reduction="none"),
        [ROWS, UNIT],
    ),
    "PairwiseDistance": (lambda nn: nn.PairwiseDistance(), [ROWS, ROWS]),
    "PairwiseDistance of p 3": (lambda nn: nn.PairwiseDistance(3.0, keepdim=True), [ROWS, ROWS]),
}
CASES = LAYERS | LOSSES


def generator(*names):
    return np.random.default_rng(zlib.crc32(" / ".join(names).encode()))


def draw_input(name, number, shape):
    rng = generator(name, "input", str(number))
    if shape[0] == "classes":
        return rng.integers(0, shape[2], shape[1])
    if shape[0] == "signs":
        return rng.choice([-1.0, 1.0], shape[1])
    if shape[0] == "counts":
        return rng.poisson(3.0, shape[1]).astype(np.float64)
    if shape[0] in ("unit", "variances"):
        return rng.uniform(0.05, 0.95, shape[1])
    return rng.standard_normal(shape)


def draw_inputs(name):
    return [draw_input(name, i, shape) for i, shape in enumerate(CASES[name][1])]


def has_gradient(name):
    """Of each input: targets have none."""
    return [
        shape[0] == "variances" or not isinstance(shape[0], str) or (i == 0 and shape[0] == "unit")
        for i, shape in enumerate(CASES[name][1])
    ]


def draw_state(name, shapes):
    """Values of parameters and buffers of these shapes by name; counts stay as they are."""
    state = {}
    for key, shape in shapes.items():
        rng = generator(name, key)
        if key.endswith("running_var"):
            state[key] = rng.uniform(0.5, 1.5, shape)
        elif not key.endswith("num_batches_tracked"):
            state[key] = 0.5 * rng.standard_normal(shape)
    return state


def draw_cotangent(name, shape):
    return generator(name, "cotangent").standard_normal(shape)


def project(name, key, array):
    array = np.asarray(array, np.float64)
    weights = generator(name, key, "projection").standard_normal((PROJECTIONS, array.size))
    return weights @ array.ravel() / math.sqrt(max(1, array.size))


def run_mica(name, dtype="float64", device="cpu"):
    """Output, gradients and, in training, the statistics afterwards: arrays by name."""
    import mica

    layer = CASES[name][0](mica.nn).to(dtype=dtype)
    state = layer.state_dict()
    for key, value in draw_state(name, {k: t.shape for k, t in state.items()}).items():
        state[key].copy_(mica.tensor(value, dtype=dtype))
    layer.to(device)
    inputs = []
    for array, wanted in zip(draw_inputs(name), has_gradient(name), strict=True):
        t = mica.tensor(array, dtype=dtype if array.dtype.kind == "f" else "int64", device=device)
        t.requires_grad = wanted
        inputs.append(t)
    y = layer(*inputs)
    results = {"output": y}
    y.backward(mica.tensor(draw_cotangent(name, y.shape), dtype=dtype, device=device))
    results |= {f"input {i}": t.grad for i, t in enumerate(inputs) if t.requires_grad}
    results |= {key: p.grad for key, p in layer.named_parameters()}
    results |= {
        key: t for key, t in layer.named_buffers() if key.startswith("running") and layer.training
    }
    return {key: t.detach().cpu().numpy() for key, t in results.items()}


def main():
    golden = {}
    for name in CASES:
        golden[name] = {
            key: {
                "shape": list(array.shape),
                "projections": [float(f"{p:.12g}") for p in project(name, key, array)],
            }
            for key, array in run_mica(name).items()
        }
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in golden.items()]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
