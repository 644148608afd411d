"""Steps of optimizers."""

import mica
import numpy as np
from check import Call, Entry

TABLE = {}


def draw_sgd(d):
    """A parameter and the gradients of some steps. The rate is one that f32 holds."""
    shape = d.shape()
    momentum = d.choice([0.0, 0.5, 0.9])
    nesterov = momentum > 0 and d.flag()
    params = {
        "lr": d.choice([0.5, 0.125]),
        "momentum": momentum,
        "dampening": 0.0 if nesterov else d.choice([0.0, 0.3]),
        "weight_decay": d.choice([0.0, 0.1]),
        "nesterov": nesterov,
    }
    return Call([d.values(shape) for _ in range(d.integer(2, 4))], params)


def mica_sgd(value, *gradients, **params):
    value = value.clone()
    value.requires_grad = True
    optimizer = mica.optim.SGD([value], **params)
    for gradient in gradients:
        value.grad = gradient
        optimizer.step()
    return value.detach()


def numpy_sgd(value, *gradients, lr, momentum, dampening, weight_decay, nesterov):
    buffer = None
    for gradient in gradients:
        step = gradient + weight_decay * value
        if momentum:
            buffer = step if buffer is None else momentum * buffer + (1 - dampening) * step
            step = step + momentum * buffer if nesterov else buffer
        value = value - lr * step
    return np.asarray(value)


TABLE["sgd_update"] = Entry(
    draw_sgd, mica_sgd, numpy_sgd, gradient=False, dtypes=("float32", "float64")
)
