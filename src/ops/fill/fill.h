#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct FullParams {
  Shape shape;
  Number value = 0;
  DType dtype = DType::f32;
  Device device;
  bool channels_last = false;  ///< of a 4-d tensor; else it is row-major

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("shape", self.shape);
    f("value", self.value);
    f("dtype", self.dtype);
    f("device", self.device);
    f("channels_last", self.channels_last);
  }
};

/// A tensor of one value. The op `full` has no inputs and one dense output.
Tensor full(const Shape& shape, Number value, TensorOptions options = {});
Tensor zeros(const Shape& shape, TensorOptions options = {});
Tensor ones(const Shape& shape, TensorOptions options = {});
// As x in shape, dtype, device and memory format.
Tensor full_like(const Tensor& x, Number value);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
/// Uninitialised memory, in x's memory format.
Tensor empty_like(const Tensor& x);

/// 0, 1, … n-1.
Tensor arange(int64_t n, TensorOptions options = {.dtype = DType::i64, .device = {}});
/// start, start + step, … without stop; ceil((stop - start) / step) of them. Integer dtypes take
/// the numbers truncated; integers are exact.
Tensor arange(Number start, Number stop, Number step, TensorOptions options = {});
/// `steps` numbers from start to stop, both included.
Tensor linspace(double start, double stop, int64_t steps, TensorOptions options = {});
/// Ones on the diagonal of a matrix of zeros; square when no columns are given.
Tensor eye(int64_t rows, int64_t columns = -1, TensorOptions options = {});

/// Sets every element of x.
void fill_(const Tensor& x, Number value);

/// Raises DTypeError where an integer dtype cannot hold `value`, truncated; `op` names the
/// operator.
void check_value(const char* op, Number value, DType dtype);

}  // namespace mica
