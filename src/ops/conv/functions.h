#pragma once

// What the rooms of convolutions share in describing their functions.
#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/conv/options.h"
#include "mica/ops/conv/size1.h"

namespace mica {

/// A size for both sides, "same", "valid", or a pair (before, after) for each axis.
template <class Size>
struct FromArgument<Padding<Size>> {
  static constexpr auto kind = ParameterKind::padding;
  static Padding<Size> from(const Argument& a) {
    if (const std::string* word = a.get<std::string>()) {
      check<Unsupported>(*word == "same" || *word == "valid",
                         "conv{}d: padding must be one of 'same', 'valid', got '{}'", kAxes, *word);
      return *word == "same" ? Padding<Size>::same() : Padding<Size>(0);
    }
    const ArgumentList* pairs = a.get<ArgumentList>();
    if (!pairs) return size_of(FromArgument<Dims>::from(a));
    Dims before;
    Dims after;
    for (const Argument& pair : *pairs) {
      const Dims sides = FromArgument<Dims>::from(pair);
      if (sides.rank() != 2) raise_wrong(sides);
      before.push_back(sides[0]);
      after.push_back(sides[1]);
    }
    return Padding<Size>::sides(size_of(before), size_of(after));
  }

 private:
  static constexpr int kAxes = std::is_same_v<Size, Size3>   ? 3
                               : std::is_same_v<Size, Size2> ? 2
                                                             : 1;
  [[noreturn]] static void raise_wrong(const Dims& got) {
    fail<ShapeError>(
        "conv{}d: padding must be {} integers, as many pairs (before, after), 'same' or 'valid', "
        "got {}",
        kAxes, kAxes, got);
  }
  static Size size_of(const Dims& d) {
    if (d.rank() == 1) return Size(d[0]);
    if (d.rank() != kAxes) raise_wrong(d);
    if constexpr (kAxes == 3) return Size3(d[0], d[1], d[2]);
    if constexpr (kAxes == 2) return Size2(d[0], d[1]);
    return Size(d[0]);
  }
};

template <class Size,
          Tensor (*f)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions<Size>&)>
Function conv_function(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{[](const Tensor& x, const Tensor& weight, const Tensor& bias,
                             SizeArgument<Size> stride, const Padding<Size>& padding,
                             SizeArgument<Size> dilation, int64_t groups) {
                            return f(x, weight, bias,
                                     {.stride = stride,
                                      .padding = padding,
                                      .dilation = dilation,
                                      .groups = groups});
                          },
                          {"input",
                           "weight",
                           {"bias", kNone},
                           {"stride", 1},
                           {"padding", 0},
                           {"dilation", 1},
                           {"groups", 1}}}},
          .offer = kFunctional,
          .precision = Precision::low};
}

template <class Size, Tensor (*f)(const Tensor&, const Tensor&, const Tensor&,
                                  const ConvTransposeOptions<Size>&)>
Function conv_transpose_function(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{[](const Tensor& x, const Tensor& weight, const Tensor& bias,
                             SizeArgument<Size> stride, SizeArgument<Size> padding,
                             SizeArgument<Size> output_padding, int64_t groups,
                             SizeArgument<Size> dilation) {
                            return f(x, weight, bias,
                                     {.stride = stride,
                                      .padding = padding,
                                      .output_padding = output_padding,
                                      .dilation = dilation,
                                      .groups = groups});
                          },
                          {"input",
                           "weight",
                           {"bias", kNone},
                           {"stride", 1},
                           {"padding", 0},
                           {"output_padding", 0},
                           {"groups", 1},
                           {"dilation", 1}}}},
          .offer = kFunctional,
          .precision = Precision::low};
}

}  // namespace mica
