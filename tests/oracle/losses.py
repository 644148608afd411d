"""Normalisation and losses."""

import jax
import jax.numpy as jnp
import mica
import mica.nn.functional as F
import numpy as np
from check import Call, Entry

TABLE = {}
# Statistics of f16 and bf16 inputs are f32, which one dtype per case cannot say.
WIDE = ("float32", "float64")


def draw_softmax(d):
    shape = d.shape(min_rank=1) if d.flag(0.8) else (d.integer(1, 4), d.integer(30, 90))
    return Call([d.values(shape, -5, 5)], {"dim": d.axis(len(shape))})


for _name, _theirs in (("softmax", jax.nn.softmax), ("log_softmax", jax.nn.log_softmax)):
    TABLE[_name] = Entry(
        draw_softmax, getattr(mica, _name), lambda x, dim, f=_theirs: f(x, axis=dim), tolerance=2
    )


def normalised(x, axes, eps, center=True):
    mean = jnp.mean(x, axes, keepdims=True) if center else 0
    return (x - mean) / jnp.sqrt(jnp.mean((x - mean) ** 2, axes, keepdims=True) + eps)


def per_channel(v, x):
    return v.reshape((-1,) + (1,) * (x.ndim - 2))


def scaled(y, weight, bias, x):
    y = y if weight is None else y * per_channel(weight, x)
    return y if bias is None else y + per_channel(bias, x)


def maybe(d, shape, low=-2.0, high=2.0):
    return d.values(shape, low, high) if d.flag(0.7) else None


def draw_layer_norm(d, bias=True):
    shape = d.shape(min_rank=1, low=2) if d.flag(0.8) else (d.integer(1, 4), d.integer(30, 90))
    axes = shape[d.integer(0, len(shape) - 1) :]
    weight = maybe(d, axes)
    more = [maybe(d, axes) if weight is not None else None] if bias else []
    params = {"normalized_shape": axes, "eps": d.choice([1e-5, 1e-3, 0.1])}
    return Call([d.values(shape), weight, *more], params)


def jax_layer_norm(x, weight, bias, normalized_shape, eps):
    y = normalised(x, tuple(range(x.ndim - len(normalized_shape), x.ndim)), eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def jax_rms_norm(x, weight, normalized_shape, eps):
    y = normalised(x, tuple(range(x.ndim - len(normalized_shape), x.ndim)), eps, center=False)
    return y if weight is None else y * weight


TABLE["layer_norm"] = Entry(
    draw_layer_norm,
    lambda x, weight, bias, **params: F.layer_norm(x, weight=weight, bias=bias, **params),
    jax_layer_norm,
    tolerance=8,
    repeats=False,
    cases=32,
)
TABLE["rms_norm"] = Entry(
    lambda d: draw_layer_norm(d, bias=False),
    lambda x, weight, **params: F.rms_norm(x, weight=weight, **params),
    jax_rms_norm,
    tolerance=8,
)


def draw_images(d, groups=1):
    channels = groups * d.integer(1, 3)
    return (d.integer(2, 3), channels, *d.shape(min_rank=1, max_rank=3, low=2, high=3))


def draw_group_norm(d):
    groups = d.integer(1, 3)
    shape = draw_images(d, groups)
    c = shape[1:2]
    return Call([d.values(shape), maybe(d, c), maybe(d, c)], {"num_groups": groups, "eps": 1e-3})


def jax_group_norm(x, weight, bias, num_groups, eps):
    grouped = x.reshape(x.shape[0], num_groups, -1)
    return scaled(normalised(grouped, 2, eps).reshape(x.shape), weight, bias, x)


TABLE["group_norm"] = Entry(
    draw_group_norm,
    lambda x, weight, bias, **params: F.group_norm(x, weight=weight, bias=bias, **params),
    jax_group_norm,
    tolerance=8,
    repeats=False,
)


def draw_response(d):
    params = {
        "size": d.integer(1, 5),
        "alpha": d.number(0.1, 2),
        "beta": d.choice([0.5, 0.75, 1.0]),
        "k": d.number(0.5, 2),
    }
    shape = (d.integer(1, 3), d.integer(1, 6), *d.shape(min_rank=1, max_rank=2))
    return Call([d.values(shape)], params)


def jax_response(x, size, alpha, beta, k):
    sides = [(0, 0)] * x.ndim
    sides[1] = (size // 2, (size - 1) // 2)
    squares = jnp.pad(x * x, sides)
    around = sum(squares[:, i : i + x.shape[1]] for i in range(size)) / size
    return x / (k + alpha * around) ** beta


TABLE["local_response_norm"] = Entry(
    draw_response, F.local_response_norm, jax_response, tolerance=4
)


def draw_statistics(d, both_modes):
    """x, running mean and variance, weight, bias; with and without training."""
    shape = draw_images(d)
    c = shape[1:2]
    own = d.flag()
    running = not own or d.flag()
    inputs = [
        d.values(shape),
        d.values(c) if running else None,
        d.values(c, 0.5, 2) if running else None,
        maybe(d, c),
        maybe(d, c),
    ]
    return Call(inputs, {both_modes: own, "eps": 1e-3, "momentum": d.choice([0.1, 0.5])})


def moved(running, new, momentum):
    return None if running is None else (1 - momentum) * running + momentum * new


def call_and_running(f):
    """The result and the running statistics, which the call writes to."""

    def ours(x, mean, var, weight, bias, **params):
        y = f(x, mean, var, weight, bias, **params)
        return [y] if mean is None else [y, mean, var]

    return ours


def jax_statistics(axes_of, images):
    def oracle(x, mean, var, weight, bias, eps, momentum, own):
        axes = axes_of(x)
        if own:
            y = normalised(x, axes, eps)
            n = np.prod([x.shape[a] for a in axes])
            new_mean, new_var = jnp.mean(x, axes), jnp.var(x, axes) * n / (n - 1)
            if images:
                new_mean, new_var = new_mean.mean(0), new_var.mean(0)
            running = [moved(mean, new_mean, momentum), moved(var, new_var, momentum)]
        else:
            y = (x - per_channel(mean, x)) / jnp.sqrt(per_channel(var, x) + eps)
            running = [mean, var]
        return [scaled(y, weight, bias, x), *(v for v in running if v is not None)]

    return oracle


for _name, _f, _word, _axes, _images in (
    ("batch_norm", F.batch_norm, "training", lambda x: (0, *range(2, x.ndim)), False),
    ("instance_norm", F.instance_norm, "use_input_stats", lambda x: tuple(range(2, x.ndim)), True),
):
    _oracle = jax_statistics(_axes, _images)

    def _without_running(d, word=_word):
        x, _, _, weight, bias = draw_statistics(d, word).inputs
        return Call([x, weight, bias], {word: True, "eps": 1e-3})

    TABLE[_name] = Entry(
        _without_running,
        lambda x, weight, bias, f=_f, **params: f(x, None, None, weight, bias, **params),
        lambda x, weight, bias, eps, oracle=_oracle, **params: oracle(
            x, None, None, weight, bias, eps, 0.1, True
        ),
        tolerance=8,
        repeats=False,
        dtypes=WIDE,
    )
    TABLE[f"{_name} and running statistics"] = Entry(
        lambda d, word=_word: draw_statistics(d, word),
        call_and_running(_f),
        lambda *inputs, oracle=_oracle, word=_word, **params: oracle(
            *inputs, eps=params["eps"], momentum=params["momentum"], own=params[word]
        ),
        gradient=False,
        tolerance=8,
        repeats=False,
        dtypes=WIDE,
    )


def reduced(loss, reduction):
    return {"mean": jnp.mean, "sum": jnp.sum, "none": lambda v: v}[reduction](loss)


def draw_reduction(d):
    return {"reduction": d.choice(["mean", "sum", "none"])}


def of_difference(name, theirs, parameter=None, kinks=(0,)):
    """Losses of input - target, apart from their kinks."""

    def draw(d):
        shape = d.shape()
        params = draw_reduction(d)
        edge = ()
        if parameter:
            params[parameter] = d.number(0.3, 1.5)
            edge = (params[parameter], -params[parameter])
        target = d.values(shape)
        return Call([d.rounded(target + d.away_from([*kinks, *edge], shape)), target], params)

    def oracle(x, target, reduction, **params):
        return reduced(theirs(x - target, **params), reduction)

    TABLE[name] = Entry(draw, getattr(F, name), oracle, cases=16, tolerance=2, repeats=False)


def huber(x, delta):
    a = jnp.abs(x)
    return jnp.where(a <= delta, 0.5 * x * x, delta * (a - 0.5 * delta))


of_difference("mse_loss", jnp.square, kinks=())
of_difference("l1_loss", jnp.abs)
of_difference("smooth_l1_loss", lambda x, beta: huber(x, beta) / beta, "beta")
of_difference("huber_loss", huber, "delta")


def draw_bce(d):
    shape = d.shape()
    params = draw_reduction(d)
    weight = d.values(d.broadcast_to(shape), 0.2, 2) if d.flag() else None
    return shape, weight, params


def draw_probabilities(d):
    shape, weight, params = draw_bce(d)
    return Call([d.values(shape, 0.05, 0.95), d.values(shape, 0, 1), weight], params)


def jax_bce(x, target, weight, reduction):
    loss = -(target * jnp.log(x) + (1 - target) * jnp.log(1 - x))
    return reduced(loss if weight is None else loss * weight, reduction)


TABLE["binary_cross_entropy"] = Entry(
    draw_probabilities, F.binary_cross_entropy, jax_bce, tolerance=4
)


def draw_logits(d):
    shape, weight, params = draw_bce(d)
    positive = d.values(d.broadcast_to(shape), 0.2, 2) if d.flag() else None
    return Call([d.values(shape, -4, 4), d.values(shape, 0, 1), weight, positive], params)


def jax_bce_logits(x, target, weight, positive, reduction):
    scale = 1 if positive is None else positive
    loss = -(scale * target * jax.nn.log_sigmoid(x) + (1 - target) * jax.nn.log_sigmoid(-x))
    return reduced(loss if weight is None else loss * weight, reduction)


TABLE["binary_cross_entropy_with_logits"] = Entry(
    draw_logits,
    lambda x, target, weight, positive, reduction: F.binary_cross_entropy_with_logits(
        x, target, weight, pos_weight=positive, reduction=reduction
    ),
    jax_bce_logits,
    tolerance=4,
)


def draw_kl(d):
    shape = d.shape(min_rank=1)
    log_target = d.flag()
    target = d.values(shape, -3, -0.1) if log_target else d.values(shape, 0.1, 1)
    params = {"reduction": d.choice(["mean", "sum", "none", "batchmean"]), "log_target": log_target}
    return Call([d.values(shape, -3, -0.1), target], params)


def jax_kl(x, target, reduction, log_target):
    loss = jnp.exp(target) * (target - x) if log_target else target * (jnp.log(target) - x)
    return loss.sum() / x.shape[0] if reduction == "batchmean" else reduced(loss, reduction)


TABLE["kl_div"] = Entry(draw_kl, F.kl_div, jax_kl, tolerance=4)


def draw_classes(d):
    """(N, C, …) or (C), targets, class weights, and some targets to ignore."""
    c = d.integer(2, 5)
    batch = d.shape(1) + d.shape(max_rank=2) if d.flag(0.85) else ()
    shape = (batch[0], c, *batch[1:]) if batch else (c,)
    target = np.asarray(d.indices(batch, c))
    ignore = d.choice([-100, 0])
    if ignore == -100 and batch:
        target = np.where(d.rng.random(batch) < 0.2, ignore, target)
    if (target == ignore).all():
        target = np.full_like(target, 1)
    weight = d.values((c,), 0.3, 2) if d.flag() else None
    return shape, target, weight, {"ignore_index": ignore, **draw_reduction(d)}


def class_losses(log_p, target, weight, ignore_index, reduction, smoothing=0.0):
    axis = 1 if log_p.ndim > 1 else 0
    kept = target != ignore_index
    hot = jax.nn.one_hot(np.where(kept, target, 0), log_p.shape[axis], axis=axis)
    w = jnp.ones(log_p.shape[axis]) if weight is None else weight
    w = w if axis == 0 else per_channel(w, log_p)
    each = -jnp.sum(hot * w * log_p, axis) * (1 - smoothing)
    each = each - jnp.sum(w * log_p, axis) * smoothing / log_p.shape[axis]
    each = jnp.where(kept, each, 0)
    if reduction != "mean":
        return reduced(each, reduction)
    return each.sum() / (jnp.sum(hot * w, axis) * kept).sum()


def draw_nll(d):
    shape, target, weight, params = draw_classes(d)
    return Call([d.values(shape, -3, 0), target, weight], params)


TABLE["nll_loss"] = Entry(draw_nll, F.nll_loss, class_losses, cases=32, tolerance=4)


def draw_cross_entropy(d):
    shape, target, weight, params = draw_classes(d)
    params["label_smoothing"] = d.choice([0.0, 0.1, 0.3])
    return Call([d.values(shape, -3, 3), target, weight], params)


def jax_cross_entropy(x, target, weight, ignore_index, reduction, label_smoothing):
    log_p = jax.nn.log_softmax(x, 1 if x.ndim > 1 else 0)
    return class_losses(log_p, target, weight, ignore_index, reduction, label_smoothing)


TABLE["cross_entropy"] = Entry(
    draw_cross_entropy, F.cross_entropy, jax_cross_entropy, cases=48, tolerance=4
)


def draw_soft_targets(d):
    shape, _, weight, params = draw_classes(d)
    axis = 1 if len(shape) > 1 else 0
    p = d.rng.uniform(0.1, 1, shape)
    target = d.rounded(p / p.sum(axis, keepdims=True))
    del params["ignore_index"]
    params["label_smoothing"] = d.choice([0.0, 0.2])
    return Call([d.values(shape, -3, 3), target, weight], params)


def jax_soft_targets(x, target, weight, reduction, label_smoothing):
    axis = 1 if x.ndim > 1 else 0
    target = target * (1 - label_smoothing) + label_smoothing / x.shape[axis]
    log_p = jax.nn.log_softmax(x, axis)
    if weight is not None:
        log_p = log_p * (per_channel(weight, x) if axis else weight)
    each = -jnp.sum(target * log_p, axis)
    return reduced(each, reduction)


TABLE["cross_entropy of probabilities"] = Entry(
    draw_soft_targets, F.cross_entropy, jax_soft_targets, tolerance=4
)


def draw_cosine(d):
    shape = d.shape(min_rank=1, low=2)
    return Call([d.values(shape, 0.2, 2), d.values(shape)], {"dim": d.axis(len(shape))})


def cosine(a, b, dim):
    def norm(v):
        return jnp.sqrt(jnp.sum(v * v, dim))

    return jnp.sum(a * b, dim) / (norm(a) * norm(b))


TABLE["cosine_similarity"] = Entry(draw_cosine, F.cosine_similarity, cosine, tolerance=4)


def signs(d, shape):
    """Targets of 1 and -1."""
    return d.rng.choice([-1, 1], shape).astype(np.int64)


def with_target(ours):
    """Targets are of the input's dtype and have no gradient."""
    return lambda *inputs, **params: ours(*inputs[:-1], inputs[-1].to(inputs[0].dtype), **params)


def draw_cosine_embedding(d):
    shape = d.shape(2, low=2) if d.flag(0.8) else d.shape(1, low=2)
    params = {"margin": d.number(-0.5, 0.5), **draw_reduction(d)}
    return Call([d.values(shape, 0.2, 2), d.values(shape), signs(d, shape[:-1])], params)


def jax_cosine_embedding(a, b, target, margin, reduction):
    """With what PyTorch adds to the squares of the lengths: short vectors' gradients show it."""

    def square(v):
        return jnp.sum(v * v, -1) + 1e-12

    cos = jnp.sum(a * b, -1) / jnp.sqrt(square(a) * square(b))
    return reduced(jnp.where(target == 1, 1 - cos, jnp.maximum(0, cos - margin)), reduction)


TABLE["cosine_embedding_loss"] = Entry(
    draw_cosine_embedding, with_target(F.cosine_embedding_loss), jax_cosine_embedding, tolerance=4
)


def draw_ranking(d):
    shape = d.shape()
    params = {"margin": d.number(0, 0.5), **draw_reduction(d)}
    return Call([d.values(shape), d.values(shape), signs(d, shape)], params)


TABLE["margin_ranking_loss"] = Entry(
    draw_ranking,
    with_target(F.margin_ranking_loss),
    lambda a, b, target, margin, reduction: reduced(
        jnp.maximum(0, margin - target * (a - b)), reduction
    ),
    cases=16,
)


def draw_hinge(d):
    shape = d.shape()
    params = {"margin": d.number(0.5, 1.5), **draw_reduction(d)}
    return Call([d.values(shape), signs(d, shape)], params)


TABLE["hinge_embedding_loss"] = Entry(
    draw_hinge,
    with_target(F.hinge_embedding_loss),
    lambda x, target, margin, reduction: reduced(
        jnp.where(target == 1, x, jnp.maximum(0, margin - x)), reduction
    ),
    cases=16,
)
TABLE["soft_margin_loss"] = Entry(
    lambda d: Call([d.values(s := d.shape()), signs(d, s)], draw_reduction(d)),
    with_target(F.soft_margin_loss),
    lambda x, target, reduction: reduced(jax.nn.softplus(-target * x), reduction),
    cases=16,
)


def draw_triplet(d):
    shape = d.shape(2, low=2)
    params = {
        "margin": d.number(0.5, 2),
        "p": d.choice([1.0, 2.0, 3.0]),
        "swap": d.flag(),
        **draw_reduction(d),
    }
    return Call([d.values(shape) for _ in range(3)], params)


def jax_triplet(anchor, positive, negative, margin, p, swap, reduction):
    def distance(a, b):
        return jnp.sum(jnp.abs(a - b + 1e-6) ** p, -1) ** (1 / p)

    away = distance(anchor, negative)
    if swap:
        away = jnp.minimum(away, distance(positive, negative))
    return reduced(jnp.maximum(0, distance(anchor, positive) - away + margin), reduction)


TABLE["triplet_margin_loss"] = Entry(
    draw_triplet,
    F.triplet_margin_loss,
    jax_triplet,
    dtypes=WIDE,
    tolerance=4,
    repeats=False,
)
