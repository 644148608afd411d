#include "mica/core/make_tensor.h"

#include "mica/core/accessor.h"
#include "mica/core/check.h"

namespace mica {

Tensor from_blob(void* data, const Shape& shape, const Strides& strides, TensorOptions options,
                 Deleter deleter) {
  const Strides by = strides.empty() && !shape.empty() ? contiguous_strides(shape) : strides;
  check<ShapeError>(by.rank() == shape.rank(), "from_blob: shape {} and strides {} differ in rank",
                    shape, by);
  int64_t last = 0;
  bool fits = true;
  for (int i = 0; i < shape.rank(); ++i) {
    check<ShapeError>(shape[i] >= 0 && by[i] >= 0,
                      "from_blob: sizes and strides must not be negative, got {} and {}", shape,
                      by);
    int64_t step = 0;
    fits = fits && !__builtin_mul_overflow(std::max<int64_t>(shape[i] - 1, 0), by[i], &step) &&
           !__builtin_add_overflow(last, step, &last);
  }
  const bool empty = numel(shape) == 0;
  int64_t bytes = 0;
  fits = fits &&
         !__builtin_mul_overflow(last + 1, static_cast<int64_t>(size_of(options.dtype)), &bytes);
  check<ShapeError>(fits, "from_blob: shape {} with strides {} reaches past all memory", shape, by);
  check(empty || data != nullptr, "from_blob: no memory was given for a tensor of shape {}", shape);
  check<Unsupported>(!options.device.is_null(), "from_blob: there is no memory on {}",
                     options.device);
  auto impl = make_ref<TensorImpl>();
  impl->spec = {.shape = shape,
                .strides = by,
                .device = options.device,
                .dtype = options.dtype,
                .defined = true,
                .aligned = (reinterpret_cast<uintptr_t>(data) & 15U) == 0};
  std::shared_ptr<void> owner;
  if (deleter) owner = std::shared_ptr<void>(data, std::move(deleter));
  impl->storage = make_ref<Storage>(data, empty ? 0 : static_cast<size_t>(bytes), options.device,
                                    std::move(owner));
  // Whoever has the pointer may write without a version telling.
  impl->storage->hand_out();
  return Tensor(std::move(impl));
}

namespace detail {

void check_row(int64_t expected, size_t length) {
  check<ShapeError>(expected == static_cast<int64_t>(length),
                    "tensor: rows of a list must have the same length, got {} and {}", expected,
                    length);
}

void raise_out_of_range(int64_t index, size_t axis, int64_t size) {
  fail<IndexError>("accessor: {} is out of range for axis {} of size {}", index, axis, size);
}

void check_accessible(const Tensor& tensor, int rank) {
  check<DeviceError>(tensor.device().is_cpu(),
                     "accessor: the tensor is on {}; to(Device::cpu()) brings it here",
                     tensor.device());
  check<ShapeError>(tensor.rank() == rank, "accessor: expected {} axes, the tensor has shape {}",
                    rank, tensor.shape());
}

}  // namespace detail
}  // namespace mica
