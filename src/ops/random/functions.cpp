#include "mica/op/function.h"
#include "mica/ops/random/multinomial.h"
#include "mica/ops/random/random.h"

namespace mica {
namespace {

using MaybeDType = std::optional<DType>;
using MaybeDevice = std::optional<Device>;

template <Tensor (*draw)(const Shape&, double, double, TensorOptions)>
Tensor drawn(const Dims& shape, double a, double b, MaybeDType dtype, MaybeDevice device) {
  return draw(shape, a, b, {dtype.value_or(DType::f32), device.value_or(Device())});
}
template <Tensor (*draw)(const Shape&, double, double, TensorOptions)>
Tensor drawn_leaf(const Dims& shape, MaybeDType dtype, MaybeDevice device, bool requires_grad) {
  Tensor t = drawn<draw>(shape, 0, 1, dtype, device);
  if (requires_grad) t.set_requires_grad();
  return t;
}

Tensor integers(int64_t low, int64_t high, const Dims& size, MaybeDType dtype, MaybeDevice device) {
  return randint(low, high, size, {dtype.value_or(DType::i64), device.value_or(Device())});
}

}  // namespace

Functions random_functions() {
  const Parameter dtype = {"dtype", kNone};
  const Parameter device = {"device", kNone};
  const auto distribution = [&](const char* name, auto f, const char* doc, const char* a,
                                const char* b) {
    return Function{.name = name,
                    .doc = doc,
                    .signatures = {{f, {"shape", {a, 0.0}, {b, 1.0}, kKeywordOnly, dtype, device}}},
                    .offer = kModule};
  };
  const auto standard = [&](const char* name, auto f, const char* doc, const char* op) {
    return Function{
        .name = name,
        .doc = doc,
        .signatures = {{f,
                        {spread("shape"), kKeywordOnly, dtype, device, {"requires_grad", false}}}},
        .offer = kModule,
        .op = op};
  };
  return {
      distribution("uniform", drawn<uniform>,
                   "Random numbers of this shape, uniform between low and high; float32 unless "
                   "dtype says otherwise.",
                   "low", "high"),
      distribution("normal", drawn<normal>,
                   "Random numbers of this shape from the normal distribution with mean and std; "
                   "float32 unless dtype says otherwise.",
                   "mean", "std"),
      standard("rand", drawn_leaf<uniform>,
               "Random numbers of this shape, uniform between 0 and 1; float32 unless dtype says "
               "otherwise.",
               "uniform"),
      standard("randn", drawn_leaf<normal>,
               "Random numbers of this shape from the normal distribution with mean 0 and "
               "deviation 1; float32 unless dtype says otherwise.",
               "normal"),
      {.name = "randint",
       .doc = "Random integers of this size in [low, high), or [0, high); int64 unless dtype says "
              "otherwise.",
       .signatures = {{integers, {"low", "high", "size", kKeywordOnly, dtype, device}},
                      {[](int64_t high, const Dims& size, MaybeDType t, MaybeDevice d) {
                         return integers(0, high, size, t, d);
                       },
                       {"high", "size", kKeywordOnly, dtype, device}}},
       .offer = kModule},
      {.name = "randint_like",
       .doc = "Random integers in [low, high), or [0, high), with input's shape, dtype and device.",
       .signatures = {{[](const Tensor& x, int64_t low, int64_t high) {
                         return randint(low, high, x.shape(), {x.dtype(), x.device()});
                       },
                       {"input", "low", "high"}},
                      {[](const Tensor& x, int64_t high) {
                         return randint(0, high, x.shape(), {x.dtype(), x.device()});
                       },
                       {"input", "high"}}},
       .offer = kModule,
       .op = "randint"},
      {.name = "bernoulli",
       .doc =
           "1 with each element's probability, else 0, in the shape and floating dtype of input.",
       .signatures = {{overload<const Tensor&>(bernoulli), {"input"}}},
       .offer = kModule},
      {.name = "rand_like",
       .doc = "Random numbers, uniform between 0 and 1, with input's shape, floating dtype and "
              "device.",
       .signatures = {{[](const Tensor& x) { return uniform_like(x); }, {"input"}}},
       .offer = kModule,
       .op = "uniform"},
      {.name = "randn_like",
       .doc = "Random numbers, normal with mean 0 and deviation 1, with input's shape, floating "
              "dtype and device.",
       .signatures = {{[](const Tensor& x) { return normal_like(x); }, {"input"}}},
       .offer = kModule,
       .op = "normal"},
      {.name = "randperm",
       .doc = "(n): the numbers 0 … n - 1 in random order, as int64.",
       .signatures = {{randperm, {"n"}}},
       .offer = kModule},
      {.name = "rng_state",
       .doc = "The state of a device's generator, (2) of int64: the seed and how many blocks of "
              "four numbers were drawn. Written back, it continues from there.",
       .signatures = {{rng_state, {{"device", "cpu"}}}},
       .offer = kModule,
       .op = "rng_take"},
  };
}

}  // namespace mica
