#include "mica/core/print.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "mica/core/dtype_switch.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

constexpr int64_t kEdge = 3;          // entries shown at each end of a long axis
constexpr int64_t kMostShown = 1000;  // tensors with more elements are shortened
constexpr size_t kLine = 80;          // characters
constexpr size_t kIndent = 7;         // behind "tensor("

/// Calls f(i) for each entry of an axis that is shown, f(-1) where some are left out.
template <class F>
void each_shown(int64_t n, bool shorten, F&& f) {
  for (int64_t i = 0; i < n; ++i) {
    const bool left_out = shorten && n > 2 * kEdge && i == kEdge;
    f(left_out ? -1 : i);
    if (left_out) i = n - kEdge - 1;
  }
}

template <class T>
void collect(const TensorSpec& spec, bool shorten, const T* data, int axis,
             std::vector<T>& values) {
  if (axis == spec.rank()) return values.push_back(*data);
  each_shown(spec.shape[axis], shorten, [&](int64_t i) {
    if (i >= 0) collect(spec, shorten, data + i * spec.strides[axis], axis + 1, values);
  });
}

/// All floats of a tensor alike: "1." where they are whole, "0.5000", and "1.0000e-06" where they
/// are too far apart for that.
template <class T>
std::string (*float_style(const std::vector<T>& values))(double) {
  double least = INFINITY;
  double most = 0;
  bool whole = true;
  for (const T v : values) {
    const double size = std::abs(static_cast<double>(v));
    if (!std::isfinite(size)) continue;
    whole = whole && size == std::floor(size);
    most = std::max(most, size);
    if (size > 0) least = std::min(least, size);
  }
  const bool fits = most < 1e8;
  if (fits && whole) return [](double v) { return fmt::format("{:.0f}.", v); };
  if (fits && least >= 1e-4 && most <= 1000 * least)
    return [](double v) { return fmt::format("{:.4f}", v); };
  return [](double v) { return fmt::format("{:.4e}", v); };
}

/// A part of a tensor's number in the style of all.
template <class Style>
std::string part_text(Style style, double v) {
  return std::isfinite(v) ? style(v) : fmt::format("{}", v);
}

template <class T>
std::vector<std::string> texts_of(const std::vector<T>& values, const PrintOptions& options) {
  std::vector<std::string> texts;
  const auto write = [&](const auto& text) {
    for (const T v : values) texts.push_back(text(v));
  };
  if constexpr (std::is_same_v<T, bool>) {
    write([&](bool v) -> std::string { return v ? options.true_word : options.false_word; });
  } else if constexpr (std::is_integral_v<T>) {
    write([](T v) { return fmt::format("{}", v); });
  } else if constexpr (kIsComplex<T>) {
    std::vector<typename T::value_type> parts;
    for (const T v : values) parts.insert(parts.end(), {v.re, v.im});
    const auto style = float_style(parts);
    write([&](T v) {
      const std::string imag = part_text(style, v.im);
      return part_text(style, v.re) + (imag.starts_with('-') ? "" : "+") + imag + "j";
    });
  } else {
    const auto style = float_style(values);
    write([&](T v) { return part_text(style, static_cast<double>(v)); });
  }
  return texts;
}

/// Puts the texts into brackets, in columns.
class Layout {
 public:
  Layout(const TensorSpec& spec, bool shorten, const std::vector<std::string>& texts)
      : spec_(spec), shorten_(shorten), next_(texts.begin()) {
    for (const std::string& text : texts) width_ = std::max(width_, text.size());
  }

  void print(std::string& s, int axis) {
    if (axis == spec_.rank()) {
      s.append(width_ - next_->size(), ' ');
      s += *next_++;
      return;
    }
    const size_t margin = kIndent + static_cast<size_t>(axis) + 1;
    const bool last = axis + 1 == spec_.rank();
    const size_t columns = last ? std::max<size_t>((kLine - margin) / (width_ + 2), 1) : 1;
    size_t column = 0;
    s += '[';
    each_shown(spec_.shape[axis], shorten_, [&](int64_t i) {
      if (column > 0) s += column % columns == 0 ? ",\n" + std::string(margin, ' ') : ", ";
      ++column;
      if (i < 0) {
        s += "...";
      } else {
        print(s, axis + 1);
      }
    });
    s += ']';
  }

 private:
  const TensorSpec& spec_;
  bool shorten_;
  std::vector<std::string>::const_iterator next_;
  size_t width_ = 0;
};

/// The bytes of memory from a tensor's first to its last element, on the host.
std::vector<std::byte> host_bytes(const Tensor& t) {
  if (t.numel() == 0) return {};
  int64_t last = 0;
  for (int i = 0; i < t.rank(); ++i) last += (t.shape()[i] - 1) * t.spec().strides[i];
  std::vector<std::byte> host((static_cast<size_t>(last) + 1) * size_of(t.dtype()));
  runtime(t.device()).copy_to_host(host.data(), t.data(), host.size(), t.device().index);
  return host;
}

}  // namespace

std::string print_values(const Tensor& t, const PrintOptions& options) {
  const std::vector<std::byte> host = host_bytes(t);
  // Beside an axis of none the others still have their brackets.
  int64_t places = 1;
  bool shorten = false;
  for (const int64_t d : t.shape())
    shorten = shorten || __builtin_mul_overflow(places, std::max<int64_t>(d, 1), &places) ||
              places > kMostShown;
  std::string s;
  switch_all(t.dtype(), [&]<class T>() {
    std::vector<T> values;
    if (!host.empty())
      collect(t.spec(), shorten, reinterpret_cast<const T*>(host.data()), 0, values);
    const std::vector<std::string> texts = texts_of(values, options);
    Layout(t.spec(), shorten, texts).print(s, 0);
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

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  return stream << to_string(tensor);
}
std::ostream& operator<<(std::ostream& stream, DType dtype) { return stream << name_of(dtype); }
std::ostream& operator<<(std::ostream& stream, Device device) {
  return stream << to_string(device);
}

}  // namespace mica
