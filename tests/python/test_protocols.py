"""What Python asks of an object: operators in place, text, iteration, copies, pickles, methods."""

import copy
import operator
import pickle

import mica
import numpy as np
import pytest


def test_repr():
    text = "tensor([[1.5000, 2.0000],\n        [3.0000, 4.0000]])"
    assert repr(mica.tensor([[1.5, 2], [3, 4]])) == text
    assert repr(mica.tensor([True, False])) == "tensor([ True, False])"
    assert repr(mica.tensor([1, 2], dtype=mica.int32)) == "tensor([1, 2], dtype=mica.int32)"
    assert repr(mica.tensor(3)) == "tensor(3)"
    assert repr(mica.ones(1, requires_grad=True)) == "tensor([1.], requires_grad=True)"
    assert repr(mica.zeros(0, 3)) == "tensor([], shape=[0, 3])"
    assert repr(mica.arange(2000)) == "tensor([   0,    1,    2, ..., 1997, 1998, 1999])"
    assert repr(mica.zeros(2, device="null")) == "tensor(<f32[2] on null>)"
    assert repr(mica.float32) == "mica.float32" and repr(mica.device("cpu")) == "device('cpu')"


def test_repr_names_the_device(device):
    text = repr(mica.ones(2, device=device))
    assert text == ("tensor([1., 1.])" if device == "cpu" else "tensor([1., 1.], device='cuda:0')")


def test_format(device):
    assert f"{mica.tensor(2.5, device=device):.3f}" == "2.500"
    assert f"{mica.tensor([7], device=device):04d}" == "0007"
    assert f"{mica.tensor([1, 2])}" == "tensor([1, 2])"
    with pytest.raises(TypeError, match="format"):
        f"{mica.tensor([1, 2]):.3f}"


def test_conversion_to_numbers(device):
    with pytest.raises(ValueError, match=r"any\(\) or all\(\)"):
        bool(mica.ones(2, device=device))
    assert not mica.tensor([[0.0]], device=device)
    assert operator.index(mica.tensor(3, device=device)) == 3
    for t in (mica.tensor(1.5), mica.tensor(True), mica.tensor([1, 2])):
        with pytest.raises(TypeError, match="index"):
            operator.index(t)
    assert list(range(5))[mica.tensor(1) :] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "dtype", ["float64", "float16", "bfloat16", "float8_e5m2", "int64", "int8", "uint64", "bool"]
)
def test_tolist(dtype, device):
    values = [[0, 1, 1], [1, 0, 1]]
    t = mica.tensor(values, dtype=dtype, device=device)
    assert t.tolist() == values and t.T.tolist() == [[0, 1], [1, 0], [1, 1]]
    kind = bool if dtype == "bool" else float if "float" in dtype else int
    assert type(t.tolist()[0][0]) is kind and type(t[0, 0].tolist()) is kind
    assert mica.zeros(2, 0).tolist() == [[], []]


def test_iteration_length_and_membership(device):
    t = mica.tensor([[1, 2], [3, 4]], device=device)
    assert [row.tolist() for row in t] == [[1, 2], [3, 4]] and len(t) == 2
    assert [row.tolist() for row in reversed(t)] == [[3, 4], [1, 2]]
    assert 3 in t and 5 not in t
    with pytest.raises(TypeError, match="0-d"):
        iter(mica.tensor(1))


def test_each_object_is_its_own_key(device):
    a, b = mica.ones(2, device=device), mica.ones(2, device=device)
    table = {a: "a", b: "b"}
    assert table[a] == "a" and table[b] == "b" and a.clone() not in list(table)[:0]
    assert (a == None) is False and (a != None) is True  # noqa: E711
    assert (a == "text") is False


NUMBERS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv]
NUMBERS += [operator.mod, operator.pow]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("op", NUMBERS + BITS + [operator.eq, operator.lt, operator.ge])
def test_operators_on_integers(op, device):
    a, b = np.array([7, -8, 9, 1]), np.array([2, 3, 4, 5])
    t, u = mica.tensor(a, device=device), mica.tensor(b, device=device)
    for mine, theirs in ((op(t, u), op(a, b)), (op(t, 3), op(a, 3)), (op(20, u), op(20, b))):
        np.testing.assert_allclose(mine.cpu().numpy(), theirs, rtol=1e-6)


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
def test_operators_in_place(name, device):
    op = getattr(operator, name)
    array = np.array([4.0, 9.0, 2.5], np.float32)
    t = mica.tensor(array, device=device)
    base, address = t, t.data_ptr()
    for other in (2, 1.5, np.float32(2)):
        t = op(t, other)
        array = op(array, other)
    t = op(t, mica.tensor([2.0], device=device))
    array = op(array, np.float32(2))
    assert t is base and t.data_ptr() == address
    np.testing.assert_allclose(t.cpu().numpy(), array, rtol=1e-6)


def test_bits_in_place(device):
    t = base = mica.tensor([12, 10], device=device)
    t &= 6
    t |= mica.tensor([1, 8], device=device)
    t ^= 3
    t <<= 2
    t >>= 1
    assert t is base and t.tolist() == [((12 & 6 | 1) ^ 3) * 2, ((10 & 6 | 8) ^ 3) * 2]


def test_in_place_keeps_dtype_and_shape(device):
    t = mica.tensor([1, 2], device=device)
    with pytest.raises(TypeError, match="in place"):
        t += 1.5
    with pytest.raises(ValueError, match="in place"):
        t += mica.ones(3, 2, dtype=mica.int64, device=device)
    half = mica.ones(2, dtype=mica.float16, device=device)
    half += mica.ones(2, device=device)
    assert half.dtype is mica.float16
    with pytest.raises(TypeError):
        t += "a"
    with pytest.raises(TypeError, match="add_: expected a tensor or a number, got str"):
        t.add_("a")
    t[0] += 5
    assert t.tolist() == [6, 2]
    assert t.mul_(3).sub_(1).tolist() == [17, 5]
    assert mica.ones(2, device=device).div_(4).tolist() == [0.25, 0.25]


def test_in_place_with_gradients(device):
    x = mica.ones(2, device=device, requires_grad=True)
    y = first = x * 2
    y += x  # as in `out += identity`: nothing that backward needs is overwritten
    y *= 3
    assert y is first
    y.backward(mica.ones(2, device=device))
    assert x.grad.tolist() == [9, 9] and first.tolist() == [9, 9]
    # Where backward needs what is overwritten, it says so.
    z = saved = x.exp()
    z += 1
    assert z is saved
    with pytest.raises(mica.Error, match=r"exp: a tensor it saved for backward .* was modified"):
        z.backward(mica.ones(2, device=device))
    with pytest.raises(mica.Error, match="requires a gradient"):
        x += 1
    with mica.no_grad():
        x += 1
    assert x.tolist() == [2, 2] and x.is_leaf


def test_items_with_gradients(device):
    def write(w, x):
        y = mica.zeros(2, 3, device=device)
        y[0] = w * x
        y[:, 1] = w[0]
        y[1, [0, 2]] = w[1:]
        y[0] += w
        y.relu_()
        y.clamp_(max=100)
        y.masked_fill_(y > 1000, 0)
        return y

    with mica.no_grad():
        plain = write(mica.tensor([1.0, 2.0, 3.0], device=device), 2)
    w = mica.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    y = write(w, 2)
    np.testing.assert_array_equal(y.detach().cpu().numpy(), plain.cpu().numpy())
    y.backward(mica.tensor([[1.0, 10, 100], [1e3, 1e4, 1e5]], device=device))
    # y is 3 w[0], w[0] + w[1], 3 w[2] and w[1], w[0], w[2].
    assert w.grad.tolist() == [3 + 10 + 1e4, 10 + 1e3, 300 + 1e5]
    with pytest.raises(mica.Error, match="requires a gradient"):
        w[0] = 1
    y = write(w, 2)
    view = y[1]
    y[1] = w
    w.grad = None
    view.sum().backward()
    assert view.tolist() == w.tolist() and w.grad.tolist() == [1, 1, 1]


def test_in_place_is_captured(device):
    def write(x):
        y = alias = x * 2
        y += 1
        return y, alias

    for call in (write, mica.compile(write)):
        assert [t.tolist() for t in call(mica.ones(2, device=device))] == [[3, 3], [3, 3]]


def test_large_integers_stay_exact(device):
    big = 2**62 + 1
    t = mica.tensor([1], device=device)
    assert (t + big).item() == big + 1 and (big - t).item() == big - 1
    assert (t | big).item() == big and (mica.tensor([big], device=device) == big).item() is True
    with pytest.raises((OverflowError, TypeError, ValueError)):
        t + 2**70


def test_copies(device):
    t = mica.tensor([1.0, 2.0], device=device, requires_grad=True)
    (t * t).sum().backward()
    assert copy.copy(t).data_ptr() == t.data_ptr()
    deep = copy.deepcopy({"a": t, "b": [t]})
    assert deep["a"] is deep["b"][0] and deep["a"].data_ptr() != t.data_ptr()
    assert deep["a"].requires_grad and deep["a"].device == t.device
    assert deep["a"].grad.tolist() == [2, 4]
    with pytest.raises(mica.Error, match="detach"):
        copy.deepcopy(t * 2)


EVERY = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64"]
EVERY += ["int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]


@pytest.mark.parametrize("dtype", EVERY)
def test_pickles(dtype, device):
    t = mica.tensor([[0, 1, 2], [3, 4, 5]], dtype=dtype, device=device).T
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        back = pickle.loads(pickle.dumps(t, protocol))
        assert back.dtype is t.dtype and back.device == t.device and back.tolist() == t.tolist()
    empty = pickle.loads(pickle.dumps(mica.zeros(0, 3, dtype=dtype, requires_grad=False)))
    assert empty.shape == (0, 3)


def test_pickles_hold_plain_values():
    t = mica.ones(2, requires_grad=True)
    assert pickle.loads(pickle.dumps(t)).requires_grad
    assert t.__getstate__() == ("float32", (2,), t.detach().numpy().tobytes(), "cpu", True)
    with pytest.raises(mica.Error, match="detach"):
        pickle.dumps(t * 2)
    for state in (
        ("float32", (3,), bytes(8), "cpu", False),
        ("float32", (-2, -1), bytes(8), "cpu", False),
        ("float32", (2,), bytes(7), "cpu", False),
        ("float7", (2,), bytes(8), "cpu", False),
        ("float32", (2**40, 2**40), bytes(8), "cpu", False),
        ("float32", "two", bytes(8), "cpu", False),
        (1, 2),
        (),
    ):
        with pytest.raises((ValueError, TypeError, RuntimeError)):
            mica.Tensor.__new__(mica.Tensor).__setstate__(state)


def test_memory_properties(device):
    t = mica.zeros(4, 3, device=device)[1:, ::2]
    assert t.storage_offset() == 3 and t.element_size() == t.itemsize == 4 and t.nbytes == 24
    assert t.data_ptr() == mica.Tensor.data_ptr(t[0]) and t.dim() == t.ndim == 2
    assert t.stride(0) == 3 and t.stride(-1) == 2 and t.nelement() == 6
    assert t.is_cuda == device.startswith("cuda") and t.is_floating_point()
    assert not t.is_pinned()


def test_views(device):
    t = mica.arange(24, device=device).reshape(2, 3, 4)
    assert t.mT.shape == (2, 4, 3) and t.mT.tolist() == t.transpose(1, 2).tolist()
    assert t.view(6, -1).data_ptr() == t.data_ptr() and t.view((4, 6)).shape == (4, 6)
    with pytest.raises(ValueError, match="reshape"):
        t.mT.view(24)
    other = mica.zeros(6, 4)
    assert t.view_as(other).shape == t.reshape_as(other).shape == (6, 4)
    assert t[:, :1].expand_as(t).shape == t.shape
    assert t.type_as(mica.ones(1)).dtype is mica.float32


def test_new_tensors_follow_dtype_and_device(device):
    t = mica.ones(2, dtype=mica.float64, device=device)
    for new in (t.new_zeros(3), t.new_ones((3,)), t.new_empty(3), t.new_full((3,), 2)):
        assert new.shape == (3,) and new.dtype is t.dtype and new.device == t.device
    assert t.new_tensor([1, 2]).dtype is mica.float64
    assert t.new_zeros(2, dtype=mica.int32).dtype is mica.int32


def test_to_copies_when_asked_to(device):
    t = mica.ones(2, device=device)
    assert t.to(device).data_ptr() == t.data_ptr()
    assert t.to(device, copy=True).data_ptr() != t.data_ptr()
    assert mica.ones(1, dtype=mica.float64).to(t).device == t.device


def test_gradients_of_results_can_be_kept(device):
    x = mica.ones(2, device=device).requires_grad_()
    y = x * 3
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad.tolist() == [6, 6] and x.grad.tolist() == [18, 18]
    assert not x.requires_grad_(False).requires_grad and x.data.is_leaf
    with pytest.raises(mica.Error, match="retain_grad"):
        x.retain_grad()


def test_objects_show_what_they_are():
    optimizer = mica.optim.Adam([mica.ones(2, requires_grad=True)], lr=0.5)
    assert repr(optimizer) == "Adam(lr=0.5, groups=1)"
    loader = mica.data.DataLoader((np.zeros((4, 2), np.float32), np.zeros(4, np.int64)), 2)
    assert repr(loader) == "DataLoader(examples=4, batch_size=2, drop_last=False)"
    assert repr(mica.iinfo(mica.uint8)) == "iinfo(bits=8, max=255, min=0)"
