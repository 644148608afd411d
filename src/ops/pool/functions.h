#pragma once

// What the rooms of poolings share in describing their functions.
#include "mica/op/function.h"
#include "mica/ops/pool/pool.h"

namespace mica {

template <class Size, Tensor (*f)(const Tensor&, const MaxPoolOptions<Size>&)>
Function max_pool_function(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{[](const Tensor& x, Size kernel, std::optional<Size> stride, Size padding,
                             Size dilation, bool ceil_mode) {
                            return f(x, {.kernel = kernel,
                                         .stride = stride.value_or(Size(0)),
                                         .padding = padding,
                                         .dilation = dilation,
                                         .ceil_mode = ceil_mode});
                          },
                          {"input",
                           "kernel_size",
                           {"stride", kNone},
                           {"padding", 0},
                           {"dilation", 1},
                           {"ceil_mode", false}}}},
          .offer = kFunctional};
}

template <class Size, Tensor (*f)(const Tensor&, const AvgPoolOptions<Size>&)>
Function avg_pool_function(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{[](const Tensor& x, Size kernel, std::optional<Size> stride, Size padding,
                             bool ceil_mode, bool count_include_pad,
                             std::optional<int64_t> divisor_override) {
                            return f(x, {.kernel = kernel,
                                         .stride = stride.value_or(Size(0)),
                                         .padding = padding,
                                         .ceil_mode = ceil_mode,
                                         .count_include_pad = count_include_pad,
                                         .divisor_override = divisor_override.value_or(0)});
                          },
                          {"input",
                           "kernel_size",
                           {"stride", kNone},
                           {"padding", 0},
                           {"ceil_mode", false},
                           {"count_include_pad", true},
                           {"divisor_override", kNone}}}},
          .offer = kFunctional};
}

template <class Size>
Function adaptive_pool_function(const char* name, Tensor (*f)(const Tensor&, Size),
                                const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{f, {"input", "output_size"}}},
          .offer = kFunctional};
}

template <class Size, Tensor (*f)(const Tensor&, double, const LpPoolOptions<Size>&)>
Function lp_pool_function(const char* name, const char* doc) {
  return {
      .name = name,
      .doc = doc,
      .signatures =
          {{[](const Tensor& x, double p, Size kernel, std::optional<Size> stride, bool ceil_mode) {
              return f(
                  x, p,
                  {.kernel = kernel, .stride = stride.value_or(Size(0)), .ceil_mode = ceil_mode});
            },
            {"input", "norm_type", "kernel_size", {"stride", kNone}, {"ceil_mode", false}}}},
      .offer = kFunctional,
      .precision = Precision::f32};
}

}  // namespace mica
