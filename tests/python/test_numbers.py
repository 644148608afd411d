"""Numbers beside tensors, dtypes that hold values only, and memory that overlaps."""

import math
import operator

import mica
import numpy as np
import pytest
from mica import nn

PAST = 2**53 + 1  # the first integer that is no double
INTEGERS = ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"]


def test_python_integers_arrive_with_all_their_digits(device):
    x = mica.tensor([PAST, -PAST], device=device)
    assert (x + PAST).tolist() == [2 * PAST, 0]
    assert (PAST - x).tolist() == [0, 2 * PAST]
    assert mica.add(x, 1).tolist() == [PAST + 1, 1 - PAST]
    assert (x == PAST).tolist() == [True, False]
    assert mica.maximum(x, PAST - 2).tolist() == [PAST, PAST - 2]
    assert x.clamp(2 - PAST, PAST - 2).tolist() == [PAST - 2, 2 - PAST]
    assert x.clamp(min=-PAST + 2).tolist() == [PAST, 2 - PAST]
    assert x.masked_fill(x > 0, PAST + 2).tolist() == [PAST + 2, -PAST]
    assert mica.where(x > 0, x, PAST + 4).tolist() == [PAST, PAST + 4]
    assert x.clone().fill_(-PAST).tolist() == [-PAST, -PAST]
    assert mica.full((1,), 2**63 - 1, dtype=mica.int64, device=device).tolist() == [2**63 - 1]
    assert mica.full((1,), 2**64 - 1, dtype=mica.uint64, device=device).tolist() == [2**64 - 1]
    assert mica.arange(PAST, PAST + 2, device=device).tolist() == [PAST, PAST + 1]
    assert mica.tensor(2**64 - 1, device=device).dtype is mica.uint64
    assert mica.tensor(2**64 - 1, device=device).item() == 2**64 - 1
    assert mica.fmod(mica.tensor([-(2**63)], device=device), 3).tolist() == [-2]
    assert mica.nn.functional.pad(x, (1, 0), value=PAST + 6).tolist()[0] == PAST + 6


def test_the_kind_of_a_number_decides(device):
    x = mica.tensor([1, 2], dtype=mica.int16, device=device)
    assert (x + 1).dtype is mica.int16 and (x + True).dtype is mica.int16
    assert (x + 2.0).dtype is mica.float32 and (x * 0.5).tolist() == [0.5, 1.0]
    truth = x > 1
    assert (truth + 1).dtype is mica.int64 and (truth & 1).dtype is mica.int64
    assert (truth & True).dtype is mica.bool and (truth | False).dtype is mica.bool
    assert (x + np.int64(1)).dtype is mica.int16 and (x + np.float32(1)).dtype is mica.float32
    assert mica.full((2,), True, device=device).dtype is mica.bool
    assert mica.full((2,), 1, device=device).dtype is mica.float32
    assert mica.where(truth, True, False).dtype is mica.bool
    assert mica.where(truth, 1, 0).dtype is mica.int64


def test_comparisons_with_numbers_past_the_dtype(device):
    x = mica.tensor([5, 255], dtype=mica.uint8, device=device)
    assert (x < 256).tolist() == [True, True] and (x == 261).tolist() == [False, False]
    assert (x > -1).tolist() == [True, True] and (x != -1).tolist() == [True, True]
    assert (x < 10**40).tolist() == [True, True] and (x < math.inf).tolist() == [True, True]
    assert (x >= 5.5).tolist() == [False, True] and (x == math.nan).tolist() == [False, False]


def test_numbers_that_do_not_fit(device):
    x = mica.tensor([5], dtype=mica.uint8, device=device)
    for operation in (operator.add, operator.mul, operator.floordiv, operator.pow):
        with pytest.raises(TypeError, match="256 does not fit u8"):
            operation(x, 256)
    with pytest.raises(TypeError, match="-1 does not fit u8"):
        _ = -1 - x


def test_zeros_have_their_signs(device):
    one = mica.ones(1, device=device)
    assert math.copysign(1, (one * -0.0).item()) == -1
    assert (one / 0.0).item() == math.inf and (one / -0.0).item() == -math.inf


@pytest.mark.parametrize("name", INTEGERS)
def test_division_of_integers_by_zero_raises(name, device):
    x = mica.tensor([7, 8], dtype=name, device=device)
    by = mica.tensor([2, 0], dtype=name, device=device)
    for divide in (operator.floordiv, operator.mod, mica.fmod):
        with pytest.raises(mica.Error, match="an integer was divided by zero"):
            divide(x, by).tolist()
        with pytest.raises(mica.Error, match="an integer was divided by zero"):
            divide(x, 0).tolist()
    assert (x / by).tolist() == [3.5, math.inf]


@pytest.mark.parametrize("name", INTEGERS)
def test_operators_of_each_integer_dtype(name, device, rng):
    low = 0 if name.startswith("u") else -100
    a = rng.integers(low, 100, (4, 5)).astype(name)
    b = rng.integers(1, 7, 5).astype(name)
    x, y = mica.tensor(a, device=device), mica.tensor(b, device=device)
    for operation in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod):
        result, expected = operation(x, y), operation(a, b)
        assert result.dtype is x.dtype
        np.testing.assert_array_equal(result.cpu().numpy(), expected)
    for operation in (operator.and_, operator.or_, operator.xor, operator.lt, operator.eq):
        np.testing.assert_array_equal(operation(x, y).cpu().numpy(), operation(a, b))
    for mine, theirs in (("amax", "max"), ("amin", "min"), ("argmax", "argmax"), ("sum", "sum")):
        result = getattr(x, mine)(1).cpu().numpy()
        np.testing.assert_array_equal(result, getattr(a, theirs)(1))
    np.testing.assert_array_equal(x.cumsum(1).cpu().numpy(), a.cumsum(1).astype("int64"))
    np.testing.assert_array_equal(x.sort(1).values.cpu().numpy(), np.sort(a, 1))
    np.testing.assert_array_equal(x.T.unique().cpu().numpy(), np.unique(a))
    np.testing.assert_array_equal(x[:, [0, 2]].flip(1).cpu().numpy(), a[:, [0, 2]][:, ::-1])
    compiled = mica.compile(lambda u, v: (u * v + u).maximum(v) // v)
    np.testing.assert_array_equal(compiled(x, y).cpu().numpy(), np.maximum(a * b + a, b) // b)


def test_gradients_at_the_limits(device):
    def slopes(f, *points):
        x = mica.tensor(points, device=device, requires_grad=True)
        f(x).sum().backward()
        return x.grad.tolist()

    assert slopes(lambda x: x.clamp(-1.0, 1.0), -1.0, 0.0, 1.0, 2.0) == [1, 1, 1, 0]
    assert slopes(nn.functional.hardtanh, -1.0, 0.0, 1.0, 2.0) == [0, 1, 0, 0]
    assert slopes(nn.functional.relu6, 0.0, 3.0, 6.0, 7.0) == [0, 1, 0, 0]
    assert slopes(nn.functional.relu, 0.0, 1.0) == [0, 1]


def test_repeated_tensors_own_their_memory(device):
    x = mica.tensor([1.0, 2.0], device=device)
    for y in (x.repeat(3), x.tile(3), x.repeat_interleave(3), x.repeat(1), x[:1].repeat(4)):
        expected = y.tolist()
        y[0] = 5
        assert y.tolist() == [5, *expected[1:]] and x.tolist() == [1, 2]


def test_copies_of_memory_that_overlaps(device):
    def fresh():
        return mica.arange(9, dtype=mica.float32, device=device).reshape(3, 3)

    a = np.arange(9.0).reshape(3, 3)
    x = fresh()
    x.copy_(x.t())
    np.testing.assert_array_equal(x.cpu().numpy(), a.T)
    x = fresh()
    x[1:].copy_(x[:-1])
    np.testing.assert_array_equal(x.cpu().numpy(), a[[0, 0, 1]])
    x = fresh()
    x[:-1].copy_(x[1:])
    np.testing.assert_array_equal(x.cpu().numpy(), a[[1, 2, 2]])
    x = fresh()
    x.copy_(x[1])
    np.testing.assert_array_equal(x.cpu().numpy(), a[[1, 1, 1]])
    x = fresh()
    mica.compile(lambda: x.copy_(x.t()))()
    np.testing.assert_array_equal(x.cpu().numpy(), a.T)


def test_writes_to_expanded_memory_are_refused(device):
    x = mica.zeros(3, 1, device=device)
    wide = x.expand(3, 4)
    for write in (lambda: wide.fill_(1), lambda: wide.add_(1), lambda: wide.__setitem__(0, 2.0)):
        with pytest.raises(mica.Error, match="lie in one place; clone"):
            write()
    wide[:, 0] = 3.0  # a column of it is itself
    assert x.tolist() == [[3.0], [3.0], [3.0]]


EIGHT = ["float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("name", EIGHT)
def test_floats_of_eight_bits_hold_values(name, device, tmp_path):
    dtype = getattr(mica, name)
    x = mica.tensor([[0.3, -2.0], [100.0, 1e-3]], device=device)
    small = x.to(dtype)
    assert small.dtype is dtype and dtype.itemsize == 1 and dtype.is_floating_point
    back = small.float()
    assert back.tolist() != x.tolist() and mica.allclose(back, x, rtol=0.13, atol=2e-3)
    assert small.T.float().tolist() == back.T.tolist()
    assert small.tolist() == back.tolist() and small[0, 1].item() == -2
    assert name in repr(small)
    np.testing.assert_array_equal(np.asarray(small.cpu()), back.cpu().numpy())
    with pytest.raises(TypeError, match=f"NumPy has no {name}"):
        small.cpu().numpy()
    path = tmp_path / "small.safetensors"
    mica.io.save_safetensors(str(path), {"x": small})
    loaded = mica.io.load_safetensors(str(path)).tensors
    assert loaded["x"].dtype is dtype and loaded["x"].float().tolist() == back.tolist()
    again = mica.from_dlpack(small)
    assert again.dtype is dtype and again.float().tolist() == back.tolist()
    for compute in (lambda: small + small, lambda: small.sum(), lambda: small @ small):
        with pytest.raises(TypeError, match="got f8_e"):
            compute()


def test_an_overridden_reset_parameters_is_called():
    class Zeros(nn.Linear):
        def reset_parameters(self):
            self.calls = getattr(self, "calls", 0) + 1
            nn.init.zeros_(self.weight)
            nn.init.zeros_(self.bias)

    layer = Zeros(3, 2)
    assert layer.calls == 1 and layer.weight.abs().sum().item() == 0
    assert layer(mica.ones(1, 3)).tolist() == [[0, 0]]


def test_truncated_normal_numbers():
    x = mica.empty(200_000)
    nn.init.trunc_normal_(x, 1.0, 2.0, -1.0, 4.0)
    values = x.numpy()
    assert values.min() >= -1 and values.max() <= 4
    # The mean and the variance of the truncated distribution.
    a, b = -1.0, 1.5
    density = [math.exp(-t * t / 2) / math.sqrt(2 * math.pi) for t in (a, b)]
    mass = (math.erf(b / math.sqrt(2)) - math.erf(a / math.sqrt(2))) / 2
    mean = (density[0] - density[1]) / mass
    variance = 1 + (a * density[0] - b * density[1]) / mass - mean**2
    assert abs(values.mean() - (1 + 2 * mean)) < 0.02
    assert abs(values.std() - 2 * math.sqrt(variance)) < 0.02
