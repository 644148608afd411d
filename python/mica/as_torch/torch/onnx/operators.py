"""torch.onnx.operators."""

from __future__ import annotations

import mica


def shape_as_tensor(x: mica.Tensor) -> mica.Tensor:
    return mica.tensor(list(x.shape))
