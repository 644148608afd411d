#pragma once

#include <functional>

#include "mica/core/typed_values.h"

namespace mica::train {

/// A function of a model's output and a batch's target, made of any callable that takes tensors,
/// Values, or types that core/typed_values.h knows:
///
///     Loss loss = [](const Tensor& logits, const Tensor& y) { return cross_entropy(logits, y); };
///     Loss both = [](const Gaussian& out, const Tensor& y) -> Values {
///       return Values::dict({{"fit", …}, {"kl", …}});
///     };
class Comparison {
 public:
  Comparison() = default;
  template <class F>
    requires(!std::derived_from<std::remove_cvref_t<F>, Comparison>)
  Comparison(F f) : function_(adapted(std::move(f))) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return static_cast<bool>(function_); }
  Values operator()(const Values& output, const Values& target) const {
    return function_(output, target);
  }

 private:
  using Function = std::function<Values(const Values& output, const Values& target)>;

  template <class Output, class Target, class F>
  static Function taking(F f) {
    return [f = std::move(f)](const Values& output, const Values& target) -> Values {
      return to_values(f(from_values<Output>(output, ValuesPath("output")),
                         from_values<Target>(target, ValuesPath("target"))));
    };
  }
  template <class R, class C, class Output, class Target>
  static Function typed(C f, R (C::*)(Output, Target) const) {
    return taking<std::remove_cvref_t<Output>, std::remove_cvref_t<Target>>(std::move(f));
  }

  template <class R, class Output, class Target>
  static Function typed(R (*f)(Output, Target)) {
    return taking<std::remove_cvref_t<Output>, std::remove_cvref_t<Target>>(f);
  }

  template <class F>
  static Function adapted(F f) {
    if constexpr (std::invocable<F&, const Values&, const Values&>) {
      return taking<Values, Values>(std::move(f));
    } else if constexpr (std::invocable<F&, const Tensor&, const Tensor&>) {
      return taking<Tensor, Tensor>(std::move(f));
    } else if constexpr (std::invocable<F&, const Values&, const Tensor&>) {
      return taking<Values, Tensor>(std::move(f));
    } else if constexpr (std::invocable<F&, const Tensor&, const Values&>) {
      return taking<Tensor, Values>(std::move(f));
    } else if constexpr (std::is_pointer_v<F>) {
      return typed(f);
    } else {
      static_assert(requires { &F::operator(); }, "expected a function of an output and a target");
      return typed(std::move(f), &F::operator());
    }
  }

  Function function_;
};

/// The mean loss of a batch. It is one number, or a tree of several, whose sum is minimised and
/// which are shown one by one.
using Loss = Comparison;

/// The sum of a loss's parts; raises where one is no single number.
Tensor total_of(const Values& loss);

/// What a batch is to the model and to the loss: `model(inputs)` and `loss(output, target)`.
struct Parts {
  Values inputs;
  Values target;
};
using Split = std::function<Parts(const Values& batch)>;

/// The first axis of its first tensor; raises where it has none.
int64_t examples_in(const Values& batch);

/// Of a list the last entry is the target and those before are the inputs; of a dict that has one,
/// "target". Any other batch is both.
Parts split_batch(const Values& batch);

}  // namespace mica::train
