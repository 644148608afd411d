#pragma once

#include <functional>

#include "mica/optim/optimizer.h"

namespace mica::optim {

struct LBFGSOptions {
  double lr = 1;
  int64_t max_iter = 20;  ///< of one step
  int64_t max_eval = 0;   ///< calls of the closure in one step; 5/4 of max_iter where 0
  double tolerance_grad = 1e-7;
  double tolerance_change = 1e-9;
  int64_t history_size = 100;
  bool strong_wolfe = false;  ///< searches the step's length along the direction
};

/// L-BFGS. A step calls a closure several times, which makes the gradients anew and gives the loss;
/// it reads numbers on the host, so it cannot be compiled, but its closure may be. One group.
class LBFGS final : public OptimizerWith<LBFGSOptions> {
 public:
  explicit LBFGS(Tensors parameters, const LBFGSOptions& options = {});

  using Closure = std::function<Tensor()>;
  /// Gives the loss that the closure gave first.
  Tensor step(const Closure& closure);

  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 private:
  /// A change of the gradient, the step that made it, and 1 / (their product).
  struct Pair {
    Tensor change;
    Tensor step;
    double inverse;
  };
  struct Point {
    double loss;
    Tensor grad;  ///< of all parameters, one after the other
    double slope = 0;
  };
  struct Found {
    double length;
    Point point;
    int64_t evaluations;
  };

  void check_options(const LBFGSOptions& o) const override;
  std::vector<State> states_for(const LBFGSOptions& o) const override;
  void group_added(size_t group) override;
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;

  Tensor flat_grad() const;
  void move(double length, const Tensor& direction) const;
  Point evaluate(const Closure& closure) const;
  void remember(const Tensor& grad);
  Tensor direction_from(const Tensor& grad) const;
  Found search(const Closure& closure, const Tensor& direction, const Point& start, double slope,
               double length, int64_t most) const;

  std::vector<Pair> history_;  ///< the oldest first
  double scale_ = 1;           ///< of the first guess of the inverse Hessian
  Tensor direction_;
  double length_ = 0;
  Tensor last_grad_;
  int64_t iterations_ = 0;
};

}  // namespace mica::optim
