"""torch.backends.cuda."""

from __future__ import annotations

from contextlib import contextmanager

import mica


class _Matmul:
    """allow_tf32 is mica's setting; the rest is taken and has no effect."""

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True

    @property
    def allow_tf32(self) -> bool:
        return mica.allow_tf32()

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        mica.set_allow_tf32(value)


matmul = _Matmul()


def is_built() -> bool:
    return mica.cuda.is_available()


def flash_sdp_enabled() -> bool:
    return True


@contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True):
    """mica chooses the kernel itself."""
    yield


def enable_flash_sdp(enabled: bool) -> None:
    """mica chooses the kernel itself."""


enable_math_sdp = enable_mem_efficient_sdp = enable_flash_sdp
