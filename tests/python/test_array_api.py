"""The array API standard 2024.12: names, signatures, dtypes, promotion, telling special cases."""

# ruff: noqa: SIM905 - lists of names read best as text

import inspect
import itertools
import math

import mica
import numpy as np
import pytest

xp = mica.zeros(1).__array_namespace__()

# The standard's functions, with the arguments that can be given by name.
ELEMENTWISE = """abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert
bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor ceil conj copysign cos cosh divide
equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less
less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor maximum
minimum multiply negative not_equal positive pow real remainder round sign signbit sin sinh sqrt
square subtract tan tanh trunc nextafter reciprocal""".split()
SIGNATURES = {
    "clip": "min max",
    "arange": "stop step dtype device",
    "asarray": "dtype device copy",
    "empty": "shape dtype device",
    "empty_like": "dtype device",
    "eye": "k dtype device",
    "from_dlpack": "device copy",
    "full": "shape fill_value dtype device",
    "full_like": "fill_value dtype device",
    "linspace": "num dtype device endpoint",
    "meshgrid": "indexing",
    "ones": "shape dtype device",
    "ones_like": "dtype device",
    "tril": "k",
    "triu": "k",
    "zeros": "shape dtype device",
    "zeros_like": "dtype device",
    "astype": "copy device",
    "broadcast_arrays": "",
    "broadcast_to": "shape",
    "can_cast": "",
    "finfo": "",
    "iinfo": "",
    "isdtype": "dtype kind",
    "result_type": "",
    "take": "axis",
    "matmul": "",
    "matrix_transpose": "",
    "tensordot": "axes",
    "vecdot": "axis",
    "concat": "axis",
    "expand_dims": "axis",
    "flip": "axis",
    "moveaxis": "",
    "permute_dims": "axes",
    "repeat": "axis",
    "reshape": "shape copy",
    "roll": "shift axis",
    "squeeze": "axis",
    "stack": "axis",
    "tile": "",
    "unstack": "axis",
    "argmax": "axis keepdims",
    "argmin": "axis keepdims",
    "nonzero": "",
    "searchsorted": "side sorter",
    "where": "",
    "unique_all": "",
    "unique_counts": "",
    "unique_inverse": "",
    "unique_values": "",
    "argsort": "axis descending stable",
    "sort": "axis descending stable",
    "cumulative_sum": "axis dtype include_initial",
    "cumulative_prod": "axis dtype include_initial",
    "count_nonzero": "axis keepdims",
    "diff": "n axis prepend append",
    "take_along_axis": "axis",
    "max": "axis keepdims",
    "mean": "axis keepdims",
    "min": "axis keepdims",
    "prod": "axis dtype keepdims",
    "std": "axis correction keepdims",
    "sum": "axis dtype keepdims",
    "var": "axis correction keepdims",
    "all": "axis keepdims",
    "any": "axis keepdims",
    "__array_namespace_info__": "",
} | {name: "" for name in ELEMENTWISE}
DTYPES = """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64
complex128""".split()
CONSTANTS = {"e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "pi": math.pi}
ATTRIBUTES = "T device dtype mT ndim shape".split()
METHODS = """abs add and array_namespace bool complex dlpack dlpack_device eq float floordiv ge
getitem gt index int invert le lshift lt matmul mod mul ne neg or pos pow rshift setitem sub
truediv xor radd rsub rmul rtruediv rfloordiv rpow rmod rand ror rxor rlshift rrshift iadd isub imul
itruediv ifloordiv ipow imod iand ior ixor ilshift irshift""".split()


def tensor(values, device, dtype=None):
    return xp.asarray(values, dtype=dtype, device=device)


def test_every_function_is_there():
    assert {name for name in SIGNATURES if not hasattr(xp, name)} == set()


def test_every_dtype_is_there():
    assert all(hasattr(xp, name) for name in DTYPES)


def test_the_extension_fft():
    a = np.random.default_rng(0).normal(size=(4, 6)) + 0j
    x = tensor(a, "cpu")
    for name in ("fft", "ifft", "irfft", "hfft"):
        ours = getattr(xp.fft, name)(x, n=5, axis=0, norm="ortho")
        np.testing.assert_allclose(
            ours.numpy(), getattr(np.fft, name)(a, 5, 0, "ortho"), atol=1e-12
        )
    for name in ("fftn", "ifftn", "irfftn"):
        ours = getattr(xp.fft, name)(x, s=(3, 4), axes=(0, 1))
        np.testing.assert_allclose(
            ours.numpy(), getattr(np.fft, name)(a, (3, 4), (0, 1)), atol=1e-12
        )
    for name in ("rfft", "ihfft", "rfftn"):
        ours = getattr(xp.fft, name)(xp.real(x))
        np.testing.assert_allclose(ours.numpy(), getattr(np.fft, name)(a.real), atol=1e-12)
    assert xp.fft.fftfreq(5, d=2.0).dtype is xp.float32 and xp.fft.rfftfreq(4).shape == (3,)
    assert np.array_equal(xp.fft.ifftshift(xp.fft.fftshift(x, axes=1), axes=1).numpy(), a)


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_signature(name):
    function = getattr(xp, name)
    assert callable(function)
    if not inspect.isfunction(function):
        return  # in C++, where test_values calls it
    parameters = inspect.signature(function).parameters.values()
    named = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    assert named == SIGNATURES[name].split()


def test_constants_attributes_and_methods(device):
    for name, value in CONSTANTS.items():
        assert getattr(xp, name) is value or getattr(xp, name) == value or value != value
    t = xp.zeros((2, 3), device=device)
    for name in ATTRIBUTES:
        assert hasattr(t, name)
    for name in METHODS:
        assert hasattr(t, f"__{name}__"), name
    assert t.to_device("cpu").device == mica.device("cpu")
    assert t.__array_namespace__(api_version="2024.12") is xp
    assert xp.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match="version"):
        t.__array_namespace__(api_version="1999.01")


def test_info():
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 8,
    }
    assert info.default_device() in info.devices()
    assert info.default_dtypes() == {
        "real floating": xp.float32,
        "complex floating": xp.complex64,
        "integral": xp.int64,
        "indexing": xp.int64,
    }
    assert set(info.dtypes()) == set(DTYPES)
    integers = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    assert info.dtypes(kind="integral") == {n: getattr(xp, n) for n in integers}
    assert list(info.dtypes(kind=("bool", "real floating"))) == ["bool", "float32", "float64"]


PROMOTION = {
    ("int32", "int64"): "int64",
    ("int8", "int16"): "int16",
    ("uint8", "int8"): "int16",
    ("uint8", "int32"): "int32",
    ("uint8", "int64"): "int64",
    ("uint16", "int8"): "int32",
    ("uint32", "int32"): "int64",
    ("uint32", "uint64"): "uint64",
    ("float32", "float64"): "float64",
    ("float32", "complex64"): "complex64",
    ("float64", "complex64"): "complex128",
    ("complex64", "complex128"): "complex128",
}


@pytest.mark.parametrize("pair", [*PROMOTION, *((d, d) for d in ("bool", "uint8", "float32"))])
def test_promotion(pair, device):
    expected = getattr(xp, PROMOTION.get(pair, pair[0]))
    for first, second in (pair, pair[::-1]):
        a, b = (xp.ones(2, dtype=getattr(xp, n), device=device) for n in (first, second))
        assert xp.result_type(a, b) is xp.result_type(a.dtype, b) is expected
        if first != "bool":
            assert xp.add(a, b).dtype is (a * b).dtype is expected
            if "complex" not in expected.name:
                assert xp.maximum(a, b).dtype is expected
            assert xp.where(a == b, a, b).dtype is expected
            assert (a + 1).dtype is a.dtype  # numbers of Python are weak
        assert xp.equal(a, b).dtype is xp.bool
        assert xp.concat([a, b]).dtype is expected
        assert xp.can_cast(a, expected) and xp.can_cast(b.dtype, expected)
    assert not xp.can_cast(xp.float64, xp.float32) and not xp.can_cast(xp.int64, xp.int32)


def test_dtypes(device):
    assert xp.finfo(xp.float32).eps == np.finfo(np.float32).eps
    for name in ("float32", "float64", "float16"):
        mine, theirs = xp.finfo(getattr(mica, name)), np.finfo(name)
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(mine, field) == getattr(theirs, field), (name, field)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        mine, theirs = xp.iinfo(xp.ones(1, dtype=getattr(xp, name))), np.iinfo(name)
        assert (mine.bits, mine.min, mine.max) == (theirs.bits, theirs.min, theirs.max)
    with pytest.raises(TypeError):
        xp.finfo(xp.int32)
    with pytest.raises(TypeError):
        xp.iinfo(xp.float32)
    assert xp.isdtype(xp.int32, "integral") and not xp.isdtype(xp.float32, ("bool", xp.int64))
    with pytest.raises(ValueError, match="kind"):
        xp.isdtype(xp.int32, "whole")
    t = xp.ones(2, device=device)
    assert xp.astype(t, xp.float32).data_ptr() != t.data_ptr()
    assert xp.astype(t, xp.float32, copy=False).data_ptr() == t.data_ptr()
    assert xp.astype(tensor([0.0, 2.5, -1.5], device), xp.int32).tolist() == [0, 2, -1]


def same(mine, theirs):
    if isinstance(theirs, (tuple, list)):
        assert len(mine) == len(theirs)
        for m, t in zip(mine, theirs, strict=True):
            same(m, t)
        return
    mine = mine.cpu().numpy()
    assert mine.shape == np.shape(theirs)
    np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6)


A = np.array([[0.5, -0.25, 0.75], [0.125, 0.875, -0.5]], np.float32)
B = np.array([[2.0, 1.5, 3.0], [1.0, 0.5, 2.5]], np.float32)
I = np.array([[5, 3, 2], [7, 0, 3]])  # noqa: E741
FLOATS = """abs acos asin asinh atan atanh ceil cos cosh exp expm1 floor isfinite isinf isnan
log1p negative positive round sign sin sinh square tan tanh trunc""".split()


@pytest.mark.parametrize("name", FLOATS)
def test_functions_of_one_argument(name, device):
    for dtype in (np.float32, np.float64):
        mine = getattr(xp, name)(tensor(A.astype(dtype), device))
        same(mine, getattr(np, name)(A.astype(dtype)))
        assert mine.dtype.name in (np.dtype(dtype).name, "bool")
    for name in ("acosh", "log", "log2", "log10", "sqrt"):
        same(getattr(xp, name)(tensor(B + 1, device)), getattr(np, name)(B + 1))


BINARY = """add atan2 divide equal floor_divide greater greater_equal less less_equal maximum
minimum multiply not_equal pow remainder subtract""".split()


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arguments(name, device):
    for x, y in ((B, B[:, ::-1].copy()), (B, B[:1, :1].copy()), (I, I.T[:1, :1].copy())):
        if name in ("atan2", "divide") and x is I:
            continue
        same(getattr(xp, name)(tensor(x, device), tensor(y, device)), getattr(np, name)(x, y))


def test_logic_and_bits(device):
    p, q = np.array([True, True, False, False]), np.array([True, False, True, False])
    for name in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_xor"):
        same(getattr(xp, name)(tensor(p, device), tensor(q, device)), getattr(np, name)(p, q))
    for name in ("bitwise_or", "bitwise_left_shift", "bitwise_right_shift"):
        same(getattr(xp, name)(tensor(I, device), tensor(I, device)), getattr(np, name)(I, I))
    same(xp.logical_not(tensor(p, device)), ~p)
    same(xp.bitwise_invert(tensor(I, device)), ~I)


def test_special_cases(device):
    inf, nan = xp.inf, xp.nan
    x = tensor([inf, -inf, nan, 0.0, -0.0], device)
    assert xp.isnan(x).tolist() == [False, False, True, False, False]
    assert xp.isinf(x).tolist() == [True, True, False, False, False]
    assert xp.isfinite(x).tolist() == [False, False, False, True, True]
    assert xp.isnan(xp.maximum(x, xp.ones_like(x))).tolist() == [False, False, True, False, False]
    assert (x == x).tolist() == [True, True, False, True, True]
    assert xp.round(tensor([0.5, 1.5, 2.5, -0.5], device)).tolist() == [0, 2, 2, 0]
    assert xp.sign(x)[:2].tolist() == [1, -1] and math.isnan(xp.sign(x)[2])
    assert xp.exp(x)[:2].tolist() == [inf, 0] and xp.log(x)[3].item() == -inf
    assert xp.sqrt(tensor([-1.0], device)).item() != xp.sqrt(tensor([-1.0], device)).item()
    assert xp.pow(tensor([nan, 1.0], device), tensor([0.0, nan], device)).tolist() == [1, 1]
    assert (tensor([7.0, -7.0], device) % 3).tolist() == [1, 2]
    assert (tensor([7, -7], device) // 2).tolist() == [3, -4]
    assert xp.atan2(tensor([0.0], device), tensor([-1.0], device)).item() == pytest.approx(math.pi)
    assert math.isnan(xp.max(x)) and math.isnan(xp.sum(x))
    empty = xp.zeros((0, 3), device=device)
    assert xp.sum(empty).item() == 0 and xp.prod(empty).item() == 1
    assert xp.all(empty).item() is True and xp.any(empty).item() is False
    assert xp.sum(empty, axis=0).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="empty"):
        xp.max(empty)


def test_creation(device):
    d = {"device": device}
    same(xp.arange(5, **d), np.arange(5))
    same(xp.arange(2, 9, 3, **d), np.arange(2, 9, 3))
    same(xp.arange(1, stop=-1.5, step=-0.5, **d), np.arange(1, -1.5, -0.5))
    same(xp.arange(0, 1, -1, **d), np.arange(0, 1, -1))
    same(xp.arange(2**53 + 1, 2**53 + 3, **d), np.arange(2**53 + 1, 2**53 + 3))
    assert xp.arange(3, **d).dtype is xp.int64 and xp.arange(3.0, **d).dtype is xp.float32
    for rows, columns, k in itertools.product((0, 2, 4), (None, 3), (-5, -1, 0, 1, 5)):
        same(xp.eye(rows, columns, k=k, **d), np.eye(rows, columns, k=k))
    same(xp.eye(3, k=10**10, **d), np.zeros((3, 3)))
    for value, dtype in ((3, xp.int64), (2.5, xp.float32), (True, xp.bool)):
        assert xp.full((2, 2), value, **d).dtype is dtype
        assert xp.full(2, value, **d).tolist() == [value] * 2
    assert xp.full_like(tensor(I, device), 2, dtype=xp.float64).dtype is xp.float64
    filled = xp.full((2,), xp.asarray(3, **d), dtype=xp.int32, **d)
    assert filled.dtype is xp.int32 and filled.tolist() == [3, 3]
    same(xp.linspace(0, 1, 5, **d), np.linspace(0, 1, 5))
    same(xp.linspace(0, 1, 4, endpoint=False, **d), np.linspace(0, 1, 4, endpoint=False))
    x, y = xp.arange(3, **d), xp.arange(2, **d)
    same(xp.meshgrid(x, y), np.meshgrid(np.arange(3), np.arange(2)))
    same(xp.meshgrid(x, y, indexing="ij"), np.meshgrid(np.arange(3), np.arange(2), indexing="ij"))
    for k in (-1, 0, 1):
        same(xp.tril(tensor(I, device), k=k), np.tril(I, k))
        same(xp.triu(tensor(I, device), k=k), np.triu(I, k))
    assert xp.zeros(3, **d).dtype is xp.float32
    for name in ("zeros_like", "ones_like", "empty_like"):
        assert getattr(xp, name)(tensor(I, device), dtype=xp.uint8).dtype is xp.uint8


def test_shapes(device):
    t = tensor(I, device)
    same(xp.concat([t, t], axis=1), np.concatenate([I, I], 1))
    same(xp.concat([t, t[0]], axis=None), np.concatenate([I, I[0]], None))
    same(xp.stack([t, t], axis=-1), np.stack([I, I], -1))
    same(xp.unstack(t, axis=1), [I[:, 0], I[:, 1], I[:, 2]])
    same(xp.expand_dims(t, axis=1), I[:, None])
    same(xp.expand_dims(t, 1), I[:, None])
    same(xp.flip(t), np.flip(I))
    same(xp.flip(t, axis=-1), np.flip(I, -1))
    same(xp.moveaxis(t, 0, -1), I.T)
    same(xp.permute_dims(t, (1, 0)), I.T)
    same(xp.matrix_transpose(t), I.T)
    same(xp.repeat(t, 2), I.repeat(2))
    same(xp.repeat(t, 2, axis=1), I.repeat(2, 1))
    same(xp.reshape(t, (3, -1)), I.reshape(3, -1))
    assert xp.reshape(t, (6,), copy=False).data_ptr() == t.data_ptr()
    assert xp.reshape(t, (6,), copy=True).data_ptr() != t.data_ptr()
    same(xp.roll(t, 1), np.roll(I, 1))
    same(xp.roll(t, (1, -1), axis=(0, 1)), np.roll(I, (1, -1), (0, 1)))
    same(xp.squeeze(t[None], 0), I)
    with pytest.raises(ValueError, match="size 1"):
        xp.squeeze(t, 0)
    same(xp.tile(t, (2, 1)), np.tile(I, (2, 1)))
    same(xp.broadcast_to(t[:1], (4, 3)), np.broadcast_to(I[:1], (4, 3)))
    same(xp.broadcast_to(t[:1], shape=[4, 3]), np.broadcast_to(I[:1], (4, 3)))
    same(xp.broadcast_arrays(t, t[0], t[:, :1]), np.broadcast_arrays(I, I[0], I[:, :1]))
    same(xp.take(t, tensor([2, 0], device), axis=1), I[:, [2, 0]])


def test_products(device):
    a, b = tensor(A, device), tensor(B, device)
    same(xp.matmul(a, b.T), A @ B.T)
    same(xp.tensordot(a, b), np.tensordot(A, B))
    same(xp.tensordot(a, b, axes=0), np.tensordot(A, B, 0))
    same(xp.tensordot(a, b, axes=((1,), (1,))), np.tensordot(A, B, ((1,), (1,))))
    same(xp.vecdot(a, b), (A * B).sum(-1))
    same(xp.vecdot(tensor(I, device), tensor(I, device), axis=0), (I * I).sum(0))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "std", "var", "all", "any"])
def test_reductions(name, device):
    for axis, keepdims in itertools.product((None, 0, -1, (0, 1), ()), (False, True)):
        mine = getattr(xp, name)(tensor(B, device), axis=axis, keepdims=keepdims)
        same(mine, getattr(np, name)(B, axis=axis, keepdims=keepdims))
    if name in ("sum", "prod"):
        whole = xp.ones(3, dtype=xp.int32, device=device)
        assert getattr(xp, name)(whole).dtype is xp.int64
        assert getattr(xp, name)(whole, dtype=xp.float64).dtype is xp.float64
    if name in ("std", "var"):
        same(getattr(xp, name)(tensor(B, device), correction=1), getattr(np, name)(B, ddof=1))


def test_cumulative_sum(device):
    t = tensor(I, device)
    same(xp.cumulative_sum(t, axis=1), I.cumsum(1))
    same(xp.cumulative_sum(t[0]), I[0].cumsum())
    for axis in (0, -1):
        expected = np.concatenate([np.zeros_like(I.take([0], axis)), I.cumsum(axis)], axis)
        same(xp.cumulative_sum(t, axis=axis, include_initial=True), expected)
    assert xp.cumulative_sum(t[0], dtype=xp.float32).dtype is xp.float32
    with pytest.raises(ValueError, match="axis"):
        xp.cumulative_sum(t)


def test_differences(device):
    x = tensor(A, device)
    same(xp.diff(x, 2), np.diff(A, 2))
    same(xp.diff(x, n=2, axis=0), np.diff(A, 2, 0))


def test_search_order_and_sets(device):
    t = tensor(I, device)
    for name in ("argmax", "argmin"):
        same(getattr(xp, name)(t), getattr(np, name)(I))
        same(getattr(xp, name)(t, keepdims=True), getattr(np, name)(I, keepdims=True))
        same(getattr(xp, name)(t, axis=1), getattr(np, name)(I, axis=1))
    same(xp.nonzero(t), np.nonzero(I))
    with pytest.raises(ValueError):
        xp.nonzero(t[0, 0])
    row, sorter = tensor([3, 1, 2], device), tensor([1, 2, 0], device)
    values = tensor([0, 2, 4], device)
    same(xp.searchsorted(xp.sort(row), values, side="right"), [0, 2, 3])
    same(xp.searchsorted(row, values, sorter=sorter), [0, 1, 3])
    same(xp.where(t > 2, t, -t), np.where(I > 2, I, -I))
    same(xp.sort(t, axis=0), np.sort(I, 0))
    same(xp.sort(t, descending=True), -np.sort(-I))
    same(xp.argsort(tensor([2, 1, 2, 1], device), descending=True), [0, 2, 1, 3])  # stable
    values, inverse, counts = np.unique(I, return_inverse=True, return_counts=True)
    same(xp.unique_values(t), values)
    found = xp.unique_counts(t)
    same((found.values, found.counts), (values, counts))
    found = xp.unique_inverse(t)
    same((found.values, found.inverse_indices), (values, inverse.reshape(I.shape)))


def test_clip(device):
    b = tensor(B, device)
    same(xp.clip(b, 1, 2), B.clip(1, 2))
    same(xp.clip(b, max=2), B.clip(max=2))
    same(xp.clip(b, tensor([1.0, 2.0, 2.5], device)), B.clip([1, 2, 2.5]))
    same(xp.clip(b), B)
    assert np.isnan(xp.clip(b, max=math.nan).cpu().numpy()).all()


def test_signs(device):
    x = np.array([1.0, -1.0, 0.0, -0.0, math.inf, -math.inf], np.float32)
    y = np.array([-0.0, 0.0, -3.0, 3.0, -1.0, 1.0], np.float32)
    same(xp.signbit(tensor(x, device)), np.signbit(x))
    same(xp.copysign(tensor(x, device), tensor(y, device)), np.copysign(x, y))
    signs = xp.signbit(xp.copysign(tensor(x, device), tensor(y, device)))
    same(signs, np.signbit(y))
    same(xp.signbit(tensor([-1, 0, 1], device)), np.array([True, False, False]))


def test_numbers_in_result_type():
    assert xp.result_type(xp.int8, 3) is xp.int8
    assert xp.result_type(xp.float32, 3, True) is xp.float32
    assert xp.result_type(2.5, xp.float64) is xp.float64
    assert xp.result_type(xp.int32, 2.5) is xp.float32
    assert xp.result_type(xp.bool, 3) is xp.int64
    assert xp.result_type(1, 2.0) is xp.float32
    assert xp.result_type(True) is xp.bool


def test_lengths_and_places(device):
    same(xp.squeeze(tensor([[1.0]], device), ()), np.array([[1.0]]))
    with pytest.raises(ValueError, match="vecdot"):
        xp.vecdot(xp.ones(3, device=device), xp.ones(1, device=device))
    t = tensor(I, device)
    for dtype in (xp.int64, xp.int8):
        same(xp.take(t, tensor([-1, 0], device, dtype), axis=1), I.take([-1, 0], axis=1))
    same(xp.take(t, tensor([1, 0], device, xp.uint8), axis=1), I.take([1, 0], axis=1))


def test_unique_all(device):
    values = np.array([[3, 1, 3], [2, 1, 0]])
    found = xp.unique_all(tensor(values, device))
    for mine, theirs in zip(found, np.unique_all(values), strict=True):
        same(mine, theirs)


def test_totals_of_unsigned_integers(device):
    for name in ("uint8", "uint32", "uint64"):
        x = xp.ones(3, dtype=getattr(xp, name), device=device)
        assert xp.sum(x).dtype is xp.prod(x).dtype is xp.uint64
        assert xp.cumulative_sum(x).dtype is xp.uint64
    assert xp.sum(xp.ones(3, dtype=xp.int8, device=device)).dtype is xp.int64


def test_the_differences_are_those_listed(device):
    whole = tensor(I, device)
    assert callable(whole.size)
    with pytest.raises(TypeError):
        whole @ whole.T
    with pytest.raises(TypeError, match="no common dtype"):
        xp.ones(2, dtype=xp.uint64) + xp.ones(2, dtype=xp.int8)
    with pytest.raises(ValueError, match="8"):
        xp.zeros((1,) * 9)


def test_the_sign_of_nan_is_seen(device):
    numbers = np.array([-np.nan, np.nan, -0.0, 0.0, -np.inf, np.inf, -1.5, 2.0])
    for dtype in (np.float32, np.float64):
        x = tensor(numbers.astype(dtype), device)
        assert np.array_equal(xp.signbit(x).cpu().numpy(), np.signbit(numbers))
        found = xp.copysign(tensor(np.full(8, 3, dtype), device), x).cpu().numpy()
        assert np.array_equal(found, np.copysign(3, numbers))
        signs = xp.copysign(x, tensor(np.full(8, -1, dtype), device)).cpu().numpy()
        # A GPU's arithmetic gives one NaN for all, without a sign.
        assert np.signbit(signs[2 if device != "cpu" else 0 :]).all()
    assert xp.signbit(tensor([-1, 0, 1], device)).tolist() == [True, False, False]


def test_products_of_integers(rng, device):
    a = rng.integers(-9, 9, (2, 3, 4))
    b = rng.integers(-9, 9, (4, 5))
    assert np.array_equal(xp.matmul(tensor(a, device), tensor(b, device)).cpu().numpy(), a @ b)
    row = b[:, 0]
    assert np.array_equal(xp.matmul(tensor(a, device), tensor(row, device)).cpu().numpy(), a @ row)
    assert xp.matmul(tensor(row, device), tensor(b[:, 1], device)).item() == row @ b[:, 1]
    got = xp.tensordot(tensor(a, device), tensor(b, device), axes=((2,), (0,)))
    assert np.array_equal(got.cpu().numpy(), np.tensordot(a, b, ((2,), (0,))))
    with pytest.raises(ValueError, match="matmul"):
        xp.matmul(tensor(a, device), tensor(a, device))


def test_repeat_by_an_array(device):
    x = tensor(np.arange(6).reshape(2, 3), device)
    times = tensor(np.array([0, 2, 1]), device)
    assert xp.repeat(x, times, axis=1).tolist() == [[1, 1, 2], [4, 4, 5]]
    assert xp.repeat(x, tensor(np.array([1, 0, 2, 0, 0, 1]), device)).tolist() == [0, 2, 2, 5]


def test_signs_and_steps():
    assert str(xp.sign(xp.asarray(-0.0)).item()) == "0.0"
    assert xp.copysign(xp.asarray(1.0), xp.asarray(-2.0, dtype=xp.float64)).dtype == xp.float64
    assert xp.arange(-1.0, step=2).dtype == xp.float32
    assert xp.asarray([1.0])[xp.asarray([], dtype=xp.bool)].shape == (0,)
