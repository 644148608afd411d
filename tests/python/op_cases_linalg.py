"""The cases of op_cases.py for mica.linalg. Matrices are drawn so that none is near a singular one;
where a factor is determined but for signs, what is compared has none."""

from op_calls import Draw, case, fixed, normal

SQUARE, BATCH = normal(4, 4), normal(2, 3, 3)
TALL, WIDE = normal(5, 3), normal(3, 5)
DEFINITE = Draw("definite", (2, 3, 3), grad=True)
TURN = Draw("u", (2, 4, 4), 0.1, 0.4, grad=True)


def _without_signs(*places):
    """The squares of these results, and the others as they are."""
    return lambda result: [r * r if i in places else r for i, r in enumerate(result)]


for _x in (SQUARE, BATCH):
    case("linalg.inv", _x)
    case("linalg.inv_ex", _x)
    case("linalg.det", _x)
    case("linalg.slogdet", _x)
    case("linalg.matrix_exp", _x)
    case("linalg.svdvals", _x)
    case("linalg.lu_factor", _x)
    case("linalg.lu_factor_ex", _x)
    case("linalg.pinv", _x)
    case("linalg.matrix_rank", fixed(_x))
for _x in (TALL, WIDE):
    case("linalg.qr", _x)
    case("linalg.lu", _x)
    case("linalg.svd", _x, full_matrices=False, then=_without_signs(0, 2))
    case("linalg.svdvals", _x)
    case("linalg.pinv", _x)
case("linalg.qr", WIDE, mode="complete")
case("linalg.qr", fixed(TALL), mode="complete", then=lambda r: r.R)
case("linalg.qr", fixed(TALL), mode="r", then=lambda r: r.R)
# PyTorch's gradient through eigenvectors is not symmetric: test_linalg.py has its own.
case("linalg.eigh", SQUARE, then=lambda r: [r[0], (r[1] * r[1]).detach()])
case("linalg.eigh", BATCH, UPLO="U", then=lambda r: [r[0], (r[1] * r[1]).detach()])
case("linalg.eigvalsh", SQUARE)
case("linalg.eigvalsh", BATCH, UPLO="U")
# In an order that both agree on; sums, products and sizes know none.
for _x in (SQUARE, BATCH):
    case(
        "linalg.eig", _x, then=lambda r: [r[0].sum(-1).real, r[0].abs().prod(-1), r[1].abs().sum()]
    )
    case("linalg.eigvals", _x, then=lambda r: [r.sum(-1).real, (r * r).sum(-1).real])
case("linalg.cholesky", DEFINITE)
case("linalg.cholesky", DEFINITE, upper=True)
case("linalg.cholesky_ex", DEFINITE)
case("linalg.solve", SQUARE, normal(4))
case("linalg.solve", SQUARE, normal(4, 2))
case("linalg.solve", BATCH, normal(2, 3))
case("linalg.solve", BATCH, normal(3, 1))
case("linalg.solve", BATCH, normal(2, 2, 3), left=False)
case("linalg.solve_ex", SQUARE, normal(4, 2))
for _upper in (False, True):
    case("linalg.solve_triangular", TURN, normal(2, 4, 2), upper=_upper)
    case("linalg.solve_triangular", TURN, normal(2, 3, 4), upper=_upper, left=False)
    case("linalg.solve_triangular", TURN, normal(4, 1), upper=_upper, unitriangular=True)
case("linalg.lstsq", TALL, normal(5, 2), driver="gels", then=lambda r: r.solution)
case("linalg.lstsq", WIDE, normal(3, 2), driver="gels", then=lambda r: r.solution)
case("linalg.lstsq", fixed(TALL), fixed(normal(5, 2)), driver="gelsd")
case("linalg.lstsq", fixed(TALL), fixed(normal(5, 2)), then=lambda r: [r.solution, r.rank])
for _n in (-2, -1, 0, 1, 3):
    case("linalg.matrix_power", SQUARE if _n else fixed(SQUARE), _n)
case("linalg.matrix_power", BATCH, 2)
for _ord in (0, 1, 2, 3.5, float("inf"), -float("inf")):
    case("linalg.vector_norm", BATCH if _ord else fixed(BATCH), _ord)
    case("linalg.vector_norm", BATCH if _ord else fixed(BATCH), ord=_ord, dim=(0, 2), keepdim=True)
for _ord in ("fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")):
    case("linalg.matrix_norm", WIDE, _ord)
    case("linalg.matrix_norm", BATCH, ord=_ord, dim=(0, 1), keepdim=True)
    case("linalg.norm", TALL, _ord)
    case("linalg.norm", BATCH, ord=_ord, dim=(2, 0))
case("linalg.norm", BATCH)
case("linalg.norm", BATCH, dim=1)
case("linalg.norm", BATCH, 3, dim=-1, keepdim=True)
for _p in (None, 2, -2, "nuc"):
    case("linalg.cond", BATCH, _p)
for _p in (1, float("inf"), "fro"):  # which PyTorch does not differentiate
    case("linalg.cond", fixed(BATCH), _p)
case("linalg.multi_dot", [normal(2, 5), normal(5, 3), normal(3, 4)])
case("linalg.multi_dot", [normal(5), normal(5, 3), normal(3)])
case("linalg.cross", normal(2, 3), normal(2, 3))
case("linalg.cross", normal(3, 4), normal(3, 1), dim=0)
case("linalg.vecdot", normal(2, 3), normal(2, 3))
case("linalg.vecdot", normal(2, 3), normal(2, 1), dim=0)
case("linalg.vander", normal(2, 3))
case("linalg.vander", normal(3), N=5)
case("linalg.diagonal", normal(2, 3, 4), offset=1)
case("linalg.matmul", normal(2, 3), normal(3, 4))
case("linalg.tensorinv", normal(2, 3, 6), ind=2)
case("linalg.tensorsolve", normal(2, 3, 6), normal(2, 3))

LU, PIVOTS = Draw("definite", (4, 4), grad=True), Draw("integers", (4,), 4, 5, "int32")
case("linalg.lu_solve", LU, PIVOTS, normal(4, 2))
case("linalg.lu_solve", LU, PIVOTS, normal(4, 2), adjoint=True)
case("linalg.lu_solve", LU, PIVOTS, normal(2, 4), left=False)
case("lu_solve", normal(4, 2), LU, PIVOTS)

# By the names outside of linalg.
case("det", SQUARE)
case("slogdet", SQUARE)
case("logdet", TURN, then=lambda r: r.nan_to_num(0.0))
case("inverse", BATCH)
case("pinverse", TALL)
case("matrix_exp", SQUARE)
case("qr", TALL)
case("svd", fixed(TALL), then=lambda r: r[1])
case("svd", TALL, then=_without_signs(0, 2))
case("lu_unpack", fixed(SQUARE), PIVOTS)
case("cholesky", DEFINITE)
# Of the factor PyTorch also gives a gradient above its diagonal, which is not read.
case("cholesky_solve", normal(4, 2), fixed(TURN))
case("cholesky_inverse", fixed(normal(3, 3)))
