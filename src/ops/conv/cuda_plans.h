#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mica/op/kernel.h"
#include "mica/ops/activation.h"

namespace mica {

enum class ConvPass { forward, dgrad, wgrad };

/// A convolution as the library sees it. All tensors but a weight's gradient, which is row-major,
/// have one layout.
struct ConvProblem {
  ConvPass pass = ConvPass::forward;
  Shape x, weight, y;
  Dims stride, padding, dilation;
  DType dtype = DType::f32;
  Device device;
  bool channels_last = false;
  bool bias = false;
  bool row_major_gradient = false;  ///< of the weight, whatever the plan's layout
  bool joined = false;              ///< what it carries has to be in the plan, all of it
  bool residual = false;
  bool bias_first = false;  ///< before the residual: with few images such plans may be faster
  Activation activation = Activation::none;
  // Of operands of 8 bits (dtype i8). Their sums are taken times a number for each channel; what
  // comes after is computed in f32, the bias too.
  DType out = DType::f32;        ///< or i8: the result is taken times a number, rounded and held
  bool scaled_residual = false;  ///< of i8, and taken times a number; else of f32

  bool has_bytes() const { return dtype == DType::i8; }
  const char* op() const;
  Strides strides(const Shape& shape) const {
    return channels_last ? channels_last_strides(shape) : contiguous_strides(shape);
  }
};

/// A plan of the library for one graph.
class ConvPlan {
 public:
  virtual ~ConvPlan() = default;
  virtual std::string name() const = 0;
  virtual size_t workspace_bytes() const = 0;
  /// `pointers` are those of the two operands, then, as far as the graph has them, of the numbers
  /// that sums of bytes are taken times, the bias, the residual, what it is taken times, what the
  /// result is taken times; and the output.
  virtual void execute(Encoder& encoder, std::span<void*> pointers, void* workspace) const = 0;
};

/// The library's first plans by its heuristic that build and that the settings allow (those named
/// `only`, unless it is empty), `most` of them; with `bias` their graph adds it. Where there is
/// none, `reason` says why.
std::vector<std::shared_ptr<const ConvPlan>> find_conv_plans(const ConvProblem& p, bool bias,
                                                             size_t most, const std::string& only,
                                                             std::string& reason);

}  // namespace mica
