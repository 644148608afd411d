"""torch.types: names for annotations."""

from __future__ import annotations

from typing import Any, TypeAlias

import mica

Number: TypeAlias = int | float | bool
_int, _float, _bool = int, float, bool
_dtype, _device, _size = mica.dtype, mica.device, tuple
Device: TypeAlias = mica.device | str | int | None
_TensorOrTensors: TypeAlias = Any
