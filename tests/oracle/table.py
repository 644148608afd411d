"""The one table: an operator's name, or that and a word on its arguments, to how it is compared."""

import re

import complex_matrices
import complex_numbers
import compositions
import elementwise
import indexing
import jax
import jax.scipy.special
import layers
import linear
import losses
import matrices
import mica
import reductions
import sampling
import shapes
import sparse_matrices
import transforms
import updates
from check import Call, Entry
from mica import _mica

FAMILIES = (elementwise, reductions, linear, layers, sampling, losses, shapes, indexing, updates)
FAMILIES = (*FAMILIES, compositions, matrices, sparse_matrices)
FAMILIES = (*FAMILIES, complex_numbers, transforms, complex_matrices)
TABLE = {name: entry for family in FAMILIES for name, entry in family.TABLE.items()}


def same_name_in_jax(name):
    for place in (jax.numpy, jax.nn, jax.scipy.special, jax.lax):
        if hasattr(place, name):
            return getattr(place, name)
    return None


# A smooth function of one tensor that JAX has under the same name needs no entry of its own.
for _function in _mica._functions():
    _name = _function["name"]
    if not _function["unary"] or _function["op"] != _name or _name in TABLE:
        continue
    if _theirs := same_name_in_jax(_name):
        _place = mica if "mica" in _function["places"] else mica.nn.functional
        TABLE[_name] = Entry(lambda d: Call([d.values(d.shape())]), getattr(_place, _name), _theirs)

# Operators without an entry, and why.
WITHOUT = {
    "rng_take": "counters of mica's own generator",
    "uniform": "random numbers of mica's own generator",
    "normal": "random numbers of mica's own generator",
    "randint": "random numbers of mica's own generator",
    "dropout": "random numbers of mica's own generator",
    "dropout1d": "random numbers of mica's own generator",
    "dropout2d": "random numbers of mica's own generator",
    "all_reduce": "between processes: tests/distributed",
    "all_gather": "between processes: tests/distributed",
    "reduce_scatter": "between processes: tests/distributed",
    "broadcast": "between processes: tests/distributed",
    "all_to_all": "between processes: tests/distributed",
    "send": "between processes: tests/distributed",
    "recv": "between processes: tests/distributed",
    "barrier": "between processes: tests/distributed",
    "collective_wait": "between processes: tests/distributed",
    "dropout3d": "random numbers of mica's own generator",
    "gumbel_softmax": "random numbers of mica's own generator",
    "bernoulli": "random numbers of mica's own generator",
    "multinomial": "random numbers of mica's own generator",
    "randperm": "random numbers of mica's own generator",
    "fused": "what compiled functions make of elementwise chains",
    **dict.fromkeys(
        (
            *("fused_reduce", "anchored", "conv2d_pool", "conv2d_pool_dgrad", "conv2d_pool_wgrad"),
            *("conv2d_batch_norm", "conv2d_dgrad_batch_norm_grad", "copies"),
            "max_pool2d_values",
            *("cross_entropy_with_grad", "linear_cross_entropy", "linear_cross_entropy_dgrad"),
            *("linear_sgd_update", "linear_adam_update", "linear_rmsprop_update"),
            "linear_adagrad_update",
        ),
        "what compiled functions make of ops that have entries; compared with those in its case",
    ),
    **dict.fromkeys(
        ("recurrent", "recurrent_grad", "lstm", "gru", "rnn_tanh", "rnn_relu", "ctc"),
        "held to PyTorch's values by test_recurrent.py",
    ),
    **dict.fromkeys(
        ("quantized_conv2d", "quantized_linear"), "what JAX has no function for; see its case"
    ),
    "nonzero_ends": "a part of nonzero",
    **dict.fromkeys(
        ("csr_check", "csr_coordinates", "csr_transpose", "coo_keys", "csr_product_ends"),
        "indices of sparse matrices; see its case",
    ),
    "csr_sampled_product": "compared as the gradient of csr_product",
    "lu_permutation": "a part of linalg.lu",
    "cofactor": "compared as the gradient of linalg.det",
    "fft_block": "compared as fft.fftn, fft.ifftn and fft.rfftn",
    "chunked_cross_entropy": "compared with linear and cross_entropy in its case",
    **dict.fromkeys(("attention", "attention_grad"), "compared as scaled_dot_product_attention"),
    "schedule_lr": "a part of an optimizer's step; compared in its own tests",
    "adam_update": "a step of an optimizer; compared in its own tests",
    "rmsprop_update": "a step of an optimizer; compared in its own tests",
    "adagrad_update": "a step of an optimizer; compared in its own tests",
    "adadelta_update": "a step of an optimizer; compared in its own tests",
    "adamax_update": "a step of an optimizer; compared in its own tests",
    "nadam_update": "a step of an optimizer; compared in its own tests",
    "radam_update": "a step of an optimizer; compared in its own tests",
    "lion_update": "a step of an optimizer; compared in its own tests",
    "ema_update": "averages of weights; compared in its own tests",
    "total_norm": "a part of clip_grad_norm_; compared in its own tests",
    "clip_by_norm": "a part of clip_grad_norm_; compared in its own tests",
    "clip_by_value": "a part of clip_grad_value_; compared in its own tests",
    "scale_tensors": "a part of GradScaler.unscale_; compared in its own tests",
}


def uncovered(operators=None):
    """What is missing. Gradients that are operators are compared through the ones they are of."""
    operators = operators or _mica._ops()
    entries = {}
    for name, entry in TABLE.items():
        entries.setdefault(name.split(" ")[0], []).append(entry)
    lines = []
    for op in operators:
        name = op["name"]
        base = re.sub("_[dw]?grad$", "", name)
        if base not in entries and name not in WITHOUT:
            lines.append(f"{name}: no entry in tests/oracle, and no reason in table.py why not")
        compared = any(e.compares_gradients for e in entries.get(name, ()))
        if name in entries and op["differentiable"] and not op["composite"] and not compared:
            lines.append(f"{name}: it has a gradient that no entry compares")
    known = {op["name"] for op in operators}
    extra = [name for name in (*entries, *WITHOUT) if name not in known]
    return lines + [f"{name}: in tests/oracle, but no operator" for name in extra]
