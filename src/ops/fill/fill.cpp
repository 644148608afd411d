#include "mica/ops/fill/fill.h"

#include <cmath>
#include <cstring>

#include "mica/core/switch_bytes.h"
#include "mica/op/dispatch.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/cpu_loop.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

void infer(const FullParams& p, std::span<const TensorSpec>, OutSpecs& out) {
  check_value("full", p.value, p.dtype);
  out.add(p.shape, p.dtype);
  out[0].device = p.device;
  if (p.channels_last) out[0].strides = channels_last_strides(p.shape);
}

Tensors vjp(const FullParams&, const VjpArgs&) { return {}; }

Number value(const FullParams& p) { return p.value; }

void run(const FullParams& p, const Call& c) {
  const ElementWords words = element_words(p.value, p.dtype);
  switch_words(size_of(p.dtype), [&]<class T>() {
    T* out = c.out[0].as<T>();
    T value;
    std::memcpy(&value, words.data(), sizeof value);
    parallel_for(c.out[0].numel(), kElementGrain,
                 [&](int64_t begin, int64_t end) { std::fill(out + begin, out + end, value); });
  });
}

}  // namespace

const OpDef& full_op() {
  static OpDef def = Op<FullParams>("full")
                         .inputs({})
                         .formats({}, {Format::fixed})
                         .dtypes(kAllDTypes)
                         .moves()
                         .fills_with<value>()
                         .infer<infer>()
                         .vjp<vjp>({})
                         .cpu({kernel<supports_all<FullParams>, run>("reference")})
                         .build();
  return def;
}

namespace {

/// One way to write a value of a dtype, so that equal calls are seen to be equal.
Number checked(Number value, DType dtype) {
  check_value("full", value, dtype);
  return held_in(dtype, value);
}

}  // namespace

Tensor full(const Shape& shape, Number value, TensorOptions options) {
  const FullParams params{shape, checked(value, options.dtype), options.dtype, options.device};
  return dispatch(full_op(), params, {})[0];
}
Tensor zeros(const Shape& shape, TensorOptions options) { return full(shape, 0, options); }
Tensor ones(const Shape& shape, TensorOptions options) { return full(shape, 1, options); }
Tensor full_like(const Tensor& x, Number value) {
  const FullParams params{x.shape(), checked(value, x.dtype()), x.dtype(), x.device(),
                          x.spec().is_channels_last()};
  return dispatch(full_op(), params, {})[0];
}
Tensor zeros_like(const Tensor& x) { return full_like(x, 0); }
Tensor ones_like(const Tensor& x) { return full_like(x, 1); }
Tensor empty_like(const Tensor& x) {
  TensorSpec spec = TensorSpec::contiguous(x.shape(), x.dtype(), x.device());
  if (x.spec().is_channels_last()) spec.strides = channels_last_strides(x.shape());
  return empty(spec);
}

namespace {

/// n values of type T, f(i) each, in another dtype.
template <class T, class F>
Tensor tabulated(const char* op, int64_t n, TensorOptions options, F&& f) {
  check<DTypeError>(options.dtype != DType::boolean, "{}: expected numbers, got bool", op);
  Tensor values = empty({n}, {.dtype = dtype_of<T>});
  T* data = static_cast<T*>(values.data());
  parallel_for(n, kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) data[i] = f(static_cast<T>(i));
  });
  if (!options.device.is_cpu())
    values = tensor_from_bytes(data, {n}, {dtype_of<T>, options.device});
  return cast(values, options.dtype);
}

}  // namespace

Tensor arange(int64_t n, TensorOptions options) {
  check<ShapeError>(n >= 0, "arange: expected a size of at least 0, got {}", n);
  return tabulated<int64_t>("arange", n, options, [](int64_t i) { return i; });
}

namespace {

/// Of integers, in 128 bits: the ends of u64 and i64 lie further apart than 64 hold.
Tensor arange_exact(Number start, Number stop, Number step, TensorOptions options) {
  using Wide = __int128;
  const auto wide = [](Number n) {
    return n.kind() == Number::Kind::unsigned_integer ? static_cast<Wide>(n.as<uint64_t>())
                                                      : static_cast<Wide>(n.as<int64_t>());
  };
  const Wide first = wide(start);
  const Wide by = wide(step);
  const Wide span = by > 0 ? wide(stop) - first : first - wide(stop);
  const Wide distance = by > 0 ? by : -by;
  check<ShapeError>(by != 0, "arange: expected a step other than 0");
  check<ShapeError>(span >= 0, "arange: {} to {} is not the direction of step {}", start, stop,
                    step);
  const Wide count = (span + distance - 1) / distance;
  check<OutOfMemory>(count < Wide{1} << 62, "arange: {} to {} are more than a machine holds", start,
                     stop);
  const Wide last = first + (count - 1) * by;
  for (const Wide end : {first, last})
    if (count > 0 && is_integer(options.dtype))
      check_value("arange",
                  end < 0 ? Number(static_cast<int64_t>(end)) : Number(static_cast<uint64_t>(end)),
                  options.dtype);
  return tabulated<int64_t>("arange", static_cast<int64_t>(count), options, [&](int64_t i) {
    return static_cast<int64_t>(static_cast<uint64_t>(first) +
                                static_cast<uint64_t>(i) * static_cast<uint64_t>(by));
  });
}

}  // namespace

Tensor arange(Number from, Number to, Number by, TensorOptions options) {
  const bool whole = !is_differentiable(options.dtype);
  if (whole && !from.is_floating() && !to.is_floating() && !by.is_floating())
    return arange_exact(from, to, by, options);
  double start = from.to_double();
  double stop = to.to_double();
  double step = by.to_double();
  check<ShapeError>(std::isfinite(start) && std::isfinite(stop) && std::isfinite(step),
                    "arange: expected finite numbers, got {} to {} by {}", start, stop, step);
  if (whole)
    for (const double number : {start, stop, step}) check_value("arange", number, DType::i64);
  check<ShapeError>((whole ? std::trunc(step) : step) != 0,
                    "arange: expected a step other than 0, got {} for {}", step, options.dtype);
  check<ShapeError>(step > 0 ? start <= stop : start >= stop,
                    "arange: {} to {} is not the direction of step {}", start, stop, step);
  if (options.dtype == DType::i64) {  // the others count before they truncate
    start = std::trunc(start);
    stop = std::trunc(stop);
    step = std::trunc(step);
  }
  const double count = std::ceil((stop - start) / step);
  check<OutOfMemory>(count < 0x1p62, "arange: {} elements are more than a machine holds", count);
  const auto n = static_cast<int64_t>(count);
  if (!whole)
    return tabulated<double>("arange", n, options, [&](double i) { return start + i * step; });
  const auto first = static_cast<int64_t>(start);
  const auto each = static_cast<int64_t>(step);
  return tabulated<int64_t>("arange", n, options, [&](int64_t i) { return first + i * each; });
}

Tensor linspace(double start, double stop, int64_t steps, TensorOptions options) {
  check<ShapeError>(steps >= 0, "linspace: expected at least 0 steps, got {}", steps);
  for (const double number : {start, stop}) check_value("linspace", number, options.dtype);
  const auto last = static_cast<double>(steps - 1);
  const double step = steps > 1 ? (stop - start) / last : 0;
  // From both ends, so that the last is exact too.
  const auto half = static_cast<double>(std::max<int64_t>(steps / 2, 1));
  return tabulated<double>("linspace", steps, options, [&](double i) {
    return i < half ? start + step * i : stop - step * (last - i);
  });
}

Tensor eye(int64_t rows, int64_t columns, TensorOptions options) {
  const Shape shape = {rows, columns == -1 ? rows : columns};
  check<ShapeError>(shape[0] >= 0 && shape[1] >= 0, "eye: expected sizes of at least 0, got {}",
                    shape);
  return diagonal_grad(ones({std::min(shape[0], shape[1])}, options), {{}, shape});
}

void check_value(const char* op, Number value, DType dtype) {
  check<DTypeError>(fits(value, dtype), "{}: {} does not fit {}", op, value, dtype);
}

void fill_(const Tensor& x, Number value) { copy_(x, full({}, value, {x.dtype(), x.device()})); }

}  // namespace mica
