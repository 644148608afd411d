#include "mica/core/spec.h"

#include "mica/core/check.h"

namespace mica {
namespace {

bool same_strides(const Shape& shape, const Strides& strides, const Strides& dense) {
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != 1 && strides[i] != dense[i]) return false;
  return true;
}

}  // namespace

TensorSpec TensorSpec::contiguous(const Shape& shape, DType dtype, Device device) {
  TensorSpec s;
  s.shape = shape;
  s.strides = contiguous_strides(shape);
  s.dtype = dtype;
  s.device = device;
  s.defined = true;
  return s;
}

bool TensorSpec::is_contiguous() const {
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

bool TensorSpec::is_channels_last_dense() const {
  return shape.rank() == 4 && same_strides(shape, strides, channels_last_strides(shape));
}

bool TensorSpec::is_channels_last() const { return is_channels_last_dense() && !is_contiguous(); }

std::string to_string(const TensorSpec& spec) {
  if (!spec.defined) return "none";
  std::string s = fmt::format("{}{}", spec.dtype, spec.shape);
  if (spec.is_channels_last()) {
    s += " channels_last";
  } else if (!spec.is_contiguous()) {
    s += fmt::format(" strides {}", spec.strides);
  }
  if (!spec.device.is_cpu()) s += fmt::format(" on {}", spec.device);
  return s;
}

}  // namespace mica
