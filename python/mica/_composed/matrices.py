"""Factors and determinants by the names that PyTorch has outside of torch.linalg."""

from __future__ import annotations

import mica._mica as m
from mica._mica import Tensor, linalg


def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """See mica.linalg.cholesky."""
    return linalg.cholesky(input, upper=upper)


def det(input: Tensor) -> Tensor:
    """The determinants (…) of square matrices."""
    return linalg.det(input)


def inverse(input: Tensor) -> Tensor:
    """See mica.linalg.inv."""
    return linalg.inv(input)


def matrix_exp(input: Tensor) -> Tensor:
    """See mica.linalg.matrix_exp."""
    return linalg.matrix_exp(input)


def matrix_power(input: Tensor, n: int) -> Tensor:
    """The product of n equal square matrices; of their inverses for a negative n."""
    return linalg.matrix_power(input, n)


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """See mica.linalg.pinv."""
    return linalg.pinv(input, rtol=rcond)


def qr(input: Tensor, some: bool = True) -> linalg.Qr:
    """(Q, R); see mica.linalg.qr. Without `some` Q is square."""
    return linalg.qr(input, "reduced" if some else "complete")


def slogdet(input: Tensor) -> linalg.SlogDet:
    """(sign, logabsdet); see mica.linalg.slogdet."""
    return linalg.slogdet(input)


def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) with U diag(S) Vᵀ = input; mica.linalg.svd gives Vᵀ. Without compute_uv U and V are
    zeros."""
    if not compute_uv:
        values = linalg.svdvals(input)
        rows, columns = input.shape[-2:]
        batch = list(input.shape[:-2])
        return (
            input.new_zeros([*batch, rows, rows]),
            values,
            input.new_zeros([*batch, columns, columns]),
        )
    u, values, vh = linalg.svd(input, full_matrices=not some)
    return u, values, vh.mT


def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:  # noqa: N803
    """What A x = b holds for, from A's factors; see mica.linalg.lu_solve."""
    return linalg.lu_solve(LU_data, LU_pivots, b)


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int = 2, M: Tensor | None = None,  # noqa: N803
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(U, S, V) of the q largest singular values of A - M, by random projections (Halko, Martinsson
    and Tropp); a larger niter is more exact."""
    matrix = A if M is None else A - M
    rows, columns = matrix.shape[-2:]
    count = min(6 if q is None else q, rows, columns)
    turned = rows < columns
    tall = matrix.mT if turned else matrix
    start = m.randn([tall.shape[-1], count], dtype=tall.dtype, device=tall.device)
    basis = linalg.qr(tall @ start)[0]
    for _ in range(niter):
        basis = linalg.qr(tall.mT @ basis)[0]
        basis = linalg.qr(tall @ basis)[0]
    u, values, vh = linalg.svd(basis.mT @ tall, full_matrices=False)
    u, v = basis @ u, vh.mT
    return (v, values, u) if turned else (u, values, v)


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2,  # noqa: N803
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """svd_lowrank of A less the mean of its rows."""
    if q is None:
        q = min(6, *A.shape[-2:])
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
