// What Python's help says of the functions of mica, which are methods of Tensor too; those of
// mica.nn.functional stand in docstrings_nn.cpp.
#include "python/src/docstrings.h"

#include <algorithm>

namespace mica::python {
namespace {

constexpr Docstring kDocstrings[] = {
    {"abs", "|input| of each element, in input's dtype; not of bool."},
    {"acos",
     "The angle in [0, pi] whose cosine each element is, NaN outside [-1, 1]; integers give "
     "float32."},
    {"acosh",
     "The number >= 0 whose hyperbolic cosine each element is, NaN below 1; integers give "
     "float32."},
    {"add",
     "input + other; shapes broadcast and dtypes promote. A number takes the tensor's dtype, or "
     "float32 if it has a fraction and the tensor is of integers. Integers wrap."},
    {"all",
     "Whether no element is zero (NaN is not), as bool, over dim: one axis, several, or all for "
     "None. They are dropped, or stay with a size of 1 with keepdim."},
    {"amax",
     "The largest value over dim: one axis, several, or all for None. They are dropped, or stay "
     "with a size of 1 with keepdim. NaN wins; equal values share the gradient evenly."},
    {"amin",
     "The smallest value over dim: one axis, several, or all for None. They are dropped, or stay "
     "with a size of 1 with keepdim. NaN wins; equal values share the gradient evenly."},
    {"any",
     "Whether some element is not zero (NaN is not), as bool, over dim: one axis, several, or all "
     "for None. They are dropped, or stay with a size of 1 with keepdim."},
    {"arange",
     "(n): start, start + step, … without end; from 0 if there is one number. int64 if all numbers "
     "are integers, else float32, unless dtype says otherwise."},
    {"argmax",
     "Where along dim the largest value is, as int64: the first of equals, and NaN wins. dim is "
     "dropped, or stays with a size of 1 with keepdim; without dim it is the place in the "
     "flattened input, 0-d."},
    {"argmin",
     "Where along dim the smallest value is, as int64: the first of equals, and NaN wins. dim is "
     "dropped, or stays with a size of 1 with keepdim; without dim it is the place in the "
     "flattened input, 0-d."},
    {"argsort",
     "The indices (int64, input's shape) that put the elements along dim in order. Equal values "
     "stay in the order they had; NaN is the greatest."},
    {"asin",
     "The angle in [-pi/2, pi/2] whose sine each element is, NaN outside [-1, 1]; integers give "
     "float32."},
    {"asinh", "The number whose hyperbolic sine each element is; integers give float32."},
    {"atan", "The angle in [-pi/2, pi/2] whose tangent each element is; integers give float32."},
    {"atan2",
     "The angle of the point (other, input) in [-pi, pi], in radians; shapes broadcast, integers "
     "give float32."},
    {"atanh",
     "The number whose hyperbolic tangent each element is, NaN outside [-1, 1]; integers give "
     "float32."},
    {"bernoulli",
     "1 with each element's probability, else 0, in the shape and floating dtype of input."},
    {"bitwise_and", "input & other of integers or bool; shapes broadcast and dtypes promote."},
    {"bitwise_left_shift",
     "input << other of integers; shapes broadcast. A shift by the whole width or more, or by a "
     "negative number, gives 0."},
    {"bitwise_not", "~input of integers, the opposite of bool."},
    {"bitwise_or", "input | other of integers or bool; shapes broadcast and dtypes promote."},
    {"bitwise_right_shift",
     "input >> other of integers, with the sign; shapes broadcast. A shift by the whole width or "
     "more, or by a negative number, leaves nothing but the sign: 0 or -1."},
    {"bitwise_xor", "input ^ other of integers or bool; shapes broadcast and dtypes promote."},
    {"broadcast_tensors", "The tensors, each expanded to the shape that all of them broadcast to."},
    {"broadcast_to", "The same as expand."},
    {"cat",
     "The tensors one after the other along dim, which they have; their other sizes must agree. "
     "Dtypes promote."},
    {"ceil", "The least whole number that is not below each element, in input's dtype."},
    {"chunk", "At most `chunks` views of input that divide dim, all of one size but for the last."},
    {"clamp",
     "input between min and max, which may be left out; max wins if they cross. Bounds of integers "
     "are whole; NaN stays. Tensors as bounds broadcast."},
    {"concat", "The same as cat."},
    {"cos", "The cosine of each element, in radians; integers give float32."},
    {"cosh", "The hyperbolic cosine of each element; integers give float32."},
    {"count_nonzero",
     "How many elements are not zero (NaN is not), as int64, over dim: one axis, several, or all "
     "for None. They are dropped, or stay with a size of 1 with keepdim."},
    {"cumprod",
     "The product of all elements along dim up to each one, input's shape. exclusive leaves the "
     "element itself out, reverse begins at the end. Integers and bool give int64."},
    {"cumsum",
     "The sum of all elements along dim up to each one, input's shape. exclusive leaves the "
     "element itself out, reverse begins at the end. Integers and bool give int64."},
    {"diagonal",
     "A view of the diagonal of dim1 and dim2, as a last axis in their place: (n, n) becomes (n). "
     "A positive offset lies above the main one."},
    {"div",
     "input / other, in floating point: two integers give float32. Shapes broadcast and dtypes "
     "promote."},
    {"dot", "The sum of the products of two vectors (n) and (n) of one floating dtype: 0-d."},
    {"einsum",
     "Sums of products in Einstein's notation: einsum('bij,bjk->bik', a, b). A label that stands "
     "twice in one operand means its diagonal, ... any axes; without -> the result has those axes "
     "and then, sorted, the labels that occur once. Operands have one floating dtype."},
    {"empty",
     "A tensor of this shape, float32 unless dtype says otherwise, whose values are undefined."},
    {"empty_like",
     "A tensor of undefined values with input's shape, and its dtype and device unless others are "
     "named."},
    {"eq",
     "Whether input equals other, as bool; shapes broadcast and dtypes promote. NaN equals "
     "nothing."},
    {"erf", "The error function of each element; integers give float32."},
    {"exp", "e to the power of each element; integers give float32."},
    {"exp2", "2 to the power of each element; integers give float32."},
    {"expand",
     "A view of input in a larger shape: sizes of 1 are repeated without copying, new axes come in "
     "front, and -1 keeps a size."},
    {"expm1", "exp(input) - 1, exact near 0 too; integers give float32."},
    {"eye",
     "(n, m), or (n, n): ones on the main diagonal, else zeros; float32 unless dtype says "
     "otherwise."},
    {"flatten",
     "input with its axes from start_dim to end_dim, both included, as one: a view where its "
     "strides allow that. 0-d becomes (1)."},
    {"flip", "A copy with the elements of each of dims in opposite order."},
    {"floor", "The greatest whole number that is not above each element, in input's dtype."},
    {"floor_divide",
     "floor(input / other); shapes broadcast and dtypes promote. Integers by zero give 0."},
    {"full",
     "A tensor of this shape with fill_value everywhere, float32 unless dtype says otherwise; "
     "integers take it truncated."},
    {"full_like",
     "A tensor with fill_value everywhere and input's shape, and its dtype and device unless "
     "others are named."},
    {"gather",
     "Elements of input along dim: result[i, j, k] = input[i, index[i, j, k], k] for dim=1. index "
     "(integers, from 0) has input's rank and is at most as large off dim; the result has its "
     "shape."},
    {"ge", "Whether input >= other, as bool; shapes broadcast and dtypes promote. False for NaN."},
    {"gt", "Whether input > other, as bool; shapes broadcast and dtypes promote. False for NaN."},
    {"index_add",
     "A copy of input with slice i of source added to its slice index[i] along dim. index is (n); "
     "source has input's dtype and shape, but n for dim."},
    {"index_copy",
     "A copy of input with slice i of source in place of its slice index[i] along dim. index is "
     "(n); source has input's dtype and shape, but n for dim."},
    {"index_put",
     "A copy of input with values, broadcast, at input[indices], or added there with accumulate. "
     "indices has a tensor of integers or bool for each leading axis, None for all of one; of "
     "elements written twice the last stays."},
    {"index_select",
     "The slices of input at the positions of index (n), from 0, along dim: input's shape with n "
     "for dim."},
    {"inner",
     "The sum of products over the last axes of input (…, K) and other (…, K), the other axes of "
     "both beside each other; a 0-d tensor multiplies. Else both have one floating dtype."},
    {"isfinite", "Whether each element is neither infinite nor NaN, as bool."},
    {"isinf", "Whether each element is infinite, as bool."},
    {"isnan", "Whether each element is NaN, as bool."},
    {"le", "Whether input <= other, as bool; shapes broadcast and dtypes promote. False for NaN."},
    {"lerp",
     "input + weight * (end - input); shapes broadcast and dtypes promote, integers with a "
     "fraction as weight give float32."},
    {"linear_scan",
     "h[i] = a[i] * h[i - 1] + b[i] along dim, from 0 before the first; a and b have one shape and "
     "floating dtype. exclusive gives h[i - 1], reverse begins at the end."},
    {"linspace",
     "(steps): numbers at equal distances from start to end, both included; float32 unless dtype "
     "says otherwise."},
    {"log", "The natural logarithm of each element, NaN below 0; integers give float32."},
    {"log10", "The logarithm to base 10 of each element, NaN below 0; integers give float32."},
    {"log1p", "log(1 + input), exact near 0 too; NaN below -1. Integers give float32."},
    {"log2", "The logarithm to base 2 of each element, NaN below 0; integers give float32."},
    {"log_softmax",
     "input - log of the sum of exp(input) along dim, input's shape; of a floating dtype."},
    {"logical_and", "Whether both are not zero, as bool; shapes broadcast. NaN is not zero."},
    {"logical_not", "Whether each element is zero, as bool."},
    {"logical_or", "Whether one or both are not zero, as bool; shapes broadcast. NaN is not zero."},
    {"logical_xor",
     "Whether one is not zero and the other is, as bool; shapes broadcast. NaN is not zero."},
    {"logsumexp",
     "log of the sum of exp(input), without overflow, over dim: one axis, several, or all for "
     "None. They are dropped, or stay with a size of 1 with keepdim. -infinity for no elements; of "
     "a floating dtype."},
    {"lt", "Whether input < other, as bool; shapes broadcast and dtypes promote. False for NaN."},
    {"manual_seed", "Restarts every device's generator of random numbers."},
    {"masked_fill",
     "input, in its dtype, with value (a number or 0-d) where mask (bool) holds; input and mask "
     "broadcast."},
    {"masked_select",
     "The elements of input where mask (bool) holds, (n), in row-major order; input and mask "
     "broadcast."},
    {"matmul",
     "The matrix product of input (…, M, K) and other (…, K, N): (…, M, N). Leading axes "
     "broadcast; a vector (K) counts as one row or column, which the result has not. Both have one "
     "floating dtype."},
    {"max",
     "max(input): the largest value, 0-d. max(input, dim): (values, indices) along dim, the first "
     "of equals. max(input, other): the larger of two, as maximum. NaN wins."},
    {"maximum",
     "The larger of input and other; shapes broadcast and dtypes promote. NaN wins; equals share "
     "the gradient."},
    {"mean",
     "The mean over dim: one axis, several, or all for None. They are dropped, or stay with a size "
     "of 1 with keepdim. Of a floating dtype; NaN for no elements."},
    {"meshgrid",
     "The coordinates of a grid from those of its axes, each (n) or 0-d: for each axis a view of "
     "the grid's shape. indexing 'ij' has the first axis as rows, 'xy' as columns."},
    {"min",
     "min(input): the smallest value, 0-d. min(input, dim): (values, indices) along dim, the first "
     "of equals. min(input, other): the smaller of two, as minimum. NaN wins."},
    {"minimum",
     "The smaller of input and other; shapes broadcast and dtypes promote. NaN wins; equals share "
     "the gradient."},
    {"movedim",
     "A view in which axis source[i] of input is axis destination[i]; the others keep their "
     "order."},
    {"mul",
     "input * other; shapes broadcast and dtypes promote. A number takes the tensor's dtype, or "
     "float32 if it has a fraction and the tensor is of integers. Integers wrap."},
    {"narrow", "A view of `length` elements of dim from `start` on, all of which must exist."},
    {"ne",
     "Whether input differs from other, as bool; shapes broadcast and dtypes promote. NaN differs "
     "from everything."},
    {"neg", "-input of each element, in input's dtype; unsigned integers wrap. Not of bool."},
    {"nonzero",
     "The positions (n, rank) of the elements that are not zero, as int64, in row-major order. NaN "
     "is not zero."},
    {"norm",
     "(sum of |input|^p)^(1/p) over dim: one axis, several, or all for None. They are dropped, or "
     "stay with a size of 1 with keepdim. p = 0 counts nonzero elements, p = ±infinity takes the "
     "largest or smallest |input|; of a floating dtype."},
    {"normal",
     "Random numbers of this shape from the normal distribution with mean and std; float32 unless "
     "dtype says otherwise."},
    {"ones", "A tensor of ones of this shape, float32 unless dtype says otherwise."},
    {"ones_like", "Ones with input's shape, and its dtype and device unless others are named."},
    {"outer",
     "The products input[i] * vec2[j] of two vectors (M) and (N): (M, N). Dtypes promote."},
    {"permute", "A view whose axis i is axis dims[i] of input."},
    {"pow",
     "input to the power of exponent; shapes broadcast and dtypes promote. An integer other than 1 "
     "and -1 to a negative integer is 0."},
    {"prod",
     "The product over dim: one axis, several, or all for None. They are dropped, or stay with a "
     "size of 1 with keepdim. Integers and bool give int64; of no elements it is 1."},
    {"rand",
     "Random numbers of this shape, uniform between 0 and 1; float32 unless dtype says otherwise."},
    {"rand_like",
     "Random numbers, uniform between 0 and 1, with input's shape, floating dtype and device."},
    {"randint",
     "Random integers of this size in [low, high), or [0, high); int64 unless dtype says "
     "otherwise."},
    {"randn",
     "Random numbers of this shape from the normal distribution with mean 0 and deviation 1; "
     "float32 unless dtype says otherwise."},
    {"randn_like",
     "Random numbers, normal with mean 0 and deviation 1, with input's shape, floating dtype and "
     "device."},
    {"randperm", "(n): the numbers 0 … n - 1 in random order, as int64."},
    {"reciprocal", "1 / input of each element; integers give float32."},
    {"relu", "max(input, 0) of each element, in input's dtype; NaN stays. Not of bool."},
    {"remainder",
     "What remains of input / floor_divide, with other's sign; shapes broadcast and dtypes "
     "promote. Integers by zero give 0."},
    {"repeat",
     "input laid repeats[i] times along axis i, at least one number for each axis; more of them "
     "add axes in front."},
    {"repeat_interleave",
     "Each element along dim `repeats` times in a row, or of the flattened input without dim."},
    {"reshape",
     "The same elements in another shape, of which one size may be -1: a view where input's "
     "strides allow it, else a copy."},
    {"rng_state",
     "The state of a device's generator, (2) of int64: the seed and how many blocks of four "
     "numbers were drawn. Written back, it continues from there."},
    {"roll",
     "The elements of axis dims[i] moved on by shifts[i], those that leave at one end coming back "
     "at the other. Without dims the one shift is of the flattened input."},
    {"round",
     "The nearest whole number of each element, halves to the even one, in input's dtype."},
    {"rsqrt", "1 / sqrt(input) of each element, NaN below 0; integers give float32."},
    {"scatter",
     "A copy of input with result[i, index[i, j, k], k] = src[i, j, k], or value, for dim=1. index "
     "(integers, from 0) is at most as large as src, and as input off dim; of elements written "
     "twice the last stays. src has input's dtype."},
    {"scatter_add",
     "A copy of input with src[i, j, k] added at [i, index[i, j, k], k] for dim=1. index "
     "(integers, from 0) is at most as large as src, and as input off dim. src has input's dtype."},
    {"searchsorted",
     "Where each element of input would go in sorted_sequence, which rises along its last axis: "
     "before equal ones, or behind them with right. int64, input's shape; sorted_sequence is (n), "
     "or has input's sizes but for the last."},
    {"select", "A view of input at one index of dim, which is dropped."},
    {"sigmoid", "1 / (1 + exp(-input)) of each element; integers give float32."},
    {"sign", "-1, 0 or 1 for each element, in input's dtype; NaN stays. Not of bool."},
    {"sin", "The sine of each element, in radians; integers give float32."},
    {"sinh", "The hyperbolic sine of each element; integers give float32."},
    {"softmax",
     "exp(input) / sum of exp(input) along dim, input's shape; of a floating dtype. A line of "
     "nothing but -infinity gives NaN."},
    {"sort",
     "(values, indices), both of input's shape: the elements along dim in order and where each "
     "came from. Equal values stay in the order they had; NaN is the greatest."},
    {"split",
     "Views along dim: of one size, the last perhaps smaller, or of the sizes in a list, which add "
     "up to dim's."},
    {"sqrt", "The square root of each element, NaN below 0; integers give float32."},
    {"square", "input * input, in input's dtype; integers wrap. Not of bool."},
    {"squeeze", "A view without those of dim, or of all axes, that have a size of 1."},
    {"stack",
     "The tensors, of one shape, along a new axis that becomes axis dim of the result. Dtypes "
     "promote."},
    {"std",
     "The square root of var: over dim, one axis, several, or all for None. They are dropped, or "
     "stay with a size of 1 with keepdim. The gradient where it is 0 is 0."},
    {"sub",
     "input - other; shapes broadcast and dtypes promote. A number takes the tensor's dtype, or "
     "float32 if it has a fraction and the tensor is of integers. Integers wrap."},
    {"sum",
     "The sum over dim: one axis, several, or all for None. They are dropped, or stay with a size "
     "of 1 with keepdim. Integers and bool give int64."},
    {"swapaxes", "The same as transpose."},
    {"take_along_dim",
     "gather where input and indices broadcast off dim and negative indices count from the end."},
    {"tan", "The tangent of each element, in radians; integers give float32."},
    {"tanh", "The hyperbolic tangent of each element; integers give float32."},
    {"tile",
     "input laid dims[i] times along axis i. Fewer numbers than axes are for the last ones; more "
     "add axes in front."},
    {"topk",
     "(values, indices): the k largest (or smallest) elements along dim, whose size becomes k, "
     "best first. Of equal ones the first count; NaN is the greatest. Without sorted their order "
     "is not defined."},
    {"transpose", "A view with dim0 and dim1 exchanged."},
    {"tril",
     "Each matrix of input (…, rows, columns) with zeros above a diagonal: 0 is the main one, a "
     "positive one lies above it."},
    {"triu",
     "Each matrix of input (…, rows, columns) with zeros below a diagonal: 0 is the main one, a "
     "positive one lies above it."},
    {"trunc", "Each element without its fraction, in input's dtype."},
    {"unbind", "Views of input at each index of dim, which they have not."},
    {"uniform",
     "Random numbers of this shape, uniform between low and high; float32 unless dtype says "
     "otherwise."},
    {"unique",
     "The distinct values of all of input in order, (n); every NaN is one of its own. With "
     "return_inverse and return_counts a tuple: also where each element's value is (input's "
     "shape), and how often each occurs (n), as int64."},
    {"unsqueeze", "A view with a new axis of size 1 that becomes axis dim."},
    {"var",
     "Squared deviations from the mean, summed and divided by n - correction, over dim: one axis, "
     "several, or all for None. They are dropped, or stay with a size of 1 with keepdim. Of a "
     "floating dtype."},
    {"where",
     "input where condition (bool) holds, else other; all three broadcast, dtypes promote. One of "
     "the two may be a number."},
    {"zeros", "A tensor of zeros of this shape, float32 unless dtype says otherwise."},
    {"zeros_like", "Zeros with input's shape, and its dtype and device unless others are named."},
};

static_assert(std::ranges::is_sorted(kDocstrings, {}, &Docstring::name));

/// Null for a name that is not in the table.
const char* find(std::span<const Docstring> table, std::string_view name) {
  const auto row = std::ranges::lower_bound(table, name, {}, &Docstring::name);
  return row != table.end() && row->name == name ? row->text : nullptr;
}

}  // namespace

const char* doc_of(std::string_view name) {
  const std::span<const Docstring> tables[] = {kDocstrings, composition_docstrings(),
                                               functional_docstrings()};
  for (const std::span<const Docstring> table : tables)
    if (const char* text = find(table, name)) return text;
  return "";
}

}  // namespace mica::python
