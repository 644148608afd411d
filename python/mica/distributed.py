"""Several processes that compute together: collectives, data parallel training, checkpoints."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from mica import _mica, nn, optim

all_gather = _mica.distributed.all_gather
all_reduce = _mica.distributed.all_reduce
all_to_all = _mica.distributed.all_to_all
backend = _mica.distributed.backend
barrier = _mica.distributed.barrier
broadcast = _mica.distributed.broadcast
convert_sync_batch_norm = _mica.distributed.convert_sync_batch_norm
failure = _mica.distributed.failure
group_rank = _mica.distributed.group_rank
group_size = _mica.distributed.group_size
is_initialized = _mica.distributed.is_initialized
local_rank = _mica.distributed.local_rank
new_group = _mica.distributed.new_group
rank = _mica.distributed.rank
recv = _mica.distributed.recv
reduce_scatter = _mica.distributed.reduce_scatter
report_failure = _mica.distributed.report_failure
send = _mica.distributed.send
shutdown = _mica.distributed.shutdown
world_size = _mica.distributed.world_size


def init(backend: str = "", timeout: float = 0) -> None:
    """Makes this process one of those that were started with it.

    By torchrun, mpirun, srun or `mica launch`, whichever variables are there; a program that was
    started alone is a world of one. backend: "mpi", "nccl" or "self"; empty: what there is.
    timeout: seconds that one waits for others; 0: MICA_DISTRIBUTED_TIMEOUT, or 25.
    """
    first = not is_initialized()
    _mica.distributed.init(backend, timeout)
    if not first or world_size() == 1:
        return
    before = sys.excepthook

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        report_failure(f"{kind.__name__}: {error}")

    sys.excepthook = tell


class DataParallel:
    """A network that several processes train, each on its part of the batch.

    Parameters and buffers are rank 0's to begin with. While backward still runs, gradients go out
    in buckets of about bucket_bytes; afterwards they are the mean of all ranks', made in the order
    of the ranks. bf16: they travel as bfloat16. allow_unused: parameters that got no gradient count
    as if it were zero; without it they are named in an error. sharding: "states" divides the
    optimizer's states among the ranks (ZeRO-1), "gradients" the gradients too (ZeRO-2). Make the
    optimizer of parameters(), and call step(optimizer). broadcast_buffers: a forward pass in
    training begins with rank 0's buffers in all ranks.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        group: int = 0,
        bucket_bytes: int = 25 << 20,
        bf16: bool = False,
        allow_unused: bool = False,
        sharding: str = "none",
        broadcast_buffers: bool = True,
    ) -> None:
        self.module = module
        self._impl = _mica.distributed._DataParallel(
            module, group, bucket_bytes, bf16, allow_unused, sharding, broadcast_buffers
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._impl.before_forward()
        return self.module(*args, **kwargs)

    def parameters(self) -> "list[_mica.Tensor]":
        """What the optimizer is to be made of; with sharding, this rank's part of each bucket."""
        return self._impl.parameters()

    def step(self, optimizer: optim.Optimizer) -> None:
        """optimizer.step(), and where parameters are sharded, the others' parts."""
        self._impl.step(optimizer)

    def zero_grad(self) -> None:
        """Of the module and of parameters()."""
        self._impl.zero_grad()

    def clip_grad_norm_(self, max_norm: float) -> "_mica.Tensor":
        """Scales all gradients down to this norm together, sharded or not; gives the norm."""
        return self._impl.clip_grad_norm_(max_norm)

    def broadcast_buffers(self) -> None:
        """Rank 0's buffers to all, as before an evaluation that ranks share; all call it."""
        self._impl.broadcast_buffers()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients add up in each process without traffic; the backward after it sends them."""
        self._impl.set_sync(False)
        try:
            yield
        finally:
            self._impl.set_sync(True)


def save_checkpoint(
    directory: str,
    parallel: DataParallel,
    optimizer: optim.Optimizer,
    texts: Mapping[str, str] | None = None,
) -> None:
    """Writes module, optimizer and texts by all ranks at once, whole or not at all."""
    _mica.distributed._save_checkpoint(str(directory), parallel._impl, optimizer, dict(texts or {}))


def load_checkpoint(
    directory: str, parallel: DataParallel, optimizer: optim.Optimizer
) -> dict[str, str]:
    """Reads one that any number of ranks wrote, and gives back its texts."""
    return _mica.distributed._load_checkpoint(str(directory), parallel._impl, optimizer)
