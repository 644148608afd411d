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
    *("abs", "asinh", "atan", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor"),
    *("neg", "relu", "round", "sigmoid", "sign", "sin", "sinh", "square", "tanh", "trunc"),
    *("elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish"),
    *("relu6", "selu", "silu", "softplus", "softsign", "tanhshrink"),
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
for _name in ("exp", "sqrt", "sigmoid", "reciprocal", "log1p"):
    case(_name, NATURAL)
for _name in ("isnan", "isinf", "isfinite", "logical_not"):
    case(_name, ODD)
case("round", fixed(between(-3.0, 3.0, 3, 4)))
case("logical_not", MASK)
case("__invert__", MASK)
case("bitwise_not", MASK)
case("elu", X, alpha=0.7)
case("gelu", X, approximate="tanh")
case("hardtanh", X, min_val=-0.5, max_val=0.8)
case("leaky_relu", X, negative_slope=0.2)
case("softplus", X, beta=2.0, threshold=1.0)
case("prelu", IMAGE, ROW)
case("prelu", X, normal(1))

# Elementwise, of two.
for _name in ("add", "sub", "mul", "atan2", "maximum", "minimum", "max", "min"):
    case(_name, X, X)
for _name in ("add", "sub", "mul", "atan2", "maximum", "minimum"):
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
case("div", X, POSITIVE)
case("div", WHOLE, NATURAL)
case("div", WHOLE, 4)
case("div", X, 3.0)
case("remainder", X, POSITIVE)
case("remainder", X, 0.7)
case("floor_divide", FIXED, fixed(POSITIVE))  # no gradient in PyTorch, 0 in mica
case("floor_divide", FIXED, 0.7)
for _name in ("remainder", "floor_divide"):
    case(_name, WHOLE, 4)
case("pow", POSITIVE, X)
case("pow", X, 3.0)
case("pow", POSITIVE, -0.5)
case("mica.pow", 2.0, X)
case("pow", WHOLE, integers(0, 4, 4))
case("pow", WHOLE, 2)
case("lerp", X, X, UNIT)
case("lerp", X, ROW, 0.3)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    case(_name, X, ROW)
    case(_name, WHOLE, WHOLE)
    case(_name, integers(0, 3, 3, 4), 1)
    case(_name, integers(0, 3, 3, 4), integers(0, 3, 4, dtype="int32"))
    case(f"__{_name}__", integers(0, 3, 3, 4), integers(0, 3, 4))
    case(f"__{_name}__", X, 0.5)
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
case("clamp", X, -0.5, 0.8)
case("clamp", X, min=0.1)
case("clamp", X, max=0.1)
case("clamp", WHOLE, -3, 4)
case("clamp", X, between(-1.0, -0.2, 4), between(0.2, 1.0, 4))
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
for _name in ("add_", "sub_", "mul_", "div_"):
    case(_name, FIXED, fixed(between(0.5, 2.0, 4)))
    case(_name, FIXED, 1.5)
case("mul_", WHOLE, 3)
case("copy_", FIXED, fixed(ROW))
case("copy_", FIXED, WHOLE)
case("copy_", WHOLE, fixed(X, "float64"))
case("fill_", FIXED, 2.5)
case("zero_", FIXED)

# Infinities, NaN, zeros and halves, and no elements at all. Not sign, which is 0 for NaN in
# PyTorch, nor gelu and hardswish, which are NaN at infinities there.
for _name in [
    *("abs", "asinh", "atan", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "neg"),
    *("relu", "round", "sigmoid", "sin", "sinh", "square", "tan", "tanh", "trunc", "acosh"),
    *("log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sqrt", "acos", "asin", "atanh"),
    *("elu", "hardsigmoid", "hardtanh", "leaky_relu", "logsigmoid", "mish"),
    *("relu6", "selu", "silu", "softplus", "softsign", "tanhshrink"),
    *("amax", "amin", "argmax", "argmin", "max", "min", "sum", "prod", "logsumexp", "sort"),
    *("argsort", "unique", "nonzero", "count_nonzero", "all", "any", "cumsum", "cumprod"),
    *("norm", "softmax", "var"),
]:
    _dim = {"dim": 0} if _name in ("logsumexp", "cumsum", "cumprod", "softmax") else {}
    case(_name, ODD, **_dim)
for _name in [
    *("add", "sub", "mul", "div", "pow", "atan2", "maximum", "minimum", "remainder"),
    *("floor_divide", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_xor"),
]:
    case(_name, ODD, ODD_COLUMN)
case("max", ODD_COLUMN, 0)
case("topk", ODD, 3)
case("clamp", ODD, -1.0, 1.0)
case("clamp", ODD, 1.0, -1.0)
case("Tensor.bool", ODD)
for _name in ("remainder", "floor_divide"):
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
