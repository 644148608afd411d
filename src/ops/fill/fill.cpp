#include "mica/ops/fill/fill.h"

#include <numeric>

#include "mica/op/dispatch.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/cpu_loop.h"

namespace mica {
namespace {

void infer(const FullParams& p, std::span<const TensorSpec>, OutSpecs& out) {
  out.add(p.shape, p.dtype);
  out[0].device = p.device;
}

Tensors vjp(const FullParams&, const VjpArgs&) { return {}; }

void run(const FullParams& p, const Call& c) {
  switch_all(p.dtype, [&]<class T>() {
    T* out = c.out[0].as<T>();
    const T value = static_cast<T>(p.value);
    parallel_for(c.out[0].numel(), kElementGrain,
                 [&](int64_t begin, int64_t end) { std::fill(out + begin, out + end, value); });
  });
}

}  // namespace

const OpDef& full_op() {
  static OpDef def = Op<FullParams>("full")
                         .infer<infer>()
                         .vjp<vjp>({})
                         .cpu({kernel<supports_all<FullParams>, run>("reference")})
                         .build();
  return def;
}

Tensor full(const Shape& shape, double value, TensorOptions options) {
  return dispatch(full_op(), FullParams{shape, value, options.dtype, options.device}, {})[0];
}
Tensor zeros(const Shape& shape, TensorOptions options) { return full(shape, 0, options); }
Tensor ones(const Shape& shape, TensorOptions options) { return full(shape, 1, options); }
Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), {x.dtype(), x.device()}); }
Tensor ones_like(const Tensor& x) { return ones(x.shape(), {x.dtype(), x.device()}); }

Tensor arange(int64_t n, TensorOptions options) {
  check<ShapeError>(n >= 0, "arange: expected a size of at least 0, got {}", n);
  std::vector<int64_t> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return cast(tensor(values, {n}, options.device), options.dtype);
}

void fill_(const Tensor& x, double value) { copy_(x, full({}, value, {x.dtype(), x.device()})); }

}  // namespace mica
