#pragma once

#include "mica/nn/describe.h"
#include "mica/nn/module.h"

namespace mica::nn {

struct LinearOptions {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = true;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("in", self.in);
    f("out", self.out);
    f("bias", self.bias);
  }
};

struct LinearImpl : ModuleImpl {
  explicit LinearImpl(const LinearOptions& options);
  /// (…, in) to (…, out).
  Tensor forward(const Tensor& x);
  std::string describe() const override;

  const LinearOptions options;
  Parameter weight{this, "weight"};  ///< (out, in)
  Parameter bias{this, "bias"};      ///< (out), or undefined
};

/// `Linear(800, 500)` or `Linear({.in = 800, .out = 500, .bias = false})`.
class Linear : public Handle<LinearImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  Linear(Nothing) : Handle(nullptr) {}
  explicit Linear(const LinearOptions& options);
  Linear(int64_t in, int64_t out);
};

struct BilinearOptions {
  int64_t in1 = 0;
  int64_t in2 = 0;
  int64_t out = 0;
  bool bias = true;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("in1", self.in1);
    f("in2", self.in2);
    f("out", self.out);
    f("bias", self.bias);
  }
};

struct BilinearImpl : ModuleImpl {
  explicit BilinearImpl(const BilinearOptions& options);
  /// a (…, in1) and b (…, in2) to (…, out): the sum of a[i] * weight[o, i, j] * b[j].
  Tensor forward(const Tensor& a, const Tensor& b) const;
  std::string describe() const override;

  const BilinearOptions options;
  Parameter weight{this, "weight"};  ///< (out, in1, in2)
  Parameter bias{this, "bias"};      ///< (out), or undefined
};

/// `Bilinear({.in1 = 3, .in2 = 4, .out = 5})(a, b)`.
class Bilinear : public Handle<BilinearImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  Bilinear(Nothing) : Handle(nullptr) {}
  explicit Bilinear(const BilinearOptions& options);
};

}  // namespace mica::nn
