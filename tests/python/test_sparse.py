"""mica.sparse against dense computation."""

import copy
import pickle

import mica
import numpy as np
import pytest
from mica.autograd import gradcheck, gradgradcheck

LAYOUTS = ("coo", "csr", "csc")


def matrix(rows=5, columns=7, density=0.4, seed=0, dtype=np.float64):
    random = np.random.default_rng(seed)
    kept = random.random((rows, columns)) < density
    return (random.standard_normal((rows, columns)) * kept).astype(dtype)


def sparse(array, layout="csr", device="cpu"):
    return mica.tensor(array, device=device).to_sparse().to_layout(layout)


def host(x):
    """A tensor, or a sparse one, as a dense array."""
    return (x.to_dense() if isinstance(x, mica.SparseTensor) else x).detach().cpu().numpy()


def twice(layout="coo", device="cpu"):
    """Entries in no order, one of them twice; and what they are."""
    indices = mica.tensor([[2, 0, 2, 1], [1, 3, 1, 0]])
    values = [1.0, 2.0, 3.0, 4.0]
    a = mica.sparse_coo_tensor(indices, values, (3, 4), dtype=mica.float64, device=device)
    dense = np.zeros((3, 4))
    dense[2, 1], dense[0, 3], dense[1, 0] = 4, 2, 4
    return a.to_layout(layout), dense


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (0, 3), (3, 0), (4, 1)])
def test_conversions(layout, shape, device):
    array = matrix(*shape)
    a = sparse(array, layout, device)
    assert (a.layout, a.shape, a.nnz) == (layout, shape, np.count_nonzero(array))
    for other in LAYOUTS:
        b = a.to_layout(other)
        assert np.array_equal(host(b), array)
        assert np.array_equal(host(b.t()), array.T)
        assert b.is_coalesced()
    convert = {"coo": "to_sparse", "csr": "to_sparse_csr", "csc": "to_sparse_csc"}[layout]
    dense = mica.tensor(array, device=device)
    assert np.array_equal(host(getattr(dense, convert)()), array)


def test_parts(device):
    a = sparse(np.array([[0.0, 5, 0], [0, 0, 0], [7, 0, 8]]), device=device)
    assert a.crow_indices().tolist() == [0, 1, 1, 3]
    assert a.col_indices().tolist() == [1, 0, 2]
    assert a.values().tolist() == [5, 7, 8]
    assert a.to_sparse().indices().tolist() == [[0, 2, 2], [1, 0, 2]]
    csc = a.to_sparse_csc()
    assert csc.ccol_indices().tolist() == [0, 1, 2, 3]
    assert csc.row_indices().tolist() == [2, 0, 2]
    assert csc.values().tolist() == [7, 5, 8]
    assert repr(a) == "SparseTensor(layout='csr', shape=(3, 3), nnz=3, dtype=mica.float64)"
    with pytest.raises(mica.Unsupported, match="indices: a sparse tensor of layout csr has none"):
        a.indices()
    assert a.t().ccol_indices() is not None
    assert (a.size(), a.size(-1), a.ndim, a._nnz()) == ((3, 3), 3, 2, 3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_entries_that_come_twice_are_added_up(layout, device):
    a, dense = twice(layout, device)
    assert np.array_equal(host(a), dense)
    once = a.coalesce()
    assert once.is_coalesced() and once.nnz == 3
    x = np.arange(8.0).reshape(4, 2)
    assert np.allclose(host(a @ mica.tensor(x, device=device)), dense @ x)
    assert np.allclose(host(a * a), dense * dense)
    csr = mica.sparse_csr_tensor([0, 2, 2], [1, 1], [1.0, 2.0], (2, 3), device=device)
    assert not csr.is_coalesced()
    assert csr.coalesce().values().tolist() == [3]
    assert np.allclose(host(csr * csr), [[0, 9, 0], [0, 0, 0]])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("index", [mica.int32, mica.int64])
def test_products(layout, index, device):
    array, other = matrix(), matrix(7, 4, seed=1)
    a = sparse(array, layout, device)
    csr = a.to_sparse_csr()
    a = mica.sparse_csr_tensor(
        csr.crow_indices().to(index), csr.col_indices().to(index), csr.values(), a.shape
    ).to_layout(layout)
    x = np.random.default_rng(2).standard_normal((7, 3))
    t = mica.tensor(x, device=device)
    assert np.allclose(host(a @ t), array @ x)
    assert np.allclose(host(a @ t[:, 0]), array @ x[:, 0])
    assert np.allclose(host(t.t() @ a.t()), x.T @ array.T)
    assert np.allclose(host(t[:, 0] @ a.t()), x[:, 0] @ array.T)
    product = a @ sparse(other, "csc", device)
    assert product.layout == layout and product.is_coalesced()
    assert np.allclose(host(product), array @ other)
    ones = mica.ones(5, 3, dtype=mica.float64, device=device)
    assert np.allclose(host(mica.sparse.addmm(ones, a, t, beta=2, alpha=-1)), 2 - array @ x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arithmetic(layout, device):
    one, two = matrix(seed=3), matrix(seed=4)
    a, b = sparse(one, layout, device), sparse(two, "coo", device)
    dense = mica.tensor(two, device=device)
    for result, want in [
        (a + b, one + two),
        (a - b, one - two),
        (a * b, one * two),
        (a + a, one + one),
        (a * a, one * one),
        (-a, -one),
        (a * 3, one * 3),
        (0.5 * a, one / 2),
        (a / 4, one / 4),
        (a @ sparse(np.eye(7), device=device) * 2, one * 2),
        (a * dense, one * two),
        (dense[0] * a, one * two[0]),
        (a * dense[:, :1], one * two[:, :1]),
        (a * mica.tensor(2.0, dtype=mica.float64, device=device), one * 2),
    ]:
        assert result.layout == layout
        assert np.allclose(host(result), want)
    assert np.allclose(host(a + dense), one + two)
    assert np.allclose(host(dense + a), one + two)
    assert np.isclose(a.sum().item(), one.sum())
    for dim in (0, 1, -1):
        assert np.allclose(host(a.sum(dim)), one.sum(dim))
        assert np.allclose(host(mica.sparse.sum(a, dim)), one.sum(dim))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax(layout, dim, device):
    array = matrix(seed=5)
    powers = np.where(array != 0, np.exp(array), 0)
    sums = powers.sum(dim, keepdims=True)
    want = powers / np.where(sums == 0, 1, sums)
    y = mica.sparse.softmax(sparse(array, layout, device), dim)
    assert y.layout == layout
    assert np.allclose(host(y), want)
    log = mica.sparse.log_softmax(sparse(array, layout, device), dim)
    assert np.allclose(np.exp(host(log)) * (array != 0), want)


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_sampled_addmm(layout, device):
    array = matrix(seed=6)
    random = np.random.default_rng(7)
    p, q = random.standard_normal((5, 4)), random.standard_normal((4, 7))
    factors = [mica.tensor(x, device=device) for x in (p, q)]
    y = mica.sparse.sampled_addmm(sparse(array, layout, device), *factors, beta=0.5, alpha=2)
    assert np.allclose(host(y), (array != 0) * (2 * p @ q) + array / 2)


def functions(device="cpu"):
    """Of (values, dense, other values): with csr, csc and sparse products."""
    a = sparse(matrix(4, 5, seed=8), device=device)
    b = sparse(matrix(5, 4, seed=9), "csc", device)
    dense = mica.tensor(np.random.default_rng(3).standard_normal((5, 4)), device=device)
    of = {
        "mm": lambda v, x, w: a.with_values(v) @ x,
        "mm_csc": lambda v, x, w: b.with_values(w) @ x.t(),
        "rmm": lambda v, x, w: x @ a.with_values(v),
        "product": lambda v, x, w: (a.with_values(v) @ b.with_values(w)).values(),
        "add": lambda v, x, w: (a.with_values(v) + b.with_values(w).t()).values(),
        "mul": lambda v, x, w: (a.with_values(v) * b.with_values(w).t()).values(),
        "mul_dense": lambda v, x, w: (a.with_values(v) * x.t()).values(),
        "sampled": lambda v, x, w: mica.sparse.sampled_addmm(
            a.with_values(v), x.t()[:, :4], x.t()
        ).values(),
        "softmax": lambda v, x, w: mica.sparse.softmax(b.with_values(w), 0).values(),
        "sum": lambda v, x, w: a.with_values(v).sum(0) * b.with_values(w).sum(1),
        "to_dense": lambda v, x, w: b.with_values(w).to_dense(),
        "to_sparse": lambda v, x, w: x.to_sparse_csr().values(),
        "coalesce": lambda v, x, w: twice(device=device)[0].with_values(v[:4]).coalesce().values(),
    }
    return of, (a.values(), dense, b.values())


@pytest.mark.parametrize("name", functions()[0])
def test_gradients(name, device):
    of, inputs = functions(device)
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    gradcheck(lambda *given: of[name](*given), inputs)
    gradgradcheck(lambda *given: of[name](*given), inputs)


def test_gradients_of_leaves(device):
    array = matrix(dtype=np.float32)
    a = sparse(array, device=device).detach().requires_grad_()
    x = mica.randn(7, 2, device=device, requires_grad=True)
    (a @ x).sum().backward()
    assert a.grad.layout == "csr" and a.requires_grad
    assert np.allclose(host(a.grad.values()), host(x).sum(1)[host(a.col_indices())])
    assert np.allclose(host(x.grad), np.repeat(array.sum(0)[:, None], 2, 1), atol=1e-6)
    assert sparse(array, device=device).grad is None


@pytest.mark.parametrize("dtype", [mica.float16, mica.bfloat16, mica.float32])
def test_low_precision_sums_in_float32(dtype, device):
    ones = np.ones((1, 5000), np.float32)
    y = sparse(ones, device=device).to(dtype) @ mica.ones(5000, 9, dtype=dtype, device=device)
    assert y.dtype == dtype
    assert np.allclose(host(y.float()), 5000, rtol=4e-3)


def test_compiled(device):
    array = matrix(6, 6, dtype=np.float32)
    a = sparse(array, device=device)
    x = mica.randn(6, 3, device=device)

    def eager(m, x):
        y = m @ x
        return y, mica.sparse.softmax(m), m.t() @ y, m.to_dense(), m + m * 2.0

    compiled = mica.compile(eager)
    for scale in (1.0, 2.0):
        m = a * scale
        for got, want in zip(compiled(m, x), eager(m, x), strict=True):
            assert type(got) is type(want)
            assert np.array_equal(host(got), host(want))
    with pytest.raises(mica.Error):
        mica.compile(lambda m: m @ m)(a)
    with pytest.raises(mica.Error):
        mica.compile(lambda x: x.to_sparse_csr().values())(x)


def test_compiled_function_reads_a_matrix_outside(device):
    held = {"a": sparse(matrix(6, 6, dtype=np.float32), device=device)}
    x = mica.randn(6, 3, device=device)

    @mica.compile
    def product(x):
        return held["a"] @ x

    for seed in (0, 1):
        held["a"] = sparse(matrix(6, 6, seed=seed, dtype=np.float32), device=device)
        assert np.allclose(host(product(x)), host(held["a"] @ x), atol=1e-6)


def test_compiled_training_step(device):
    array = matrix(8, 8, dtype=np.float32)
    a = sparse(array, device=device)
    layer = mica.nn.Linear(4, 2).to(device)
    x, y = mica.randn(8, 4, device=device), mica.randn(8, 2, device=device)

    def losses(compiled):
        net = copy.deepcopy(layer)
        optimizer = mica.optim.SGD(net.parameters(), lr=0.1)

        def step(a, x, y):
            optimizer.zero_grad()
            loss = ((a @ net(a @ x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        run = mica.compile(step) if compiled else step
        return [run(a, x, y).item() for _ in range(4)]

    assert np.allclose(losses(True), losses(False), rtol=1e-6)


def test_saved(tmp_path):
    a = sparse(matrix())
    parts = {
        "crow": a.crow_indices(),
        "col": a.col_indices(),
        "values": a.values(),
        "size": a.shape,
    }
    mica.save(parts, tmp_path / "a.safetensors")
    back = mica.load(tmp_path / "a.safetensors")
    b = mica.sparse_csr_tensor(back["crow"], back["col"], back["values"], back["size"])
    assert np.array_equal(b.to_dense().numpy(), matrix())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies(layout, device):
    a = sparse(matrix(), layout, device)
    for b in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert (b.layout, b.shape) == (layout, a.shape)
        assert np.array_equal(host(b), matrix())
    assert copy.deepcopy(a).values().data_ptr() != a.values().data_ptr()


class Scipy:
    """What SciPy's matrices look like from outside."""

    def __init__(self, format, shape, **parts):
        self.format, self.shape = format, shape
        vars(self).update(parts)


def test_scipy_by_attributes_shares_memory():
    a = sparse(matrix())
    data, indices, indptr = a.numpy()
    b = mica.sparse.from_scipy(
        Scipy(
            "csr",
            a.shape,
            data=data,
            indices=indices.astype(np.int32),
            indptr=indptr.astype(np.int32),
        )
    )
    assert np.array_equal(b.to_dense().numpy(), matrix())
    data[0] = 100
    assert a.values()[0].item() == b.values()[0].item() == 100
    data, (row, col) = a.to_sparse().numpy()
    c = mica.sparse.from_scipy(Scipy("coo", a.shape, data=data, row=row, col=col))
    assert np.array_equal(c.to_dense().numpy(), a.to_dense().numpy())
    with pytest.raises(TypeError, match="from_scipy: expected a sparse matrix of SciPy, got list"):
        mica.sparse.from_scipy([1])
    with pytest.raises(mica.Unsupported, match="expected csr, csc or coo, got 'lil'"):
        mica.sparse.from_scipy(Scipy("lil", (2, 2), data=data))


VALUES = [1.0, 2.0]


@pytest.mark.parametrize(
    ("crow", "col", "size", "error", "words"),
    [
        ([0, 2, 1], [0, 1], (2, 3), mica.IndexError, "crow must go from 0 to the number of"),
        ([0, 3, 2], [0, 1], (2, 3), mica.IndexError, "crow must not fall, got 2 after 3"),
        ([-1, 1, 2], [0, 1], (2, 3), mica.IndexError, "crow must go from 0"),
        ([0, 1, 2], [0, 3], (2, 3), mica.IndexError, "index 3 at .1. is out of range for 3 col"),
        ([0, 1, 2], [-1, 1], (2, 3), mica.IndexError, "index -1 at .0. is out of range"),
        ([0, 1, 2], [0, 1], (3, 3), mica.ShapeError, r"crow_indices must be \[4\]"),
        ([0, 1, 2], [0, 1, 2], (2, 3), mica.ShapeError, r"values must be \[3\]"),
        ([0, 1, 2], [[0, 1]], (2, 3), mica.ShapeError, r"col_indices must be \[entries\]"),
        ([0, 1, 2], [0, 1], (2, 3, 4), mica.ShapeError, r"size must be \(rows, columns\)"),
        ([0.0, 1, 2], [0, 1], (2, 3), mica.DTypeError, "crow_indices must be i32 or i64"),
    ],
)
def test_what_is_no_matrix_is_refused(crow, col, size, error, words, device):
    with pytest.raises(error, match=words):
        mica.sparse_csr_tensor(crow, col, VALUES, size)
    # On CUDA indices are looked at by the kernels that use them.
    parts = [mica.tensor(p, device=device) for p in (crow, col, VALUES)]
    with pytest.raises(error, match=words):
        host(mica.sparse_csr_tensor(*parts, size))


def test_refusals():
    a = sparse(matrix())
    for indices in ([[0, 5], [0, 0]], [[0, 0], [0, -1]]):
        with pytest.raises(mica.IndexError, match="is out of range for"):
            mica.sparse_coo_tensor(mica.tensor(indices), VALUES, (5, 7))
    assert mica.sparse_coo_tensor(mica.tensor([[0, 5], [0, 2]]), VALUES).shape == (6, 3)
    for call in (lambda: a @ a, lambda: a @ mica.ones(5, 2), lambda: mica.ones(2, 3) @ a):
        with pytest.raises(mica.ShapeError, match="cannot be multiplied"):
            call()
    with pytest.raises(mica.ShapeError, match="add: expected sparse tensors of one shape"):
        a + a.t()
    with pytest.raises(mica.ShapeError, match="to_sparse: expected a matrix"):
        mica.ones(3).to_sparse()
    with pytest.raises(mica.ShapeError, match="with_values: values must be"):
        a.with_values(mica.ones(3))
    with pytest.raises(mica.Unsupported, match="sampled_addmm: input must be csr or csc, got coo"):
        mica.sparse.sampled_addmm(a.to_sparse(), mica.ones(5, 2), mica.ones(2, 7))
    with pytest.raises(mica.DTypeError, match="csr_matmul: values must be floating, got i64"):
        sparse(np.eye(3, dtype=np.int64)) @ mica.ones(3, 2, dtype=mica.int64)
    with pytest.raises(mica.IndexError, match="dim must be 0 or 1, got 2"):
        mica.sparse.softmax(a, 2)
    with pytest.raises(mica.Unsupported, match="layout must be"):
        a.to_layout("bsr")
    wide = mica.sparse_coo_tensor([[0], [1]], [1.0], (2, 1 << 29))
    with pytest.raises(mica.Unsupported, match="csr_product_ends: rows of 536870912 columns"):
        mica.eye(2).to_sparse_csr() @ wide
    assert (wide + wide).nnz == 1 and (wide * 3).sum().item() == 3


def test_integers(device):
    array = np.array([[0, 2], [3, 0]])
    a = sparse(array, device=device)
    assert (a * 2).dtype == (a + a).dtype == mica.int64
    assert np.array_equal(host(a * 2 - a), array)
    assert a.sum(0).tolist() == [3, 2]
