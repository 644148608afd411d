#pragma once

#include <array>
#include <functional>

#include "mica/core/storage.h"
#include "mica/ops/conv2d/geometry.h"

namespace mica {

enum class ConvPass { forward, dgrad, wgrad };

/// Everything a convolution's kernel depends on but the settings. All tensors but a weight's
/// gradient, which is row-major, have one layout.
struct ConvProblem {
  ConvPass pass;
  Conv2dGeometry geometry;
  DType dtype;
  int device;
  bool channels_last;
  bool bias;

  const char* op() const;
  Shape x() const { return {geometry.n, geometry.c, geometry.h, geometry.w}; }
  Shape y() const { return geometry.y_shape(); }
  Shape weight() const { return {geometry.o, geometry.group_in(), geometry.kh, geometry.kw}; }
};

/// Memory for the tensors of a convolution, filled with a small number, to time its kernels on.
class ConvTrial {
 public:
  /// Raises OutOfMemory.
  explicit ConvTrial(const ConvProblem& problem);

  /// Microseconds on the device per `run`; infinite where it raises an error. A time far above
  /// `best` is a rough one.
  double microseconds(size_t workspace_bytes, const std::function<void(const Call&)>& run,
                      double best) const;
  /// Those of our own kernel, "direct"; infinite where it refuses.
  double direct_microseconds(double best) const;

 private:
  ConvProblem problem_;
  std::array<TensorSpec, 4> specs_;  ///< the inputs, at most three, and the output
  std::array<Ref<Storage>, 4> memory_;
};

}  // namespace mica
