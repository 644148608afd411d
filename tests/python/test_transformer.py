"""Attention and transformer layers against a plain composition in float64, and what modules do."""

import copy

import mica
import numpy as np
import pytest
from mica import nn

TOLERANCE = 1e-11


def array(t):
    return t.detach().cpu().numpy()


def plain_attention(layer, query, key, value, added):
    """query (L, E) and so on, of tensors; added (L, S) or a number."""
    w, b = layer.in_proj_weight, layer.in_proj_bias
    heads, width = layer.num_heads, layer.embed_dim
    q, k, v = (
        x @ w[i * width : (i + 1) * width].T + b[i * width : (i + 1) * width]
        for i, x in enumerate((query, key, value))
    )
    size, results, weights = width // heads, [], []
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        scores = (q[:, part] @ k[:, part].T) * size**-0.5 + added
        weights.append(mica.softmax(scores, 1))
        results.append(weights[-1] @ v[:, part])
    return layer.out_proj(mica.cat(results, 1)), sum(weights[1:], weights[0]) / heads


def randomised(layer, device, seed=1):
    rng = np.random.default_rng(seed)
    layer.to(dtype="float64").to(device)
    for p in layer.parameters():
        p.detach().copy_(mica.tensor(0.4 * rng.standard_normal(p.shape), device=device))
    return layer


def draw(device, *shape, seed=2):
    return mica.tensor(np.random.default_rng(seed).standard_normal(shape), device=device)


def same_gradients(found, expected, inputs, parameters):
    cotangent = draw(found.device, *found.shape, seed=9)
    wanted = [*inputs, *parameters]
    ours = mica.autograd.grad((found * cotangent).sum(), wanted)
    theirs = mica.autograd.grad((expected * cotangent).sum(), wanted)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(array(a), array(b), atol=1e-9, rtol=0)


MASKS = {
    "none": None,
    "causal": np.triu(np.ones((5, 5), bool), 1),
    "numbers": np.random.default_rng(3).standard_normal((5, 5)),
}


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("form", ["self", "cross"])
def test_attention_is_its_composition(form, kind, weights, device):
    layer = randomised(nn.MultiheadAttention(6, 3, batch_first=True), device)
    x = draw(device, 2, 5, 6).requires_grad_()
    memory = x if form == "self" else draw(device, 2, 5, 6, seed=4).requires_grad_()
    mask = MASKS[kind]
    added = 0.0 if mask is None else np.where(mask, -np.inf, 0) if mask.dtype == bool else mask
    added = added if mask is None else mica.tensor(added, device=device)
    given = None if mask is None else mica.tensor(mask, device=device)
    y, w = layer(x, memory, memory, attn_mask=given, need_weights=weights)
    each = [plain_attention(layer, x[i], memory[i], memory[i], added) for i in range(2)]
    expected = mica.stack([y for y, _ in each])
    np.testing.assert_allclose(array(y), array(expected), atol=TOLERANCE, rtol=0)
    if weights:
        means = mica.stack([w for _, w in each])
        np.testing.assert_allclose(array(w), array(means), atol=TOLERANCE, rtol=0)
    else:
        assert w is None
    inputs = [x] if form == "self" else [x, memory]
    same_gradients(y, expected, inputs, list(layer.parameters()))


def test_forms_of_input_agree(device):
    layer = randomised(nn.MultiheadAttention(6, 2), device)
    first = randomised(nn.MultiheadAttention(6, 2, batch_first=True), device)
    x = draw(device, 4, 3, 6)
    y, w = layer(x, x, x)
    t = x.transpose(0, 1)
    other, same = first(t, t, t)
    np.testing.assert_allclose(array(y), array(other.transpose(0, 1)), atol=TOLERANCE)
    np.testing.assert_allclose(array(w), array(same), atol=TOLERANCE)
    alone, _ = layer(x[:, 1], x[:, 1], x[:, 1], need_weights=False)
    np.testing.assert_allclose(array(alone), array(y[:, 1]), atol=TOLERANCE)
    causal = mica.nn.square_subsequent_mask(4, dtype="float64", device=device)
    flagged, _ = layer(x, x, x, is_causal=True, need_weights=False)
    masked, _ = layer(x, x, x, attn_mask=causal)
    np.testing.assert_allclose(array(flagged), array(masked), atol=TOLERANCE)
    padding = mica.tensor(np.array([[False] * 4, [False, False, True, True], [True] * 4]))
    padded, _ = layer(x, x, x, key_padding_mask=padding.to(device), is_causal=True)
    both, none = layer(x, x, x, key_padding_mask=padding.to(device), attn_mask=causal)
    np.testing.assert_allclose(array(padded), array(both), atol=TOLERANCE)
    # A sequence that is nothing but padding: what the last layer adds, no NaN.
    np.testing.assert_allclose(array(both[:, 2]), np.tile(array(layer.out_proj.bias), (4, 1)))
    assert not array(none[2]).any()


def composed_encoder(layer, x, norm_first):
    def attended(t):
        return layer.self_attn(t, t, t)[0]

    def fed(t):
        return layer.linear2(mica.nn.functional.gelu(layer.linear1(t)))

    if norm_first:
        x = x + attended(layer.norm1(x))
        return x + fed(layer.norm2(x))
    x = layer.norm1(x + attended(x))
    return layer.norm2(x + fed(x))


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer_is_its_composition(norm_first, device):
    layer = nn.TransformerEncoderLayer(
        6, 2, 9, dropout=0.0, activation="gelu", norm_first=norm_first
    )
    layer = randomised(layer, device)
    x = draw(device, 4, 3, 6).requires_grad_()
    y, expected = layer(x), composed_encoder(layer, x, norm_first)
    np.testing.assert_allclose(array(y), array(expected), atol=1e-10, rtol=0)
    same_gradients(y, expected, [x], list(layer.parameters()))


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layer_is_its_composition(norm_first, device):
    layer = randomised(
        nn.TransformerDecoderLayer(6, 2, 9, dropout=0.0, norm_first=norm_first), device
    )
    x, memory = draw(device, 4, 3, 6), draw(device, 5, 3, 6, seed=5)
    memory_mask = mica.tensor(np.random.default_rng(6).standard_normal((4, 5)), device=device)
    y = layer(x, memory, memory_mask=memory_mask, tgt_is_causal=True)
    causal = mica.nn.square_subsequent_mask(4, dtype="float64", device=device)
    parts = [
        lambda t: layer.self_attn(t, t, t, attn_mask=causal)[0],
        lambda t: layer.multihead_attn(t, memory, memory, attn_mask=memory_mask)[0],
        lambda t: layer.linear2(mica.relu(layer.linear1(t))),
    ]
    for part, norm in zip(parts, (layer.norm1, layer.norm2, layer.norm3), strict=True):
        x = x + part(norm(x)) if norm_first else norm(x + part(x))
    np.testing.assert_allclose(array(y), array(x), atol=1e-10, rtol=0)


def test_stacks_are_their_layers(device):
    layer = nn.TransformerEncoderLayer(6, 2, 9, dropout=0.0)
    encoder = randomised(nn.TransformerEncoder(layer, 3, nn.LayerNorm(6)), device)
    x = draw(device, 4, 3, 6)
    expected = x
    for each in encoder.layers:
        expected = each(expected)
    np.testing.assert_allclose(array(encoder(x)), array(encoder.norm(expected)), atol=TOLERANCE)
    assert next(iter(encoder.state_dict())) == "layers.0.self_attn.in_proj_weight"
    net = randomised(nn.Transformer(6, 2, 1, 2, 9, dropout=0.0), device)
    memory = net.encoder(x)
    target = draw(device, 2, 3, 6, seed=8)
    np.testing.assert_allclose(
        array(net(x, target)), array(net.decoder(target, memory)), atol=TOLERANCE
    )


def test_copies_have_weights_of_their_own():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0), 2)
    x = mica.randn(3, 1, 4)
    before = array(encoder(x))
    other = copy.deepcopy(encoder)
    for p in other.parameters():
        p.detach().fill_(0)
    np.testing.assert_array_equal(array(encoder(x)), before)
    assert np.abs(array(other(x)) - before).max() > 0.1


def test_hooks_and_classes_of_ones_own_are_called():
    seen = []
    layer = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0)
    x = mica.randn(3, 1, 4)
    expected = array(layer(x, is_causal=True))
    layer.self_attn.register_forward_hook(lambda module, args, output: seen.append(len(args)))
    np.testing.assert_allclose(array(layer(x, is_causal=True)), expected, atol=1e-6)
    assert seen == [5]

    class Shifted(nn.MultiheadAttention):
        def forward(self, *args, **kwargs):
            y, weights = super().forward(*args, **kwargs)
            return y + 1, weights

    own = Shifted(4, 2)
    own.load_state_dict(layer.self_attn.state_dict())
    other = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0)
    other.load_state_dict(layer.state_dict())
    other.self_attn = own
    seen.clear()
    y = other(x)
    normed = layer.norm1(x + layer.self_attn(x, x, x)[0] + 1)
    expected = layer.norm2(normed + layer.linear2(mica.relu(layer.linear1(normed))))
    np.testing.assert_allclose(array(y), array(expected), atol=1e-5)


def test_activation_may_be_a_function():
    layer = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, activation=lambda x: x * 0)
    x = mica.randn(3, 1, 4)
    attended = layer.norm1(x + layer.self_attn(x, x, x)[0])
    expected = layer.norm2(attended + layer.linear2.bias)
    np.testing.assert_allclose(array(layer(x)), array(expected), atol=1e-5)


def test_dropout_acts_in_training_only(device):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5).to(device)
    x = mica.randn(4, 2, 8, device=device)
    assert np.abs(array(layer(x)) - array(layer(x))).max() > 0
    layer.eval()
    np.testing.assert_array_equal(array(layer(x)), array(layer(x)))


def test_compiled_layer_gives_the_same(device):
    layer = randomised(nn.TransformerEncoderLayer(6, 2, 9, dropout=0.0), device)
    x = draw(device, 4, 3, 6)
    compiled = mica.compile(lambda t: layer(t, is_causal=True))
    np.testing.assert_allclose(array(compiled(x)), array(layer(x, is_causal=True)), atol=1e-12)


def test_under_autocast(device):
    layer = nn.MultiheadAttention(8, 2).to(device)
    x = mica.randn(4, 2, 8, device=device)
    mask = mica.nn.square_subsequent_mask(4, device=device)
    with mica.autocast(device, dtype=mica.bfloat16):
        y, _ = layer(x, x, x, attn_mask=mask, need_weights=False)
    expected, _ = layer(x, x, x, attn_mask=mask, need_weights=False)
    np.testing.assert_allclose(array(y.float()), array(expected), atol=0.05)


def plain_rotation(x, positions, base, interleaved):
    half = x.shape[-1] // 2
    angles = positions[..., None] * base ** (-np.arange(half) / half)
    pairs = [slice(0, None, 2), slice(1, None, 2)] if interleaved else [
        slice(0, half),
        slice(half, None),
    ]  # fmt: skip
    a, b = x[..., pairs[0]], x[..., pairs[1]]
    y = np.empty_like(x)
    y[..., pairs[0]] = a * np.cos(angles) - b * np.sin(angles)
    y[..., pairs[1]] = b * np.cos(angles) + a * np.sin(angles)
    return y


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(interleaved, device):
    layer = nn.RotaryEmbedding(6, base=100.0, interleaved=interleaved)
    x = draw(device, 2, 3, 5, 6)
    expected = plain_rotation(array(x), np.arange(5.0), 100, interleaved)
    np.testing.assert_allclose(array(layer(x)), expected, atol=1e-12)
    positions = np.array([[3, 4, 5, 6, 7], [0, 9, 2, 1, 1]])
    given = layer(x, mica.tensor(positions, device=device))
    expected = plain_rotation(array(x), positions[:, None].astype(float), 100, interleaved)
    np.testing.assert_allclose(array(given), expected, atol=1e-12)


def test_swiglu(device):
    layer = randomised(nn.SwiGLU(4, 6), device)
    x = draw(device, 3, 4)
    expected = layer.down_proj(mica.nn.functional.silu(layer.gate_proj(x)) * layer.up_proj(x))
    np.testing.assert_array_equal(array(layer(x)), array(expected))
    assert list(layer.state_dict()) == ["gate_proj.weight", "up_proj.weight", "down_proj.weight"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.MultiheadAttention(6, 4), "multiple of the heads, got 6 and 4"),
        (lambda: nn.MultiheadAttention(6, 2, add_bias_kv=True), "add_bias_kv"),
        (lambda: nn.RotaryEmbedding(5), "must be even, got 5"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="swish"), "'relu', 'gelu'"),
        (lambda: attend((3, 2, 5), (4, 2, 5), (4, 2, 5), attn_mask=(2, 4)), r"\(3, 4\)"),
        (lambda: attend((3, 2, 5), (4, 1, 5), (4, 1, 5)), "differ in their batch"),
        (lambda: attend((3, 2, 5), (4, 2, 5), (3, 2, 5)), "in their length"),
        (lambda: attend((5,), (5,), (5,)), "two axes or of three"),
        (
            lambda: attend((3, 2, 5), (4, 2, 5), (4, 2, 5), key_padding_mask=(4, 2)),
            r"mask of padding must be \(2, 4\)",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises((mica.Error, ValueError, NotImplementedError), match=message):
        call()


def attend(*shapes, **masks):
    layer = nn.MultiheadAttention(5, 1)
    return layer(*(mica.zeros(s) for s in shapes), **{k: mica.zeros(v) for k, v in masks.items()})
