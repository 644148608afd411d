#include "mica/ops/reduce/axes.h"

#include <algorithm>
#include <numeric>

#include "mica/core/check.h"
#include "mica/ops/view/view.h"

namespace mica {

Dims reduced_axes(const char* op, const Dims& axes, int rank) {
  Dims sorted = axes;
  if (axes.empty()) {
    sorted = Dims::filled(rank, 0);
    std::iota(sorted.begin(), sorted.end(), 0);
  }
  // A tensor without axes has one element, to reduce along any axis.
  if (rank == 0) {
    for (const int64_t a : axes) normalize_axis(a, 1, op);
    return {};
  }
  for (int64_t& a : sorted) a = normalize_axis(a, rank, op);
  std::sort(sorted.begin(), sorted.end());
  check<ShapeError>(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
                    "{}: axes {} name one twice", op, axes);
  return sorted;
}

Shape reduced_shape(const Shape& shape, const Dims& axes, bool keepdim) {
  Shape out;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!axes.contains(i)) {
      out.push_back(shape[i]);
    } else if (keepdim) {
      out.push_back(1);
    }
  }
  return out;
}

int64_t reduced_count(const Shape& shape, const Dims& axes) {
  int64_t n = 1;
  for (const int64_t a : axes) n *= shape[static_cast<int>(a)];
  return n;
}

Tensor with_axes(const Tensor& y, const Shape& shape, const Dims& axes) {
  return reshape(y, reduced_shape(shape, axes, true));
}

namespace {

/// The public functions normalise axes; a call past them must not reach outside a shape.
void check_axes(const char* op, const Shape& shape, const Dims& axes) {
  for (const int64_t a : axes)
    check<IndexError>(a >= 0 && a < shape.rank(), "{}: axis must be in [0, {}), got {}", op,
                      shape.rank(), a);
}

}  // namespace

void add_reduced(OutSpecs& out, const Shape& shape, const Dims& axes, bool keepdim, DType dtype) {
  check_axes(out.op(), shape, axes);
  out.add(reduced_shape(shape, axes, keepdim), dtype);
  TensorSpec& spec = out[out.size() - 1];
  spec.strides = contiguous_strides(spec.shape);
}

void check_not_empty(const char* op, const Shape& shape, const Dims& axes) {
  check_axes(op, shape, axes);
  for (const int64_t a : axes)
    check<ShapeError>(shape[static_cast<int>(a)] > 0, "{}: axis {} of {} is empty", op, a, shape);
}

}  // namespace mica
