"""Complex matrices and general eigenvalues, beside NumPy: values, gradients, errors, kernels."""

import mica
import numpy as np
import pytest

L = mica.linalg
RNG = np.random.default_rng(3)
DTYPES = ["complex64", "complex128"]
KERNELS = ["lapack", "reference"]
SHAPES = [(), (2,), (0,), (2, 3)]


def matrix(*shape, dtype="complex128"):
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if "complex" in dtype else x).astype(dtype)


def regular(*batch, n=5, dtype="complex128"):
    return (matrix(*batch, n, n, dtype=dtype) + 4 * np.eye(n)).astype(dtype)


def definite(a):
    return a @ a.conj().swapaxes(-1, -2) + a.shape[-1] * np.eye(a.shape[-1], dtype=a.dtype)


def close(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, (ours.dtype, theirs.dtype)
    tolerance = 2e-4 if ours.dtype in (np.complex64, np.float32) else 1e-11
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.fixture(params=KERNELS)
def kernel(request):
    ops = ("cholesky", "qr", "svd", "eigh", "eig", "lu_factor", "solve", "solve_triangular")
    for op in (*ops, "matrix_exp"):
        mica.force_kernel(op, request.param)
    yield request.param
    for op in (*ops, "matrix_exp"):
        mica.force_kernel(op, "")


@pytest.mark.parametrize("batch", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_factors(dtype, batch, kernel):
    a = regular(*batch, dtype=dtype)
    x = mica.tensor(a)
    real = "float32" if dtype == "complex64" else "float64"
    h = definite(a).astype(dtype)
    close(L.cholesky(mica.tensor(h)), np.linalg.cholesky(h))
    close(L.cholesky(mica.tensor(h), upper=True).mH, np.linalg.cholesky(h))
    q, r = L.qr(x)
    close(q @ r, a)
    close(q.mH @ q, np.broadcast_to(np.eye(5, dtype=dtype), a.shape))
    assert np.allclose(np.tril(r.numpy(), -1), 0)
    s = L.svdvals(x)
    assert s.dtype is getattr(mica, real)
    close(s, np.linalg.svd(a, compute_uv=False))
    values, vectors = L.eigh(mica.tensor(h))
    close(values, np.linalg.eigvalsh(h))
    close((vectors * values[..., None, :]) @ vectors.mH, h)
    close(L.eigvalsh(mica.tensor(h), UPLO="U"), np.linalg.eigvalsh(h))
    p, lower, upper = L.lu(x)
    close(p @ lower @ upper, a)
    w, v = L.eig(x)
    assert w.dtype is x.dtype and v.dtype is x.dtype
    close(x @ v, (v * w[..., None, :]).numpy())
    close(mica.abs(v * v.conj()).sum(-2), np.ones(w.shape, real))


@pytest.fixture
def rows():
    ops = ("qr", "eigh", "eig")
    for op in ops:
        mica.force_kernel(op, "rows")
    yield
    for op in ops:
        mica.force_kernel(op, "")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
@pytest.mark.parametrize("n", [1, 2, 31, 64, 96])
def test_by_rows(n, scale, dtype, rows):
    tolerance = np.finfo(dtype).eps * 50
    a = (matrix(3, n, n, dtype=dtype) * scale).astype(dtype)
    a[1] = np.eye(n, dtype=dtype) * scale  # one eigenvalue many times
    a[2, n // 2 :] = 0  # fewer directions than rows
    q, r = (each.numpy() / by for each, by in zip(L.qr(mica.tensor(a)), (1, scale), strict=True))
    assert np.abs(q @ r - a / scale).max() < tolerance * n
    assert np.abs(q.swapaxes(1, 2) @ q - np.eye(n)).max() < tolerance
    h = a / scale @ (a / scale).swapaxes(1, 2) * np.dtype(dtype).type(scale)
    values, vectors = (each.numpy() for each in L.eigh(mica.tensor(h)))
    theirs = np.linalg.eigvalsh(h.astype("float64") / scale)
    assert np.abs(values / scale - theirs).max() < tolerance * np.abs(theirs).max()
    assert np.abs(vectors.swapaxes(1, 2) @ vectors - np.eye(n)).max() < tolerance
    turned = h / scale @ vectors - vectors * (values / scale)[:, None, :]
    assert np.abs(turned).max() < tolerance * np.abs(theirs).max()
    assert np.array_equal(L.eigvalsh(mica.tensor(h)), values)


def hostile(n, dtype):
    """Matrices that QR steps could turn in circles with, or lose digits of."""
    at, rng = np.arange(n), np.random.default_rng(n)
    a = rng.standard_normal((n, n))
    graded = 10.0 ** (-8 * (at[:, None] + at) / n)
    matrices = {
        "any": a,
        "a cycle": np.roll(np.eye(n), 1, axis=1),
        "one chain": 2 * np.eye(n) + np.eye(n, k=1),
        "nothing but a chain": np.eye(n, k=-1),
        "symmetric": a + a.T,
        "skew": a - a.T,
        "a triangle": np.triu(a),
        "the other triangle": np.tril(a),
        "rows that shrink": a * graded,
        "out of balance": a * 10.0 ** (8 * (at[:, None] - at) / n),
        "ones": np.ones((n, n)),
        "few numbers": np.round(a),
        "zeros": np.zeros((n, n)),
    }
    return np.stack(list(matrices.values())).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
@pytest.mark.parametrize("n", [1, 2, 3, 31, 128])
def test_eig_by_rows(n, scale, dtype, rows):
    a = hostile(n, dtype) * np.dtype(dtype).type(scale)
    values, vectors = (each.numpy() for each in L.eig(mica.tensor(a)))
    wide = a.astype("float64") / scale
    size = np.abs(wide).max((1, 2), initial=1e-30)[:, None, None]
    apart = wide @ vectors.astype("complex128") - vectors * (values / scale)[:, None, :]
    assert (np.abs(apart) / size).max() < 10 * n * np.finfo(dtype).eps
    lengths = np.linalg.norm(vectors.astype("complex128"), axis=1)
    assert np.abs(lengths - 1).max() < (10 + n) * np.finfo(dtype).eps
    # Values alone are those of the same matrix: as many sums of powers as rounding leaves.
    alone = L.eigvals(mica.tensor(a)).numpy() / scale
    trace = np.trace(wide, axis1=1, axis2=2)
    assert (np.abs(alone.sum(1) - trace) / size[:, 0, 0]).max() < 30 * n * np.finfo(dtype).eps


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 1), (1, 4)], ids=str)
@pytest.mark.parametrize("full", [False, True])
def test_oblong_factors(shape, full, kernel):
    a = matrix(*shape)
    x = mica.tensor(a)
    u, s, vh = L.svd(x, full_matrices=full)
    k = min(shape[-2:])
    close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a)
    close(
        u.mH @ u,
        np.broadcast_to(np.eye(u.shape[-1], dtype=a.dtype), u.mH.shape[:-1] + u.shape[-1:]),
    )
    q, r = L.qr(x, mode="complete" if full else "reduced")
    close(q @ r, a)
    close(L.pinv(x), np.linalg.pinv(a))


@pytest.mark.parametrize("batch", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_equations_and_numbers(dtype, batch, kernel):
    a, b = regular(*batch, dtype=dtype), matrix(*batch, 5, 2, dtype=dtype)
    x, y = mica.tensor(a), mica.tensor(b)
    close(L.solve(x, y), np.linalg.solve(a, b))
    close(L.solve(x, y.mT, left=False) @ x, b.swapaxes(-1, -2))
    close(L.inv(x), np.linalg.inv(a))
    close(L.det(x), np.linalg.det(a))
    sign, size = L.slogdet(x)
    close(sign, np.linalg.slogdet(a)[0])
    close(size, np.linalg.slogdet(a)[1])
    close(mica.exp(mica.logdet(x)), np.linalg.det(a))
    close(L.matrix_power(x, 3), np.linalg.matrix_power(a, 3))
    close(L.matrix_power(x, -2), np.linalg.matrix_power(a, -2))
    lower = np.tril(a)
    close(mica.tensor(lower) @ L.solve_triangular(x, y, upper=False), b)
    close(
        mica.tensor(np.triu(a)).mH @ L.solve_triangular(mica.tensor(np.triu(a)).mH, y, upper=False),
        b,
    )
    lu, pivots = L.lu_factor(x)
    close(x.mH @ L.lu_solve(lu, pivots, y, adjoint=True), b)
    assert np.array_equal(L.matrix_rank(x).numpy(), np.linalg.matrix_rank(a))
    w, v = np.linalg.eig(0.2 * a)
    close(L.matrix_exp(0.2 * x), ((v * np.exp(w)[..., None, :]) @ np.linalg.inv(v)).astype(dtype))


def test_least_squares_and_norms():
    a, b = matrix(6, 3), matrix(6, 2)
    x, y = mica.tensor(a), mica.tensor(b)
    expected, residuals, _, s = np.linalg.lstsq(a, b)
    for driver in ("gels", "gelsd"):
        solution = L.lstsq(x, y, driver=driver)
        close(solution.solution, expected)
        close(solution.residuals, residuals)
    close(L.lstsq(x, y, driver="gelsd").singular_values, s)
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        close(L.matrix_norm(x, order), np.linalg.norm(a, order))
    for order in (0, 1, 2, 3, np.inf):
        close(L.vector_norm(x[0], order), np.linalg.norm(a[0], order))
    close(L.cond(x), np.linalg.cond(a))
    square = regular(3)
    close(L.cond(mica.tensor(square), 1), np.linalg.cond(square, 1))
    close(L.vecdot(x, x), np.vecdot(a, a))
    close(L.cross(x, x.flip(0)), np.cross(a, a[::-1]))
    close(L.vander(x[0], N=4), np.vander(a[0], 4, increasing=True))
    close(L.multi_dot([x.mH, x, x.mH]), np.linalg.multi_dot([a.conj().T, a, a.conj().T]))


GRADIENTS = {
    "cholesky": lambda x: L.cholesky(x @ x.mH + 5 * mica.eye(3)),
    "qr": lambda x: tuple(L.qr(x)),
    "svd": lambda x: (lambda f: (f.S, f.U @ f.Vh, f.U.abs()))(L.svd(x, full_matrices=False)),
    "svdvals": L.svdvals,
    "eigh": lambda x: (lambda e: (e[0], e[1].abs()))(L.eigh(x + x.mH)),
    "eig": lambda x: (lambda e: (e[0].sum(), (e[0] * e[0]).sum(), e[1].abs().sum()))(L.eig(x)),
    "eigvals": lambda x: (L.eigvals(x) ** 3).sum(),
    "lu": lambda x: tuple(L.lu(x)[1:]),
    "solve": lambda x: L.solve(x, x[:, :1]),
    "triangular": lambda x: L.solve_triangular(x, x[:, :2], upper=True),
    "inv": L.inv,
    "pinv": lambda x: L.pinv(x[:2]),
    "det": L.det,
    "slogdet": lambda x: tuple(L.slogdet(x)),
    "lstsq": lambda x: L.lstsq(x[:, :2], x[:, 2:], driver="gels").solution,
    "exp": lambda x: L.matrix_exp(0.3 * x),
    "power": lambda x: L.matrix_power(x, -2),
    "nuclear": lambda x: L.matrix_norm(x, "nuc"),
    "frobenius": lambda x: L.matrix_norm(x),
    "vecdot": lambda x: L.vecdot(x, x[:1]),
}


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradients(name, dtype):
    a = matrix(3, 3, dtype=dtype) + np.diag([4, 8, 12])
    assert mica.autograd.gradcheck(GRADIENTS[name], (mica.tensor(a, requires_grad=True),))


def test_gradient_is_the_direction_in_which_a_loss_grows():
    a = mica.tensor(regular(), requires_grad=True)
    loss = L.slogdet(a).logabsdet
    loss.backward()
    close(a.grad, np.linalg.inv(a.detach().numpy()).conj().T)  # PyTorch's convention


def test_general_eigenvalues_of_real_matrices(kernel):
    a = matrix(4, 6, 6, dtype="float64")
    w, v = L.eig(mica.tensor(a))
    assert w.dtype is mica.complex128
    close(mica.tensor(a.astype("complex128")) @ v, (v * w[..., None, :]).numpy())
    ours = np.sort_complex(L.eigvals(mica.tensor(a)).numpy().round(9))
    assert np.allclose(ours, np.sort_complex(np.linalg.eigvals(a).round(9)))
    turn = L.eig(mica.tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues
    assert turn.dtype is mica.complex64 and sorted(turn.imag.tolist()) == pytest.approx([-1, 1])


def test_errors(kernel):
    nan = mica.full((2, 2), complex("nan"), dtype=mica.complex64)
    for f in (L.eig, L.eigvals, L.svd, L.eigh):
        with pytest.raises(L.LinAlgError, match="NaN or infinity"):
            f(nan)
        with pytest.raises(ValueError, match="matri"):
            f(mica.zeros(3, dtype=mica.complex64))
    with pytest.raises(ValueError, match=r"linalg.eig: expected square matrices"):
        L.eig(mica.zeros(2, 3))
    with pytest.raises(L.LinAlgError, match="not positive definite"):
        L.cholesky(mica.tensor([[1, 2j], [-2j, 1]]))
    singular = mica.tensor([[1, 1j], [1j, -1]])
    with pytest.raises(L.LinAlgError, match="singular"):
        L.solve(singular, singular)
    with pytest.raises(L.LinAlgError, match="singular"):
        L.inv(singular)
    assert L.det(singular).item() == 0
    sign, size = L.slogdet(singular)
    assert sign.item() == 0 and size.item() == -np.inf
    with pytest.raises(TypeError, match="complex64"):
        L.eig(mica.ones(2, 2, dtype=mica.int64))


def test_compiled():
    def f(x):
        w = L.eigvals(x)
        return L.inv(x) @ L.qr(x).Q, (w * w).sum(-1), L.svdvals(x)

    compiled = mica.compile(f)
    x = mica.tensor(regular(2))
    for _ in range(2):
        for ours, eager in zip(compiled(x), f(x), strict=True):
            assert np.array_equal(ours.numpy(), eager.numpy())
