"""Attention and transformer layers beside PyTorch's in random configurations: keys, values and
gradients of inputs and weights, float64.

    PYTHONPATH=build/release/python python -m pytest tests/oracle/test_torch_transformers.py

MICA_TRANSFORMER_CASES is how many of each kind. Skipped where PyTorch is not installed.
"""

import inspect
import os

import mica
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

CASES = int(os.environ.get("MICA_TRANSFORMER_CASES", "60"))
TOLERANCE = 1e-10


def flip(rng, p=0.5):
    return bool(rng.random() < p)


def draw_mask(rng, shape):
    """None, bools or numbers; every query sees the first key."""
    kind = rng.choice(["none", "bool", "numbers", "causal"])
    if kind == "none":
        return None
    if kind == "causal":
        return np.triu(np.ones(shape, bool), 1)
    if kind == "bool":
        mask = rng.random(shape) < 0.4
        mask[..., 0] = False
        return mask
    return rng.standard_normal(shape)


def draw_padding(rng, batch, length, numbers=False):
    if flip(rng):
        return None
    mask = np.arange(length) >= rng.integers(1, length + 1, batch)[:, None]
    return np.where(mask, -np.inf, 0.0) if numbers else mask


class Pair:
    """A layer of both with the same weights, called with the same arrays."""

    def __init__(self, rng, make):
        self.theirs = make(torch.nn).double()
        self.ours = make(mica.nn).to(dtype="float64")
        assert list(self.ours.state_dict()) == list(self.theirs.state_dict())
        state = {k: rng.standard_normal(t.shape) * 0.4 for k, t in self.theirs.state_dict().items()}
        self.theirs.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
        self.ours.load_state_dict({k: mica.tensor(v) for k, v in state.items()})

    def compare(self, rng, arrays, options, same=()):
        """arrays[i] is the tensor of arrays[same[i]] where i is in same."""
        results = []
        for library, layer in ((mica, self.ours), (torch, self.theirs)):
            tensors = [library.tensor(a) for a in arrays]
            for t in tensors:
                t.requires_grad = True
            for i, other in dict(same).items():
                tensors[i] = tensors[other]
            given = {
                name: library.tensor(v) if isinstance(v, np.ndarray) else v
                for name, v in options.items()
            }
            y = layer(*tensors, **given)
            outputs = [t for t in (y if isinstance(y, tuple) else (y,)) if t is not None]
            results.append((tensors, outputs))
        (ours, mine), (theirs, reference) = results
        assert len(mine) == len(reference)
        for a, b in zip(mine, reference, strict=True):
            assert tuple(a.shape) == tuple(b.shape)
            close(a.detach().numpy(), b.detach().numpy(), "output")
        cotangents = [rng.standard_normal(t.shape) for t in reference]
        pairs = zip(reference, cotangents, strict=True)
        sum((t * torch.tensor(c)).sum() for t, c in pairs).backward()
        total = mica.zeros((), dtype="float64")
        for t, c in zip(mine, cotangents, strict=True):
            total = total + (t * mica.tensor(c)).sum()
        total.backward()
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            close(a.grad.numpy(), b.grad.numpy(), f"gradient of input {i}")
        weights = dict(self.theirs.named_parameters())
        for name, p in self.ours.named_parameters():
            close(p.grad.numpy(), weights[name].grad.numpy(), f"gradient of {name}")


def close(a, b, what):
    scale = max(1, np.abs(b).max(initial=0))
    np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE * scale, err_msg=what)


def sequence(rng, batch, length, width, batch_first):
    return rng.standard_normal((batch, length, width) if batch_first else (length, batch, width))


@pytest.mark.parametrize("seed", range(CASES))
def test_attention(seed):
    rng = np.random.default_rng([seed, 1])
    heads = int(rng.integers(1, 5))
    width = heads * int(rng.integers(1, 6))
    batch, length, keys = (int(n) for n in rng.integers(1, 7, 3))
    first, single = flip(rng), flip(rng, 0.2)
    own = rng.choice(["self", "cross", "three"])
    options = {"bias": flip(rng), "batch_first": first}
    if own == "three" and flip(rng):
        options |= {"kdim": int(rng.integers(1, 9)), "vdim": int(rng.integers(1, 9))}
    keys = length if own == "self" else keys
    pair = Pair(rng, lambda nn: nn.MultiheadAttention(width, heads, **options))
    widths = [width, options.get("kdim", width), options.get("vdim", width)]
    arrays = [
        sequence(rng, batch, n, w, first) for n, w in zip((length, keys, keys), widths, strict=True)
    ]
    if single:
        batch = 1
        arrays = [a[0] if first else a[:, 0] for a in arrays]
    shape = (length, keys) if flip(rng) or single else (batch * heads, length, keys)
    mask = draw_mask(rng, shape)
    numbers = mask is not None and mask.dtype != bool
    padding = draw_padding(rng, batch, keys, numbers)
    if mask is not None and padding is not None and not numbers:
        mask[..., 0] = False
    call = {
        "need_weights": flip(rng),
        "average_attn_weights": flip(rng),
        "attn_mask": mask,
        "key_padding_mask": padding[0] if single and padding is not None else padding,
    }
    same = {"self": {1: 0, 2: 0}, "cross": {2: 1}, "three": {}}[own]
    pair.compare(rng, arrays, call, same)


def draw_layer(rng):
    heads = int(rng.integers(1, 4))
    return {
        "d_model": heads * int(rng.integers(1, 5)),
        "nhead": heads,
        "dim_feedforward": int(rng.integers(1, 12)),
        "dropout": 0.0,
        "activation": str(rng.choice(["relu", "gelu"])),
        "layer_norm_eps": float(rng.choice([1e-5, 1e-2])),
        "batch_first": flip(rng),
        "norm_first": flip(rng),
    }


@pytest.mark.parametrize("seed", range(CASES))
def test_encoder(seed):
    rng = np.random.default_rng([seed, 2])
    options = draw_layer(rng)
    stacked = flip(rng)

    def make(nn):
        layer = nn.TransformerEncoderLayer(**options)
        norm = nn.LayerNorm(options["d_model"]) if seed % 2 else None
        return nn.TransformerEncoder(layer, 2, norm) if stacked else layer

    pair = Pair(rng, make)
    batch, length = (int(n) for n in rng.integers(1, 6, 2))
    x = sequence(rng, batch, length, options["d_model"], options["batch_first"])
    mask = draw_mask(rng, (length, length))
    numbers = mask is not None and mask.dtype != bool
    call = {
        "mask" if stacked else "src_mask": mask,
        "src_key_padding_mask": draw_padding(rng, batch, length, numbers),
    }
    pair.compare(rng, [x], call)


@pytest.mark.parametrize("seed", range(CASES))
def test_decoder(seed):
    rng = np.random.default_rng([seed, 3])
    options = draw_layer(rng)
    stacked = flip(rng)

    def make(nn):
        layer = nn.TransformerDecoderLayer(**options)
        return nn.TransformerDecoder(layer, 2) if stacked else layer

    pair = Pair(rng, make)
    batch, length, keys = (int(n) for n in rng.integers(1, 6, 3))
    arrays = [
        sequence(rng, batch, n, options["d_model"], options["batch_first"]) for n in (length, keys)
    ]
    masks = [draw_mask(rng, (length, length)), draw_mask(rng, (length, keys))]
    numbers = [m is not None and m.dtype != bool for m in masks]
    call = {
        "tgt_mask": masks[0],
        "memory_mask": masks[1],
        "tgt_key_padding_mask": draw_padding(rng, batch, length, numbers[0]),
        "memory_key_padding_mask": draw_padding(rng, batch, keys, numbers[1]),
    }
    pair.compare(rng, arrays, call)


@pytest.mark.parametrize("seed", range(max(1, CASES // 4)))
def test_transformer(seed):
    rng = np.random.default_rng([seed, 4])
    options = draw_layer(rng) | {"num_encoder_layers": 2, "num_decoder_layers": 1}
    pair = Pair(rng, lambda nn: nn.Transformer(**options))
    batch, length, keys = (int(n) for n in rng.integers(1, 5, 3))
    arrays = [
        sequence(rng, batch, n, options["d_model"], options["batch_first"]) for n in (keys, length)
    ]
    causal = torch.nn.Transformer.generate_square_subsequent_mask(length).double().numpy()
    pair.compare(rng, arrays, {"tgt_mask": causal if flip(rng) else None})


@pytest.mark.parametrize(
    "name",
    ["MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer"],
)
def test_arguments(name):
    """Every argument of PyTorch's constructor but device and dtype, in its order."""
    theirs = list(inspect.signature(getattr(torch.nn, name).__init__).parameters)[1:]
    cls = getattr(mica.nn, name)
    text = inspect.signature(cls.__init__) if name == "Transformer" else None
    if text is None:
        signature = cls.__init__.__nb_signature__[0][0]
        ours = [part.split(":")[0].strip() for part in signature.split("(", 1)[1].split(",")]
    else:
        ours = list(text.parameters)
    ours = [n for n in ours if n != "self"]
    wanted = [n for n in theirs if n not in ("device", "dtype")]
    assert ours[: len(wanted)] == wanted
