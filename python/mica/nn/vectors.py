"""Parameters as one vector."""

from collections.abc import Iterable

from mica._grad_mode import no_grad
from mica._mica import Tensor, cat


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """(n): the elements of all parameters, one after the other; gradients flow back to them."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copies the elements of vec (n) into parameters that have as many."""
    parameters = list(parameters)
    count = sum(p.numel() for p in parameters)
    if vec.shape != (count,):
        raise ValueError(
            f"vector_to_parameters: vec must be ({count}) for these parameters, got {vec.shape}"
        )
    with no_grad():
        start = 0
        for p in parameters:
            p.copy_(vec[start : start + p.numel()].reshape(p.shape))
            start += p.numel()
