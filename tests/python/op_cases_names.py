"""The cases of op_cases.py for functions made of others, second names and writes in place."""

from op_calls import Draw, between, bools, case, fixed, integers, normal, permuted

X = normal(3, 4)
FIXED = fixed(X)
ROW = normal(4)
CUBE = normal(2, 3, 4)
POSITIVE = between(0.3, 3.0, 3, 4)
WHOLE = integers(-9, 9, 3, 4)
NATURAL = integers(1, 7, 3, 4)
MASK = bools(3, 4)
ODD, ODD_COLUMN = Draw("odd", (12,)), Draw("odd", (12, 1))

# Elementwise.
for _name in ("erfc", "absolute", "negative"):
    case(_name, X)
for _name in ("hypot", "logaddexp", "subtract", "multiply", "clamp_min", "clamp_max"):
    case(_name, X, ROW)
for _name in ("divide", "true_divide", "fmod", "xlogy"):
    case(_name, X, POSITIVE)
for _name in ("less", "less_equal", "greater", "greater_equal", "not_equal"):
    case(_name, NATURAL, 3)
    case(_name, FIXED, fixed(ROW))
for _name in ("isclose", "fmod", "hypot", "logaddexp", "xlogy"):
    case(_name, ODD, ODD_COLUMN)
case("fmod", X, 0.7)
case("fmod", WHOLE, NATURAL)
case("isclose", FIXED, fixed(ROW), rtol=0.5, atol=0.5)
case("isclose", ODD, ODD, equal_nan=True)
case("allclose", FIXED, FIXED, atol=9.0)
case("allclose", ODD, ODD)
case("equal", WHOLE, WHOLE)
case("equal", FIXED, fixed(ROW))
case("clamp_min", X, 0.1)
case("clamp_max", WHOLE, 2)
case("clip", X, -0.5, 0.8)
case("nan_to_num", X)
case("nan_to_num", ODD, nan=2.0, posinf=3.0, neginf=-4.0)
case("addcmul", X, ROW, X, value=0.5)
case("addcdiv", X, X, POSITIVE)

# Products.
case("mm", X, normal(4, 5))
case("bmm", CUBE, normal(2, 4, 5))
case("mv", X, ROW)
case("addmm", normal(5), X, normal(4, 5))
case("addmm", normal(3, 5), X, normal(4, 5), beta=0.5, alpha=2.0)
case("baddbmm", normal(2, 3, 5), CUBE, normal(2, 4, 5), beta=0.5)
case("tensordot", CUBE, normal(3, 4, 2))
case("tensordot", CUBE, X, dims=([2, 1], [1, 0]))
case("trace", X)
case("trace", WHOLE)
case("diag", X, 1)
case("diag", ROW)
case("diag", ROW, diagonal=-2)

# Reductions and order.
for _name in ("std_mean", "var_mean"):
    case(_name, CUBE)
    case(_name, CUBE, dim=(0, 2), correction=0, keepdim=True)
case("median", CUBE)
case("median", permuted(3, 6), 1)
case("median", permuted(3, 5), dim=0, keepdim=True)
case("diff", CUBE)
case("diff", CUBE, n=2, dim=1)
case("diff", X, dim=0, prepend=normal(1, 4), append=normal(2, 4))
case("diff", MASK)

# Shapes.
case("t", X)
case("t", ROW)
case("ravel", CUBE)
case("unflatten", CUBE, 2, (2, -1))
case("swapdims", CUBE, 0, 2)
case("moveaxis", CUBE, (0, 1), (-1, 0))
case("fliplr", CUBE)
case("flipud", CUBE)
case("concatenate", [X, X], dim=1)
for _name in ("hstack", "vstack", "dstack"):
    case(_name, [X, X])
    case(_name, [ROW, ROW])
for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    case(_name, ROW)
    case(_name, normal(), X)
    case(_name, [ROW, CUBE])

# Indexing.
case("index_fill", X, 1, integers(0, 4, 2), 1.5)
case("masked_scatter", X, MASK, normal(12))
case("argwhere", MASK)

# What a tensor tells of itself.
for _name in ("is_tensor", "is_complex", "ndimension"):
    case(_name, X)

# In place.
for _name in [
    *("abs_", "ceil_", "cos_", "erf_", "exp_", "floor_", "nan_to_num_", "neg_", "relu_", "round_"),
    *("sigmoid_", "sign_", "sin_", "square_", "tanh_", "tril_", "triu_", "trunc_", "detach_"),
]:
    case(_name, FIXED)
for _name in ("log_", "reciprocal_", "rsqrt_", "sqrt_"):
    case(_name, fixed(POSITIVE))
for _name in ("floor_divide_", "fmod_", "remainder_", "pow_"):
    case(_name, fixed(POSITIVE), 0.7)
for _name in ("clamp_", "clip_"):
    case(_name, FIXED, -0.5, 0.8)
case("clamp_min_", FIXED, 0.1)
case("clamp_max_", FIXED, 0.1)
case("lerp_", FIXED, fixed(ROW), 0.3)
case("addcmul_", FIXED, FIXED, fixed(ROW), value=0.5)
case("addcdiv_", FIXED, FIXED, fixed(POSITIVE))
case("masked_fill_", FIXED, MASK, 2.5)
case("masked_scatter_", FIXED, MASK, fixed(normal(12)))
case("index_add_", FIXED, 0, integers(0, 3, 5), fixed(normal(5, 4)))
case("index_copy_", FIXED, 0, integers(1, 2, 1), fixed(normal(1, 4)))
case("index_fill_", FIXED, 1, integers(0, 4, 2), 1.5)
case("index_put_", FIXED, (integers(2, 3, 1),), fixed(normal(1, 4)))
case("scatter_", FIXED, 1, integers(0, 4, 3, 2), 1.5)
case("scatter_add_", FIXED, 0, integers(0, 3, 2, 4), fixed(normal(2, 4)))
