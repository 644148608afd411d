"""Functions with gradients of one's own: one that is stable, and one that is not the true one."""

from typing import Any

import mica


class LogOnePlusExp(mica.autograd.Function):
    """log(1 + exp(x)), whose gradient by the chain rule is inf / inf for large x."""

    @staticmethod
    def forward(ctx: Any, x: mica.Tensor) -> mica.Tensor:
        ctx.save_for_backward(x)
        return x.clamp(min=0) + (-x.abs()).exp().log1p()

    @staticmethod
    def backward(ctx: Any, grad: mica.Tensor) -> mica.Tensor:
        x: mica.Tensor = ctx.saved_tensors[0]
        return grad * x.sigmoid()


class Quantize(mica.autograd.Function):
    """Rounds to steps; gradients go straight through, since the true one is zero everywhere."""

    @staticmethod
    def forward(ctx: Any, x: mica.Tensor, step: float) -> mica.Tensor:
        return (x / step).round() * step

    @staticmethod
    def backward(ctx: Any, grad: mica.Tensor) -> tuple[mica.Tensor, None]:
        return grad, None  # one for each argument of forward


x = mica.tensor([-200.0, -1.0, 0.0, 1.0, 200.0], requires_grad=True)
LogOnePlusExp.apply(x).sum().backward()
print("log(1 + exp(x)) has the gradient", x.grad)

# A weight that only takes multiples of 1/8 learns 0.7: it ends at the nearest one.
weight = mica.tensor([0.0], requires_grad=True)
optimizer = mica.optim.SGD([weight], lr=0.1)
for _ in range(50):
    optimizer.zero_grad()
    ((Quantize.apply(weight, 0.125) - 0.7) ** 2).sum().backward()
    optimizer.step()
print("quantized weight", Quantize.apply(weight, 0.125).item())
assert abs(Quantize.apply(weight, 0.125).item() - 0.7) <= 0.125
