"""Images at other resolutions and places."""

import jax
import jax.numpy as jnp
import mica.nn.functional as F
import numpy as np
from check import Call, Entry
from layers import patches

TABLE = {}


def cubic_weights(t, a=-0.75):
    """Of the four pixels around a point that lies t behind the second."""

    def near(x):
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x):
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def resampling(inputs, outputs, scale, mode, align_corners):
    """The matrix (outputs, inputs) that resamples one axis."""
    i = np.arange(outputs)
    step = 1 / scale if scale else inputs / outputs
    matrix = np.zeros((outputs, inputs))
    if mode == "nearest":
        matrix[i, np.minimum(np.floor(i * step), inputs - 1).astype(int)] = 1
        return matrix
    if align_corners:
        at = i * ((inputs - 1) / (outputs - 1) if outputs > 1 else 0)
    else:
        at = (i + 0.5) * step - 0.5
    if mode != "bicubic":
        at = np.maximum(at, 0)
    first = np.floor(at).astype(int)
    t = at - first
    weights = cubic_weights(t) if mode == "bicubic" else [1 - t, t]
    start = first - 1 if mode == "bicubic" else first
    for k, w in enumerate(weights):
        np.add.at(matrix, (i, np.clip(start + k, 0, inputs - 1)), w)
    return matrix


def draw_upsample(d, axes):
    image = tuple(d.integer(1, 6) for _ in range(axes))
    modes = ["nearest", "linear"] if axes == 1 else ["nearest", "bilinear", "bicubic", "bicubic"]
    params = {"mode": d.choice(modes)}
    if params["mode"] != "nearest":
        params["align_corners"] = d.flag()
    if d.flag():
        params["size"] = tuple(d.integer(1, 9) for _ in image)
    else:
        params["scale_factor"] = d.choice([2.0, 3.0, 1.5, 0.5, 2.7])
        image = tuple(s + 2 for s in image)
    return Call([d.values((d.integer(1, 2), d.integer(1, 3), *image))], params)


def jax_upsample(x, mode, align_corners=False, size=None, scale_factor=None):
    for axis, inputs in enumerate(x.shape[2:], start=2):
        outputs = size[axis - 2] if size else int(np.floor(inputs * scale_factor))
        scale = None if size else scale_factor
        matrix = resampling(inputs, outputs, scale, mode, align_corners)
        x = jnp.moveaxis(jnp.tensordot(x, matrix, ((axis,), (1,))), -1, axis)
    return x


TABLE["upsample"] = Entry(lambda d: draw_upsample(d, 1), F.interpolate, jax_upsample, tolerance=4)
TABLE["upsample2d"] = Entry(
    lambda d: draw_upsample(d, 2), F.interpolate, jax_upsample, tolerance=4, cases=48
)


def draw_grid(d):
    """Points that keep away from pixels' middles and edges, where the derivative jumps."""
    n, height, width = d.integer(1, 2), d.integer(2, 5), d.integer(2, 5)
    align = d.flag()
    shape = (n, d.integer(1, 4), d.integer(1, 4))
    points = []
    for size in (width, height):
        fraction = d.rng.choice([0.1, 0.6], shape) + d.rng.uniform(0, 0.3, shape)
        pixel = d.rng.integers(-3, size + 2, shape) + fraction
        points.append(2 * pixel / (size - 1) - 1 if align else (2 * pixel + 1) / size - 1)
    params = {
        "mode": d.choice(["bilinear", "nearest", "bicubic"]),
        "padding_mode": d.choice(["zeros", "border", "reflection"]),
        "align_corners": align,
    }
    x = d.values((n, d.integer(1, 3), height, width))
    return Call([x, d.rounded(np.stack(points, -1))], params)


def reflect(at, size, align):
    low, high = (0, size - 1) if align else (-0.5, size - 0.5)
    span = high - low
    away = jnp.abs(at - low)
    turns = jnp.floor(away / span)
    rest = away - turns * span
    return jnp.clip(jnp.where(turns % 2 == 0, rest + low, high - rest), 0, size - 1)


def jax_grid_sample(x, grid, mode, padding_mode, align_corners):
    height, width = x.shape[2:]

    def place(at, size):
        if padding_mode == "border":
            return jnp.clip(at, 0, size - 1)
        return reflect(at, size, align_corners) if padding_mode == "reflection" else at

    def pixel(row, column):
        """x (N, C, …) at whole positions (N, …); outside there are zeros."""
        if mode == "bicubic":
            row, column = place(row, height), place(column, width)
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        r = jnp.clip(row, 0, height - 1).astype(int)
        c = jnp.clip(column, 0, width - 1).astype(int)
        picked = jax.vmap(lambda image, i, j: image[:, i, j])(x, r, c)
        return picked * inside[:, None]

    def position(g, size):
        at = (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2
        return at if mode == "bicubic" else place(at, size)

    column, row = position(grid[..., 0], width), position(grid[..., 1], height)
    if mode == "nearest":
        return pixel(jnp.round(row), jnp.round(column))
    first_row, first_column = jnp.floor(row), jnp.floor(column)
    v, u = row - first_row, column - first_column
    cubic = mode == "bicubic"
    down, right = (cubic_weights(t) if cubic else [1 - t, t] for t in (v, u))
    total = 0
    for i, a in enumerate(down):
        for j, b in enumerate(right):
            at = pixel(first_row + i - cubic, first_column + j - cubic)
            total = total + (a * b)[:, None] * at
    return total


TABLE["grid_sample"] = Entry(
    draw_grid,
    F.grid_sample,
    jax_grid_sample,
    dtypes=("float32", "float64"),
    repeats=False,
    cases=60,
    tolerance=10,
)


def draw_affine(d):
    n = d.integer(1, 3)
    size = (n, d.integer(1, 3), d.integer(2, 5), d.integer(2, 5))
    return Call([d.values((n, 2, 3))], {"size": size, "align_corners": d.flag()})


def jax_affine(theta, size, align_corners):
    points = []
    for s in size[:1:-1]:
        line = np.linspace(-1, 1, s)
        points.append(line if align_corners else line * (s - 1) / s)
    x, y = np.meshgrid(*points)
    base = np.stack([x, y, np.ones_like(x)], -1)
    return jnp.einsum("hwk,njk->nhwj", base, theta)


TABLE["affine_grid"] = Entry(draw_affine, F.affine_grid, jax_affine, cases=12)


def draw_unfold(d):
    kernel, dilation = ((d.integer(1, 3), d.integer(1, 3)), (d.integer(1, 2), d.integer(1, 2)))
    padding = (d.integer(0, 1), d.integer(0, 1))
    image = tuple((k - 1) * e + d.integer(1, 4) for k, e in zip(kernel, dilation, strict=True))
    params = {
        "kernel_size": kernel,
        "dilation": dilation,
        "padding": padding,
        "stride": (d.integer(1, 2), d.integer(1, 2)),
    }
    return (d.integer(1, 2), d.integer(1, 3), *image), params


def jax_unfold(x, kernel_size, dilation, padding, stride):
    found = patches(x, kernel_size, stride, dilation, [(p, p) for p in padding], 0)
    n, c, h, w, k = found.shape
    return found.transpose(0, 1, 4, 2, 3).reshape(n, c * k, h * w)


def draw_im2col(d):
    shape, params = draw_unfold(d)
    return Call([d.values(shape)], params)


def draw_col2im(d):
    shape, params = draw_unfold(d)
    columns = jax.eval_shape(lambda x: jax_unfold(x, **params), jnp.zeros(shape)).shape
    return Call([d.values(columns)], {**params, "output_size": shape[2:]})


def jax_fold(columns, output_size, **params):
    channels = columns.shape[1] // int(np.prod(params["kernel_size"]))
    image = jnp.zeros((columns.shape[0], channels, *output_size))
    return jax.vjp(lambda x: jax_unfold(x, **params), image)[1](jnp.asarray(columns))[0]


TABLE["im2col"] = Entry(draw_im2col, F.unfold, jax_unfold)
TABLE["col2im"] = Entry(draw_col2im, F.fold, jax_fold)


def draw_shuffle(d):
    r = d.integer(1, 3)
    return d.shape(max_rank=2, high=2), d.integer(1, 2), d.integer(1, 3), d.integer(1, 3), r


def jax_pixel_shuffle(x, upscale_factor):
    r = upscale_factor
    *lead, c, h, w = x.shape
    x = x.reshape(-1, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return x.reshape(*lead, c // (r * r), h * r, w * r)


def jax_pixel_unshuffle(x, downscale_factor):
    r = downscale_factor
    *lead, c, h, w = x.shape
    x = x.reshape(-1, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return x.reshape(*lead, c * r * r, h // r, w // r)


def draw_pixel_shuffle(d):
    lead, c, h, w, r = draw_shuffle(d)
    return Call([d.values((*lead, c * r * r, h, w))], {"upscale_factor": r})


def draw_pixel_unshuffle(d):
    lead, c, h, w, r = draw_shuffle(d)
    return Call([d.values((*lead, c, h * r, w * r))], {"downscale_factor": r})


TABLE["pixel_shuffle"] = Entry(draw_pixel_shuffle, F.pixel_shuffle, jax_pixel_shuffle, cases=12)
TABLE["pixel_unshuffle"] = Entry(
    draw_pixel_unshuffle, F.pixel_unshuffle, jax_pixel_unshuffle, cases=12
)


def draw_channel_shuffle(d):
    groups = d.integer(1, 3)
    shape = (d.integer(1, 2), groups * d.integer(1, 3), *d.shape(min_rank=1, max_rank=2, high=3))
    return Call([d.values(shape)], {"groups": groups})


TABLE["channel_shuffle"] = Entry(
    draw_channel_shuffle,
    F.channel_shuffle,
    lambda x, groups: jnp.swapaxes(x.reshape(x.shape[0], groups, -1, *x.shape[2:]), 1, 2).reshape(
        x.shape
    ),
    cases=12,
)
