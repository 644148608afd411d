"""torch.onnx.symbolic_helper."""

from typing import Any


def parse_args(*kinds: str) -> Any:
    return lambda function: function
