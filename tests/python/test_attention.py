"""Attention in random combinations of its options, by every kernel, against NumPy and against the
reference in float64. MICA_ATTENTION_CASES is how many; what is default is soon done."""

import os
import subprocess
import sys

import mica
import mica.nn.functional as F
import numpy as np
import pytest

CASES = int(os.environ.get("MICA_ATTENTION_CASES", "16"))
# Of the call and of its gradient.
KERNELS = {
    "cpu": (("tiled", "tiled"), ("reference", "reference")),
    "cuda": (
        ("cudnn", "cudnn"),
        ("wgmma", "wgmma"),
        ("tiles", "tiles"),
        ("split_keys", "direct"),
        ("direct", "direct"),
    ),
}
TOLERANCE = {"float64": 1e-11, "float32": 2e-5, "float16": 8e-3, "bfloat16": 6e-2}


def draw(seed):
    """Arrays in float64, options for mica, and the mask as numbers that are added."""
    rng = np.random.default_rng(seed)
    kv_heads = int(rng.integers(1, 4))
    heads = kv_heads * int(rng.choice([1, 1, 2, 3]))
    batch, queries = int(rng.integers(1, 4)), int(rng.choice([1, 5, 33, 70, 130]))
    keys = queries if rng.random() < 0.5 else int(rng.choice([3, 40, 64, 150]))
    width = int(rng.choice([4, 8, 16, 20, 64, 72, 128]))
    value_width = width if rng.random() < 0.7 else int(rng.choice([8, 24, 40]))
    shapes = [
        (batch, heads, queries, width),
        (batch, kv_heads, keys, width),
        (batch, kv_heads, keys, value_width),
    ]
    arrays = [0.7 * rng.standard_normal(s) for s in shapes]
    options = {"enable_gqa": heads != kv_heads, "scale": float(rng.uniform(0.05, 0.3))}
    added = np.zeros((batch, heads, queries, keys))
    kind = rng.choice(["none", "causal", "causal", "window", "bool", "numbers"])
    lengths = rng.integers(1, keys + 1, batch) if rng.random() < 0.3 else None
    if lengths is not None:
        options["lengths"] = mica.tensor(lengths.astype(np.int32))
        late = np.arange(keys) >= lengths[:, None, None, None]
        added = np.where(late, -np.inf, added)
    if kind in ("causal", "window"):
        options["is_causal"] = kind == "causal" or rng.random() < 0.5
        options["bottom_right"] = bool(rng.random() < 0.5)
        own = np.arange(queries)[:, None]
        if options["bottom_right"]:
            own = own + (keys if lengths is None else lengths[:, None, None, None]) - queries
        if options["is_causal"]:
            added = np.where(np.arange(keys) > own, -np.inf, added)
        if kind == "window":
            window = options["window"] = int(rng.integers(1, keys + 1))
            added = np.where(np.arange(keys) <= own - window, -np.inf, added)
            if not options["is_causal"]:
                added = np.where(np.arange(keys) >= own + window, -np.inf, added)
    mask = None
    if kind in ("bool", "numbers"):
        shape = tuple(n if rng.random() < 0.6 else 1 for n in added.shape)
        mask = rng.random(shape) < 0.7 if kind == "bool" else rng.standard_normal(shape)
        added = added + (np.where(mask, 0, -np.inf) if kind == "bool" else mask)
    if rng.random() < 0.25:
        options["dropout_p"] = 0.3
    return arrays, options, mask, added


def expected_of(arrays, options, added):
    q, k, v = arrays
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = q @ np.swapaxes(k, -1, -2) * options["scale"] + added
    largest = np.maximum(scores.max(-1, keepdims=True), -1e300)
    weights = np.exp(scores - largest)
    return weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300) @ v


def attend(arrays, options, mask, dtype, device, kernels):
    """The result and the gradients of q, k and v for a fixed cotangent; None if it is refused."""
    q, k, v = (mica.tensor(a).to(dtype).to(device).requires_grad_() for a in arrays)
    given = dict(options)
    if mask is not None:
        m = mica.tensor(mask)
        given["attn_mask"] = (m if mask.dtype == bool else m.to(dtype)).to(device)
    if "lengths" in given:
        given["lengths"] = given["lengths"].to(device)
    mica.manual_seed(3)
    for op, kernel in zip(("attention", "attention_grad"), kernels, strict=True):
        mica.force_kernel(op, kernel)
    try:
        y = F.scaled_dot_product_attention(q, k, v, **given)
        slope = np.random.default_rng(9).standard_normal(y.shape)
        y.backward(mica.tensor(slope).to(dtype).to(device))
    except mica.Unsupported:
        return None
    finally:
        for op in ("attention", "attention_grad"):
            mica.force_kernel(op, "")
    return [t.detach().cpu().double().numpy() for t in (y, q.grad, k.grad, v.grad)]


def apart(found, expected):
    """By which part of the size of the numbers; a gradient that is 0 is so but for rounding."""
    return np.abs(found - expected).max() / max(np.sqrt(np.mean(expected**2)), 0.03)


@pytest.mark.parametrize("seed", range(CASES))
def test_random_combination(seed, device):
    arrays, options, mask, added = draw(seed)
    names = ("float32", "bfloat16") if seed % 2 else ("float32", "float16")
    for dtype in ("float64", *names):
        rounded = [mica.tensor(a).to(dtype).double().numpy() for a in arrays]
        numbers = mask is not None and mask.dtype != bool
        given = mica.tensor(mask).to(dtype).double().numpy() if numbers else mask
        reference = attend(rounded, options, given, "float64", "cpu", ("reference",) * 2)
        if dtype == "float64" and "dropout_p" not in options:
            assert apart(reference[0], expected_of(arrays, options, added)) < 1e-11
        on_cuda = "cuda" in str(device)
        kernels = KERNELS["cuda" if on_cuda else "cpu"]
        # TF32 has the digits of float16.
        rough = dtype == "float32" and on_cuda and mica.allow_tf32()
        digits = TOLERANCE["float16" if rough else dtype]
        results = [attend(rounded, options, given, dtype, device, k) for k in kernels]
        assert any(r is not None for r in results)
        for kernel, result in zip(kernels, results, strict=True):
            for what, found, wanted in zip("yqkv", result or [], reference, strict=False):
                assert apart(found, wanted) < digits * 8, (kernel, dtype, what, options)


def test_strided_operands_are_not_copied(device):
    qkv = mica.randn(2, 9, 3, 4, 8, device=device)
    q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    # The result lies as the queries do, so that heads are joined without a copy.
    assert y.transpose(1, 2).is_contiguous()
    packed = F.packed_attention(qkv.reshape(2, 9, 96), 4, is_causal=True)
    assert mica.allclose(y.transpose(1, 2).reshape(2, 9, 32), packed, atol=1e-6)


# Prints by how much the most that was in use grew, in MiB, with the gradients of one long sequence.
LONG = """
import sys, resource
import mica, mica.nn.functional as F
device, dtype, length, forward, backward = sys.argv[1:]
mica.force_kernel("attention", forward)
mica.force_kernel("attention_grad", backward)
shape = (1, 1, int(length), 32)
q, k, v = (mica.randn(*shape, device=device).to(dtype).requires_grad_() for _ in "qkv")
slope = mica.ones(1, 1, int(length), 32, device=device).to(dtype)
def used():
    if device == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return mica.cuda.max_memory_allocated() / 2**20
before = used()
y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
mica.autograd.grad([y], [q, k, v], [slope])
print(used() - before)
"""


@pytest.mark.parametrize("forward", ["", "tiled", "cudnn", "wgmma", "tiles", "direct"])
def test_memory_grows_with_the_length(forward, device):
    """Where the scores of one head would take 512 MiB or more."""
    on_cuda = "cuda" in str(device)
    if forward == "tiled" if on_cuda else forward not in ("", "tiled"):
        pytest.skip("a kernel of another device")
    given = [str(device), "bfloat16" if on_cuda else "float32", "16384", forward, forward]
    done = subprocess.run(
        [sys.executable, "-c", LONG, *given], capture_output=True, text=True, check=False
    )
    if "Unsupported" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 96
