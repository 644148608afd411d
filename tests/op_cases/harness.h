#pragma once

#include "tests/op_cases/values.h"

namespace mica::cases {

/// One operator's case on one device. Each function is a test: it reports failures to GoogleTest.
class Harness {
 public:
  Harness(const OpCase& op_case, Device device);

  /// Every kernel, dtype and layout against the oracle, with guard zones; every kernel must run
  /// once.
  void forward();
  /// On the CPU every kernel that takes f64 against differences; in the other dtypes, and on other
  /// devices, against the CPU's f64 gradient.
  void gradient();
  void second_order();
  /// Of each input alone the gradient is that of all together, and the tape keeps no input for it
  /// that it does not depend on.
  void saves();
  /// The call and its gradient as one graph give the bits of the eager call.
  void compiled();
  void bad_arguments();
  /// Whatever the arguments are, there is a result or one of the library's errors.
  void hostile();
  /// On the null device: the shapes, dtypes and strides of the CPU, and a plan.
  void specs();
  void timing();

 private:
  void second_order(const Sample& sample);
  /// Runs `f` with the kernel forced. False when the kernel refuses with a reason.
  template <class F>
  bool with_kernel(const std::string& kernel, F&& f);
  /// Kernels that refuse because TF32 is not allowed run with it where `tf32` says so.
  template <class F>
  void for_each_kernel_and_layout(const Sample& sample, DType dtype, F&& f, bool tf32 = false);
  std::vector<HostArray> expected(const Sample& sample, const HostArgs& host, DType dtype) const;
  std::vector<HostArray> derivatives(const Sample& sample, const HostArgs& host, DType dtype,
                                     DType tested, Device device, Layout layout, int order) const;
  bool differentiable(const Sample& sample) const;
  void report_kernels() const;

  struct Use {
    int runs = 0;
    int refusals = 0;
    std::string reason;
  };

  const OpCase& case_;
  OpDef* op_;  // null for a composite
  Device device_;
  std::vector<std::string> kernels_;
  std::vector<Use> uses_;
};

}  // namespace mica::cases
