"""One case: the same call in mica and in JAX, values and gradients side by side."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import mica
import numpy as np
from draw import FLOATS, Draw

# How far a result may be from the oracle's, which is computed in float64 on the same values: a few
# roundings of the dtype, relative to the result and to the size of the results around it.
TOLERANCE = {"float64": 1e-11, "float32": 2e-5, "float16": 1e-2, "bfloat16": 8e-2}

FLOAT_DTYPES = (
    "float32",
    "float64",
    "float32",
    "float64",
    "float32",
    "float64",
    "float16",
    "bfloat16",
)
INTEGERS = ("int64", "int32", "uint8")


@dataclass
class Call:
    """Inputs (float64 arrays stand for the case's dtype, None for one left out) and parameters."""

    inputs: list
    params: dict = field(default_factory=dict)


@dataclass
class Entry:
    """How an operator is called here and there: both functions take the inputs and parameters."""

    draw: Callable[[Draw], Call]
    mica: Callable
    jax: Callable
    gradient: bool = True
    dtypes: tuple = FLOAT_DTYPES
    tolerance: float = 1.0  # times the dtype's
    strided: bool = True
    repeats: bool = True  # inputs may repeat values along an axis
    cases: int = 24

    @property
    def compares_gradients(self):
        return self.gradient and any(dtype in FLOATS for dtype in self.dtypes)


class DisagreementError(Exception):
    pass


def tensors_of(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def to_array(t):
    if t.dtype is mica.bfloat16:
        t = t.to(mica.float32)
    return t.detach().numpy()


def spread(t, draw):
    """The same values with other strides: permuted in memory, or with gaps and an offset."""
    if draw.flag():
        order = draw.permutation(t.ndim)
        return t.permute(order).contiguous().permute(tuple(int(i) for i in np.argsort(order)))
    axis = draw.integer(0, t.ndim - 1)
    other = ~t if t.dtype is mica.bool else t + 1
    shape = list(t.shape)
    shape[axis] *= 2
    both = mica.stack([other, t], dim=axis + 1).reshape(shape)
    return both[(slice(None),) * axis + (slice(1, None, 2),)]


def to_tensor(value, draw, entry):
    """An input as a tensor, and the values it has: some are made to repeat without memory."""
    if value is None:
        return None, None
    value = np.asarray(value)
    t = mica.tensor(value)
    if value.dtype == np.float64:
        t = t.to(getattr(mica, draw.dtype))
    if not entry.strided or t.ndim == 0 or t.numel() == 0 or draw.flag():
        return t, value
    if entry.repeats and draw.flag(0.2):
        axis = draw.integer(0, t.ndim - 1)
        return t.narrow(axis, 0, 1).expand(t.shape), np.broadcast_to(
            value.take([0], axis), value.shape
        )
    return spread(t, draw), value


def compare(what, got, expected, tolerance):
    if tuple(got.shape) != tuple(expected.shape):
        raise DisagreementError(
            f"{what}: shape {tuple(got.shape)}, expected {tuple(expected.shape)}"
        )
    if expected.size == 0:
        return
    with np.errstate(over="ignore"):
        expected = expected.astype(got.dtype)  # infinity where the dtype ends
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    # The inputs are of the size of 1, so what nearly cancels has errors of that size.
    scale = 0.02 + (np.sqrt(np.mean(np.square(expected[finite]))) if finite.any() else 0.0)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - expected)
        close = error <= tolerance * (np.abs(expected) + scale)
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    wrong = ~(same | (finite & close))
    if wrong.any():
        error = np.where(wrong, np.nan_to_num(error, nan=np.inf), -1)
        at = np.unravel_index(np.argmax(error), error.shape)
        raise DisagreementError(
            f"{what}: {int(wrong.sum())} of {wrong.size} differ, worst at {tuple(map(int, at))}: "
            f"got {got[at]!r}, expected {expected[at]!r}"
        )


def describe(value):
    if value is None:
        return "None"
    return f"{value.dtype if value.dtype != np.float64 else 'float'}{list(value.shape)}"


def run_case(name, entry, seed, number):
    """Raises DisagreementError with everything needed to repeat the case; else returns nothing."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
    draw = Draw(rng, entry.dtypes[number % len(entry.dtypes)])
    call = entry.draw(draw)
    with mica.no_grad():
        made = [to_tensor(v, draw, entry) for v in call.inputs]
    tensors, inputs = [t for t, _ in made], [v for _, v in made]
    try:
        compare_call(entry, call, inputs, tensors, draw)
    except Exception as e:
        error = str(e) if isinstance(e, DisagreementError) else f"{type(e).__name__}: {e}"
        strides = [None if t is None else t.strides for t in tensors]
        raise DisagreementError(
            f"{name}, case {number}, {draw.dtype}: {error}\n"
            f"    inputs {', '.join(map(describe, inputs))}; strides {strides}\n"
            f"    parameters {call.params}"
        ) from e


def compare_call(entry, call, inputs, tensors, draw):
    wanted = [
        i
        for i, v in enumerate(inputs)
        if entry.gradient and draw.is_float and v is not None and v.dtype == np.float64
    ]
    for i in wanted:
        tensors[i].requires_grad = True
    outputs = tensors_of(entry.mica(*tensors, **call.params))

    def oracle(*floats):
        arguments = list(inputs)
        for i, value in zip(wanted, floats, strict=True):
            arguments[i] = value
        return tuple(tensors_of(entry.jax(*arguments, **call.params)))

    tolerance = entry.tolerance * TOLERANCE.get(draw.dtype, 2e-5)
    if not wanted:
        compare_all("value", outputs, oracle(), tolerance)
        return
    # The cotangents are drawn by mica's shapes: the oracle's are compared with them first.
    cotangents = [draw.rounded(draw.rng.uniform(-1, 1, t.shape)) for t in outputs]

    @jax.jit
    def values_and_gradients(floats, cotangents):
        values, pull = jax.vjp(oracle, *floats)
        matching = tuple(
            c.astype(v.dtype) if c.shape == v.shape else v
            for c, v in zip(cotangents, values, strict=True)
        )
        return values, pull(matching)

    values, gradients = values_and_gradients([inputs[i] for i in wanted], cotangents)
    compare_all("value", outputs, values, tolerance)
    ours = mica.grad(
        outputs,
        [tensors[i] for i in wanted],
        [mica.tensor(c).to(t.dtype) for c, t in zip(cotangents, outputs, strict=True)],
    )
    for i, g, expected in zip(wanted, ours, gradients, strict=True):
        got = np.zeros(expected.shape) if g is None else to_array(g)
        compare(f"gradient of input {i}", got, np.asarray(expected), tolerance)


def compare_all(what, outputs, expected, tolerance):
    if len(outputs) != len(expected):
        raise DisagreementError(f"{len(outputs)} results, expected {len(expected)}")
    for i, (t, e) in enumerate(zip(outputs, expected, strict=True)):
        compare(f"{what} {i}", to_array(t), np.asarray(e), tolerance)
