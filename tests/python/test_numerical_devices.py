"""Linear algebra, Fourier transforms and functions of complex numbers on the suite's device, beside
NumPy: sizes at which kernels change, batches, errors at the call and in compiled functions."""

import mica
import numpy as np
import pytest

L = mica.linalg
RNG = np.random.default_rng(5)
DTYPES = ["float32", "float64", "complex64", "complex128"]
# Up to 8, 16 and 32, where registers hold a matrix; past them; past shared memory; a library's.
SIZES = [1, 2, 7, 8, 9, 16, 17, 31, 32, 33, 64, 97, 129, 210]


def matrix(*shape, dtype):
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if "complex" in dtype else x).astype(dtype)


def close(ours, theirs, tolerance):
    ours = ours.cpu().numpy()
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    scale = np.abs(theirs).max(initial=1)
    np.testing.assert_allclose(ours / scale, theirs / scale, rtol=0, atol=tolerance)


def tolerance(dtype, n):
    return (3e-6 if dtype in ("float32", "complex64") else 2e-14) * (n + 10)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_and_equations(dtype, n, device):
    batch = (3,) if n < 100 else ()
    a = matrix(*batch, n, n, dtype=dtype)
    h = (a @ a.conj().swapaxes(-1, -2) + n * np.eye(n)).astype(dtype)
    b = matrix(*batch, n, 2, dtype=dtype)
    x, s, right = (mica.tensor(each).to(device) for each in (a, h, b))
    few = tolerance(dtype, n)
    close(L.cholesky(s), np.linalg.cholesky(h), few)
    close(s @ L.solve(s, right), b, few)
    close(s @ L.inv(s), np.broadcast_to(np.eye(n, dtype=dtype), h.shape), few)
    p, lower, upper = L.lu(x)
    close(p @ lower @ upper, a, few)
    assert float(lower.abs().max()) <= (1 if "float" in dtype else np.sqrt(2)) + 1e-6
    triangle = L.cholesky(s)
    close(triangle @ L.solve_triangular(triangle, right, upper=False), b, few)
    q, r = L.qr(x)
    close(q @ r, a, few)
    close(q.mH @ q, np.broadcast_to(np.eye(n, dtype=dtype), a.shape), few)
    u, values, vh = L.svd(x)
    close((u * values[..., None, :]) @ vh, a, few)
    close(u.mH @ u, np.broadcast_to(np.eye(n, dtype=dtype), a.shape), few)
    close(L.svdvals(x), np.linalg.svd(a, compute_uv=False), few)
    values, vectors = L.eigh(s)
    close((vectors * values[..., None, :]) @ vectors.mH, h, few)
    close(L.eigvalsh(s), np.linalg.eigvalsh(h), few)
    if n < 100:
        values, vectors = L.eig(x)
        whole = a.astype(np.result_type(a.dtype, np.complex64))
        close(
            mica.tensor(whole).to(device) @ vectors - vectors * values[..., None, :],
            0 * whole,
            20 * few * n,
        )


@pytest.mark.parametrize("m, n", [(5, 3), (3, 5), (33, 7), (7, 33), (70, 40), (40, 70), (1, 9)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_oblong_factors(dtype, m, n, device):
    a = matrix(2, m, n, dtype=dtype)
    x = mica.tensor(a).to(device)
    few = tolerance(dtype, m + n)
    for mode in ("reduced", "complete"):
        q, r = L.qr(x, mode=mode)
        close(q @ r, a, few)
        close(
            q.mH @ q,
            np.broadcast_to(np.eye(q.shape[-1], dtype=dtype), (2, *[q.shape[-1]] * 2)),
            few,
        )
    for full in (False, True):
        u, s, vh = L.svd(x, full_matrices=full)
        k = min(m, n)
        close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, few)
        close(
            u.mH @ u,
            np.broadcast_to(np.eye(u.shape[-1], dtype=dtype), (2, *[u.shape[-1]] * 2)),
            few,
        )
        close(
            vh @ vh.mH,
            np.broadcast_to(np.eye(vh.shape[-2], dtype=dtype), (2, *[vh.shape[-2]] * 2)),
            few,
        )
    p, lower, upper = L.lu(x)
    close(p @ lower @ upper, a, few)


@pytest.mark.parametrize("n", [3, 20, 60])
def test_ranks_that_are_not_full(n, device):
    a = matrix(4, n, 2, dtype="float32") @ matrix(4, 2, n, dtype="float32")
    u, s, vh = L.svd(mica.tensor(a).to(device))
    close((u * s[..., None, :]) @ vh, a, 1e-5)
    close(u.mT @ u, np.broadcast_to(np.eye(n, dtype="float32"), a.shape), 1e-4)
    assert L.matrix_rank(mica.tensor(a).to(device)).tolist() == [2] * 4
    zero = mica.zeros(2, n, n, device=device)
    u, s, vh = L.svd(zero)
    assert float(s.abs().max()) == 0
    close(u.mT @ u, np.broadcast_to(np.eye(n, dtype="float32"), (2, n, n)), 1e-6)


def spoilt(n, device):
    a = np.broadcast_to(np.eye(n, dtype="float32"), (4, n, n)).copy()
    a[2, n - 1, n - 1] = 0
    return mica.tensor(a).to(device)


@pytest.mark.parametrize("n", [4, 40, 300])
def test_errors_are_raised_where_the_call_is(n, device):
    a = spoilt(n, device)
    with pytest.raises(L.LinAlgError, match=rf"batch element 2.*leading minor of order {n} "):
        L.cholesky(a)
    with pytest.raises(
        L.LinAlgError, match=r"linalg\.inv: .batch element 2. the matrix is singular"
    ):
        L.inv(a)
    with pytest.raises(L.LinAlgError, match=r"linalg\.solve"):
        L.solve(a, a)
    with pytest.raises(L.LinAlgError, match=rf"linalg.lu_factor: .batch element 2. U\[{n},{n}\]"):
        L.lu_factor(a)
    assert L.cholesky_ex(a).info.tolist() == [0, 0, n, 0]
    assert L.inv_ex(a).info.tolist()[2] != 0
    assert L.det(a).tolist() == [1, 1, 0, 1]
    a[1, 0, 0] = float("nan")
    for f in (L.svd, L.svdvals, L.eigh, L.eigvals):
        name = "eig" if f is L.eigvals else "eigh" if f is L.eigh else "svd"
        with pytest.raises(L.LinAlgError, match=f"linalg.{name}: the input holds NaN or infinity"):
            f(a)
    assert float(L.svdvals(spoilt(n, device)).sum()) == pytest.approx(4 * n - 1)


@pytest.mark.parametrize("n", [4, 40, 300])
def test_errors_in_compiled_functions(n, device):
    @mica.compile
    def root(a):
        return L.cholesky(a) * 2

    good = spoilt(n, device)
    good[2, n - 1, n - 1] = 4
    for _ in range(2):
        assert float(root(good)[2, n - 1, n - 1]) == 4
    with pytest.raises(L.LinAlgError, match="batch element 2"):
        float(root(spoilt(n, device)).sum())
    assert float(root(good)[0, 0, 0]) == 2

    @mica.compile
    def values(a):
        return L.svdvals(a).sum(-1)

    assert values(good).tolist() == pytest.approx([n, n, n + 3, n], rel=1e-5)
    with pytest.raises(L.LinAlgError, match="NaN or infinity"):
        values(good / 0.0).tolist()


def test_many_small_matrices(device):
    a = matrix(4099, 5, 5, dtype="float32")
    x = mica.tensor(a).to(device)
    u, s, vh = L.svd(x)
    close((u * s[..., None, :]) @ vh, a, 1e-5)
    h = a + a.swapaxes(-1, -2)
    close(L.eigvalsh(mica.tensor(h).to(device)), np.linalg.eigvalsh(h), 1e-5)
    d = L.det(x)
    close(d, np.linalg.det(a), 1e-5)


FUNCTIONS = [
    "exp",
    "log",
    "log10",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "expm1",
    "log1p",
    "reciprocal",
    "square",
]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_complex_numbers(name, dtype, device):
    parts = np.array([-80, -3, -1.5, -1, -0.5, -1e-6, 1e-6, 0.5, 1, 1.5, 3, 80])
    z = (parts[:, None] + 1j * parts).astype(dtype).ravel()
    theirs = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
    theirs |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
    with np.errstate(all="ignore"):
        wide = z.astype("complex128")
        want = getattr(np, theirs.get(name, name))(wide).astype(dtype)
    ours = getattr(mica, name)(mica.tensor(z).to(device)).cpu().numpy()
    known = np.isfinite(want)
    assert np.array_equal(np.isfinite(ours), known)
    few = 3e-6 if dtype == "complex64" else 1e-13
    np.testing.assert_allclose(ours[known], want[known], rtol=few, atol=few / 100)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_arithmetic(dtype, device):
    a, b = matrix(5, 6, dtype=dtype), matrix(5, 6, dtype=dtype)
    x, y = mica.tensor(a).to(device), mica.tensor(b).to(device)
    few = 1e-5 if dtype == "complex64" else 1e-13
    close(x**y, a**b, few)
    close(x**3, a**3, few)
    close(x @ y.mT, a @ b.T, few)
    close(x.sum(1), a.sum(1), few)
    close(x.prod(1), a.prod(1), few)
    close(x.cumsum(1), a.cumsum(1), few)
    close(x.cumprod(0), a.cumprod(0), few)
    assert (x == y).tolist() == (a == b).tolist() and (x != x).any().item() is False
    rows = mica.tensor([3, 0, 3]).to(device)
    added = a.copy()
    np.add.at(added, [3, 0, 3], b[:3])
    close(x.index_add(0, rows, y[:3]), added, few)
    put = a.copy()
    put[[1, 4]] = b[:2]
    where = [mica.tensor([1, 4]).to(device)]
    close(mica.index_put(x, where, y[:2]), put, few)
    np.add.at(put := a.copy(), [1, 1], b[:2])
    where = [mica.tensor([1, 1]).to(device)]
    for deterministic in (False, True):
        mica.set_deterministic(deterministic)
        close(mica.index_put(x, where, y[:2], accumulate=True), put, few)


@pytest.mark.parametrize("n", [1, 2, 31, 32, 97, 128, 1000, 1009, 4096, 65_537, 1 << 17])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_transforms(dtype, n, device):
    z = matrix(3, n, dtype=dtype)
    x = mica.tensor(z).to(device)
    few = (1e-6 if dtype == "complex64" else 1e-14) * np.log2(n + 2)
    close(mica.fft.fft(x), np.fft.fft(z).astype(dtype), few)
    close(mica.fft.ifft(x, norm="ortho"), np.fft.ifft(z, norm="ortho").astype(dtype), few)
    real = z.real.copy()
    half = mica.fft.rfft(mica.tensor(real).to(device))
    close(half, np.fft.rfft(real).astype(dtype), few)
    close(mica.fft.irfft(half, n), real, few)
