"""Fourier transforms."""

import jax.numpy as jnp
import mica
import numpy as np
from check import Call, Entry
from pairs import complex_entry, numbers

TABLE = {}
# 1, primes, numbers beside powers of 2, and what has many small factors.
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17, 31, 32, 33, 60, 63, 64, 65, 97, 127, 129)
NORMS = ("backward", "ortho", "forward")
F, J = mica.fft, jnp.fft
# Sums of as many numbers as are transformed.
LOSS = 20.0


def draw_one(d, real):
    """One axis somewhere, cut or filled, in a batch that may be empty."""
    n = d.choice(LENGTHS)
    before = d.choice([(), (), (1,), (3,), (2, 5), (0,)])
    after = d.choice([(), (), (2,), (5,)])
    shape = (*before, n, *after)
    axis = len(before) - (len(shape) if d.flag() else 0)
    wanted = d.choice([None, None, n, n + 1, 2 * n - 1, max(1, n // 2)])
    x = d.values(shape, -1, 1) if real else numbers(d, shape, -1, 1)
    return Call([x], {"n": wanted, "axis": axis, "norm": d.choice(NORMS)})


def one_axis(op, name, real=False):
    def ours(x, n, axis, norm):
        return getattr(F, name)(x, n=n, dim=axis, norm=norm)

    def theirs(x, n, axis, norm):
        return getattr(J, name)(x, n=n, axis=axis, norm=norm)

    def draw(d):
        call = draw_one(d, real)
        # To real numbers there is none of one.
        size = call.inputs[0].shape[
            call.params["axis"] - (0 if real or call.params["axis"] >= 0 else 1)
        ]
        if name in ("irfft", "hfft") and size == 1 and call.params["n"] is None:
            call.params["n"] = d.integer(1, 3)
        return call

    TABLE[op] = complex_entry(
        draw, ours, theirs, real=(0,) if real else (), tolerance=LOSS, cases=40
    )


one_axis("fft", "fft")
one_axis("fft back", "ifft")
one_axis("fft of real numbers", "fft", real=True)
one_axis("rfft", "rfft", real=True)
one_axis("irfft", "irfft")
one_axis("irfft hfft", "hfft")
one_axis("rfft ihfft", "ihfft", real=True)


def several_axes(op, name, real=False, axes=None):
    def draw(d):
        rank = d.integer(2, 4)
        shape = tuple(d.choice(LENGTHS[:14]) if i < 2 else d.integer(2, 5) for i in range(rank))
        if name.startswith("ir"):
            shape = tuple(max(2, s) for s in shape)
        order = d.permutation(rank)[: axes or d.integer(1, min(3, rank))]
        chosen = tuple(a - (rank if d.flag() else 0) for a in order)
        sizes = tuple(d.choice((2, 3, 5, 8, 9)) for _ in chosen) if d.flag(0.4) else None
        x = d.values(shape, -1, 1) if real else numbers(d, shape, -1, 1)
        return Call([x], {"s": sizes, "axes": chosen, "norm": d.choice(NORMS)})

    TABLE[op] = complex_entry(
        draw,
        lambda x, s, axes, norm: getattr(F, name)(x, s=s, dim=axes, norm=norm),
        lambda x, s, axes, norm: getattr(J, name)(x, s=s, axes=axes, norm=norm),
        real=(0,) if real else (),
        tolerance=LOSS,
        cases=32,
    )


several_axes("fft fft2", "fft2", axes=2)
several_axes("fft ifft2", "ifft2", axes=2)
several_axes("rfft rfft2", "rfft2", real=True, axes=2)
several_axes("irfft irfft2", "irfft2", axes=2)
several_axes("fft fftn", "fftn")
several_axes("fft ifftn", "ifftn")
several_axes("rfft rfftn", "rfftn", real=True)
several_axes("irfft irfftn", "irfftn")


def shift(name):
    TABLE[f"roll {name}"] = complex_entry(
        lambda d: Call([numbers(d, s := d.shape(min_rank=1, high=9))], {"axes": d.dim(len(s))}),
        lambda x, axes: getattr(F, name)(x, dim=axes),
        lambda x, axes: getattr(J, name)(x, axes=axes),
    )


shift("fftshift")
shift("ifftshift")


def frequencies(name):
    TABLE[f"div {name}"] = Entry(
        lambda d: Call([], {"n": d.choice(LENGTHS), "step": d.number(0.1, 3)}),
        lambda n, step: getattr(F, name)(n, d=step, dtype=mica.float64),
        lambda n, step: getattr(J, name)(n, d=step),
        gradient=False,
        dtypes=("float64",),
    )


frequencies("fftfreq")
frequencies("rfftfreq")


def draw_stft(d):
    n = d.choice((1, 4, 7, 8, 9, 16, 17, 31))
    length = n + d.choice((0, 1, 5, 16, 33))
    batch = d.choice([(), (3,)])
    return Call(
        [d.values((*batch, length), -1, 1), d.values((n,), 0.2, 1)],
        {"n": n, "hop": d.integer(1, n), "normalized": d.flag()},
    )


def jax_stft(x, window, n, hop, normalized):
    starts = np.arange(0, x.shape[-1] - n + 1, hop)
    frames = x[..., starts[:, None] + np.arange(n)] * window
    y = jnp.fft.rfft(frames, axis=-1).swapaxes(-1, -2)
    return y / np.sqrt(n) if normalized else y


TABLE["rfft stft"] = complex_entry(
    draw_stft,
    lambda x, window, n, hop, normalized: mica.stft(
        x, n, hop, window=window, center=False, normalized=normalized
    ),
    jax_stft,
    real=(0, 1),
    tolerance=LOSS,
    cases=32,
)
