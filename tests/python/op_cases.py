"""Every function and method that PyTorch has too, with arguments that both are called with.

    PYTHONPATH=build/release/python python tests/python/op_cases.py torch

writes tests/golden/ops.json from PyTorch's results in float64; `mica` instead of `torch` writes
mica's. It holds a random projection of each output and gradient, as op_calls.py makes it.
"""

import functools
import importlib
import json
import sys
from pathlib import Path

import op_cases_composed  # noqa: F401
import op_cases_elementwise  # noqa: F401
import op_cases_linalg  # noqa: F401
import op_cases_nn  # noqa: F401
import op_cases_tensor  # noqa: F401
from mica import _mica
from op_calls import CASES, case, fixed, normal, project, run

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "ops.json"

# What has no case, and why.
LEFT_OUT = {
    "sparse tensors, which test_sparse.py holds to dense ones": (
        "sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor to_sparse to_sparse_csc "
        "to_sparse_csr"
    ),
    "operators of one's own": "load_ops op",
    "for writes of other libraries, in test_torch.py": "_note_write",
    "random, of other numbers than PyTorch's": (
        "alpha_dropout bernoulli bernoulli_ binomial cauchy_ dropout1d dropout2d dropout3d "
        "exponential_ feature_alpha_dropout fractional_max_pool2d "
        "fractional_max_pool2d_with_indices fractional_max_pool3d "
        "fractional_max_pool3d_with_indices geometric_ "
        "gumbel_softmax log_normal_ multinomial normal normal_ poisson rand rand_like randint "
        "randint_like randn randn_like random_ randperm uniform uniform_"
    ),
    "in test_complex.py and test_fft.py": (
        "angle complex imag istft polar stft view_as_complex view_as_real __complex__"
    ),
    "in test_recurrent.py": "ctc_loss gru lstm rnn_relu rnn_tanh",
    "not in PyTorch": (
        "allow_tf32 autotune chunked_cross_entropy clipped_relu "
        "conv_workspace_limit deterministic devices empty_cache "
        "force_kernel forced_kernel linear_scan memory_stats num_threads packed_attention "
        "pass_is_on passes reset_peak rng_state set_allow_tf32 set_autotune "
        "set_conv_workspace_limit set_deterministic set_memory_limit set_num_threads set_pass "
        "set_verbose_compile set_verbose_dispatch strides to_device verbose_compile "
        "verbose_dispatch __array_namespace__ __copy__ __divmod__"
    ),
    "a setting or a mode, not values": (
        "compile get_autocast_dtype get_num_threads is_autocast_enabled is_grad_enabled manual_seed"
    ),
    "gradients, which every case asks for": (
        "backward grad register_hook register_post_accumulate_grad_hook requires_grad_ retain_grad"
    ),
    "where memory is, and protocols on it": (
        "cuda data_ptr device get_device is_cuda is_pinned numpy pin_memory __array__ "
        "__array_ufunc__ __cuda_array_interface__ __dlpack__ __dlpack_device__"
    ),
    "told in words or by pickle": "dtype __format__ __setstate__ __module__",
    "files, with tests of their own": "load save",
    "told in words": "grad_fn layout type __signature__ _become",
    "of memory and streams": ("new_empty_strided record_stream share_memory_ to_dense is_nested"),
    "in test_composed.py, with the indices of pooling": "max_unpool1d max_unpool2d max_unpool3d",
    "in test_composed.py: their vectors may turn, and depend on random numbers": (
        "pca_lowrank svd_lowrank"
    ),
}

# Functions of one tensor need no case of their own.
_have = {c.name for c in CASES.values()} | {n for names in LEFT_OUT.values() for n in names.split()}
for _function in filter(lambda f: f["unary"], _mica._functions()):
    for _name in (_function["name"], *_function["second_names"]):
        if _name.rpartition(".")[2] not in _have:
            case(_name, normal(3, 4))
        if _function["in_place"] and _name + "_" not in _have:
            case(_name + "_", fixed(normal(3, 4)))

# Where PyTorch itself is less exact: a constant in the gradient is a float.
OF_TORCH = {"celu": 1e-7, "hardsigmoid": 1e-7}


def golden(library):
    made = {}
    for key, each in CASES.items():
        _, arrays, dtypes = next(run(library, key, each))
        made[key] = {
            label: float(f"{value:.10g}") for label, value in project(key, arrays, dtypes).items()
        }
    return made


def main():
    made = golden(importlib.import_module(sys.argv[1]))
    short = functools.partial(json.dumps, separators=(",", ":"))
    lines = [f"{short(key)}:{short(entry)}" for key, entry in made.items()]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
