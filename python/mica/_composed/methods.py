"""Methods of Tensor that are no functions too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mica._mica as m
from mica._mica import Tensor


def _uniform(x: Tensor, generator: Any) -> Tensor:
    """In (0, 1): neither end, of which logarithms are taken."""
    draw: Any = m.rand
    drawn: Tensor = draw(x.shape, dtype=m.float64, device=x.device, generator=generator)
    return drawn.clamp_min(2.0**-53)


def _resized(x: Tensor, shape: tuple[Any, ...]) -> Tensor:
    size = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    wanted = math.prod(size)
    flat = x.reshape(-1)
    if wanted <= x.numel():
        return flat[:wanted].reshape(size)
    return m.cat([flat, x.new_empty(wanted - x.numel())]).reshape(size)


class Methods(Tensor):
    """Each stands in Tensor under its name."""

    layout = "strided"
    output_nr = 0
    is_meta = is_mkldnn = is_mps = is_nested = is_quantized = is_sparse = is_sparse_csr = False
    is_xpu = False

    def conj_physical(self) -> Tensor:
        """conj: results are always computed."""
        return self.conj()

    def resolve_conj(self) -> Tensor:
        """The tensor itself: results are always computed."""
        return self

    resolve_neg = resolve_conj

    def to_dense(self) -> Tensor:
        """The tensor itself: none is sparse."""
        return self

    def is_conj(self) -> bool:
        """False: results are always computed."""
        return False

    def is_neg(self) -> bool:
        """False: signs are computed at once."""
        return False

    def is_inference(self) -> bool:
        """False: no mode makes tensors of another kind."""
        return False

    def is_shared(self) -> bool:
        """False: memory belongs to one process."""
        return False

    def share_memory_(self) -> Tensor:
        """The tensor itself: memory belongs to one process."""
        return self

    def is_set_to(self, tensor: Tensor) -> bool:
        """Whether both show the same memory in the same way."""
        mine, other = (self.data_ptr(), self.shape), (tensor.data_ptr(), tensor.shape)
        return mine == other and self.strides == tensor.strides

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """PyTorch's name for a tensor of its dtype; or the tensor in another dtype."""
        from mica._typed import dtype_of, name_of

        return name_of(self) if dtype is None else self.to(dtype_of(dtype))

    def split_with_sizes(self, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Parts of these sizes along dim."""
        return m.split(self, list(split_sizes), dim)

    def bernoulli(self, p: float | None = None, *, generator: Any = None) -> Tensor:
        """1 with each element's probability, or p, else 0."""
        draw: Any = m.bernoulli
        made: Tensor = draw(self if p is None else m.full_like(self, p), generator=generator)
        return made

    def exponential_(self, lambd: float = 1, *, generator: Any = None) -> Tensor:
        """Overwrites this tensor with exponentially distributed numbers."""
        return self.copy_(-m.log(_uniform(self, generator)) / lambd)

    def cauchy_(self, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Tensor:
        """Overwrites this tensor with numbers of Cauchy's distribution."""
        turn = (_uniform(self, generator) - 0.5) * math.pi
        return self.copy_(median + sigma * m.tan(turn))

    def log_normal_(self, mean: float = 1, std: float = 2, *, generator: Any = None) -> Tensor:
        """Overwrites this tensor with exp of normally distributed numbers."""
        draw: Any = m.randn
        drawn: Tensor = draw(self.shape, dtype=m.float64, device=self.device, generator=generator)
        return self.copy_(m.exp(mean + std * drawn))

    def geometric_(self, p: float, *, generator: Any = None) -> Tensor:
        """Overwrites this tensor with the numbers of tries up to a success of probability p."""
        return self.copy_(m.ceil(m.log(_uniform(self, generator)) / math.log1p(-p)))

    def resize_(self, *shape: Any) -> Tensor:
        """This object has another shape from then on, with the same elements as far as they go."""
        return self._become(_resized(self, shape))

    def resize_as_(self, tensor: Tensor) -> Tensor:
        """resize_ to the shape of another tensor."""
        return self._become(_resized(self, (tensor.shape,)))

    def set_(self, source: Tensor) -> Tensor:
        """This object stands for another tensor from then on."""
        return self._become(source)

    def new_empty_strided(self, size: Sequence[int], stride: Sequence[int], **k: Any) -> Tensor:
        """new_empty: memory lies as mica has it."""
        return self.new_empty(list(size), **k)

    def polygamma(self, n: int) -> Tensor:
        """mica.polygamma(n, input)."""
        from mica._composed.special import polygamma

        return polygamma(n, self)

    def prelu(self, weight: Tensor) -> Tensor:
        """mica.nn.functional.prelu."""
        return m.functional.prelu(self, weight)

    def hardshrink(self, lambd: float = 0.5) -> Tensor:
        """mica.nn.functional.hardshrink."""
        return m.functional.hardshrink(self, lambd)

    def record_stream(self, stream: Any) -> None:
        """Keeps the memory until what the stream was given so far is done."""
        m.cuda.record_stream(self, stream)

    def apply_(self, callable: Callable[[Any], Any]) -> Tensor:
        """Overwrites each element with what a function of Python gives for it."""
        values = [callable(v) for v in self.detach().reshape(-1).tolist()]
        return self.copy_(m.tensor(values, dtype=self.dtype).reshape(self.shape))

    def map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
        """Overwrites each element with what a function gives for it and the other's."""
        other = tensor.detach().expand(self.shape).reshape(-1).tolist()
        pairs = zip(self.detach().reshape(-1).tolist(), other, strict=True)
        values = [callable(a, b) for a, b in pairs]
        return self.copy_(m.tensor(values, dtype=self.dtype).reshape(self.shape))
