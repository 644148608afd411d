"""Attention beside PyTorch's in random combinations of its options, by every kernel: results and
gradients, against PyTorch's in float64.

    PYTHONPATH=build/release/python python -m pytest tests/oracle/test_torch_attention.py

MICA_ATTENTION_CASES is how many; MICA_TEST_DEVICE the device. What dropout drops is PyTorch's own
affair: there PyTorch computes with the weights that mica drops. Skipped where PyTorch is not
installed. At the end it says how many calls each kernel took; one that took none fails.
"""

import collections
import os

import mica
import mica.nn.functional as F
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

CASES = int(os.environ.get("MICA_ATTENTION_CASES", "40"))
DEVICE = os.environ.get("MICA_TEST_DEVICE", "cpu")
# Of the forward call and of its gradient.
KERNELS = {
    "cpu": [("tiled", "tiled"), ("reference", "reference")],
    "cuda": [
        ("cudnn", "cudnn"),
        ("wgmma", "wgmma"),
        ("tiles", "tiles"),
        ("split_keys", "direct"),
        ("direct", "direct"),
    ],
}["cuda" if "cuda" in DEVICE else "cpu"]
TOLERANCE = {"float64": 1e-10, "float32": 2e-4, "float16": 6e-2, "bfloat16": 4e-1}
taken = collections.Counter()


def draw(rng):
    """Shapes, and options as PyTorch's and mica's names have them."""
    kv_heads = int(rng.integers(1, 4))
    heads = kv_heads * int(rng.choice([1, 1, 2, 4]))
    queries = int(rng.choice([1, 2, 4, 31, 64, 100, 192, 257]))
    keys = queries if rng.random() < 0.5 else int(rng.choice([1, 7, 64, 128, 200, 330]))
    width = int(rng.choice([8, 16, 40, 64, 64, 96, 128, 128, 256]))
    value_width = width if rng.random() < 0.8 else int(rng.choice([8, 24, 64, 128]))
    batch = int(rng.integers(1, 4))
    shapes = (
        (batch, heads, queries, width),
        (batch, kv_heads, keys, width),
        (batch, kv_heads, keys, value_width),
    )
    options = {"scale": float(rng.choice([-1, 1, 1, 1]) * rng.uniform(0.05, 1.2) / width**0.5)}
    kind = rng.choice(["plain", "causal", "causal", "window", "bool", "numbers"])
    if kind == "causal" or (kind == "window" and rng.random() < 0.6):
        options["is_causal"] = True
    if kind == "window":
        options["window"] = int(rng.integers(1, keys + 1))
    if kind in ("causal", "window") and rng.random() < 0.4:
        options["bottom_right"] = True
    mask = None
    if kind in ("bool", "numbers"):
        full = (batch, heads, queries, keys)
        shape = tuple(n if rng.random() < 0.6 else 1 for n in full)
        mask = rng.random(shape) < 0.7 if kind == "bool" else rng.standard_normal(shape)
    lengths = None
    if kind in ("plain", "causal", "window") and rng.random() < 0.3:
        lengths = rng.integers(0, keys + 1, batch).astype(np.int32)
    if rng.random() < 0.3:
        options["dropout_p"] = float(rng.choice([0.1, 0.5]))
    return shapes, options, mask, lengths


def seen_by(shapes, options, mask, lengths):
    """Which keys a query looks at, as a bool that broadcasts to the scores."""
    queries, keys = shapes[0][2], shapes[1][2]
    key, query = np.arange(keys), np.arange(queries)[:, None]
    length = np.full((1, 1, 1, 1), keys) if lengths is None else lengths[:, None, None, None]
    seen = key < length
    own = query + (length - queries if options.get("bottom_right") else 0)
    window = options.get("window", 0)
    if options.get("is_causal"):
        seen = seen & (key <= own)
    elif window:
        seen = seen & (key < own + window)
    if window:
        seen = seen & (key > own - window)
    return seen & mask if mask is not None and mask.dtype == bool else seen


def kept_weights(shapes, options, seed):
    """What mica multiplies each weight with: 0 or 1 / (1 - p)."""
    (batch, heads, queries, width), (_, _, keys, _), _ = shapes
    zeros = mica.zeros(batch, heads, queries, width)
    own = mica.tensor(np.broadcast_to(np.eye(keys, dtype=np.float32), (batch, heads, keys, keys)))
    mica.manual_seed(seed)
    even = F.scaled_dot_product_attention(
        zeros, mica.zeros(batch, heads, keys, width), own, dropout_p=options["dropout_p"]
    )
    return np.round(even.numpy() * keys * (1 - options["dropout_p"])) / (1 - options["dropout_p"])


def by_torch(arrays, slope, shapes, options, mask, lengths, seed):
    q, k, v = (torch.tensor(a, dtype=torch.float64).requires_grad_() for a in arrays)
    group = shapes[0][1] // shapes[1][1]
    keys, values = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    seen = torch.tensor(np.ascontiguousarray(seen_by(shapes, options, mask, lengths)))
    added = torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -torch.inf)
    if mask is not None and mask.dtype != bool:
        added = added + torch.tensor(mask, dtype=torch.float64)
    added = added.expand(*shapes[0][:3], shapes[1][2])
    # A query that looks at nothing gives NaN there and zeros in mica.
    nothing = (added == -torch.inf).all(-1, keepdim=True)
    if "dropout_p" in options:
        scores = (q @ keys.mT * options["scale"] + added).masked_fill(nothing, 0)
        kept = torch.tensor(kept_weights(shapes, options, seed), dtype=torch.float64)
        y = (scores.softmax(-1) * kept) @ values
    else:
        y = torch.nn.functional.scaled_dot_product_attention(
            q, keys, values, added.masked_fill(nothing, 0), scale=options["scale"]
        )
    y = y.masked_fill(nothing, 0)
    y.backward(torch.tensor(slope))
    return [t.detach().numpy() for t in (y, q.grad, k.grad, v.grad)]


def by_mica(arrays, slope, options, mask, lengths, dtype, kernels, seed):
    """None where the kernels refuse the call."""
    q, k, v = (mica.tensor(a).to(DEVICE).to(dtype).requires_grad_() for a in arrays)
    given = dict(options)
    given["enable_gqa"] = q.shape[1] != k.shape[1]
    if mask is not None:
        m = mica.tensor(mask).to(DEVICE)
        given["attn_mask"] = m if mask.dtype == bool else m.to(dtype)
    if lengths is not None:
        given["lengths"] = mica.tensor(lengths).to(DEVICE)
    mica.manual_seed(seed)
    for op, kernel in zip(("attention", "attention_grad"), kernels, strict=True):
        mica.force_kernel(op, kernel)
    try:
        y = F.scaled_dot_product_attention(q, k, v, **given)
        y.backward(mica.tensor(slope).to(DEVICE).to(dtype))
    except mica.Unsupported:
        return None
    finally:
        for op in ("attention", "attention_grad"):
            mica.force_kernel(op, "")
    return [t.detach().cpu().double().numpy() for t in (y, q.grad, k.grad, v.grad)]


def rounded(array, dtype):
    return mica.tensor(array).to(dtype).double().numpy()


@pytest.mark.parametrize("seed", range(CASES))
def test_random_configuration(seed):
    rng = np.random.default_rng(seed)
    shapes, options, mask, lengths = draw(rng)
    half = ("float16", "bfloat16")[seed % 2]
    exact = [0.7 * rng.standard_normal(s) for s in shapes]
    slope = rng.standard_normal((*shapes[0][:3], shapes[2][3]))
    for dtype in ("float64" if seed % 5 == 0 else "float32", half):
        arrays = [rounded(a, dtype) for a in exact]
        cotangent = rounded(slope, dtype)
        numbers = mask is not None and mask.dtype != bool
        shown = rounded(mask, dtype) if numbers else mask
        expected = by_torch(arrays, cotangent, shapes, options, shown, lengths, seed)
        for kernels in KERNELS:
            found = by_mica(arrays, cotangent, options, shown, lengths, dtype, kernels, seed)
            taken[kernels] += found is not None
            for what, ours, theirs in zip("yqkv", found or [], expected, strict=False):
                size = max(np.sqrt(np.mean(theirs**2)), 0.05)
                apart = np.abs(ours - theirs).max() / size
                said = (what, kernels, dtype, shapes, options, lengths)
                assert apart < TOLERANCE[dtype], (apart, said)


@pytest.mark.skipif(CASES < 40, reason="too few cases for every kernel to have taken one")
def test_every_kernel_took_calls():
    print(dict(taken))
    assert set(taken) == set(KERNELS)
    assert min(taken.values()) > CASES // 20, taken
