#include <cmath>

#include "mica/core/dtype_switch.h"
#include "mica/core/tensor.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

constexpr int64_t kEdge = 3;         // entries shown at each end of a long axis
constexpr int64_t kLongAxis = 1000;  // tensors with more elements are shortened

template <class T>
std::string number(T v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return fmt::format("{}", v);
  } else {
    return fmt::format("{:.5g}", static_cast<double>(v));
  }
}

template <class T>
void print_axis(std::string& s, const Shape& shape, const T* data, const Strides& strides, int axis,
                bool shorten) {
  if (axis == shape.rank()) {
    s += number(*data);
    return;
  }
  s += '[';
  const int64_t n = shape[axis];
  for (int64_t i = 0; i < n; ++i) {
    if (i > 0)
      s +=
          axis + 1 == shape.rank() ? ", " : ",\n" + std::string(static_cast<size_t>(axis) + 1, ' ');
    if (shorten && n > 2 * kEdge && i == kEdge) {
      s += "...";
      i = n - kEdge - 1;
      continue;
    }
    print_axis(s, shape, data + i * strides[axis], strides, axis + 1, shorten);
  }
  s += ']';
}

}  // namespace

std::string to_string(const Tensor& t) {
  if (!t.defined()) return "undefined tensor";
  if (t.is_traced() || t.device().is_null())
    return fmt::format("tensor(<{}>)", to_string(t.spec()));
  // The whole storage comes to the host: printing needs no operator that way.
  std::vector<std::byte> host(t.storage()->bytes());
  if (!host.empty()) {
    runtime(t.device())
        .copy_to_host(host.data(), t.storage()->data(), host.size(), t.device().index);
  }
  std::string s;
  switch_all(t.dtype(), [&]<class T>() {
    const T* data = reinterpret_cast<const T*>(host.data()) + t.offset();
    print_axis(s, t.shape(), data, t.strides(), 0, t.numel() > kLongAxis);
  });
  if (t.dtype() != DType::f32 || t.numel() == 0) s += fmt::format(", {}{}", t.dtype(), t.shape());
  if (!t.device().is_cpu()) s += fmt::format(", {}", t.device());
  return fmt::format("tensor({})", s);
}

}  // namespace mica
