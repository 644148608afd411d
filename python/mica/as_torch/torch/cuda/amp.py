"""torch.cuda.amp: autocast without naming the device."""

from __future__ import annotations

import functools
from typing import Any

import mica
from mica.amp import GradScaler


class autocast(mica.autocast):
    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True):
        super().__init__("cuda", dtype=dtype or mica.float16, enabled=enabled)


custom_fwd = functools.partial(mica.amp.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(mica.amp.custom_bwd, device_type="cuda")
