"""Integers of 64 bits never pass through a double: values past 2**53 and at the ends of int64 and
uint64, through every function that takes them, eager and compiled, beside Python's own integers."""

import copy
import itertools
import math
import operator
import pickle

import mica
import numpy as np
import pytest

VALUES = {
    "int64": [2**63 - 1, -(2**63), 2**53 + 1, -(2**53 + 1), 2**62 + 3, -1, 0, 1, 7, 2**32 + 1],
    "uint64": [2**64 - 1, 2**63, 2**63 - 1, 2**53 + 1, 2**62 + 3, 0, 1, 7, 2**32 + 1, 2**63 + 1],
}
SCALARS = {"int64": [2**53 + 1, 2**63 - 1, -(2**63)], "uint64": [2**53 + 1, 2**63, 2**64 - 1]}
SHIFTS = [0, 1, 2, 3, 31, 32, 33, 60, 62, 63]
EXPONENTS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 39]


def wrapped(value, dtype):
    value = int(value) % 2**64
    return value - 2**64 if dtype == "int64" and value >= 2**63 else value


def array(values, dtype):
    return np.array([wrapped(v, dtype) for v in values], dtype=dtype)


def nonzero(values):
    return [v if v else 3 for v in values]


def truncated_remainder(a, b):
    return abs(a) % abs(b) * (1 if a >= 0 else -1)


# Of two tensors, element by element.
BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "maximum": max,
    "minimum": min,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}

# Of one: mica's, and Python's of all the integers.
WHOLE = {
    "sum": (lambda x: x.sum(), sum),
    "prod": (lambda x: x[2:4].prod(), lambda v: v[2] * v[3]),
    "max": (lambda x: x.max(), max),
    "min": (lambda x: x.min(), min),
    "amax": (lambda x: mica.amax(x.reshape(2, 5), 1), lambda v: [max(v[:5]), max(v[5:])]),
    "cumsum": (lambda x: x.cumsum(0), lambda v: [*itertools.accumulate(v)]),
    "cumprod": (lambda x: x.cumprod(0), lambda v: [*itertools.accumulate(v, operator.mul)]),
    "cummax": (lambda x: mica.cummax(x, 0)[0], lambda v: [*itertools.accumulate(v, max)]),
    "sort": (lambda x: x.sort()[0], sorted),
    "topk": (lambda x: x.topk(3)[0], lambda v: sorted(v)[:-4:-1]),
    "median": (lambda x: x[:9].median(), lambda v: sorted(v[:9])[4]),
    "square": (mica.square, lambda v: [e * e for e in v]),
    "sign": (mica.sign, lambda v: [(e > 0) - (e < 0) for e in v]),
    "abs": (mica.abs, lambda v: [abs(e) for e in v]),
    "not": (mica.bitwise_not, lambda v: [~e for e in v]),
    "pow 2": (lambda x: x**2, lambda v: [e**2 for e in v]),
    "pow 64": (lambda x: x**64, lambda v: [e**64 for e in v]),
    "diff": (mica.diff, lambda v: [b - a for a, b in itertools.pairwise(v)]),
    "flip": (lambda x: x.flip(0), lambda v: v[::-1]),
    "roll": (lambda x: x.roll(3, 0), lambda v: v[-3:] + v[:-3]),
    "cat": (lambda x: mica.cat([x, x]), lambda v: v + v),
    "repeat": (lambda x: x.repeat(2), lambda v: v + v),
    "trace": (lambda x: mica.trace(x[:9].reshape(3, 3)), lambda v: v[0] + v[4] + v[8]),
    "sum of outer": (lambda x: mica.outer(x, x).sum(), lambda v: sum(v) ** 2),
    "alpha": (lambda x: mica.add(x, x, alpha=3), lambda v: [4 * e for e in v]),
    "where": (lambda x: mica.where(x > 7, x, x + 1), lambda v: [e + (e <= 7) for e in v]),
}

INDEXED = {
    "gather": lambda x, i: mica.gather(x, 0, i),
    "index": lambda x, i: x[i],
    "index_select": lambda x, i: mica.index_select(x, 0, i),
    "take_along_dim": lambda x, i: mica.take_along_dim(x, i, 0),
    "scatter": lambda x, i: mica.zeros_like(x).scatter(0, i, x),
    "index_put": lambda x, i: mica.zeros_like(x).index_put((i,), x),
}
ADDED = {
    "scatter_add": lambda x, i: mica.zeros_like(x).scatter_add(0, i, x),
    "index_add": lambda x, i: mica.zeros_like(x).index_add(0, i, x),
    "index_put": lambda x, i: mica.zeros_like(x).index_put((i,), x, accumulate=True),
}

# Of a tensor and a number.
WITH_NUMBER = {
    "+": operator.add,
    "*": operator.mul,
    "r-": lambda x, s: s - x,
    "//": operator.floordiv,
    "%": operator.mod,
    ">": operator.gt,
    "==": operator.eq,
}


@pytest.fixture(params=VALUES)
def dtype(request):
    return request.param


def check(f, expected, *tensors):
    for call in (f, mica.compile(f)):
        result = call(*tensors)
        got = result.numpy()
        expected = np.asarray(expected)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def as_result(values, dtype):
    if not isinstance(values, list):
        return array([values], dtype).reshape(())
    return np.array(values) if isinstance(values[0], bool) else array(values, dtype)


@pytest.mark.parametrize("name", BINARY)
def test_of_two_tensors(name, dtype):
    a = VALUES[dtype]
    b = nonzero(a[-3:] + a[:-3])
    expected = as_result([BINARY[name](x, y) for x, y in zip(a, b, strict=True)], dtype)
    check(getattr(mica, name), expected, mica.tensor(array(a, dtype)), mica.tensor(array(b, dtype)))


@pytest.mark.parametrize("name", WHOLE)
def test_of_one_tensor(name, dtype):
    f, reference = WHOLE[name]
    check(f, as_result(reference(VALUES[dtype]), dtype), mica.tensor(array(VALUES[dtype], dtype)))


@pytest.mark.parametrize("name", [*INDEXED, *ADDED])
def test_moved_by_index(name, dtype):
    x = array(VALUES[dtype], dtype)
    if name in INDEXED:
        backwards = mica.tensor(np.arange(len(x))[::-1].copy())
        check(INDEXED[name], x[::-1], mica.tensor(x), backwards)
    if name in ADDED:
        expected = array([sum(VALUES[dtype])] + [0] * (len(x) - 1), dtype)
        check(ADDED[name], expected, mica.tensor(x), mica.zeros(len(x), dtype=mica.int64))


@pytest.mark.parametrize("name", WITH_NUMBER)
def test_beside_numbers(name, dtype):
    f = WITH_NUMBER[name]
    for s in SCALARS[dtype]:
        expected = as_result([f(v, s) for v in VALUES[dtype]], dtype)
        check(lambda x, s=s: f(x, s), expected, mica.tensor(array(VALUES[dtype], dtype)))


def test_shifts_and_powers(dtype):
    v = VALUES[dtype]
    x, n = mica.tensor(array(v, dtype)), mica.tensor(array(SHIFTS, dtype))
    check(operator.lshift, array(map(operator.lshift, v, SHIFTS), dtype), x, n)
    check(operator.rshift, array(map(operator.rshift, v, SHIFTS), dtype), x, n)
    check(mica.pow, array(map(pow, v, EXPONENTS), dtype), x, mica.tensor(array(EXPONENTS, dtype)))


def test_divisors(dtype):
    a = VALUES[dtype]
    b = nonzero(a[-3:] + a[:-3])
    x, y = mica.tensor(array(a, dtype)), mica.tensor(array(b, dtype))
    assert mica.gcd(x, y).tolist() == [math.gcd(p, q) for p, q in zip(a, b, strict=True)]
    check(mica.fmod, array(map(truncated_remainder, a, b), dtype), x, y)


def test_numbers_come_in_and_go_out(dtype, tmp_path):
    kind = getattr(mica, dtype)
    for s in SCALARS[dtype]:
        check(lambda s=s: mica.full((3,), s, dtype=kind), array([s] * 3, dtype))
        x = mica.zeros(3, dtype=kind)
        check(lambda x, s=s: mica.full_like(x, s), array([s] * 3, dtype), x)
        check(lambda x, s=s: x.masked_fill(x == 0, s), array([s] * 3, dtype), x)
        x[1] = s
        assert x.tolist() == [0, s, 0] and x[1].item() == s and int(x[1]) == s
        assert str(s) in repr(x) and x.clone().fill_(s).tolist() == [s] * 3
        start = s if s < 0 else s - 9
        numbers = mica.arange(start, start + 9, 4, dtype=kind)
        assert numbers.tolist() == [start, start + 4, start + 8]
    low, high = sorted(SCALARS[dtype])[:2]
    expected = array([min(max(v, low), high) for v in VALUES[dtype]], dtype)
    x = mica.tensor(array(VALUES[dtype], dtype))
    check(lambda x: x.clamp(low, high), expected, x)
    for same in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), mica.from_dlpack(x.numpy())):
        assert same.tolist() == VALUES[dtype]
    assert np.from_dlpack(x).tolist() == VALUES[dtype]
    mica.io.save_safetensors(tmp_path / "x.safetensors", {"x": x})
    assert mica.io.load_safetensors(tmp_path / "x.safetensors").tensors["x"].tolist() == x.tolist()


def test_numbers_that_no_dtype_holds():
    """-2**63 - 1 rounds to -2**63 as a double, which int64 holds."""
    x = mica.tensor([-(2**63), 5])
    for past in (-(2**63) - 1, -(2**63) - 1000, -(2**64), 2**64):
        assert (x == past).tolist() == [False, False]
        assert (x > past).tolist() == [past < 0] * 2 and (x < past).tolist() == [past > 0] * 2
        with pytest.raises(mica.DTypeError, match="does not fit i64"):
            mica.full((2,), past, dtype=mica.int64)
        with pytest.raises(mica.DTypeError, match="does not fit i64"):
            x.masked_fill(x > 0, past)
        with pytest.raises(mica.DTypeError, match="does not fit i64"):
            x.clone().fill_(past)
        with pytest.raises(mica.DTypeError, match="does not fit i64"):
            x + past
        with pytest.raises(OverflowError):
            mica.tensor([past])
    with pytest.raises(mica.DTypeError, match="does not fit i64"):
        mica.arange(-(2**63) - 9, -(2**63), 4, dtype=mica.int64)


@pytest.mark.parametrize("to", ["int64", "uint64", "int32", "uint16", "int8", "bool", "float64"])
def test_casts(to, dtype):
    x = array(VALUES[dtype], dtype)
    check(lambda x: x.to(getattr(mica, to)), x.astype(to), mica.tensor(x))


def test_casts_of_floats():
    x = np.array([2.0**62 + 2**10, 2.0**53, 2.0**63 - 1024])
    for to in ("int64", "uint64"):
        check(lambda x, to=to: x.to(getattr(mica, to)), x.astype(to), mica.tensor(x))
    y = np.array([2.0**63, 2.0**64 - 2048])
    check(lambda x: x.to(mica.uint64), y.astype("uint64"), mica.tensor(y))
