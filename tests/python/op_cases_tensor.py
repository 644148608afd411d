"""The cases of op_cases.py for the other functions of mica and methods of Tensor."""

import itertools

import numpy as np
from op_calls import Device, Draw, Name, between, bools, case, fixed, integers, normal, permuted

X = normal(3, 4)
FIXED = fixed(X)
ROW = normal(4)
COLUMN = normal(3, 1)
CUBE = normal(2, 3, 4)
WHOLE = integers(-9, 9, 3, 4)
NATURAL = integers(1, 7, 3, 4)
SHORT = integers(-9, 9, 3, 4, dtype="int32")
MASK = bools(3, 4)
RISING = Draw("rising", (5,))
LINE, IMAGE, VOLUME = normal(2, 4, 9), normal(2, 4, 6, 5), normal(2, 4, 4, 5, 3)
DEVICE = Device()
F64, F32, F16, BF16 = Name("float64"), Name("float32"), Name("float16"), Name("bfloat16")
I64, I32, U8, BOOL = Name("int64"), Name("int32"), Name("uint8"), Name("bool")

# Reductions.
for _name in ("sum", "mean", "amax", "amin", "std", "var", "norm", "logsumexp"):
    for _dim in (None, 1, -1, (0, 2)):
        if _dim is not None or _name != "logsumexp":
            case(_name, CUBE, **({} if _dim is None else {"dim": _dim}))
    case(_name, CUBE, dim=(0, 1), keepdim=True)
for _name in ("sum", "prod"):
    case(_name, WHOLE)
    case(_name, NATURAL, dim=0)
    case(_name, MASK)
    case(_name, SHORT, dim=1, keepdim=True)
case("prod", CUBE)
case("prod", CUBE, dim=1)
case("prod", CUBE, dim=-1, keepdim=True)
case("std", CUBE, dim=1, correction=0)
case("var", CUBE, dim=(0, 2), correction=0, keepdim=True)
case("var", X, correction=2)
for _name in ("std_mean", "var_mean"):
    case(_name, CUBE)
    case(_name, CUBE, dim=1)
    case(_name, CUBE, dim=(0, 2), correction=0, keepdim=True)
for _p in (1.0, 3.0, float("inf"), -float("inf")):
    case("norm", CUBE, p=_p, dim=1)
case("norm", fixed(CUBE), p=0.0, dim=1)
for _name in ("max", "min"):
    case(_name, CUBE)
    case(_name, CUBE, 1)
    case(_name, CUBE, -1, keepdim=True)
    case(_name, WHOLE)
for _name in ("argmax", "argmin"):
    case(_name, CUBE)
    case(_name, CUBE, dim=1)
    case(_name, CUBE, dim=-1, keepdim=True)
# A tensor without axes has one element, along any axis.
for _dim in (0, -1):
    for _name in ("sum", "mean", "prod", "amax", "logsumexp", "argmin", "max", "sort", "cumsum",
                  "cumprod", "cummax", "median", "mode", "squeeze", "softmax"):  # fmt: skip
        case(_name, normal(), _dim)
    case("kthvalue", normal(), 1, _dim)
    case("topk", normal(), 1, _dim)
    case("transpose", normal(), 0, _dim)
    case("flip", normal(), (_dim,))
    case("argmax", normal(), _dim, keepdim=True)
for _name in ("all", "any"):
    case(_name, MASK)
    case(_name, MASK, dim=0)
    case(_name, bools(2, 3, 4), dim=(0, 2), keepdim=True)
    case(_name, integers(0, 2, 3, 4), dim=1)
    case(_name, fixed(X))
case("median", CUBE)
case("median", CUBE, 1)
case("median", CUBE, dim=-1, keepdim=True)
case("median", permuted(5, 3), dim=0)
case("median", WHOLE)
case("count_nonzero", integers(0, 2, 3, 4))
case("count_nonzero", bools(2, 3, 4), dim=(0, 2))
for _name in ("cumsum", "cumprod"):
    case(_name, CUBE, dim=1)
    case(_name, X, -1)
    case(_name, NATURAL, dim=0)
case("diff", X)
case("diff", CUBE, 2, 1)
case("diff", X, n=2, dim=0)
case("diff", X, prepend=normal(3, 1), append=normal(3, 2))
case("diff", WHOLE)
case("diff", MASK, dim=0)
for _name in ("softmax", "log_softmax", "softmin"):
    case(_name, CUBE, dim=1)
    case(_name, CUBE, -1)

# Order.
for _name in ("sort", "argsort"):
    case(_name, CUBE)
    case(_name, CUBE, dim=1, descending=True)
    case(_name, permuted(3, 5), 0)
case("sort", integers(-50, 50, 7))
case("topk", permuted(3, 6), 2)
case("topk", permuted(3, 6), 2, dim=0, largest=False)
case("unique", integers(0, 5, 3, 4))
case("unique", integers(0, 5, 3, 4), return_inverse=True, return_counts=True)
case("unique", fixed(permuted(5)), return_counts=True)
case("searchsorted", fixed(RISING), fixed(X))
case("searchsorted", integers(0, 1, 3), integers(-1, 2, 3, 4))
case("searchsorted", integers(0, 1, 3), integers(-1, 2, 3, 4), right=True)
for _name in ("nonzero", "argwhere"):
    case(_name, integers(0, 2, 3, 4))
    case(_name, MASK)

# Shapes.
case("reshape", X, (2, 6))
case("reshape", X, (-1, 3))
case("Tensor.reshape", X, 2, -1)
case("view", X, 2, 6)
case("view", X, (4, 3))
case("view_as", X, normal(2, 6))
case("reshape_as", X, normal(2, 6))
case("flatten", CUBE)
case("flatten", CUBE, start_dim=1)
case("flatten", CUBE, end_dim=1)
case("flatten", VOLUME, 1, -2)
case("ravel", CUBE)
case("unflatten", CUBE, 2, (2, 2))
case("unflatten", normal(6, 2), dim=0, sizes=(-1, 3))
case("permute", CUBE, (2, 0, 1))
case("Tensor.permute", CUBE, 1, 2, 0)
case("transpose", CUBE, 0, 2)
case("swapaxes", CUBE, 1, -1)
case("swapdims", CUBE, 1, -1)
for _name in ("movedim", "moveaxis"):
    case(_name, CUBE, 0, 2)
    case(_name, CUBE, (0, 1), (-1, 0))
case("t", X)
case("t", ROW)
case("T", X)
case("mT", CUBE)
case("squeeze", normal(1, 3, 1))
case("squeeze", normal(1, 3, 1), dim=0)
case("squeeze", normal(1, 3, 1), dim=(0, 2))
case("unsqueeze", X, 1)
case("unsqueeze", X, dim=-1)
case("expand", COLUMN, (2, 3, 4))
case("expand", COLUMN, (-1, 4))
case("Tensor.expand", COLUMN, 3, 4)
case("expand_as", COLUMN, X)
case("broadcast_to", ROW, (3, 4))
case("broadcast_tensors", COLUMN, ROW)
case("meshgrid", normal(3), ROW, indexing="ij")
case("meshgrid", normal(3), ROW, indexing="xy")
case("repeat", X, (2, 1, 3))
case("Tensor.repeat", X, 2, 3)
case("tile", X, (2,))
case("tile", X, (2, 1, 3))
case("repeat_interleave", X, 2)
case("repeat_interleave", X, 3, dim=0)
case("flip", CUBE, (0, 2))
case("Tensor.flip", CUBE, 1)
case("fliplr", CUBE)
case("flipud", CUBE)
case("roll", X, 2)
case("roll", CUBE, (1, -1), (0, 2))
for _name in ("tril", "triu"):
    case(_name, CUBE)
    case(_name, X, 1)
    case(_name, X, diagonal=-1)
for _name in ("tril_", "triu_"):
    case(_name, FIXED)
    case(_name, FIXED, diagonal=-1)
case("diag", ROW)
case("diag", ROW, -1)
case("diag", X, diagonal=1)
case("diag", WHOLE)
case("trace", X)
case("trace", WHOLE)
case("diagonal", X)
case("diagonal", CUBE, offset=1, dim1=1, dim2=2)
case("diagonal", CUBE, -1, 0, 2)
for _name in ("cat", "concat", "concatenate", "stack"):
    case(_name, [X, X], dim=0)
    case(_name, [X, X, X], dim=-1)
for _name in ("hstack", "vstack", "dstack"):
    case(_name, [ROW, ROW])
    case(_name, (X, X, X))
    case(_name, [CUBE, CUBE])
    case(_name, [normal(), normal()])
case("hstack", [ROW, integers(0, 9, 2)])
for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    case(_name, normal())
    case(_name, ROW)
    case(_name, X)
    case(_name, ROW, integers(0, 9))
    case(_name, [X, CUBE])
case("cat", [X, WHOLE])
case("chunk", normal(7, 2), 3)
case("chunk", CUBE, 2, dim=2)
case("split", normal(7, 2), 3)
case("split", CUBE, 2, dim=1)
case("unbind", X)
case("unbind", CUBE, dim=1)
case("narrow", CUBE, 1, 1, 2)
case("select", CUBE, 1, 2)

# Indexing.
for _key in (
    *(1, -1, slice(1, None), slice(None, None, 2), None, Ellipsis),
    *((0, 1), (slice(None), 1), (Ellipsis, -1), (slice(0, 2), None, slice(1, 3))),
    *(integers(0, 3, 5), (integers(0, 3, 2), integers(0, 4, 2)), (slice(None), integers(0, 4, 5))),
    *((integers(0, 3, 2, 1), integers(0, 4, 3)), MASK, bools(3), (0, bools(4)), [0, 2]),
):
    case("__getitem__", X, _key)
for _key in (1, slice(1, None), (Ellipsis, -1), (slice(0, 2), slice(1, None, 2)), MASK):
    case("__setitem__", FIXED, _key, 2.5)
case("__setitem__", FIXED, 1, fixed(ROW))
case("__setitem__", FIXED, (slice(None), 2), fixed(normal(3)))
case("__setitem__", FIXED, slice(0, 2), integers(0, 9, 4))
case("__setitem__", FIXED, [2, 0], fixed(normal(2, 4)))
case("__setitem__", WHOLE, (slice(None), 1), 7)
INDEX = integers(0, 3, 2, 4)
case("gather", X, 0, INDEX)
case("gather", CUBE, 2, integers(0, 4, 2, 3, 5))
case("take_along_dim", X, integers(0, 4, 3, 2), 1)
case("index_select", X, 0, integers(0, 3, 5))
case("index_select", CUBE, 2, integers(0, 4, 3))
case("index_add", X, 0, integers(0, 3, 5), normal(5, 4))
case("index_copy", X, 0, integers(1, 2, 1), normal(1, 4))
case("index_put", X, (integers(0, 3, 5), integers(0, 4, 5)), normal(5), accumulate=True)
case("index_put", X, (integers(2, 3, 1),), normal(1, 4))
case("scatter", X, 0, integers(1, 2, 1, 4), normal(1, 4))
case("scatter", X, 1, integers(0, 4, 3, 2), 1.5)
case("scatter_add", X, 0, INDEX, normal(2, 4))
case("index_fill", X, 0, integers(0, 3, 2), 2.5)
case("index_fill", WHOLE, 1, integers(0, 4, 2), 7)
case("masked_scatter", X, MASK, normal(3, 4))
case("masked_scatter", X, bools(4), normal(12))
case("index_add_", FIXED, 0, integers(0, 3, 5), fixed(normal(5, 4)))
case("index_copy_", FIXED, 0, integers(1, 2, 1), fixed(normal(1, 4)))
case("index_fill_", FIXED, 1, integers(0, 4, 2), 2.5)
case("index_put_", FIXED, (integers(2, 3, 1),), fixed(normal(1, 4)))
_at = (integers(0, 3, 5), integers(0, 4, 5))
case("index_put_", FIXED, _at, fixed(normal(5)), accumulate=True)
case("scatter_", FIXED, 0, integers(1, 2, 1, 4), fixed(normal(1, 4)))
case("scatter_", WHOLE, 1, integers(0, 4, 3, 2), 7)
case("scatter_add_", FIXED, 0, INDEX, fixed(normal(2, 4)))
case("masked_scatter_", FIXED, MASK, fixed(normal(12)))
case("masked_scatter_", WHOLE, bools(4), integers(0, 9, 12))
case("masked_select", X, MASK)
case("masked_select", CUBE, bools(3, 1))

# Products.
case("matmul", normal(3, 4), normal(4, 5))
case("matmul", CUBE, normal(4, 5))
case("matmul", normal(2, 1, 3, 4), normal(3, 4, 2))
case("matmul", CUBE, ROW)
case("matmul", normal(3), normal(2, 3, 4))
case("matmul", ROW, ROW)
case("__matmul__", X, normal(4, 2))
case("mm", X, normal(4, 2))
case("bmm", CUBE, normal(2, 4, 5))
case("mv", X, ROW)
case("addmm", normal(3, 2), X, normal(4, 2))
case("addmm", normal(2), X, normal(4, 2), beta=0.5, alpha=-1.5)
case("baddbmm", normal(2, 3, 5), CUBE, normal(2, 4, 5))
case("baddbmm", normal(3, 1), CUBE, normal(2, 4, 5), beta=0.5, alpha=2.0)
case("tensordot", CUBE, normal(3, 4, 5))
case("tensordot", CUBE, normal(4, 5), dims=1)
case("tensordot", X, ROW, dims=0)
case("tensordot", CUBE, normal(5, 2, 4), dims=([0, 2], [1, 2]))
case("tensordot", CUBE, X, dims=([2, 1], [1, 0]))
case("dot", ROW, ROW)
case("inner", CUBE, X)
case("outer", ROW, normal(3))
for _equation, _operands in {
    "ij,jk->ik": (X, normal(4, 5)),
    "bij,bkj": (CUBE, CUBE),
    "...ij->...ji": (CUBE,),
    "ii->i": (normal(3, 3),),
    "i,j->": (ROW, normal(3)),
    "bij,jk,kl->bil": (CUBE, normal(4, 2), normal(2, 3)),
}.items():
    case("einsum", _equation, *_operands)
case("linear", CUBE, normal(5, 4), normal(5))
case("linear", ROW, normal(5, 4))

# Tensors that are made.
_shape = (2, 3)
for _name in ("zeros", "ones"):
    case(_name, 2, 3, device=DEVICE)
    case(_name, _shape, dtype=I32, device=DEVICE)
    case(f"{_name}_like", X)
    case(f"{_name}_like", X, dtype=I64)
    case(f"new_{_name}", X, 2, 3)
    case(f"new_{_name}", X, _shape, dtype=BOOL)
case("full", _shape, 2.5, device=DEVICE)
case("full", _shape, 2, dtype=U8, device=DEVICE)
case("full_like", X, 2.5)
case("full_like", WHOLE, 3)
case("new_full", X, _shape, 1.5)
case("new_tensor", X, [[1.0, 2.0], [3.0, 4.0]])
for _name in ("empty", "empty_like", "new_empty"):
    _first = (X,) if _name != "empty" else ()
    _rest = () if _name == "empty_like" else (_shape,)
    case(_name, *_first, *_rest, dtype=I32, then=lambda r: [r.zero_(), r.numel()])
for _ends in ((5,), (2, 7), (1, 10, 3), (5, 0, -2), (0.5, 2.0, 0.25), (3.0,)):
    case("arange", *_ends, device=DEVICE)
case("arange", 4, dtype=F64, device=DEVICE)
case("linspace", -1.0, 2.0, 7, dtype=F64, device=DEVICE)
case("linspace", 3, 0, 4, device=DEVICE)
case("eye", 3, device=DEVICE)
case("eye", 2, 4, dtype=I64, device=DEVICE)
for _name in ("tensor", "as_tensor", "asarray"):
    case(_name, [[1.0, 2.0], [3.0, 4.0]], device=DEVICE)
    case(_name, [1, 2, 3], device=DEVICE)
    case(_name, [True, False], device=DEVICE)
    case(_name, np.arange(6.0).reshape(2, 3), device=DEVICE)
    case(_name, [1, 2, 3], dtype=F64, device=DEVICE)
for _name in ("from_numpy", "from_dlpack"):
    case(_name, np.arange(6.0).reshape(2, 3))
    case(_name, np.arange(6, dtype=np.int32))

# Dtypes, and what a tensor tells of itself.
case("to", X, F32)
case("to", WHOLE, dtype=F64)
for _name in ("float", "double", "half", "bfloat16", "int", "long", "byte", "bool"):
    case(f"Tensor.{_name}", NATURAL)
for _name in ("float", "double", "cpu"):
    case(f"Tensor.{_name}", X)
for _name in ("int", "long", "bool"):
    case(f"Tensor.{_name}", fixed(between(-9.0, 9.0, 3, 4)))
case("type_as", WHOLE, X)
_kinds = (F64, F32, F16, BF16, I64, I32, U8, BOOL)


def _number_of(dtype):
    return [kind.name for kind in _kinds].index(str(dtype).split(".")[-1])


for _a, _b in itertools.combinations_with_replacement(_kinds, 2):
    case("promote_types", _a, _b, then=_number_of)
case("result_type", SHORT, WHOLE, then=_number_of)
case("can_cast", F32, F64)
case("can_cast", F64, I32)
case("can_cast", I64, F16)
for _kind in _kinds[:4]:
    case("finfo", _kind, then=lambda r: [r.bits, *np.log2([r.eps, r.max, -r.min, r.tiny])])
for _kind in _kinds[4:7]:
    case("iinfo", _kind, then=lambda r: [r.bits, *np.log2([r.max + 1.0, 1.0 - r.min])])
case("is_tensor", X)
case("is_tensor", 3)
for _name in [
    *("dim", "ndimension", "numel", "nelement", "size", "stride", "storage_offset", "ndim"),
    *("shape", "is_complex", "is_floating_point", "is_contiguous", "is_leaf"),
    *("requires_grad", "__len__", "tolist", "data"),
]:
    case(_name, X)
for _name in ("element_size", "itemsize", "nbytes"):
    case(_name, WHOLE)
    case(_name, SHORT)
case("size", X, -1)
case("stride", X, 0)
case("is_contiguous", IMAGE, memory_format=Name("channels_last"))
case("contiguous", IMAGE, memory_format=Name("channels_last"))
for _name in ("item", "__float__", "__int__", "__bool__"):
    case(_name, normal(1))
case("item", integers(3, 9))
case("__index__", integers(3, 9))
case("__contains__", WHOLE, 3)
case("__iter__", X, then=list)
case("__deepcopy__", fixed(X), {})
