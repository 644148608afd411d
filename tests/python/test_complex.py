"""Complex numbers: what holds them, what computes with them, and their gradients, beside NumPy."""

import pickle

import mica
import numpy as np
import pytest

DTYPES = ["complex64", "complex128"]
RNG = np.random.default_rng(0)


def numbers(*shape, dtype="complex128"):
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)


def close(ours, theirs, tolerance=None):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, (ours.dtype, theirs.dtype)
    tolerance = tolerance or (2e-5 if ours.dtype in (np.complex64, np.float32) else 1e-12)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_they_go_to_numpy_and_back(dtype, tmp_path):
    a = numbers(3, 4, dtype=dtype)
    t = mica.from_numpy(a)
    assert t.dtype is getattr(mica, dtype) and t.is_complex() and t.dtype.is_complex
    assert not t.is_floating_point() and mica.is_complex(t)
    assert np.shares_memory(t.numpy(), a)
    assert np.array_equal(mica.tensor(a).numpy(), a)
    assert np.array_equal(mica.from_dlpack(a.copy()).numpy(), a)
    assert np.array_equal(np.from_dlpack(t), a)
    assert np.array_equal(mica.tensor(a.T).T.numpy(), a)
    assert np.array_equal(pickle.loads(pickle.dumps(t)).numpy(), a)
    mica.save({"t": t}, tmp_path / "t.safetensors")
    assert np.array_equal(mica.load(tmp_path / "t.safetensors")["t"].numpy(), a)
    assert t.tolist() == a.tolist() and t[0, 0].item() == complex(a[0, 0])
    assert complex(t[1, 2]) == complex(a[1, 2]) and bool(t[0, 0])
    with pytest.raises(TypeError):
        float(t[0, 0])


def test_they_are_made_and_printed():
    assert mica.tensor([1 + 2j, 3]).dtype is mica.complex64
    assert mica.tensor(1j).item() == 1j
    assert repr(mica.tensor([1 + 2j, 0 - 1j])) == "tensor([1.+2.j, 0.-1.j], dtype=mica.complex64)"
    assert mica.zeros(2, dtype=mica.complex128).tolist() == [0, 0]
    assert mica.full((2,), 1 - 1j, dtype=mica.complex64).tolist() == [1 - 1j] * 2
    assert mica.eye(2, dtype=mica.cfloat).tolist() == [[1, 0], [0, 1]]
    assert mica.arange(3, dtype=mica.complex64).tolist() == [0, 1, 2]
    assert mica.complex(mica.tensor([1.0]), mica.tensor([2.0])).tolist() == [1 + 2j]
    close(mica.polar(mica.tensor([2.0]), mica.tensor([np.pi / 2])), np.array([2j], "complex64"))
    assert mica.finfo(mica.complex128).dtype is mica.float64
    x = mica.ones(2)
    x_complex = x.to(mica.complex64)
    assert x_complex.real is not None and x_complex.imag.tolist() == [0, 0]
    assert x.real.tolist() == [1, 1] and x.imag.tolist() == [0, 0] and x.conj() is not None


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("complex64", "float32", "complex64"),
        ("complex64", "float64", "complex128"),
        ("complex64", "int64", "complex64"),
        ("complex64", "bool", "complex64"),
        ("complex128", "float16", "complex128"),
        ("complex64", "complex128", "complex128"),
    ],
)
def test_promotion(left, right, result):
    both = mica.ones(1, dtype=left) + mica.ones(1, dtype=right)
    assert both.dtype is getattr(mica, result) and both.item() == 2
    assert mica.promote_types(getattr(mica, left), getattr(mica, right)) is getattr(mica, result)


def test_a_complex_number_is_weak():
    assert (mica.ones(1) * 1j).dtype is mica.complex64
    assert (1j * mica.ones(1, dtype=mica.float64)).dtype is mica.complex128
    assert (mica.ones(1, dtype=mica.int32) + 1j).dtype is mica.complex64
    assert (mica.ones(1, dtype=mica.complex64) * np.complex128(2j)).dtype is mica.complex64
    assert (mica.ones(1, dtype=mica.complex64) + np.complex64(2j)).tolist() == [1 + 2j]
    assert mica.result_type(mica.float64, 1j) is mica.complex128
    assert (mica.tensor([1j, 2]) == 1j).tolist() == [True, False]
    with pytest.raises(mica.DTypeError, match=r"1j does not fit f32"):
        mica.full((2,), 1j, dtype=mica.float32)
    with pytest.raises(mica.DTypeError, match="expected a real number"):
        mica.nn.functional.leaky_relu(mica.ones(2), 1j)


UNARY = [
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "arcsin:asin",
    "arccos:acos",
    "arctan:atan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh:asinh",
    "arccosh:acosh",
    "arctanh:atanh",
    "square",
    "negative:neg",
    "reciprocal",
    "conj",
    "real",
    "imag",
    "abs",
    "angle",
    "exp2",
    "isnan",
    "isinf",
    "isfinite",
    "logical_not",
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("names", UNARY)
def test_functions(names, dtype):
    theirs, _, ours = names.partition(":")
    a = numbers(3, 5, dtype=dtype)
    close(getattr(mica, ours or theirs)(mica.tensor(a)), getattr(np, theirs)(a))


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_and_equality(dtype):
    a, b = numbers(3, 4, dtype=dtype), numbers(4, dtype=dtype)
    x, y = mica.tensor(a), mica.tensor(b)
    close(x + y, a + b)
    close(x - y, a - b)
    close(x * y, a * b)
    close(x / y, a / b)
    close(x**y, a**b)
    close(x**2, a**2)
    close(x**-3, a**-3)
    close(x**0, a**0)
    close(2 - x, 2 - a)
    close(1j / x, (1j / a).astype(dtype))
    close(mica.sign(x), (a / np.abs(a)).astype(dtype))
    assert (x == x).tolist() == (a == a).tolist() and not (x != x).numpy().any()
    assert mica.allclose(x, x * (1 + 1e-9)) and mica.equal(x, x)
    assert mica.tensor([1e300 + 1e300j], dtype=mica.complex128).abs().item() < np.inf
    assert (mica.tensor([3 + 4j]) / mica.tensor([0j])).isfinite().tolist() == [False]
    large = mica.tensor([1e200 + 1e200j], dtype=mica.complex128)
    close(large / large, np.array([1 + 0j]))
    x += 1j
    close(x, a + 1j)


def test_moving():
    a = numbers(4, 5, 3)
    x = mica.tensor(a)
    close(x[1], a[1])
    close(x[:, ::2], a[:, ::2])
    close(x[..., [0, 2]], a[..., [0, 2]])
    close(x[x.real > 0], a[a.real > 0])
    close(x.flip(0), np.flip(a, 0))
    close(x.roll(2, 1), np.roll(a, 2, 1))
    close(x.permute(2, 0, 1).contiguous(), a.transpose(2, 0, 1))
    close(mica.cat([x, x], 1), np.concatenate([a, a], 1))
    close(mica.where(x.imag > 0, x, 0j), np.where(a.imag > 0, a, 0))
    close(
        mica.nn.functional.pad(x, (1, 2), value=1j),
        np.pad(a, [(0, 0)] * 2 + [(1, 2)], constant_values=1j),
    )
    close(
        mica.nn.functional.pad(x, (1, 2), "reflect"), np.pad(a, [(0, 0)] * 2 + [(1, 2)], "reflect")
    )
    close(x[0].tril(), np.tril(a[0]))
    close(x.gather(1, mica.zeros(4, 1, 3, dtype=mica.int64)), a[:, :1])
    close(mica.diagonal(x[0]), np.diagonal(a[0]))
    close(x.to(mica.complex64), a.astype("complex64"))
    close(mica.nonzero(x).numel() * mica.ones(()), np.float32(180))
    y = x.clone()
    y[0] = 1j
    y[1, 2] = 7
    b = a.copy()
    b[0], b[1, 2] = 1j, 7
    close(y, b)
    close(mica.view_as_real(x), a.view("float64").reshape(4, 5, 3, 2))
    close(mica.view_as_complex(mica.view_as_real(x)), a)
    close(x.mH, np.conj(a.transpose(0, 2, 1)))
    assert mica.stack([x, x]).shape == (2, 4, 5, 3) and x.repeat(2, 1, 1).shape == (8, 5, 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_and_products(dtype):
    a, b = numbers(3, 4, 5, dtype=dtype), numbers(5, 6, dtype=dtype)
    x, y = mica.tensor(a), mica.tensor(b)
    for name in ("sum", "mean", "prod"):
        close(getattr(mica, name)(x), getattr(np, name)(a), 1e-4 if dtype == "complex64" else 1e-11)
        close(getattr(mica, name)(x, 1), getattr(np, name)(a, 1))
        close(
            getattr(mica, name)(x, (0, 2), keepdim=True),
            getattr(np, name)(a, (0, 2), keepdims=True),
        )
    close(x.cumsum(1), np.cumsum(a, 1))
    close(x.cumprod(2), np.cumprod(a, 2))
    close(x.var(1), np.var(a, 1, ddof=1))
    close(x.std(), np.std(a, ddof=1))
    close(mica.norm(x), np.linalg.norm(a.ravel()))
    close(x @ y, a @ b)
    close(x.real @ y, (a.real @ b).astype(dtype))
    close(x[0, 0] @ y, a[0, 0] @ b)
    close(mica.einsum("bij,jk->ik", x, y), np.einsum("bij,jk->ik", a, b))
    close(mica.nn.functional.linear(x, y.mT), a @ b)
    assert mica.any(x).item() and mica.count_nonzero(x).item() == 60
    assert mica.prod(mica.zeros(0, dtype=dtype)).item() == 1


def test_what_has_no_meaning_is_refused():
    x = mica.tensor([1j, 2])
    for f in ("relu", "floor", "erf", "sort", "argmax", "amax", "softplus", "signbit"):
        with pytest.raises(mica.Error, match=r"c64|complex"):
            getattr(mica, f, None)(x) if hasattr(mica, f) else getattr(mica.nn.functional, f)(x)
    for f in ("__lt__", "__ge__", "__mod__", "__floordiv__", "__and__"):
        with pytest.raises(mica.DTypeError, match="c64"):
            getattr(x, f)(x)
    with pytest.raises(mica.DTypeError, match=r"real\(x\)"):
        x.to(mica.float32)
    with pytest.raises(mica.DTypeError, match="give a gradient"):
        x.clone().requires_grad_().sum().backward()
    with pytest.raises(mica.DTypeError):
        mica.ones(2)[0:2].copy_(x)
    with pytest.raises(mica.DTypeError):
        mica.nn.functional.softmax(x, 0)
    with pytest.raises(mica.DTypeError, match="floating"):
        mica.optim.SGD([x.requires_grad_()], lr=0.1)


GRADS = {
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "pow": lambda x, y: x**y,
    "conj": lambda x, y: x.conj() * y,
    "abs": lambda x, y: (x + y).abs(),
    "angle": lambda x, y: x.angle() * 2,
    "real": lambda x, y: x.real * y.imag,
    "polar": lambda x, y: mica.polar(x.real, y.imag),
    "matmul": lambda x, y: x @ y.mH,
    "sum": lambda x, y: (x * y).sum(0),
    "mean": lambda x, y: (x * y).mean(),
    "prod": lambda x, y: x.prod(1),
    "cumprod": lambda x, y: x.cumprod(1),
    "cumsum": lambda x, y: x.cumsum(0),
    "var": lambda x, y: x.var(),
    "where": lambda x, y: mica.where(x.real > 0, x, y),
    "index": lambda x, y: x[:, [0, 0, 2]] * y[:, :3],
    "cat": lambda x, y: mica.cat([x, y]).flip(0),
    "pad": lambda x, y: mica.nn.functional.pad(x, (1, 2), "reflect"),
    "cast": lambda x, y: x.real.to(mica.complex128) * y,
    "number": lambda x, y: (x * (2 - 1j) + 1) / (1 + 1j),
    "sign": lambda x, y: mica.sign(x),
    "einsum": lambda x, y: mica.einsum("ij,kj->ik", x, y),
}


@pytest.mark.parametrize("name", GRADS)
def test_gradients(name):
    x = mica.tensor(numbers(3, 4)).requires_grad_()
    y = mica.tensor(numbers(3, 4)).requires_grad_()
    used = (
        [x]
        if name in ("angle", "prod", "cumprod", "cumsum", "var", "pad", "number", "sign")
        else [x, y]
    )
    f = GRADS[name]
    both = (lambda a: f(a, y.detach())) if len(used) == 1 else f
    assert mica.autograd.gradcheck(both, used)
    assert mica.autograd.gradgradcheck(both, used)


def test_the_gradient_of_a_real_loss_points_where_it_grows():
    z = mica.tensor([3 + 4j]).requires_grad_()
    z.abs().sum().backward()
    close(z.grad, np.array([0.6 + 0.8j], "complex64"))
    x = mica.ones(2, requires_grad=True)
    ((x * (1 + 2j)).abs() ** 2).sum().backward()
    assert x.grad.dtype is mica.float32 and mica.allclose(x.grad, mica.tensor([10.0, 10.0]))


def test_compiled_functions_do_the_same():
    w = mica.tensor(numbers(4, 4, dtype="complex64"))

    def f(x):
        y = (x @ w).exp() * 0.1 + 1j
        return (y * y.conj()).real.sum(), y / x, mica.fft.ifft(mica.fft.fft(y)).imag

    x = mica.tensor(numbers(3, 4, dtype="complex64"))
    for ours, theirs in zip(mica.compile(f)(x), f(x), strict=True):
        close(ours, theirs.numpy())

    @mica.compile
    def step(z):
        z = z.detach().requires_grad_()
        loss = (z * z.conj()).real.sum()
        (g,) = mica.grad(loss, [z])
        return g

    close(step(x), 2 * x.numpy())
