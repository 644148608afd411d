#include "tests/op_cases/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "mica/core/check.h"
#include "mica/core/dtype_switch.h"

namespace mica::cases {
namespace {

int64_t count(const Shape& shape) { return numel(shape); }

std::vector<double> draw(const Input& in, DType dtype, std::mt19937_64& random) {
  const auto n = static_cast<size_t>(count(in.shape));
  std::vector<double> values(n);
  if (in.distinct) {
    // A shuffled grid: neighbours differ by more than any dtype's rounding as long as the grid
    // allows it.
    std::iota(values.begin(), values.end(), 0.0);
    std::shuffle(values.begin(), values.end(), random);
    const double step = (in.high - in.low) / std::max<double>(1, static_cast<double>(n));
    for (double& v : values) v = in.low + step * (v + 0.25);
  } else {
    std::uniform_real_distribution<double> uniform(in.low, in.high);
    for (double& v : values) v = uniform(random);
  }
  for (double& v : values) {
    if (std::abs(v) < in.away_from_zero) v += v < 0 ? -in.away_from_zero : in.away_from_zero;
    if (!is_floating(dtype)) v = std::floor(v);
  }
  return values;
}

std::string index_of(const Shape& shape, size_t flat) {
  Dims index = Dims::filled(shape.rank(), 0);
  auto rest = static_cast<int64_t>(flat);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[axis] = rest % shape[axis];
    rest /= shape[axis];
  }
  return to_string(index);
}

}  // namespace

const char* name_of(Layout layout) {
  switch (layout) {
    case Layout::contiguous:
      return "contiguous";
    case Layout::strided:
      return "strided";
    case Layout::channels_last:
      return "channels_last";
  }
  return "?";
}

std::vector<double> hostile_values() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  return {kNan,     kInf,  -kInf,  0.0,  -0.0, 1e30, -1e30, 60000.0,
          -60000.0, 1e-40, -1e-40, 6e-8, 1.0,  -1.0, 3.0,   -0.5};
}

double rounded(double value, DType dtype) {
  return switch_all(dtype, [&]<class T>() {
    // Integers wrap; u64 alone goes past int64.
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      if (std::isfinite(value) && std::abs(value) < 0x1p63)
        return static_cast<double>(static_cast<T>(static_cast<int64_t>(value)));
    if constexpr (kIsComplex<T>) {
      return value;  // complex numbers come as pairs of real ones
    } else {
      return static_cast<double>(static_cast<T>(value));
    }
  });
}

HostArgs host_inputs(const Sample& sample, DType dtype) {
  std::seed_seq seed(sample.name.begin(), sample.name.end());
  std::mt19937_64 random(seed);
  HostArgs args;
  for (const Input& in : sample.in) {
    HostArray array{in.shape, {}};
    if (in.defined) {
      const DType own = in.dtype(dtype);
      array.values = in.values.empty() ? draw(in, own, random) : in.values;
      for (double& v : array.values) v = rounded(v, own);
    }
    args.in.push_back(std::move(array));
  }
  return args;
}

Tensor from_host(const HostArray& array, DType dtype, Device device, Layout layout) {
  TensorSpec spec = TensorSpec::contiguous(array.shape, dtype, device);
  const int rank = array.shape.rank();
  int64_t elements = count(array.shape);
  int64_t offset = 0;
  if (layout == Layout::channels_last && rank == 4) {
    spec.strides = channels_last_strides(array.shape);
  } else if (layout == Layout::strided && rank > 0) {
    Shape order = array.shape;
    if (rank > 1) std::swap(order[0], order[1]);
    Strides strides = contiguous_strides(order);
    if (rank > 1) std::swap(strides[0], strides[1]);
    for (int64_t& s : strides) s *= 2;
    spec.strides = strides;
    offset = 1;
    elements = 2 * elements + 1;
  }
  return switch_all(dtype, [&]<class T>() {
    std::vector<std::byte> bytes(static_cast<size_t>(elements) * sizeof(T));
    Dims index = Dims::filled(rank, 0);
    for (const double value : array.values) {
      int64_t at = offset;
      for (int axis = 0; axis < rank; ++axis) at += index[axis] * spec.strides[axis];
      const auto v = static_cast<T>(value);
      std::memcpy(bytes.data() + static_cast<size_t>(at) * sizeof(T), &v, sizeof v);
      for (int axis = rank - 1; axis >= 0 && ++index[axis] == array.shape[axis]; --axis)
        index[axis] = 0;
    }
    const Tensor base = tensor_from_bytes(bytes.data(), {elements}, {dtype, device});
    return view_of(base, spec, array.values.empty() ? 0 : offset);
  });
}

HostArray to_host(const Tensor& tensor) {
  const NoGrad guard;
  const Tensor host = contiguous(to(tensor.detach(), Device::cpu()));
  HostArray array{tensor.shape(), std::vector<double>(static_cast<size_t>(tensor.numel()))};
  switch_all(tensor.dtype(), [&]<class T>() {
    const T* data = host.data_as<T>();
    for (size_t i = 0; i < array.values.size(); ++i)
      if constexpr (!kIsComplex<T>) array.values[i] = static_cast<double>(data[i]);
  });
  return array;
}

Args device_inputs(const Sample& sample, const HostArgs& host, DType dtype, Device device,
                   Layout layout, bool requires_grad) {
  Args args{{}, dtype, device};
  for (size_t i = 0; i < sample.in.size(); ++i) {
    const Input& in = sample.in[i];
    Tensor t;
    const DType own = in.dtype(dtype);
    if (in.defined) t = from_host(host[i], own, device, in.dense ? Layout::contiguous : layout);
    if (requires_grad && in.defined && in.differentiable && is_floating(own)) t.set_requires_grad();
    args.in.push_back(std::move(t));
  }
  return args;
}

std::vector<HostArray> cotangents_for(const Tensors& outputs, DType dtype, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  std::vector<HostArray> cotangents;
  for (const Tensor& y : outputs) {
    HostArray array{y.shape(), std::vector<double>(static_cast<size_t>(y.numel()))};
    for (double& v : array.values) v = rounded((random() & 1U ? 1 : -1) * uniform(random), dtype);
    cotangents.push_back(std::move(array));
  }
  return cotangents;
}

std::optional<std::string> difference(const HostArray& got, const HostArray& expected, DType dtype,
                                      double tolerance, double noise) {
  if (got.shape != expected.shape)
    return fmt::format("has shape {}, expected {}", got.shape, expected.shape);
  double squares = 0;
  size_t finite = 0;
  for (const double v : expected.values) {
    if (!std::isfinite(rounded(v, dtype))) continue;
    squares += v * v;
    ++finite;
  }
  const double size = finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
  double worst = -1;
  size_t at = 0;
  for (size_t i = 0; i < got.values.size(); ++i) {
    const double a = got.values[i];
    const double b = expected.values[i];
    double error = 0;
    if (std::isnan(a) || std::isnan(b)) {
      error = std::isnan(a) && std::isnan(b) ? 0 : std::numeric_limits<double>::infinity();
    } else if (a != b && a != rounded(b, dtype)) {
      error = std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) / (std::abs(b) + size + noise)
                                                   : std::numeric_limits<double>::infinity();
    }
    if (error > worst) worst = error, at = i;
  }
  if (worst <= tolerance) return std::nullopt;
  return fmt::format("at {}: got {:.9g}, expected {:.9g}, relative error {:.3g} (allowed {:.3g})",
                     index_of(got.shape, at), got.values[at], expected.values[at], worst,
                     tolerance);
}

std::optional<std::string> bit_difference(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype())
    return fmt::format("{} and {} differ in kind", to_string(a.spec()), to_string(b.spec()));
  const NoGrad guard;
  const Tensor first = contiguous(to(a.detach(), Device::cpu()));
  const Tensor second = contiguous(to(b.detach(), Device::cpu()));
  const size_t size = size_of(a.dtype());
  const auto* p = static_cast<const std::byte*>(first.data());
  const auto* q = static_cast<const std::byte*>(second.data());
  const auto n = static_cast<size_t>(a.numel());
  for (size_t i = 0; i < n; ++i)
    if (std::memcmp(p + i * size, q + i * size, size) != 0)
      return fmt::format("at {}: {:.17g} and {:.17g} differ", index_of(a.shape(), i),
                         to_host(first).values[i], to_host(second).values[i]);
  return std::nullopt;
}

}  // namespace mica::cases
