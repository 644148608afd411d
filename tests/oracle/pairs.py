"""Complex numbers in a case: they go in and out as pairs of real ones along a last axis, so that
gradients are those of real numbers, which every convention agrees on."""

import jax.numpy as jnp
import mica
import numpy as np
from check import Entry, tensors_of

WIDE = ("float64", "float32", "float64")


def complex_entry(draw, ours, theirs, real=(), **options):
    """Of functions of complex tensors; `real` are the places of inputs that are none."""

    def mica_side(*inputs, **params):
        given = [
            x if i in real or not mica.is_floating_point(x) else mica.view_as_complex(x)
            for i, x in enumerate(inputs)
        ]
        results = tensors_of(ours(*given, **params))
        return [mica.view_as_real(r) if mica.is_complex(r) else r for r in results]

    def jax_side(*inputs, **params):
        given = [
            x
            if i in real or not jnp.issubdtype(x.dtype, jnp.floating)
            else x[..., 0] + 1j * x[..., 1]
            for i, x in enumerate(inputs)
        ]
        results = tensors_of(theirs(*given, **params))
        return [
            jnp.stack([r.real, r.imag], -1) if jnp.iscomplexobj(r) else r
            for r in map(jnp.asarray, results)
        ]

    return Entry(draw, mica_side, jax_side, **({"dtypes": WIDE, "strided": False} | options))


def numbers(d, shape, low=-2.0, high=2.0):
    return d.values((*shape, 2), low, high)


def to_pairs(d, x):
    return d.rounded(np.stack([x.real, x.imag], -1))
