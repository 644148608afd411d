"""Factors and determinants by the names that PyTorch has outside of torch.linalg."""

from __future__ import annotations

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
