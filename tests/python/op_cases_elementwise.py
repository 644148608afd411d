"""The cases of op_cases.py for elementwise functions and operators, and for odd numbers."""

from op_calls import Draw, between, bools, case, fixed, integers, normal

X = normal(3, 4)
FIXED = fixed(X)
ROW = normal(4)
COLUMN = normal(3, 1)
UNIT = between(0.05, 0.95, 3, 4)
POSITIVE = between(0.3, 3.0, 3, 4)
WHOLE = integers(-9, 9, 3, 4)
NATURAL = integers(1, 7, 3, 4)
SHORT = integers(-9, 9, 3, 4, dtype="int32")
BYTES = integers(0, 200, 3, 4, dtype="uint8")
MASK = bools(3, 4)
ODD, ODD_COLUMN = Draw("odd", (12,)), Draw("odd", (12, 1))
LINE, IMAGE, VOLUME = normal(2, 4, 9), normal(2, 4, 6, 5), normal(2, 4, 4, 5, 3)

# Elementwise, of one tensor.
for _name in [
    *("abs", "asinh", "atan", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1"),
    *("floor", "absolute", "nan_to_num", "negative"),
    *("neg", "relu", "round", "sigmoid", "sign", "sin", "sinh", "square", "tanh", "trunc"),
    *("elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish"),
    *("relu6", "selu", "silu", "softplus", "softsign", "tanhshrink"),
    *("celu", "glu", "hardshrink", "softshrink"),
    *("__abs__", "__neg__", "__pos__", "clone", "contiguous", "detach"),
]:
    case(_name, X)
for _name in ("log", "log10", "log2", "reciprocal", "rsqrt", "sqrt"):
    case(_name, POSITIVE)
for _name in ("acos", "asin", "atanh", "log1p", "tan"):
    case(_name, between(-0.9, 0.9, 3, 4))
case("acosh", between(1.2, 3.0, 3, 4))
for _name in ("abs", "neg", "sign", "square", "relu", "bitwise_not", "__invert__", "logical_not"):
    case(_name, WHOLE)
for _name in ("absolute", "negative", "nan_to_num"):
    case(_name, WHOLE)
for _name in ("exp", "sqrt", "sigmoid", "reciprocal", "log1p"):
    case(_name, NATURAL)
for _name in ("isnan", "isinf", "isfinite", "logical_not", "signbit"):
    case(_name, ODD)
case("round", fixed(between(-3.0, 3.0, 3, 4)))
case("logical_not", MASK)
case("__invert__", MASK)
case("bitwise_not", MASK)
case("celu", X, alpha=0.7)
case("elu", X, alpha=0.7)
case("gelu", X, approximate="tanh")
case("glu", normal(2, 4, 3), dim=1)
case("hardshrink", X, lambd=0.8)
case("softshrink", X, lambd=0.8)
case("threshold", X, 0.1, -0.5)
case("threshold", X, threshold=0.4, value=2.0)
case("hardtanh", X, min_val=-0.5, max_val=0.8)
case("leaky_relu", X, negative_slope=0.2)
case("softplus", X, beta=2.0, threshold=1.0)
case("prelu", IMAGE, ROW)
case("prelu", X, normal(1))
# Not inplace=True: mica leaves the input alone.
for _name in ("relu", "relu6", "selu", "silu", "mish", "hardswish", "hardsigmoid"):
    case(f"F.{_name}", X, inplace=False)
for _name in ("celu", "elu", "leaky_relu"):
    case(f"F.{_name}", X, 0.3, inplace=False)
case("F.hardtanh", X, -0.5, 0.8, inplace=False)
case("F.threshold", X, 0.1, -0.5, inplace=False)

# Elementwise, of two.
for _name in ("add", "sub", "mul", "atan2", "maximum", "minimum", "max", "min"):
    case(_name, X, X)
for _name in ("subtract", "multiply", "hypot", "logaddexp"):
    case(_name, X, X)
for _name in ("add", "sub", "mul", "atan2", "maximum", "minimum", "hypot", "logaddexp"):
    case(_name, COLUMN, ROW)
for _name in ("add", "sub", "mul", "maximum", "minimum", "floor_divide", "remainder"):
    case(_name, WHOLE, NATURAL)
    case(_name, SHORT, fixed(ROW))
for _name in ("add", "sub", "mul"):
    case(_name, X, 1.5)
    case(_name, WHOLE, 3)
    case(_name, WHOLE, 0.5)
    case(_name, BYTES, BYTES)
    case(_name, SHORT, WHOLE)
for _name in ("subtract", "multiply"):
    case(_name, X, 1.5)
    case(_name, WHOLE, 3)
    case(_name, SHORT, ROW)
for _name in ("div", "divide", "true_divide"):
    case(_name, X, POSITIVE)
    case(_name, WHOLE, NATURAL)
    case(_name, WHOLE, 4)
    case(_name, X, 3.0)
for _name in ("remainder", "fmod"):
    case(_name, X, POSITIVE)
    case(_name, X, 0.7)
case("fmod", X, between(-2.0, -0.5, 4))
case("fmod", WHOLE, NATURAL)
case("fmod", WHOLE, 2.5)
case("xlogy", X, POSITIVE)
case("xlogy", COLUMN, between(0.3, 3.0, 4))
case("xlogy", integers(0, 2, 3, 4), integers(0, 3, 4))
case("floor_divide", FIXED, fixed(POSITIVE))  # no gradient in PyTorch, 0 in mica
case("floor_divide", FIXED, 0.7)
for _name in ("remainder", "fmod", "floor_divide"):
    case(_name, WHOLE, 4)
case("pow", POSITIVE, X)
case("pow", X, 3.0)
case("pow", POSITIVE, -0.5)
case("mica.pow", 2.0, X)
case("pow", WHOLE, integers(0, 4, 4))
case("pow", WHOLE, 2)
case("lerp", X, X, UNIT)
case("lerp", X, ROW, 0.3)
case("addcmul", X, ROW, COLUMN)
case("addcmul", X, X, X, value=-0.5)
case("addcmul", WHOLE, WHOLE, NATURAL, value=2)
case("addcdiv", X, COLUMN, between(0.3, 3.0, 4))
case("addcdiv", X, X, POSITIVE, value=1.5)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    case(_name, X, ROW)
    case(_name, WHOLE, WHOLE)
    case(_name, integers(0, 3, 3, 4), 1)
    case(_name, integers(0, 3, 3, 4), integers(0, 3, 4, dtype="int32"))
    case(f"__{_name}__", integers(0, 3, 3, 4), integers(0, 3, 4))
    case(f"__{_name}__", X, 0.5)
for _name in ("not_equal", "less", "less_equal", "greater", "greater_equal"):
    case(_name, X, ROW)
    case(_name, integers(0, 3, 3, 4), integers(0, 3, 4))
    case(_name, integers(0, 3, 3, 4), 1)
case("isclose", X, ROW, rtol=0.2, atol=0.3)
case("isclose", integers(0, 3, 3, 4), integers(0, 3, 4))
case("isclose", WHOLE, WHOLE, 0.1, 4.0)
case("isclose", MASK, MASK)
case("isclose", ODD, ODD, equal_nan=True)  # PyTorch cannot broadcast there
case("allclose", X, X)
case("allclose", UNIT, UNIT, rtol=0.0, atol=1.0)
case("allclose", ODD, ODD)
case("allclose", ODD, ODD, equal_nan=True)
case("equal", X, X)
case("equal", X, ROW)
case("equal", integers(3, 4, 5), integers(3, 4, 5))
for _name in ("logical_and", "logical_or", "logical_xor"):
    case(_name, MASK, bools(4))
    case(_name, integers(0, 2, 3, 4), X)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    case(_name, MASK, bools(4))
    case(_name, WHOLE, WHOLE)
for _name in ("bitwise_left_shift", "bitwise_right_shift"):
    case(_name, WHOLE, integers(0, 5, 4))
case("mica.where", MASK, X, ROW)  # the method has another order
case("Tensor.where", X, MASK, ROW)
case("mica.where", MASK, X, 0.5)
case("mica.where", bools(4), 2.0, X)
case("mica.where", MASK, WHOLE, X)
for _name in ("clamp", "clip"):
    case(_name, X, -0.5, 0.8)
    case(_name, X, min=0.1)
    case(_name, X, max=0.1)
    case(_name, WHOLE, -3, 4)
    case(_name, X, between(-1.0, -0.2, 4), between(0.2, 1.0, 4))
for _name in ("clamp_min", "clamp_max"):
    case(_name, X, 0.1)
    case(_name, X, ROW)
    case(_name, WHOLE, 2)
case("masked_fill", X, bools(4), 2.5)
case("masked_fill", X, MASK, normal())
case("masked_fill", WHOLE, MASK, 3)

# Operators, with numbers on either side, and in place.
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _left, _right = POSITIVE if _name == "pow" else X, POSITIVE
    if _name in ("floordiv", "mod"):
        _left, _right = fixed(_left), fixed(_right)
    case(f"__{_name}__", _left, _right)
    case(f"__{_name}__", _left, 2.0)
    case(f"__r{_name}__", _right, 1.7)
    case(f"__i{_name}__", _left, _right)
    case(f"__i{_name}__", _left, 1.3)
    case(f"__{_name}__", WHOLE, 2)
    case(f"__r{_name}__", NATURAL, 9)
for _name in ("and", "or", "xor", "lshift", "rshift"):
    case(f"__{_name}__", WHOLE, integers(0, 4, 4))
    case(f"__{_name}__", WHOLE, 2)
    case(f"__r{_name}__", integers(0, 4, 3, 4), 9)
    case(f"__i{_name}__", WHOLE, integers(0, 4, 4))
for _name in ("and", "or", "xor"):
    case(f"__{_name}__", MASK, bools(4))
for _name in ("add_", "sub_", "mul_", "div_", "floor_divide_", "fmod_", "remainder_"):
    case(_name, FIXED, fixed(between(0.5, 2.0, 4)))
    case(_name, FIXED, 1.5)
    if _name != "div_":
        case(_name, WHOLE, 3)
case("copysign", X, fixed(ROW))
case("copysign", X, -2.0)
case("copysign_", FIXED, fixed(ROW))
case("pow_", fixed(POSITIVE), fixed(ROW))
case("pow_", FIXED, 3.0)
case("pow_", WHOLE, 2)
for _name in [
    *("abs_", "ceil_", "cos_", "erf_", "exp_", "floor_", "neg_", "relu_", "round_", "sigmoid_"),
    *("sign_", "sin_", "square_", "tanh_", "trunc_"),
]:
    case(_name, FIXED)
for _name in ("log_", "reciprocal_", "rsqrt_", "sqrt_"):
    case(_name, fixed(POSITIVE))
for _name in ("abs_", "neg_", "relu_", "sign_", "square_"):
    case(_name, WHOLE)
for _name in ("clamp_", "clip_"):
    case(_name, FIXED, -0.5, 0.8)
    case(_name, FIXED, max=0.1)
    case(_name, FIXED, fixed(between(-1.0, -0.2, 4)), fixed(between(0.2, 1.0, 4)))
    case(_name, WHOLE, -3, 4)
for _name in ("clamp_min_", "clamp_max_"):
    case(_name, FIXED, 0.1)
    case(_name, FIXED, fixed(ROW))
case("lerp_", FIXED, fixed(ROW), 0.3)
case("addcmul_", FIXED, fixed(ROW), fixed(COLUMN), value=0.5)
case("addcdiv_", FIXED, fixed(COLUMN), fixed(between(0.3, 3.0, 4)), value=0.5)
case("masked_fill_", FIXED, bools(4), 2.5)
case("masked_fill_", WHOLE, MASK, 3)
case("detach_", X, then=lambda r: [r, r.is_leaf])
case("copy_", FIXED, fixed(ROW))
case("copy_", FIXED, WHOLE)
case("copy_", WHOLE, fixed(X, "float64"))
case("fill_", FIXED, 2.5)
case("zero_", FIXED)

# A number beside integers or bools is of its own kind where theirs does not hold it.
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    case(f"__{_name}__", WHOLE, 2.0)
    case(f"__r{_name}__", NATURAL, 9.0)
for _name in ("add", "mul", "truediv"):
    for _number in (1, 2.0, 0.5):
        case(f"__{_name}__", MASK, _number)
for _name in ("radd", "rmul"):
    case(f"__{_name}__", MASK, 3)
case("add", MASK, 1)
case("mul", BYTES, 2.0)
case("__add__", BYTES, 1)
case("__mul__", MASK, WHOLE)
case("multiply", WHOLE, 2.0)
case("pow", WHOLE, 2.0)
case("remainder", MASK, 2)
case("fmod", WHOLE, 2.0)
case("__eq__", MASK, 1)
case("__gt__", MASK, 0.5)

# Infinities, NaN, zeros and halves, and no elements at all. Not sign, which is 0 for NaN in
# PyTorch, nor gelu and hardswish, which are NaN at infinities there.
for _name in [
    *("abs", "asinh", "atan", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "neg"),
    *("relu", "round", "sigmoid", "sin", "sinh", "square", "tan", "tanh", "trunc", "acosh"),
    *("log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sqrt", "acos", "asin", "atanh"),
    *("celu", "elu", "hardshrink", "hardsigmoid", "hardtanh", "leaky_relu", "logsigmoid", "mish"),
    *("relu6", "selu", "silu", "softplus", "softshrink", "softsign", "tanhshrink"),
    *("amax", "amin", "argmax", "argmin", "max", "min", "sum", "prod", "logsumexp", "sort"),
    *("argsort", "unique", "nonzero", "count_nonzero", "all", "any", "cumsum", "cumprod"),
    *("diff", "median", "norm", "softmax", "var"),
]:
    _dim = {"dim": 0} if _name in ("logsumexp", "cumsum", "cumprod", "softmax") else {}
    case(_name, ODD, **_dim)
for _name in [
    *("add", "sub", "mul", "div", "pow", "atan2", "maximum", "minimum", "remainder"),
    *("floor_divide", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_xor"),
    *("fmod", "hypot", "isclose", "logaddexp", "xlogy"),
]:
    case(_name, ODD, ODD_COLUMN)
case("max", ODD_COLUMN, 0)
case("median", ODD_COLUMN, 0)
case("median", ODD_COLUMN, 1)
case("topk", ODD, 3)
case("nan_to_num", ODD, then=lambda r: r.clamp(-9.0, 9.0))
case("nan_to_num", ODD, nan=0.5, posinf=7.0, neginf=-6.0)
case("nan_to_num_", ODD, 1.5, 2.5, -2.5)
case("threshold", ODD, 0.5, 7.0)
case("clamp", ODD, -1.0, 1.0)
case("clamp", ODD, 1.0, -1.0)
case("Tensor.bool", ODD)
for _name in ("remainder", "fmod", "floor_divide"):
    case(_name, WHOLE, integers(-5, 0, 4))
case("pow", integers(2, 4, 3), integers(-2, 3, 3))
case("neg", BYTES)
case("sum", BYTES)
case("bitwise_not", BYTES)
for _name in ("sum", "prod", "mean", "std", "norm", "all", "any"):
    case(_name, fixed(normal(0)))
    if _name in ("sum", "mean", "all"):
        case(_name, fixed(normal(2, 0, 3)), dim=1)
case("var", fixed(normal(1)))
case("matmul", normal(2, 0), normal(0, 3))
case("cat", [normal(0, 4), X])
case("sort", fixed(normal(0)))
