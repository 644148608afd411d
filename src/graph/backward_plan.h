#pragma once

#include <exception>

#include "mica/graph/plan.h"

namespace mica {

/// The gradient of a captured function whose results are differentiated outside: what reaches the
/// leaves for given cotangents of the results.
struct CapturedBackward {
  /// Where a gradient goes: to a leaf outside, or on through an argument.
  struct End {
    Tensor leaf;
    int argument = -1;
    int result = -1;              ///< which result of the graph it is; -1 where none gets there
    std::vector<bool> from = {};  ///< by differentiable result: whether it leads here
  };

  /// Its arguments are the cotangents, then what the function's own graph keeps.
  Captured captured;
  std::vector<size_t> of;  ///< the function's results that have a history
  std::vector<End> ends;
  /// By differentiable result: why it has no gradient, a tensor that was saved and is written to
  /// since. Backward from there throws it.
  std::vector<std::exception_ptr> errors;
};

/// A plan for the backward pass of a compiled function.
class BackwardPlan : public std::enable_shared_from_this<BackwardPlan> {
 public:
  explicit BackwardPlan(std::shared_ptr<CapturedBackward> captured);

  /// Gives the results of a run their history. `arguments` are those of the call, and `kept` is
  /// what its run kept.
  void attach(Tensors& results, const Tensors& kept, std::span<const Tensor> arguments);
  /// One gradient per end.
  Tensors run(const Tensors& inputs);

  const std::vector<CapturedBackward::End>& ends() const { return captured_->ends; }
  const std::vector<std::exception_ptr>& errors() const { return captured_->errors; }
  const Plan& plan() const { return plan_; }

 private:
  std::shared_ptr<CapturedBackward> captured_;
  Plan plan_;
};

}  // namespace mica
