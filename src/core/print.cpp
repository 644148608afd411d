#include "mica/core/print.h"

#include <cmath>

#include "mica/core/dtype_switch.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

constexpr int64_t kEdge = 3;         // entries shown at each end of a long axis
constexpr int64_t kLongAxis = 1000;  // tensors with more elements are shortened

template <class T>
std::string number(T v, const PrintOptions& options) {
  if constexpr (std::is_same_v<T, bool>) {
    return v ? options.true_word : options.false_word;
  } else if constexpr (std::is_integral_v<T>) {
    return fmt::format("{}", v);
  } else {
    return fmt::format("{:.5g}", static_cast<double>(v));
  }
}

template <class T>
void print_axis(std::string& s, const TensorSpec& spec, const T* data, int axis,
                const PrintOptions& options) {
  const int rank = spec.rank();
  if (axis == rank) {
    s += number(*data, options);
    return;
  }
  s += '[';
  const int64_t n = spec.shape[axis];
  for (int64_t i = 0; i < n; ++i) {
    if (i > 0) {
      const size_t indent = static_cast<size_t>(axis) + 1 + static_cast<size_t>(options.indent);
      s += axis + 1 == rank ? ", " : ",\n" + std::string(indent, ' ');
    }
    if (n > 2 * kEdge && i == kEdge && spec.numel() > kLongAxis) {
      s += "...";
      i = n - kEdge - 1;
      continue;
    }
    print_axis(s, spec, data + i * spec.strides[axis], axis + 1, options);
  }
  s += ']';
}

}  // namespace

std::string print_values(const Tensor& t, const PrintOptions& options) {
  // The whole storage comes to the host: printing needs no operator that way.
  std::vector<std::byte> host(t.storage()->bytes());
  if (!host.empty()) {
    runtime(t.device())
        .copy_to_host(host.data(), t.storage()->data(), host.size(), t.device().index);
  }
  std::string s;
  switch_all(t.dtype(), [&]<class T>() {
    print_axis(s, t.spec(), reinterpret_cast<const T*>(host.data()) + t.offset(), 0, options);
  });
  return s;
}

std::string to_string(const Tensor& t) {
  if (!t.defined()) return "undefined tensor";
  if (t.is_traced() || t.device().is_null())
    return fmt::format("tensor(<{}>)", to_string(t.spec()));
  std::string s = print_values(t);
  if (t.dtype() != DType::f32 || t.numel() == 0) s += fmt::format(", {}{}", t.dtype(), t.shape());
  if (!t.device().is_cpu()) s += fmt::format(", {}", t.device());
  return fmt::format("tensor({})", s);
}

}  // namespace mica
