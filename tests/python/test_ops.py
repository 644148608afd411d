"""Every operator has a function in Python; operators on tensors and indexing against NumPy."""

import operator

import mica
import mica.nn.functional as F
import numpy as np
import pytest
from mica import _mica

# What has another name than the operator.
RENAMED = {
    "ctc": "ctc_loss",
    "col2im": "fold",
    "copy": "to",
    "copy_into": "copy_",
    "gelu_tanh": "gelu",  # approximate="tanh"
    "im2col": "unfold",
    "index": "__getitem__",
    "left_shift": "bitwise_left_shift",
    "log_sigmoid": "logsigmoid",
    "right_shift": "bitwise_right_shift",
    "slice": "__getitem__",
    "take_along_axis": "take_along_dim",
    "upsample": "interpolate",
    "upsample2d": "interpolate",
}

# What Python has no function for, and why.
MISSING = {
    "anchored": "what compiled functions make of an op and elementwise calls around it",
    "conv2d_dgrad": "a gradient",
    "conv2d_wgrad": "a gradient",
    "copies": "what compiled functions make of many copies",
    "conv2d_batch_norm": "what compiled functions make of a convolution and its batch norm",
    "conv2d_dgrad_batch_norm_grad": "a gradient",
    "conv2d_pool": "what compiled functions make of a convolution and its pooling",
    "conv2d_pool_dgrad": "a gradient",
    "conv2d_pool_wgrad": "a gradient",
    "linear_cross_entropy": "what compiled functions make of a last layer and its loss",
    "linear_cross_entropy_dgrad": "a gradient",
    "linear_wgrad": "a gradient",
    "conv3d_dgrad": "a gradient",
    "conv3d_wgrad": "a gradient",
    "fused": "what compiled functions make of elementwise chains",
    "fused_reduce": "what compiled functions make of elementwise chains and a reduction",
    "max_pool2d_values": "what compiled functions make of a pooling whose positions nobody reads",
    "nonzero_ends": "a part of nonzero",
    **dict.fromkeys(
        (
            *("csr_check", "csr_coordinates", "csr_transpose", "coo_keys", "csr_matmul"),
            *("csr_sampled_matmul", "csr_softmax", "csr_product_ends", "csr_product"),
            "csr_sampled_product",
        ),
        "what mica.sparse is made of",
    ),
    "complex_abs": "what abs is of complex numbers",
    "lu_permutation": "a part of linalg.lu",
    "cofactor": "a gradient, of linalg.det",
    "fft_block": "what fft.fftn and its siblings are on CUDA",
    "attention": "what scaled_dot_product_attention and packed_attention are made of",
    "quantized_conv2d": "what mica.inference.optimize makes of convolutions in int8",
    "quantized_linear": "what mica.inference.optimize makes of linear layers in int8",
    "recurrent": "one layer in one direction of lstm, gru, rnn_tanh and rnn_relu",
    "rng_take": "what random operators draw from",
    "schedule_lr": "a part of an optimizer's step",
    "sgd_update": "a step of mica.optim.SGD",
    "adam_update": "a step of mica.optim.Adam",
    "rmsprop_update": "a step of mica.optim.RMSprop",
    "adagrad_update": "a step of mica.optim.Adagrad",
    "adadelta_update": "a step of mica.optim.Adadelta",
    "adamax_update": "a step of mica.optim.Adamax",
    "nadam_update": "a step of mica.optim.NAdam",
    "radam_update": "a step of mica.optim.RAdam",
    "lion_update": "a step of mica.optim.Lion",
    "ema_update": "what mica.optim.EMA does",
    "linear_sgd_update": "what compiled functions make of layers' gradients and SGD's step",
    "linear_adam_update": "what compiled functions make of layers' gradients and Adam's step",
    "linear_rmsprop_update": "what compiled functions make of layers' gradients and RMSprop's step",
    "linear_adagrad_update": "what compiled functions make of layers' gradients and Adagrad's step",
    "total_norm": "a part of clip_grad_norm_",
    "clip_by_norm": "a part of clip_grad_norm_",
    "clip_by_value": "a part of clip_grad_value_",
    "scale_tensors": "a part of GradScaler.unscale_",
    "collective_wait": "what mica.distributed.DataParallel waits for its buckets by",
}


# Before other tests add operators of their own.
OPERATORS = [op["name"] for op in _mica._ops()]


def test_every_operator_has_a_function():
    names = OPERATORS
    assert len(names) == len(set(names)) > 100
    places = (mica, mica.Tensor, F, mica.distributed, mica.fft, mica.linalg)
    wanted = [n for n in names if n not in MISSING and not n.endswith("_grad")]
    called = {n: RENAMED.get(n, n).rpartition(".")[2] for n in wanted}
    missing = [n for n in wanted if not any(hasattr(p, called[n]) for p in places)]
    assert missing == []
    assert [n for n in MISSING if n not in names] == [], "an exception that no operator has"


def test_every_function_of_the_extension_is_public():
    hidden = [n for n in vars(_mica) if not n.startswith("_") and not hasattr(mica, n)]
    assert [n for n in hidden if n != "functional"] == []
    assert set(mica.__all__) >= {"Tensor", "add", "nn", "no_grad", "__version__"}


def array(rng, *shape, dtype=np.float32):
    if np.issubdtype(dtype, np.floating):
        return rng.uniform(0.5, 3, shape).astype(dtype)
    return rng.integers(1, 7, shape).astype(dtype)


ARITHMETIC = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("op", ARITHMETIC + COMPARISONS)
def test_operators_with_tensors_and_numbers(op, rng):
    a, b = array(rng, 3, 1, 4), array(rng, 2, 4)
    ta, tb = mica.tensor(a), mica.tensor(b)
    for got, expected in ((op(ta, tb), op(a, b)), (op(ta, 2), op(a, 2)), (op(2, ta), op(2, a))):
        assert isinstance(got, mica.Tensor)
        assert got.dtype is (mica.bool if op in COMPARISONS else mica.float32)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("op", BITS)
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_operators_on_bits(op, dtype, rng):
    a, b = array(rng, 3, 4, dtype=dtype), array(rng, 4, dtype=dtype)
    ta, tb = mica.tensor(a), mica.tensor(b)
    for got, expected in ((op(ta, tb), op(a, b)), (op(ta, 3), op(a, 3)), (op(3, ta), op(3, a))):
        np.testing.assert_array_equal(got.numpy(), expected)


def test_bits_of_large_numbers_are_exact():
    t = mica.tensor([2**62 + 1, -1])
    assert (t & (2**62 + 1)).numpy().tolist() == [2**62 + 1, 2**62 + 1]
    assert (2**62 + 3 ^ t).numpy().tolist() == [2, -(2**62) - 4]


def test_signs_and_inversion(rng):
    a = array(rng, 3) - 2
    np.testing.assert_array_equal(abs(mica.tensor(a)).numpy(), abs(a))
    np.testing.assert_array_equal((-mica.tensor(a)).numpy(), -a)
    mask = a > 0
    np.testing.assert_array_equal((~mica.tensor(mask)).numpy(), ~mask)
    np.testing.assert_array_equal((~mica.tensor([1, 2])).numpy(), [-2, -3])


def test_tensors_are_keys_by_identity():
    a, b = mica.ones(2), mica.ones(2)
    assert {a: 1, b: 2}[b] == 2 and len({a, b, a}) == 2
    assert a in {a} and b not in {a}
    assert (a == None) is False  # noqa: E711


def test_numbers_in_functions(rng):
    a = array(rng, 3)
    t = mica.tensor(a)
    np.testing.assert_allclose(mica.pow(2, t).numpy(), 2**a, rtol=1e-6)
    np.testing.assert_allclose(mica.pow(t, exponent=2).numpy(), a**2, rtol=1e-6)
    np.testing.assert_allclose(t.maximum(1.5).numpy(), np.maximum(a, 1.5), rtol=1e-6)
    np.testing.assert_allclose(mica.clamp(t, min=1).numpy(), np.maximum(a, 1), rtol=1e-6)
    np.testing.assert_allclose(t.clamp(1, max=2).numpy(), np.clip(a, 1, 2), rtol=1e-6)
    np.testing.assert_allclose(t.clamp(t - 1, t - 0.5).numpy(), a - 0.5, rtol=1e-6)
    np.testing.assert_allclose(mica.where(t > 1, t, -1).numpy(), np.where(a > 1, a, -1), rtol=1e-6)
    np.testing.assert_allclose(mica.where(t > 1, 0.0, t).numpy(), np.where(a > 1, 0, a), rtol=1e-6)
    np.testing.assert_allclose(t.where(t > 1, 0).numpy(), np.where(a > 1, a, 0), rtol=1e-6)
    np.testing.assert_allclose(t.lerp(t + 2, 0.25).numpy(), a + 0.5, rtol=1e-6)


def test_activations(device):
    x = mica.tensor([-4.0, -1.0, 0.0, 1.5, 4.0], device=device)
    expected = [0, -1 / 3, 0, 1.125, 4]
    np.testing.assert_allclose(F.hardswish(input=x).cpu().numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(F.clipped_relu(x, 2).cpu().numpy(), [0, 0, 0, 1.5, 2])
    assert F.gelu(x)[3].item() != F.gelu(x, approximate="tanh")[3].item()
    with pytest.raises(mica.Unsupported, match="gelu: approximate must be one of 'none', 'tanh'"):
        F.gelu(x, "erf")
    np.testing.assert_allclose(F.leaky_relu(x, negative_slope=0.5)[0].item(), -2)


def test_linear_takes_an_activation(device):
    w, b = mica.rand(5, 7, device=device) - 0.5, mica.rand(5, device=device) - 0.5
    functions = {
        "relu": F.relu,
        "gelu": F.gelu,
        "gelu_tanh": lambda y: F.gelu(y, approximate="tanh"),
        "silu": F.silu,
        "hardswish": F.hardswish,
        "tanh": mica.tanh,
        "sigmoid": mica.sigmoid,
    }
    for name, f in functions.items():
        for trained in (False, True):
            x = (mica.rand(4, 7, device=device) * 4 - 2).requires_grad_(trained)
            got, want = F.linear(x, w, b, activation=name), f(F.linear(x, w, b))
            np.testing.assert_allclose(
                got.detach().cpu().numpy(), want.detach().cpu().numpy(), rtol=1e-5, atol=1e-6
            )
            assert got.requires_grad == trained
    with pytest.raises(mica.Unsupported, match="linear: activation must be one of"):
        F.linear(x, w, b, activation="selu")


@pytest.mark.parametrize(
    "key",
    [
        slice(None, None, -1),
        slice(3, 0, -2),
        slice(0, 3, -1),
        slice(-1, -10, -3),
        (slice(None), slice(None, None, -2), 1),
        (..., slice(2, None, -1)),
        (0, slice(None, None, -1), None),
    ],
)
def test_slices_backwards(key, rng):
    a = array(rng, 4, 3, 5)
    np.testing.assert_array_equal(mica.tensor(a)[key].numpy(), a[key])


def test_joins_and_parts(rng):
    a, b = array(rng, 2, 3), array(rng, 2, 3)
    ta, tb = mica.tensor(a), mica.tensor(b)
    np.testing.assert_array_equal(mica.cat([ta, tb], dim=1).numpy(), np.concatenate([a, b], 1))
    np.testing.assert_array_equal(mica.stack((ta, tb), -1).numpy(), np.stack([a, b], -1))
    assert [p.shape for p in mica.split(ta, 2, dim=1)] == [(2, 2), (2, 1)]
    assert [p.shape for p in ta.split([1, 2], dim=1)] == [(2, 1), (2, 2)]
    assert [p.shape for p in ta.chunk(3, 1)] == [(2, 1)] * 3
    with pytest.raises(TypeError, match=r"cat: expected(.|\n)*got \(\[ndarray, ndarray\]"):
        mica.cat([a, b])
    assert ta.flip(0, 1).shape == ta.flip((0, 1)).shape == mica.flip(ta, dims=(0, 1)).shape
    assert mica.reshape(ta, (3, 2)).shape == (3, 2) and mica.permute(ta, (1, 0)).shape == (3, 2)
    assert ta.unsqueeze(0).squeeze().shape == ta.unsqueeze(0).squeeze(dim=(0, 1)).shape == (2, 3)


def test_random_numbers():
    t = mica.randint(3, 9, (500,))
    assert t.dtype is mica.int64 and set(t.numpy()) == {3, 4, 5, 6, 7, 8}
    assert mica.randint(high=2, size=(2, 3), dtype=mica.uint8).dtype is mica.uint8
    coins = mica.bernoulli(mica.tensor([0.0, 1.0, 0.5]).expand(400, 3)).numpy()
    assert not coins[:, 0].any() and coins[:, 1].all() and 0.3 < coins[:, 2].mean() < 0.7
    like = mica.ones(3, dtype=mica.float64)
    assert mica.rand_like(like).dtype is mica.randn_like(like).dtype is mica.float64


@pytest.mark.parametrize(
    "key",
    [
        [0, 2],
        np.array([[0, 1], [3, -1]]),
        (slice(None), [0, 2, 2]),
        (..., np.array([4, 0])),
        ([0, 1], slice(None), [3, 4]),
        ([[0], [1]], [1, 2]),
        (None, [1, 2], slice(1, 3)),
        np.array([True, False, True, False]),
        (slice(None), np.array([True, False, True])),
        (np.ones((4, 3), bool), [1]),
        np.zeros((4, 3, 5), bool),
        [],
    ],
)
def test_arrays_as_indices(key, rng):
    a = array(rng, 4, 3, 5)
    t = mica.tensor(a)
    expected = a[key] if not isinstance(key, list) else a[np.array(key, np.int64)]
    np.testing.assert_array_equal(t[key].numpy(), expected)
    whole = key if isinstance(key, tuple) else (key,)
    tensors = tuple(mica.tensor(k) if isinstance(k, np.ndarray) else k for k in whole)
    np.testing.assert_array_equal(t[tensors].numpy(), expected)


def test_bad_arrays_as_indices():
    t = mica.zeros(4, 3)
    with pytest.raises(mica.IndexError):
        t[[4]]
    with pytest.raises(IndexError, match="3 indices"):
        t[np.ones((4, 3), bool), [0]]
    with pytest.raises(mica.IndexError, match="integers or bool"):
        t[np.array([0.5])]


def test_extremes_as_in_pytorch(rng):
    a = rng.permutation(24).reshape(2, 3, 4).astype(np.float32)
    t = mica.tensor(a)
    assert mica.max(t).item() == 23 and t.min().item() == 0
    values, indices = t.max(dim=1)
    np.testing.assert_array_equal(values.numpy(), a.max(1))
    np.testing.assert_array_equal(indices.numpy(), a.argmax(1))
    assert mica.min(t, -1, keepdim=True).indices.shape == (2, 3, 1)
    np.testing.assert_array_equal(mica.max(t, -t).numpy(), np.maximum(a, -a))
    np.testing.assert_array_equal(t.amax((0, 2)).numpy(), a.max((0, 2)))
    assert t.argmin().item() == a.argmin()


def test_order(rng):
    a = rng.integers(0, 9, (3, 8)).astype(np.float32)
    t = mica.tensor(a)
    values, indices = t.sort(dim=1)
    np.testing.assert_array_equal(values.numpy(), np.sort(a, 1))
    np.testing.assert_array_equal(indices.numpy(), np.argsort(a, 1, kind="stable"))
    assert t.topk(2).values.shape == mica.topk(t, k=2, dim=1, largest=False).indices.shape == (3, 2)
    values, counts = mica.unique(t, return_counts=True)
    np.testing.assert_array_equal(values.numpy(), np.unique(a))
    assert counts.sum().item() == 24
    np.testing.assert_array_equal(mica.unique(t).numpy(), np.unique(a))
    edges = mica.tensor([1.0, 3.0, 5.0])
    got = mica.searchsorted(edges, t, right=True).numpy()
    np.testing.assert_array_equal(got, np.searchsorted([1, 3, 5], a, side="right"))


def test_ranges():
    assert mica.arange(3).numpy().tolist() == [0, 1, 2] and mica.arange(3).dtype is mica.int64
    assert mica.arange(1, 7, 2).numpy().tolist() == [1, 3, 5]
    assert mica.arange(0, 1, 0.25).dtype is mica.arange(2.0).dtype is mica.float32
    assert mica.linspace(0, 1, 5).numpy().tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert mica.eye(2, 3).numpy().tolist() == [[1, 0, 0], [0, 1, 0]]
    assert mica.eye(2, dtype=mica.int32).dtype is mica.int32


def test_padding_of_convolutions():
    x, w = mica.ones(1, 1, 5, 6), mica.ones(2, 1, 3, 2)
    assert F.conv2d(x, w, padding="same").shape == (1, 2, 5, 6)
    assert F.conv2d(x, w, padding="valid").shape == (1, 2, 3, 5)
    assert F.conv2d(x, w, padding=((0, 1), (2, 3))).shape == (1, 2, 4, 10)
    with pytest.raises(mica.ShapeError, match="conv2d: padding must be 2 integers"):
        F.conv2d(x, w, padding=(1, 2, 3))
    with pytest.raises(mica.Unsupported, match="conv2d: padding must be one of 'same', 'valid'"):
        F.conv2d(x, w, padding="full")
    assert F.pad(x, (1, 2, 3, 4)).shape == (1, 1, 12, 9)
