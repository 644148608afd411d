"""The cases of op_cases.py for what Python composes (python/mica/_composed)."""

import math

from op_calls import Draw, between, case, fixed, integers, normal, permuted
from op_cases_tensor import CUBE, MASK, NATURAL, ROW, WHOLE, X

ODD = fixed(Draw("odd", (3, 4)))
WIDE = normal(4, 7)
UNIT = between(0.05, 0.95, 3, 4)
ABOVE = between(1.1, 3.0, 3, 4)
FIXED = fixed(X)
INDEX = integers(0, 3, 2, 4)
SQUARE = normal(4, 4)

# Of each element.
for _name in ("deg2rad", "rad2deg", "frac", "positive", "sinc"):
    case(_name, X)
case("sgn", fixed(X))
for _name in ("isneginf", "isposinf", "isreal"):
    case(_name, ODD)
for _name in ("arccos", "arcsin", "arctanh"):
    case(_name, between(-0.9, 0.9, 3, 4))
for _name in ("arcsinh", "arctan", "fix"):
    case(_name, X)
case("arccosh", ABOVE)
case("arctan2", X, normal(3, 4))
case("sinc", fixed(Draw("odd", (3, 4)))._replace(kind="signs"))
case("float_power", ABOVE, 2)
case("float_power", ABOVE, normal(3, 4))
case("float_power", NATURAL, 2.5)
for _name in ("fmax", "fmin"):
    case(_name, X, normal(3, 4))
    case(_name, ODD, FIXED)
case("heaviside", FIXED, fixed(normal(3, 4)))
case("heaviside", ODD, fixed(normal(3, 4)))
case("ldexp", X, integers(-3, 4, 3, 4))
case("logaddexp2", X, normal(3, 4))
case("logit", UNIT)
case("logit", between(-0.5, 1.5, 3, 4), eps=0.1)
case("gcd", WHOLE, integers(-20, 20, 3, 4))
case("lcm", WHOLE, NATURAL)
case("frexp", FIXED)
case("frexp", ODD, then=lambda r: r[0])
case("rsub", X, normal(3, 4), alpha=2)
case("rsub", X, 3)
case("is_nonzero", fixed(normal()))
case("is_signed", WHOLE)
case("is_signed", MASK)
case("is_same_size", FIXED, fixed(normal(3, 4)))
case("scalar_tensor", 2.5)

# Shapes.
case("as_strided", X, (2, 3), (4, 1), 1)
case("as_strided", X, (3, 2), (1, 2))
case("Tensor.unfold", X, 1, 2, 1)
case("Tensor.unfold", CUBE, 0, 2, 1)
case("Tensor.unfold", WIDE, -1, 3, 2)
case("Tensor.sum_to_size", CUBE, (1, 4))
case("Tensor.sum_to_size", CUBE, (2, 3, 1))
for _how in (3, (1, 4), (2, 2, 6)):
    case("tensor_split", WIDE, _how, dim=1)
case("tensor_split", WIDE, 3)
case("hsplit", normal(3, 6), 3)
case("hsplit", normal(6), (1, 4))
case("vsplit", normal(4, 3), 2)
case("dsplit", normal(2, 3, 4), (1, 3))
case("column_stack", [ROW, normal(4, 2)])
case("row_stack", [ROW, normal(2, 4)])
for _k in (-1, 0, 1, 2, 3):
    case("rot90", CUBE, _k, (1, 2))
for _offset in (-1, 0, 2):
    case("diag_embed", X, _offset)
case("diag_embed", X, 1, 0, 2)
case("diag_embed", X, 1, 2, 0)
case("diagflat", ROW)
case("diagflat", X, 1)
case("block_diag", normal(2, 3), ROW, normal(1, 1))
case("broadcast_shapes", (3, 1), (4,), (2, 1, 1))
case("cartesian_prod", normal(2), normal(3))
case("combinations", ROW)
case("combinations", ROW, r=3)
case("combinations", ROW, with_replacement=True)
case("select_scatter", CUBE, normal(2, 4), 1, 2)
case("slice_scatter", CUBE, normal(2, 3, 2), dim=2, start=1, end=3)
case("slice_scatter", WIDE, normal(4, 3), dim=1, start=1, step=2)
case("diagonal_scatter", SQUARE, normal(3), 1)
case("narrow_copy", fixed(CUBE), 1, 1, 2)
case("take", X, integers(-3, 12, 2, 3))
case("put", X, integers(0, 6, 3), normal(3), accumulate=True)
case("put_", FIXED, integers(0, 12, 1), fixed(normal(1)))
case("tril_indices", 3, 4)
case("tril_indices", 4, 3, -1)
case("triu_indices", 3, 4, 1)
case("vander", fixed(ROW))
case("vander", fixed(ROW), 3, increasing=True)
case("unique_consecutive", integers(0, 2, 9))
case("unique_consecutive", integers(0, 2, 9), return_inverse=True, return_counts=True)
case("unique_consecutive", integers(0, 2, 6, 1), return_inverse=True, dim=0)
case("fill_diagonal_", FIXED, 5.0)
case("fill_diagonal_", fixed(normal(7, 3)), 2.0, wrap=True)

# Reductions, orders and counts.
case("aminmax", fixed(CUBE))
case("aminmax", fixed(CUBE), dim=1, keepdim=True)
case("nansum", CUBE, dim=1)
case("nansum", ODD._replace(kind="x"))
case("nanmean", CUBE, dim=(0, 2), keepdim=True)
case("nanmean", CUBE)
for _how in ("linear", "lower", "higher", "midpoint", "nearest"):
    case("quantile", CUBE, 0.3, dim=1, interpolation=_how)
    case("nanquantile", X, 0.7, dim=0, interpolation=_how)
case("quantile", CUBE, fixed(between(0, 1, 3)), dim=-1, keepdim=True)
case("quantile", X, 0.5)
case("nanmedian", X)
case("nanmedian", CUBE, 1)
case("nanmedian", CUBE, -1, keepdim=True)
case("kthvalue", permuted(3, 5), 2)
case("kthvalue", permuted(3, 5), 3, 0, keepdim=True)
case("mode", integers(0, 3, 4, 7), then=lambda r: r[0])
case("mode", integers(0, 3, 7, 4), 0, keepdim=True, then=lambda r: r[0])
case("msort", X)
for _name in ("cummax", "cummin"):
    case(_name, CUBE, 1)
    case(_name, integers(0, 3, 4, 6), -1)
case("logcumsumexp", CUBE, 1)
case("bincount", integers(0, 5, 9))
case("bincount", integers(0, 5, 9), fixed(normal(9)), minlength=7)
case("histc", FIXED, 4)
case("histc", FIXED, bins=5, min=-1, max=1)
case("histogram", FIXED, 4)
case("histogram", FIXED, 3, range=(-1.0, 1.0), density=True)
case("bucketize", FIXED, Draw("rising", (5,)))
case("bucketize", FIXED, Draw("rising", (5,)), right=True)
case("isin", integers(0, 9, 3, 4), integers(0, 9, 3))
case("isin", integers(0, 9, 3, 4), integers(0, 9, 3), invert=True)
for _name in ("sum", "mean", "prod", "amax", "amin"):
    for _self in (True, False):
        case("scatter_reduce", X, 0, INDEX, normal(2, 4), _name, include_self=_self)
for _name in ("mean", "prod", "amax", "amin"):
    case("index_reduce", X, 1, integers(0, 4, 5), normal(3, 5), _name)
case("cov", X)
case("cov", ROW)
case("cov", X, correction=0, fweights=integers(1, 4, 4))
case("cov", X, aweights=fixed(between(0.5, 1.5, 4)))
case("corrcoef", X)
case("trapezoid", X)
case("trapezoid", CUBE, dx=0.5, dim=1)
case("trapezoid", X, Draw("rising", (4,)))
case("trapz", X)
case("cumulative_trapezoid", X)
case("cumulative_trapezoid", X, Draw("rising", (4,)))

# Products, distances and series.
case("addbmm", normal(2, 4), normal(3, 2, 5), normal(3, 5, 4), beta=0.5, alpha=2)
case("addmv", normal(3), X, ROW, beta=2, alpha=0.5)
case("addr", X, normal(3), ROW)
case("addr", fixed(X), normal(3), ROW, beta=0.5, alpha=2)
case("vdot", ROW, normal(4))
case("ger", ROW, normal(3))
case("cross", normal(2, 3), normal(2, 3))
case("cross", normal(3, 2), normal(3, 2), dim=0)
case("kron", normal(2, 3), normal(2, 2))
case("kron", ROW, normal(2, 2))
case("matrix_power", fixed(SQUARE), 0)
for _n in (1, 3):
    case("matrix_power", SQUARE, _n)
case("chain_matmul", normal(2, 3), normal(3, 4), normal(4, 2))
for _p in (1.0, 2.0, 3.0, math.inf):
    case("dist", X, normal(3, 4), _p)
    case("cdist", normal(2, 5, 3), normal(2, 4, 3), p=_p)
    case("F.pdist", normal(5, 3), p=_p)
    case("renorm", X, _p, 0, 0.7)
case("frobenius_norm", CUBE, (0, 2), keepdim=True)
case("logspace", -1.0, 2.0, 5)
case("logspace", 0.0, 3.0, 4, base=2.0)
for _name in ("hann_window", "hamming_window", "blackman_window", "bartlett_window"):
    case(_name, 7)
    case(_name, 6, periodic=False)
case("kaiser_window", 7)
case("kaiser_window", 6, periodic=False, beta=5.0)
case("nuclear_norm", X)
case("conv_tbc", normal(6, 2, 3), normal(3, 3, 4), normal(4), 1)

# Methods that overwrite, and those that say how a tensor is.
for _name in [
    "acos_",
    "acosh_",
    "arccos_",
    "arccosh_",
    "arcsin_",
    "arcsinh_",
    "arctan_",
    "arctanh_",
    "asin_",
    "asinh_",
    "atan_",
    "atanh_",
    "cosh_",
    "deg2rad_",
    "exp2_",
    "expm1_",
    "fix_",
    "frac_",
    "log10_",
    "log1p_",
    "log2_",
    "logical_not_",
    "logit_",
    "rad2deg_",
    "sgn_",
    "sinc_",
    "sinh_",
    "tan_",
]:
    case(_name, fixed(UNIT if "cosh" not in _name or _name == "cosh_" else ABOVE))
for _name in [
    "arctan2_",
    "atan2_",
    "divide_",
    "eq_",
    "ge_",
    "greater_",
    "greater_equal_",
    "gt_",
    "heaviside_",
    "hypot_",
    "le_",
    "less_",
    "less_equal_",
    "logical_and_",
    "logical_or_",
    "logical_xor_",
    "lt_",
    "multiply_",
    "ne_",
    "not_equal_",
    "subtract_",
    "true_divide_",
    "xlogy_",
]:
    case(_name, fixed(UNIT), fixed(between(0.1, 2.0, 3, 4)))
for _name in [
    "bitwise_and_",
    "bitwise_left_shift_",
    "bitwise_or_",
    "bitwise_right_shift_",
    "bitwise_xor_",
    "gcd_",
    "lcm_",
]:
    case(_name, NATURAL, integers(1, 4, 3, 4))
case("bitwise_not_", WHOLE)
case("float_power_", fixed(ABOVE), 2)
case("ldexp_", FIXED, integers(-2, 3, 3, 4))
for _name in ("cumsum_", "cumprod_"):
    case(_name, FIXED, 1)
case("addbmm_", fixed(normal(2, 4)), fixed(normal(3, 2, 5)), fixed(normal(3, 5, 4)))
case("addmm_", fixed(normal(2, 4)), fixed(normal(2, 5)), fixed(normal(5, 4)), beta=0.5)
case("addmv_", fixed(normal(3)), FIXED, fixed(ROW))
case("addr_", FIXED, fixed(normal(3)), fixed(ROW))
case("baddbmm_", fixed(normal(3, 2, 4)), fixed(normal(3, 2, 5)), fixed(normal(3, 5, 4)))
case("index_reduce_", FIXED, 1, integers(0, 4, 5), fixed(normal(3, 5)), "amax")
case("scatter_reduce_", FIXED, 0, INDEX, fixed(normal(2, 4)), "sum")
case("renorm_", FIXED, 2.0, 0, 0.7)
case("squeeze_", fixed(normal(3, 1, 4)), 1)
case("unsqueeze_", FIXED, 1)
case("t_", FIXED)
case("transpose_", fixed(CUBE), 0, 2)
case("swapaxes_", fixed(CUBE), 0, 2)
case("swapdims_", fixed(CUBE), 1, 2)
case("resize_", FIXED, (2, 5))
case("resize_as_", FIXED, fixed(normal(6)))
case("set_", FIXED, fixed(normal(2)))
case("H", X)
case("mH", CUBE)
case("real", FIXED)
for _name in ("conj", "conj_physical", "resolve_conj", "resolve_neg"):
    case("Tensor." + _name, X)
for _name in ("is_conj", "is_neg", "is_inference", "is_shared"):
    case("Tensor." + _name, FIXED)
for _name in [
    "is_meta",
    "is_mkldnn",
    "is_mps",
    "is_quantized",
    "is_sparse",
    "is_sparse_csr",
    "is_xpu",
    "output_nr",
    "is_cpu",
]:
    case(_name, FIXED)
case("is_set_to", FIXED, FIXED)
case("split_with_sizes", WIDE, (2, 5), 1)
case("Tensor.prelu", X, normal(1))
case("Tensor.hardshrink", X, 0.7)
case("apply_", FIXED, abs)
case("map_", FIXED, fixed(normal(3, 4)), max)
case("Tensor.short", integers(-9, 9, 3, 4))
case("char", integers(-9, 9, 3, 4))

# Layers as functions.
IMAGE = permuted(2, 3, 6, 5)
for _axes, _x in ((1, permuted(2, 3, 9)), (2, IMAGE), (3, permuted(1, 2, 4, 5, 4))):
    case(f"max_pool{_axes}d_with_indices", _x, 2)
    case(f"max_pool{_axes}d_with_indices", _x, 3, 2, 1, ceil_mode=True)
    case(f"adaptive_max_pool{_axes}d_with_indices", _x, 2)
case("max_pool2d_with_indices", IMAGE, (3, 2), (1, 2), (1, 0), (2, 1))
case("bilinear", normal(5, 3), normal(5, 4), normal(2, 3, 4), normal(2))
for _mode in ("sum", "mean", "max"):
    case("embedding_bag", integers(0, 6, 4, 3), normal(6, 5), mode=_mode)
    case("embedding_bag", integers(0, 6, 7), normal(6, 5), integers(0, 1, 1), mode=_mode)
case("multilabel_margin_loss", normal(4, 5), integers(-1, 5, 4, 5))
case("multilabel_margin_loss", normal(5), integers(0, 5, 5), reduction="sum")
case("triplet_margin_with_distance_loss", normal(4, 5), normal(4, 5), normal(4, 5), swap=True)
case("upsample", normal(2, 3, 4, 5), scale_factor=2, mode="bilinear", align_corners=True)
case("upsample_nearest", normal(2, 3, 4, 5), (8, 5))
case("upsample_bilinear", normal(2, 3, 4, 5), scale_factor=2)
case("F.rrelu", X)
for _name in ("celu_", "elu_", "leaky_relu_", "selu_", "hardtanh_"):
    case("F." + _name, FIXED)
case("F.threshold_", FIXED, 0.1, 2.0)
case("F.rrelu_", FIXED)

# Special functions.
POSITIVE = between(0.1, 6.0, 3, 4)
for _name in ("lgamma", "digamma"):
    case(_name, POSITIVE)
    case(_name, between(-3.9, -3.1, 2, 5))
    case(_name + "_", fixed(POSITIVE))
case("lgamma", NATURAL)
case("erfinv", between(-0.95, 0.95, 3, 4))
case("erfinv_", fixed(between(-0.95, 0.95, 3, 4)))
case("erfinv", fixed(Draw("odd", (3, 4))))
case("mvlgamma", between(2.0, 6.0, 3, 4), 3)
case("mvlgamma_", fixed(between(2.0, 6.0, 3, 4)), 2)
case("Tensor.polygamma", between(0.5, 4.0, 3, 4), 2)
case("polygamma_", fixed(between(0.5, 4.0, 3, 4)), 1)

case("i0", between(-30.0, 30.0, 3, 8))
case("i0", NATURAL)
case("i0_", fixed(between(-30.0, 30.0, 3, 8)))


# Histograms of points, and what is nothing to numbers that are real and computed at once.
def flat(counts_and_edges):
    return [counts_and_edges[0], *counts_and_edges[1]]


POINTS = fixed(normal(9, 2))
for _bins in (3, [2, 3, 4]):
    case("histogramdd", fixed(normal(9, 3)), bins=_bins, then=flat)
case("histogramdd", POINTS, [4, 2], range=[-1.0, 1.0, -0.5, 2.0], density=True, then=flat)
case("histogramdd", POINTS, 3, weight=fixed(between(0.5, 2.0, 9)), then=flat)
for _size in (3, 20):
    case("nonzero_static", integers(0, 2, 3, 4), size=_size, fill_value=-7)
case("fill", X, 2.5)
for _name in ("real", "is_conj", "is_neg", "resolve_conj", "resolve_neg", "conj_physical"):
    case("mica." + _name, FIXED)

# Other shapes.
case("adjoint", CUBE)
case("detach", FIXED)
case("split_with_sizes", X, [1, 2], 0)
case("unravel_index", integers(0, 24, 5), (2, 3, 4))
case("as_strided_scatter", FIXED, normal(2, 2), (2, 2), (4, 1), 1)
case("gradient", X)
case("gradient", WIDE, spacing=0.5, dim=1, edge_order=2)
case("gradient", CUBE, spacing=[2.0, 3.0], dim=(0, 1))
