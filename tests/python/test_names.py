"""PyTorch's names: functions made of others against NumPy, second names, writes in place."""

import math

import mica
import numpy as np
import pytest

A = np.array([[1.5, -2.0, 0.25], [3.0, -0.5, 2.0]], np.float64)
B = np.array([[0.5, 3.0, -1.5], [-2.0, 0.75, 1.0]], np.float64)
V = np.array([2.0, -1.0, 0.5])
CUBE = np.arange(24.0).reshape(2, 3, 4)
SPECIAL = np.array([1.0, np.nan, np.inf, -np.inf, 0.0])

# (name, arguments, keyword arguments, what NumPy gives)
AGAINST_NUMPY = [
    ("isclose", (A, A + 1e-6), {}, np.isclose(A, A + 1e-6)),
    ("isclose", (SPECIAL, SPECIAL), {}, np.isclose(SPECIAL, SPECIAL)),
    ("isclose", (SPECIAL, SPECIAL), {"equal_nan": True}, np.full(5, True)),
    ("isclose", (A, V), {"atol": 3.0, "rtol": 0.0}, np.isclose(A, V, atol=3, rtol=0)),
    ("mm", (A, B.T), {}, A @ B.T),
    ("bmm", (CUBE, CUBE.swapaxes(1, 2)), {}, CUBE @ CUBE.swapaxes(1, 2)),
    ("mv", (A, V), {}, A @ V),
    ("addmm", (V[:2], A, B.T), {}, V[:2] + A @ B.T),
    ("addmm", (V[:2], A, B.T), {"beta": 2, "alpha": 0.5}, 2 * V[:2] + 0.5 * (A @ B.T)),
    ("addmm", (V[:2] * np.nan, A, B.T), {"beta": 0}, A @ B.T),
    ("baddbmm", (CUBE[:, :, :3], CUBE, CUBE.swapaxes(1, 2)), {"alpha": 2}, None),
    ("tensordot", (CUBE, CUBE.transpose(1, 2, 0)), {}, np.tensordot(CUBE, CUBE.transpose(1, 2, 0))),
    ("tensordot", (A, B), {"dims": 0}, np.tensordot(A, B, 0)),
    ("tensordot", (CUBE, A), {"dims": ([1, 0], [1, 0])}, np.tensordot(CUBE, A, ([1, 0], [1, 0]))),
    ("trace", (A,), {}, np.trace(A)),
    ("diag", (A,), {"diagonal": 1}, np.diag(A, 1)),
    ("diag", (V,), {}, np.diag(V)),
    ("diag", (V,), {"diagonal": -2}, np.diag(V, -2)),
    ("ravel", (A.T,), {}, A.T.ravel()),
    ("t", (A,), {}, A.T),
    ("t", (V,), {}, V),
    ("unflatten", (CUBE,), {"dim": -1, "sizes": (2, -1)}, CUBE.reshape(2, 3, 2, 2)),
    ("diff", (A,), {}, np.diff(A)),
    ("diff", (A,), {"n": 2, "dim": 1}, np.diff(A, 2, 1)),
    ("diff", (A,), {"n": 9}, np.diff(A, 9)),
    ("diff", (np.array([True, True, False]),), {}, np.array([False, True])),
    ("nan_to_num", (SPECIAL,), {}, np.nan_to_num(SPECIAL)),
    ("nan_to_num", (SPECIAL.astype(np.float32),), {}, np.nan_to_num(SPECIAL.astype(np.float32))),
    ("nan_to_num", (SPECIAL,), {"nan": 7, "posinf": 8, "neginf": 9}, np.array([1.0, 7, 8, 9, 0])),
    ("fmod", (A, B), {}, np.fmod(A, B)),
    ("fmod", (A, -0.75), {}, np.fmod(A, -0.75)),
    ("fmod", (np.array([-7, 7, -7]), np.array([3, -3, -3])), {}, np.array([-1, 1, -1])),
    ("hypot", (A, B), {}, np.hypot(A, B)),
    ("hypot", (A * 1e300, B * 1e300), {}, np.hypot(A * 1e300, B * 1e300)),
    ("hypot", (SPECIAL, np.zeros(5)), {}, np.hypot(SPECIAL, np.zeros(5))),
    ("logaddexp", (A * 1000, B), {}, np.logaddexp(A * 1000, B)),
    ("logaddexp", (np.array([-np.inf, np.inf]), np.array([-np.inf, 1.0])), {}, None),
    ("xlogy", (np.array([0.0, 2, 0, 1]), np.array([0.0, 3, np.nan, 0])), {}, None),
    ("median", (A,), {}, np.float64(0.25)),
    ("median", (SPECIAL,), {}, np.float64(np.nan)),
    ("std_mean", (A, 1), {}, (A.std(1, ddof=1), A.mean(1))),
    ("var_mean", (A,), {"correction": 0.0}, (A.var(), A.mean())),
    ("hstack", ([A, B],), {}, np.hstack([A, B])),
    ("hstack", ([V, V],), {}, np.hstack([V, V])),
    ("vstack", ([V, A],), {}, np.vstack([V, A])),
    ("dstack", ([A, B],), {}, np.dstack([A, B])),
    ("dstack", ([V, V],), {}, np.dstack([V, V])),
    ("atleast_1d", (np.float64(3.0),), {}, np.array([3.0])),
    ("atleast_2d", (V,), {}, V[None]),
    ("atleast_3d", (A,), {}, np.atleast_3d(A)),
    ("atleast_2d", (V, A), {}, (V[None], A)),
    ("argwhere", (A > 0,), {}, np.argwhere(A > 0)),
    ("clamp_min", (A, 0.5), {}, np.maximum(A, 0.5)),
    ("clamp_max", (A, B), {}, np.minimum(A, B)),
    ("clip", (A, -1.0, 1.0), {}, np.clip(A, -1, 1)),
    ("addcmul", (A, B, V), {"value": 2}, A + 2 * B * V),
    ("addcdiv", (A, B, V), {}, A + B / V),
    ("concatenate", ([A, B], 1), {}, np.concatenate([A, B], 1)),
    ("moveaxis", (CUBE, 0, 2), {}, np.moveaxis(CUBE, 0, 2)),
    ("swapdims", (CUBE, 0, 2), {}, CUBE.swapaxes(0, 2)),
    ("multiply", (A, B), {}, A * B),
    ("divide", (A, B), {}, A / B),
    ("true_divide", (A, 2), {}, A / 2),
    ("subtract", (A, B), {}, A - B),
    ("negative", (A,), {}, -A),
    ("absolute", (A,), {}, abs(A)),
    ("greater", (A, B), {}, A > B),
    ("greater_equal", (A, A), {}, A >= A),
    ("less", (A, B), {}, A < B),
    ("less_equal", (A, 0.25), {}, A <= 0.25),
    ("not_equal", (A, B), {}, A != B),
    ("fliplr", (A,), {}, np.fliplr(A)),
    ("flipud", (A,), {}, np.flipud(A)),
    ("clone", (A,), {}, A),
    ("numel", (A,), {}, 6),
    ("is_floating_point", (A,), {}, True),
    ("is_tensor", (A,), {}, True),
]
# What NumPy has no function for.
EXPECTED = {
    "baddbmm": CUBE[:, :, :3] + 2 * (CUBE @ CUBE.swapaxes(1, 2)),
    "logaddexp": np.array([-np.inf, np.inf]),
    "xlogy": np.array([0, 2 * math.log(3), np.nan, -np.inf]),
}
# No methods, or such as have tests of their own.
FUNCTIONS_ONLY = {
    *("std_mean", "var_mean", "hstack", "vstack", "dstack", "atleast_1d", "atleast_2d"),
    *("atleast_3d", "concatenate", "tensordot", "clone", "numel", "is_tensor"),
}


def to_mica(value, device):
    if isinstance(value, list) and isinstance(value[0], np.ndarray):
        return [to_mica(each, device) for each in value]
    is_array = isinstance(value, np.ndarray | np.generic)
    return mica.tensor(value, device=device) if is_array else value


def same(found, expected):
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        return all(map(same, found, expected))
    if not mica.is_tensor(found):
        return found == expected
    found = found.cpu().numpy()
    assert found.shape == np.shape(expected)
    assert found.dtype == np.asarray(expected).dtype
    tolerance = 1e-6 if found.dtype == np.float32 else 1e-12
    return np.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "arguments", "keywords", "expected"), AGAINST_NUMPY, ids=lambda v: str(v)[:20]
)
def test_against_numpy(name, arguments, keywords, expected, device):
    expected = EXPECTED[name] if expected is None else expected
    given = [to_mica(a, device) for a in arguments]
    assert same(getattr(mica, name)(*given, **keywords), expected)
    if name not in FUNCTIONS_ONLY:
        assert same(getattr(given[0], name)(*given[1:], **keywords), expected)


@pytest.mark.parametrize(
    ("name", "arguments", "keywords"),
    [
        ("addmm", (V[:2], A, B.T), {"beta": 0.5, "alpha": 3}),
        ("baddbmm", (CUBE[:, :, :3], CUBE / 9, CUBE.swapaxes(1, 2) / 9), {}),
        ("tensordot", (CUBE, A), {"dims": ([1, 0], [1, 0])}),
        ("trace", (A,), {}),
        ("diag", (V,), {"diagonal": 1}),
        ("diff", (A,), {"n": 2}),
        ("fmod", (A + 0.1, B), {}),
        ("hypot", (A, B), {}),
        ("logaddexp", (A, B), {}),
        ("xlogy", (A, abs(B)), {}),
        ("nan_to_num", (A,), {}),
        ("addcdiv", (A, B, V), {"value": 2}),
        ("masked_scatter", (A, A > 0, B), {}),
        ("index_fill", (A,), {"dim": 1, "index": [0, 2], "value": 3.0}),
        ("median", (A,), {"dim": 1}),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_gradients(name, arguments, keywords, device):
    keywords = {
        k: mica.tensor(v, device=device) if k == "index" else v for k, v in keywords.items()
    }
    given = [to_mica(a, device) for a in arguments]
    floating = [g.requires_grad_() for g in given if g.is_floating_point()]

    def f(*values):
        rest = iter(values)
        result = getattr(mica, name)(
            *(next(rest) if g.is_floating_point() else g for g in given), **keywords
        )
        return result.values if isinstance(result, mica.ValuesIndices) else result

    assert mica.autograd.gradcheck(f, floating)


def test_gradients_at_kinks(device):
    x = mica.tensor([0.0, 0.0], device=device, requires_grad=True)
    mica.xlogy(x, mica.tensor([0.0, 2.0], device=device)).sum().backward()
    assert x.grad.tolist() == pytest.approx([0, math.log(2)])
    y = mica.tensor([-mica.inf, 1.0], device=device, requires_grad=True)
    mica.logaddexp(y, mica.tensor([0.0, 1.0], device=device)).sum().backward()
    assert y.grad.tolist() == pytest.approx([0, 0.5])


def test_close_and_equal(device):
    x = mica.tensor([1.0, mica.nan], device=device)
    assert not mica.allclose(x, x)
    assert x.allclose(x + 1e-9, equal_nan=True)
    assert not x.equal(x)
    whole = mica.tensor([1, 2], device=device)
    assert mica.equal(whole, whole.clone())
    assert not mica.equal(whole, mica.tensor([[1, 2]], device=device))
    assert mica.allclose(
        mica.tensor([3], dtype=mica.uint8), mica.tensor([5], dtype=mica.uint8), atol=2
    )
    with pytest.raises(mica.Error, match="isclose: rtol and atol must be at least 0"):
        mica.isclose(x, x, rtol=-1)


def test_median_along_an_axis(device):
    x = mica.tensor([[4.0, 1, 3, 2], [1, mica.nan, 0, 2]], device=device)
    values, indices = x.median(1)
    assert values[0] == 2
    assert values[1].isnan()
    assert indices.tolist() == [3, 1]
    kept = mica.median(x, dim=0, keepdim=True)
    assert kept.values.shape == kept.indices.shape == (1, 4)
    assert mica.tensor(3.0, device=device).median(0).indices == 0


REFUSED = [
    ("mm", ((2, 3, 4), (4, 2)), "mm: expected two matrices, got [2, 3, 4] and [4, 2]"),
    ("bmm", ((2, 3), (3, 2)), "bmm: expected two batches of matrices"),
    ("bmm", ((2, 3, 4), (1, 4, 2)), "bmm: expected as many matrices in both"),
    ("mv", ((2, 3), (3, 1)), "mv: expected a matrix and a vector, got [2, 3] and [3, 1]"),
    ("addmm", ((3, 3), (2, 3), (3, 3)), "addmm"),
    (
        "addmm",
        ((4, 2, 2), (2, 3), (3, 2)),
        "addmm: input must expand to the product's shape [2, 2]",
    ),
    ("tensordot", ((2, 3), (2, 3)), "tensordot: axes", ([0], [1])),
    ("tensordot", ((2, 3), (2, 3)), "tensordot: axes [0, 0] name one twice", ([0, 0], [0, 0])),
    ("trace", ((2,),), "trace: expected a matrix, got [2]"),
    ("diag", ((2, 2, 2),), "diag: expected a vector or a matrix, got [2, 2, 2]"),
    ("t", ((2, 2, 2),), "t: expected at most two axes, got [2, 2, 2]"),
    ("diff", ((),), "diff: expected at least one axis"),
    ("median", ((0,),), "median: axis 0 of [0] has no elements"),
    ("multinomial", ((3,),), "multinomial: cannot draw 4 of 3 without replacement", 4),
    ("multinomial", ((2, 2, 2),), "multinomial: expected weights", 1),
]


@pytest.mark.parametrize(("name", "shapes", "message", "more"), [(*r, ())[:4] for r in REFUSED])
def test_refusals(name, shapes, message, more):
    more = (more,) if more != () else ()
    with pytest.raises(mica.ShapeError) as error:
        getattr(mica, name)(*map(mica.ones, shapes), *more)
    assert message in str(error.value)


def test_multinomial(device):
    weights = mica.tensor([[0.0, 1, 3, 0], [2, 0, 0, 0]], device=device)
    drawn = weights.multinomial(4000, replacement=True)
    assert drawn.dtype is mica.int64
    assert drawn.shape == (2, 4000)
    assert set(drawn[0].tolist()) == {1, 2}
    assert (drawn[0] == 2).float().mean().item() == pytest.approx(0.75, abs=0.03)
    assert not drawn[1].any()
    for _ in range(20):
        assert sorted(mica.multinomial(weights[0], 2).tolist()) == [1, 2]
    first = [mica.multinomial(weights[0], 2)[0].item() for _ in range(2000)]
    assert first.count(2) / 2000 == pytest.approx(0.75, abs=0.04)
    with pytest.raises(mica.Error, match="at least 3 weights above 0, got 1"):
        weights.multinomial(3)
    with pytest.raises(mica.Error, match="finite and at least 0"):
        (-weights).multinomial(1)


def test_randint_like(device):
    x = mica.zeros(100, dtype=mica.int32, device=device)
    drawn = mica.randint_like(x, 3, 5)
    assert drawn.dtype is mica.int32
    assert set(drawn.tolist()) == {3, 4}
    assert set(mica.randint_like(x, 2).tolist()) == {0, 1}


def mask(device):
    return mica.tensor(A > 0, device=device)


def at(device):
    return mica.tensor([0, 2], device=device)


# (name, arguments)
IN_PLACE = [
    ("abs_", lambda d: ()),
    ("neg_", lambda d: ()),
    ("exp_", lambda d: ()),
    ("sqrt_", lambda d: ()),
    ("relu_", lambda d: ()),
    ("sigmoid_", lambda d: ()),
    ("tanh_", lambda d: ()),
    ("round_", lambda d: ()),
    ("floor_", lambda d: ()),
    ("clamp_", lambda d: (-1.0, 1.0)),
    ("pow_", lambda d: (2,)),
    ("fmod_", lambda d: (0.75,)),
    ("masked_fill_", lambda d: (mask(d), 5.0)),
    ("masked_scatter_", lambda d: (mask(d), mica.tensor(B, device=d))),
    ("lerp_", lambda d: (mica.tensor(B, device=d), 0.25)),
    ("addcmul_", lambda d: (mica.tensor(B, device=d), mica.tensor(V, device=d))),
    ("addcdiv_", lambda d: (mica.tensor(B, device=d), mica.tensor(V, device=d))),
    ("index_add_", lambda d: (1, at(d), mica.tensor(B[:, :2], device=d))),
    ("index_fill_", lambda d: (1, at(d), 9.0)),
    (
        "index_put_",
        lambda d: ((at(d) * 0, at(d)), mica.tensor([7.0, 8.0], dtype=mica.float64, device=d)),
    ),
    ("scatter_", lambda d: (1, mica.tensor([[0, 1], [2, 0]], device=d), 4.0)),
    (
        "scatter_add_",
        lambda d: (1, mica.tensor([[0, 1], [2, 0]], device=d), mica.tensor(B, device=d)),
    ),
]


@pytest.mark.parametrize(("name", "arguments"), IN_PLACE, ids=[name for name, _ in IN_PLACE])
def test_in_place(name, arguments, device):
    x = mica.tensor(A, device=device)
    expected = getattr(x, name[:-1])(*arguments(device)).cpu().numpy()
    assert getattr(x, name)(*arguments(device)) is x
    assert np.array_equal(x.cpu().numpy(), expected, equal_nan=True)
    leaf = mica.tensor(A, device=device, requires_grad=True)
    with pytest.raises(mica.Error) as refused:
        getattr(leaf, name)(*arguments(device))
    with pytest.raises(mica.Error) as known:
        leaf.mul_(2)
    assert str(refused.value) == str(known.value)
    with mica.no_grad():
        getattr(leaf, name)(*arguments(device))
    assert np.array_equal(leaf.detach().cpu().numpy(), expected, equal_nan=True)


def test_in_place_keeps_shape_and_kind(device):
    with pytest.raises(mica.DTypeError, match="in place"):
        mica.tensor([1, 2], device=device).exp_()
    with pytest.raises(mica.ShapeError, match="in place"):
        mica.ones(2, device=device).addcmul_(
            mica.ones(3, 2, device=device), mica.ones(2, device=device)
        )


def test_draws_in_place(device):
    net = mica.nn.Linear(50, 40).to(device)
    before = net.weight.data_ptr()
    net.weight.data.normal_(2, 0.01)
    assert net.weight.data_ptr() == before
    assert net.weight.mean().item() == pytest.approx(2, abs=0.01)
    assert net.weight.std().item() == pytest.approx(0.01, rel=0.1)
    net.bias.data.uniform_(3, 4)
    assert ((net.bias >= 3) & (net.bias < 4)).all()
    assert net.weight.requires_grad
    with pytest.raises(mica.Error):
        net.weight.normal_()
    x = mica.empty(1000, device=device)
    assert x.bernoulli_(0.25) is x
    assert x.mean().item() == pytest.approx(0.25, abs=0.05)
    assert mica.empty(4, device=device).bernoulli_(
        mica.tensor([0.0, 1, 0, 1], device=device)
    ).tolist() == [0, 1, 0, 1]
    assert set(x.random_(3).tolist()) == {0, 1, 2}
    assert set(mica.empty(99, dtype=mica.int64, device=device).random_(5, 7).tolist()) == {5, 6}


def test_detach_in_place(device):
    x = mica.ones(2, device=device, requires_grad=True)
    y = x * 2
    assert y.detach_() is y
    assert y.is_leaf
    assert not y.requires_grad
    assert not x.detach_().requires_grad


def test_constants_and_small_things(device):
    assert (mica.inf, mica.pi, mica.e) == (math.inf, math.pi, math.e)
    assert math.isnan(mica.nan)
    x = mica.tensor([7.0, -7.0], device=device)
    assert x[:, mica.newaxis].shape == (2, 1)
    with mica.inference_mode():
        assert not mica.is_grad_enabled()
    assert mica.get_num_threads() == mica.num_threads()
    assert not x.is_complex()
    assert x.ndimension() == 1
    assert x.get_device() == (-1 if x.device.type == "cpu" else x.device.index)
    assert [each.tolist() for each in divmod(x, 2)] == [[3, -4], [1, 1]]
    assert [each.tolist() for each in divmod(x, x + 1)] == [[0, 1], [7, -1]]
    assert not mica.is_tensor(None)


def test_cuda_names():
    mica.cuda.empty_cache()
    mica.cuda.reset_peak_memory_stats()
    mica.cuda.manual_seed(3)
    mica.cuda.manual_seed_all(3)
    counts = [
        mica.cuda.memory_allocated(),
        mica.cuda.max_memory_allocated(),
        mica.cuda.memory_reserved(),
        mica.cuda.max_memory_reserved("cuda:0"),
    ]
    if not mica.cuda.is_available():
        assert counts == [0] * 4
        with pytest.raises(mica.DeviceError):
            mica.cuda.current_device()
        with pytest.raises(mica.DeviceError):
            mica.cuda.mem_get_info()
        return
    assert mica.cuda.current_device() == 0
    free, total = mica.cuda.mem_get_info()
    assert 0 < free <= total
    assert mica.rng_state("cuda").tolist() == [3, 0]
    assert counts[0] <= counts[1] <= counts[3]
