"""Operators, views and methods against NumPy."""

import operator

import mica
import mica.nn.functional as F
import numpy as np
import pytest


@pytest.fixture
def pair(rng, device):
    def make(*shape):
        array = rng.uniform(0.5, 2, shape).astype(np.float32)
        return array, mica.tensor(array, device=device)

    return make


OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv]


@pytest.mark.parametrize("op", OPERATORS)
def test_operators_broadcast(op, pair):
    a, ta = pair(3, 1, 4)
    b, tb = pair(2, 4)
    np.testing.assert_allclose(op(ta, tb).cpu().numpy(), op(a, b), rtol=1e-6)


@pytest.mark.parametrize("op", OPERATORS)
def test_numbers_are_weak_on_both_sides(op, pair):
    a, ta = pair(3, 2)
    for number in (2, 0.25, np.float32(3), np.int64(2)):
        for result, expected in ((op(ta, number), op(a, number)), (op(number, ta), op(number, a))):
            assert isinstance(result, mica.Tensor)
            assert result.dtype is mica.float32
            np.testing.assert_allclose(result.cpu().numpy(), expected, rtol=1e-6)
    half = ta.to(mica.float16)
    assert op(half, 1.5).dtype is mica.float16 and op(1.5, half).dtype is mica.float16


def test_integers_and_numbers(device):
    t = mica.tensor([1, 2, 3], device=device)
    assert (t + 1).dtype is mica.int64 and (10 - t).dtype is mica.int64
    assert (t * 1.5).dtype is mica.float32
    assert (1.5 - t).cpu().numpy().tolist() == [0.5, -0.5, -1.5]
    assert (6 / t).cpu().numpy().tolist() == [6, 3, 2]
    assert (t + mica.ones(3, dtype=mica.float16, device=device)).dtype is mica.float16


def test_other_types_are_refused(pair):
    _, t = pair(2)
    for other in ("a", None, [1, 2]):
        with pytest.raises(TypeError):
            t + other
        with pytest.raises(TypeError):
            other + t


def test_matmul_and_negation(pair):
    a, ta = pair(3, 4)
    b, tb = pair(4, 5)
    np.testing.assert_allclose((ta @ tb).cpu().numpy(), a @ b, rtol=1e-5)
    np.testing.assert_allclose(mica.matmul(tb.T, ta.T).cpu().numpy(), (a @ b).T, rtol=1e-5)
    np.testing.assert_array_equal((-ta).cpu().numpy(), -a)


@pytest.mark.parametrize(
    "key",
    [
        0,
        -1,
        slice(1, 3),
        slice(None, None, 2),
        slice(-2, None),
        slice(3, 1),
        (1, 2),
        (slice(None), 1),
        (..., 0),
        (0, ..., slice(1, 3)),
        (None, 1),
        (slice(None), None, 2, None),
        np.int64(2),
        None,
        (),
    ],
)
def test_indexing(key, pair):
    a, t = pair(4, 3, 5)
    np.testing.assert_array_equal(t[key].cpu().numpy(), a[key])


def test_indexing_gives_views_and_writes_through(pair):
    a, t = pair(4, 3)
    t[1:3, 0] = 5
    a[1:3, 0] = 5
    t[0] = mica.zeros(3, device=t.device)
    a[0] = 0
    t[3] = [1, 2, 3]
    a[3] = [1, 2, 3]
    np.testing.assert_array_equal(t.cpu().numpy(), a)


def test_iteration_and_unpacking(pair):
    a, t = pair(3, 2)
    for row, expected in zip(t, a, strict=True):
        np.testing.assert_array_equal(row.cpu().numpy(), expected)
    *_, last = t
    assert last.shape == (2,)


def test_bad_indices(pair):
    _, t = pair(4, 3)
    with pytest.raises(IndexError, match="out of range for axis 0 of shape"):
        t[4]
    with pytest.raises(IndexError, match="3 indices"):
        t[0, 0, 0]
    with pytest.raises(TypeError, match="expected integers"):
        t["a"]
    with pytest.raises(TypeError):
        len(t[0, 0])


def test_shapes(pair):
    a, t = pair(2, 3, 4)
    assert t.size() == (2, 3, 4) and t.size(-1) == 4 and t.stride() == t.strides == (12, 4, 1)
    assert t.reshape(6, -1).shape == t.reshape((6, -1)).shape == (6, 4)
    assert t.flatten().shape == (24,) and t.flatten(1).shape == (2, 12)
    assert t.flatten(0, 1).shape == t.flatten(end_dim=-2).shape == (6, 4)
    assert mica.flatten(t, 1, 1).shape == (2, 3, 4)
    with pytest.raises(mica.ShapeError, match="start must not come after end"):
        t.flatten(2, 1)
    assert t.permute(2, 0, 1).shape == t.permute([2, 0, 1]).shape == (4, 2, 3)
    assert t[:, :1].expand(2, 5, 4).shape == (2, 5, 4)
    np.testing.assert_array_equal(
        t.permute(2, 0, 1).contiguous().cpu().numpy(), a.transpose(2, 0, 1)
    )


def test_reductions(pair):
    a, t = pair(2, 3, 4)
    np.testing.assert_allclose(t.sum().item(), a.sum(), rtol=1e-5)
    np.testing.assert_allclose(t.sum(1).cpu().numpy(), a.sum(1), rtol=1e-5)
    mean = mica.mean(t, dim=(0, 2), keepdim=True).cpu().numpy()
    np.testing.assert_allclose(mean, a.mean((0, 2), keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(t.argmax(-1).cpu().numpy(), a.argmax(-1))
    assert t.argmax().item() == a.argmax()
    np.testing.assert_array_equal((t - 1).relu().cpu().numpy(), np.maximum(a - 1, 0))


def test_python_values(device):
    t = mica.tensor(2.5, device=device)
    assert t.item() == 2.5 and float(t) == 2.5 and int(t) == 2 and bool(t)
    assert type(mica.tensor(3, device=device).item()) is int
    assert mica.tensor(True, device=device).item() is True
    with pytest.raises(mica.ShapeError, match="item"):
        mica.zeros(2, device=device).item()


def test_to(device):
    t = mica.ones(2, 2)
    assert t.to("cpu").dtype is mica.float32
    moved = t.to(device, mica.float64)
    assert moved.dtype is mica.float64 and moved.device == mica.device(device)
    assert str(moved.device).startswith(device) and moved.device.type == device.split(":")[0]
    assert moved.to(dtype=mica.int32, device="cpu").cpu().numpy().tolist() == [[1, 1], [1, 1]]


def test_casts():
    t = mica.tensor([0.0, 1.5])
    names = ["double", "half", "bfloat16", "long", "int", "byte", "bool", "float"]
    dtypes = ["float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "float32"]
    for name, dtype in zip(names, dtypes, strict=True):
        assert getattr(t, name)().dtype is getattr(mica, dtype)
    assert t.long().numpy().tolist() == [0, 1] and t.bool().numpy().tolist() == [False, True]


def test_in_place(pair):
    a, t = pair(2, 3)
    assert t.add_(1) is t
    assert t.add_(t).copy_(t) is t
    np.testing.assert_allclose(t.cpu().numpy(), 2 * (a + 1), rtol=1e-6)
    assert t.zero_().sum().item() == 0
    assert t.fill_(2).sum().item() == 12
    copy = t.clone()
    copy.zero_()
    assert t.sum().item() == 12


def test_creation(device):
    assert mica.zeros(2, 3, device=device).shape == mica.zeros((2, 3)).shape == (2, 3)
    assert mica.ones(2, dtype=mica.int32, device=device).dtype is mica.int32
    assert mica.full((2,), 3, device=device).cpu().numpy().tolist() == [3, 3]
    assert mica.empty(4, 0).shape == (4, 0)
    assert mica.arange(4, device=device).cpu().numpy().tolist() == [0, 1, 2, 3]
    assert mica.zeros_like(mica.ones(3)).sum().item() == 0


def test_random_numbers_repeat_with_the_seed(device):
    mica.manual_seed(5)
    first = [mica.rand(3, 4, device=device), mica.normal((5,), 1, 2, device=device)]
    mica.manual_seed(5)
    again = [mica.rand(3, 4, device=device), mica.normal((5,), 1, 2, device=device)]
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.cpu().numpy(), b.cpu().numpy())
    u = mica.uniform((1000,), -1, 1, device=device).cpu().numpy()
    assert u.min() >= -1 and u.max() < 1 and abs(u.mean()) < 0.1
    assert sorted(mica.randperm(9).numpy()) == list(range(9))


def test_uniform_numbers_are_the_same_on_every_device(device):
    mica.manual_seed(11)
    here = mica.rand(100, device=device).cpu().numpy()
    mica.manual_seed(11)
    np.testing.assert_array_equal(here, mica.rand(100).numpy())


def test_functional(pair, device):
    x, tx = pair(2, 3, 8, 8)
    w, tw = pair(4, 3, 3, 3)
    y = F.conv2d(tx, tw, stride=2, padding=(1, 1)).cpu().numpy()
    assert y.shape == (2, 4, 4, 4)
    np.testing.assert_allclose(y[0, 0, 1, 1], (x[0, :, 1:4, 1:4] * w[0]).sum(), rtol=1e-4)
    pooled = F.max_pool2d(tx, 2).cpu().numpy()
    np.testing.assert_array_equal(pooled, x.reshape(2, 3, 4, 2, 4, 2).max((3, 5)))
    assert F.max_pool2d(tx, kernel_size=3, stride=1, padding=1).shape == (2, 3, 8, 8)
    logits, tl = pair(5, 4)
    target = np.array([0, 1, 2, 3, 0])
    expected = -(logits - np.log(np.exp(logits).sum(1, keepdims=True)))[np.arange(5), target].mean()
    loss = F.cross_entropy(tl, mica.tensor(target, device=device))
    np.testing.assert_allclose(loss.item(), expected, rtol=1e-5)
    a, ta = pair(3, 8)
    b, tb = pair(2, 8)
    np.testing.assert_allclose(F.linear(ta, tb).cpu().numpy(), a @ b.T, rtol=1e-5)
    normal = F.batch_norm(tx, None, None, training=True).cpu().numpy()
    np.testing.assert_allclose(normal.mean((0, 2, 3)), np.zeros(3), atol=1e-5)
    np.testing.assert_allclose(normal.std((0, 2, 3)), np.ones(3), rtol=1e-3)
    dropped = F.dropout(mica.ones(1000, device=device), p=0.25).cpu().numpy()
    assert set(np.unique(dropped)) == {np.float32(0), np.float32(4 / 3)}
    assert F.dropout(tx, training=False).sum().item() == tx.sum().item()


def test_arrays_of_numpy_beside_a_tensor(device):
    t, a = mica.tensor([1.0, 2.0], device=device), np.array([3.0, 4.0], np.float32)
    for result in (t + a, a + t):
        assert isinstance(result, mica.Tensor) and str(result.device) == str(t.device)
        assert result.tolist() == [4, 6]
    assert (a - t).tolist() == [2, 2] and (t == a).tolist() == [False, False]
    assert (t * a.astype(np.float64)).dtype == mica.float64
    with pytest.raises(TypeError):
        t + np.array(["a", "b"])


def test_to_says_what_it_does_not_know(device):
    with pytest.raises(mica.DTypeError, match=r"'gpu' is no device .* and no dtype"):
        mica.ones(1, device=device).to("gpu")


def test_numbers_of_a_higher_kind_count(device):
    i = mica.tensor([1, 2, 3], device=device)
    mask = mica.tensor([True, False], device=device)
    for made in (i * 2.0, 2.0 * i, i + np.float64(1), mica.mul(i, 2.0), i.sub(2.0), i**2.0):
        assert made.dtype is mica.float32
    for made in (mask + 1, 1 + mask, mask * 2, mica.add(mask, 1)):
        assert made.dtype is mica.int64
    assert (mask + 1).tolist() == [2, 1] and (mask == 2).tolist() == [False, False]
    assert (mask * 2.5).dtype is mica.float32
    assert mica.where(mask, 1, 0).tolist() == [1, 0] and mica.where(mask, 1, 0).dtype is mica.int64
    assert mica.where(mask, 1.0, 0.0).dtype is mica.float32
    assert mica.where(mask, i[:2], 2.0).dtype is mica.float32
    assert mica.where(mask, i[:2], 2).dtype is mica.int64
    assert mica.pow(2.0, i).dtype is mica.float32
    large = mica.tensor([2**40 + 1], device=device)
    assert (large > 2.0**40).tolist() == [True]  # compared as integers
    with pytest.raises(TypeError, match="written"):
        i *= 2.0
