// What Python's help says of the functions of mica that are made of others, and of PyTorch's second
// names.
#include <algorithm>

#include "python/src/docstrings.h"

namespace mica::python {
namespace {

constexpr Docstring kDocstrings[] = {
    {"absolute", "The same as abs."},
    {"addcdiv", "input + value * tensor1 / tensor2; shapes broadcast and dtypes promote."},
    {"addcmul", "input + value * tensor1 * tensor2; shapes broadcast and dtypes promote."},
    {"addmm",
     "beta * input + alpha * (mat1 @ mat2) of matrices (M, K) and (K, N); input expands to (M, N) "
     "and is not read where beta is 0."},
    {"allclose", "Whether all elements of input and other are close, as isclose has it: a bool."},
    {"argwhere", "The same as nonzero."},
    {"atleast_1d",
     "Each tensor with at least one axis: 0-d becomes (1). Several tensors, or a list, give a "
     "tuple."},
    {"atleast_2d",
     "Each tensor with at least two axes: (n) becomes (1, n). Several tensors, or a list, give a "
     "tuple."},
    {"atleast_3d",
     "Each tensor with at least three axes: (n) becomes (1, n, 1), and (m, n) becomes (m, n, 1). "
     "Several tensors, or a list, give a tuple."},
    {"baddbmm",
     "beta * input + alpha * (batch1 @ batch2) of batches (B, M, K) and (B, K, N); input expands "
     "to (B, M, N) and is not read where beta is 0."},
    {"bmm", "The matrix products of two batches (B, M, K) and (B, K, N): (B, M, N)."},
    {"clamp_max", "input where it is below max, a number or a tensor that broadcasts, else max."},
    {"clamp_min", "input where it is above min, a number or a tensor that broadcasts, else min."},
    {"clip", "The same as clamp."},
    {"clone", "A copy that gradients pass through."},
    {"concatenate", "The same as cat."},
    {"diag",
     "A matrix of zeros with the vector input (n) on a diagonal, or a copy of that diagonal of a "
     "matrix. 0 is the main one, a positive one lies above it."},
    {"diff",
     "input[i + 1] - input[i] along dim, n times over; where bools differ. prepend and append are "
     "joined to input along dim first."},
    {"divide", "The same as div."},
    {"dstack", "The tensors one behind the other: along axis 2, which atleast_3d adds."},
    {"equal",
     "Whether input and other have one shape and equal elements: a bool. NaN equals nothing."},
    {"fliplr", "A copy with the elements of axis 1 in opposite order."},
    {"flipud", "A copy with the elements of axis 0 in opposite order."},
    {"fmod",
     "What remains of input / other, with input's sign; shapes broadcast and dtypes promote. "
     "Integers by zero give 0."},
    {"greater", "The same as gt."},
    {"greater_equal", "The same as ge."},
    {"hstack", "The tensors side by side: along axis 1, vectors along their own."},
    {"hypot",
     "sqrt(input^2 + other^2) without overflow in between; shapes broadcast, integers give "
     "float32."},
    {"index_fill",
     "A copy of input with value in its slices at the positions of index (n) along dim."},
    {"is_floating_point", "Whether input's dtype is a floating one."},
    {"is_tensor", "Whether obj is a tensor."},
    {"isclose",
     "Whether |input - other| <= atol + rtol * |other|, as bool; shapes broadcast. Infinities are "
     "close to themselves, NaN is close to NaN with equal_nan."},
    {"less", "The same as lt."},
    {"less_equal", "The same as le."},
    {"logaddexp",
     "log(exp(input) + exp(other)) without overflow in between; shapes broadcast and dtypes "
     "promote. Of a floating dtype."},
    {"masked_scatter",
     "A copy of input with the elements of source, in row-major order, where mask (bool), expanded "
     "to input's shape, holds. source has input's dtype."},
    {"median",
     "median(input): the middle value, 0-d. median(input, dim): (values, indices) along dim. Of an "
     "even number of elements it is the lower one; NaN wins."},
    {"mm", "The matrix product of two matrices (M, K) and (K, N): (M, N)."},
    {"moveaxis", "The same as movedim."},
    {"multinomial",
     "num_samples indices (int64) for each row of weights, input (n) or (rows, n) of a floating "
     "dtype, each with its probability; the weights need not add up to 1. Without replacement no "
     "index comes twice."},
    {"multiply", "The same as mul."},
    {"mv", "The product of a matrix (M, K) and a vector (K): (M)."},
    {"nan_to_num",
     "input with numbers in place of NaN and the infinities, for which it takes the dtype's "
     "largest and lowest numbers unless posinf and neginf are given."},
    {"negative", "The same as neg."},
    {"not_equal", "The same as ne."},
    {"numel", "The number of elements of input."},
    {"randint_like",
     "Random integers in [low, high), or [0, high), with input's shape, dtype and device."},
    {"ravel", "input with one axis: a view where its strides allow that."},
    {"std_mean",
     "(std, mean) over dim: one axis, several, or all for None. They are dropped, or stay with a "
     "size of 1 with keepdim."},
    {"subtract", "The same as sub."},
    {"swapdims", "The same as transpose."},
    {"t", "A view of a matrix with its axes exchanged; what has fewer axes is itself."},
    {"tensordot",
     "The sum of products over axes of a and b, which must be of the same sizes: the last dims of "
     "a and the first of b, or those in two lists. The result has the other axes of a, then those "
     "of b."},
    {"trace", "The sum of a matrix's main diagonal, 0-d."},
    {"true_divide", "The same as div."},
    {"unflatten", "A view with axis dim as several of these sizes, of which one may be -1."},
    {"var_mean",
     "(var, mean) over dim: one axis, several, or all for None. They are dropped, or stay with a "
     "size of 1 with keepdim."},
    {"vstack", "The tensors one below the other: along axis 0; vectors are rows."},
    {"xlogy",
     "input * log(other), and 0 where input is 0 and other not NaN; shapes broadcast and dtypes "
     "promote, integers give float32."},
};

static_assert(std::ranges::is_sorted(kDocstrings, {}, &Docstring::name));

}  // namespace

std::span<const Docstring> composition_docstrings() { return kDocstrings; }

}  // namespace mica::python
