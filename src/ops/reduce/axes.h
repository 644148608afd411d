#pragma once

#include "mica/op/op_def.h"
#include "mica/ops/reduce/reduce.h"

namespace mica {

/// Axes in [0, rank), sorted; all of them when none is named. `op` names the operator in errors.
Dims reduced_axes(const char* op, const Dims& axes, int rank);

/// Shape without the reduced axes, or with sizes of 1 in their place.
Shape reduced_shape(const Shape& shape, const Dims& axes, bool keepdim);

/// How many elements go into one result.
int64_t reduced_count(const Shape& shape, const Dims& axes);

/// A result, or its cotangent, with sizes of 1 in place of the reduced axes of `shape`, so that it
/// broadcasts against the input.
Tensor with_axes(const Tensor& y, const Shape& shape, const Dims& axes);

/// What sums and products are: of floats their own dtype, of integers i64, of u64 itself.
inline DType total_dtype(DType t) { return is_floating(t) ? t : carrier_of(t); }

/// The row-major output of a reduction.
void add_reduced(OutSpecs& out, const Shape& shape, const Dims& axes, bool keepdim, DType dtype);

/// Raises ShapeError for a reduction of nothing that has no value, such as a maximum.
void check_not_empty(const char* op, const Shape& shape, const Dims& axes);

}  // namespace mica
