#pragma once

// What the rooms of poolings share in describing their functions.
#include "mica/ops/conv/size1.h"
#include "mica/ops/pool/pool.h"

namespace mica {

/// (values, indices) where they are asked for, the values alone otherwise.
inline Argument with_or_without(bool indices, const PooledWithIndices& pooled) {
  return indices ? Argument(Tensors{pooled.values, pooled.indices}) : Argument(pooled.values);
}

template <class Size, Tensor (*f)(const Tensor&, const MaxPoolOptions<Size>&),
          PooledWithIndices (*with_indices)(const Tensor&, const MaxPoolOptions<Size>&)>
Function max_pool_function(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{[](const Tensor& x, SizeArgument<Size> kernel,
                             std::optional<SizeArgument<Size>> stride, SizeArgument<Size> padding,
                             SizeArgument<Size> dilation, bool ceil_mode) {
                            return f(x, {.kernel = kernel,
                                         .stride = stride.value_or(0),
                                         .padding = padding,
                                         .dilation = dilation,
                                         .ceil_mode = ceil_mode});
                          },
                          {"input",
                           "kernel_size",
                           {"stride", kNone},
                           {"padding", 0},
                           {"dilation", 1},
                           {"ceil_mode", false}}},
                         {[](const Tensor& x, SizeArgument<Size> kernel,
                             std::optional<SizeArgument<Size>> stride, SizeArgument<Size> padding,
                             SizeArgument<Size> dilation, bool ceil_mode, bool return_indices) {
                            return with_or_without(return_indices,
                                                   with_indices(x, {.kernel = kernel,
                                                                    .stride = stride.value_or(0),
                                                                    .padding = padding,
                                                                    .dilation = dilation,
                                                                    .ceil_mode = ceil_mode}));
                          },
                          {"input",
                           "kernel_size",
                           {"stride", kNone},
                           {"padding", 0},
                           {"dilation", 1},
                           {"ceil_mode", false},
                           kKeywordOnly,
                           "return_indices"}}},
          .offer = kFunctional};
}

/// The same with the indices always; its case is that of `pooling`.
template <class Size, PooledWithIndices (*f)(const Tensor&, const MaxPoolOptions<Size>&)>
Function max_pool_with_indices(const char* name, const char* pooling) {
  return {.name = name,
          .doc =
              "(values, indices): the largest value of each window, and where it is in the "
              "flattened space of its channel (int64).",
          .signatures = {{[](const Tensor& x, SizeArgument<Size> kernel,
                             std::optional<SizeArgument<Size>> stride, SizeArgument<Size> padding,
                             SizeArgument<Size> dilation, bool ceil_mode, bool /*return_indices*/) {
                            return f(x, {.kernel = kernel,
                                         .stride = stride.value_or(0),
                                         .padding = padding,
                                         .dilation = dilation,
                                         .ceil_mode = ceil_mode});
                          },
                          {"input",
                           "kernel_size",
                           {"stride", kNone},
                           {"padding", 0},
                           {"dilation", 1},
                           {"ceil_mode", false},
                           {"return_indices", true}}}},
          .offer = kFunctional,
          .op = pooling};
}

template <class Size, Tensor (*f)(const Tensor&, const AvgPoolOptions<Size>&)>
Function avg_pool_function(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{[](const Tensor& x, SizeArgument<Size> kernel,
                             std::optional<SizeArgument<Size>> stride, SizeArgument<Size> padding,
                             bool ceil_mode, bool count_include_pad,
                             std::optional<int64_t> divisor_override) {
                            return f(x, {.kernel = kernel,
                                         .stride = stride.value_or(0),
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

template <class Size, Tensor (*f)(const Tensor&, Size)>
Function adaptive_pool_function(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{[](const Tensor& x, SizeArgument<Size> output) { return f(x, output); },
                          {"input", "output_size"}}},
          .offer = kFunctional};
}

template <class Size, Tensor (*f)(const Tensor&, Size),
          PooledWithIndices (*with_indices)(const Tensor&, Size)>
Function adaptive_max_pool_function(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{[](const Tensor& x, SizeArgument<Size> output) { return f(x, output); },
                          {"input", "output_size"}},
                         {[](const Tensor& x, SizeArgument<Size> output, bool return_indices) {
                            return with_or_without(return_indices, with_indices(x, output));
                          },
                          {"input", "output_size", "return_indices"}}},
          .offer = kFunctional};
}

template <class Size, PooledWithIndices (*f)(const Tensor&, Size)>
Function adaptive_with_indices(const char* name, const char* pooling) {
  return {.name = name,
          .doc =
              "(values, indices): the largest value of each window, and where it is in the "
              "flattened space of its channel (int64).",
          .signatures = {{[](const Tensor& x, SizeArgument<Size> output, bool /*return_indices*/) {
                            return f(x, output);
                          },
                          {"input", "output_size", {"return_indices", true}}}},
          .offer = kFunctional,
          .op = pooling};
}

template <class Size, Tensor (*f)(const Tensor&, double, const LpPoolOptions<Size>&)>
Function lp_pool_function(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures =
              {{[](const Tensor& x, double p, SizeArgument<Size> kernel,
                   std::optional<SizeArgument<Size>> stride, bool ceil_mode) {
                  return f(
                      x, p,
                      {.kernel = kernel, .stride = stride.value_or(0), .ceil_mode = ceil_mode});
                },
                {"input", "norm_type", "kernel_size", {"stride", kNone}, {"ceil_mode", false}}}},
          .offer = kFunctional,
          .precision = Precision::f32};
}

}  // namespace mica
