#pragma once

#include <memory>
#include <mutex>

#include "mica/graph/plan.h"

namespace mica {

class BackwardPlan;  // graph/backward_plan.h

/// What a call of a compiled function gives: its results, and what a language in front of C++ keeps
/// beside the plan that made them.
struct CallOutcome {
  Tensors results;
  std::shared_ptr<const Companion> companion = {};
};

/// A function that is captured at its first call with certain input specs and replayed from then
/// on. A call does what the function itself would have done, or raises: see docs/compile.md.
///
/// The whole body becomes one graph: forward, backward and update. What it returns is copied out.
/// Results that require a gradient can be differentiated outside: their gradient is a second plan.
/// Any number of threads may call one.
class CompiledFunction {
 public:
  using Body = std::function<CallOutcome(std::span<const Tensor>)>;

  explicit CompiledFunction(Body body) : body_(std::move(body)) {}
  explicit CompiledFunction(TensorFunction function)
      : body_([f = std::move(function)](std::span<const Tensor> in) -> CallOutcome {
          return {f(in)};
        }) {}

  /// `times` in a row, where there are no arguments; see Plan::run.
  Tensors operator()(std::span<const Tensor> arguments, int times = 1) {
    return call(arguments, times).results;
  }
  CallOutcome call(std::span<const Tensor> arguments, int times = 1);

  /// How often the function was captured.
  int captures() const { return captures_; }
  /// The plan the last call ran; null before the first.
  const Plan* plan() const { return last_; }

 private:
  /// What has to be as it was for a plan to serve a call, beside what the plan itself asks for.
  struct Key {
    std::vector<TensorSpec> specs;
    uint64_t stamp;
    bool records;     ///< grad mode
    uint64_t leaves;  ///< bit i: a gradient is wanted of argument i
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    std::unique_ptr<Plan> plan;
    std::shared_ptr<BackwardPlan> backward;  ///< null where no result has a history
  };
  static constexpr size_t kMostPlans = 32;

  std::string reason(const Key& key, std::span<const Tensor> arguments) const;
  void keep(Entry entry);
  static CallOutcome run(const Entry& entry, std::span<const Tensor> arguments, int times);

  Body body_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
  Plan* last_ = nullptr;
  int captures_ = 0;
  bool told_of_limit_ = false;
};

/// What compile() returns: call it as the function itself.
template <class F>
class Compiled {
 public:
  explicit Compiled(F function) : shared_(std::make_shared<Shared>(std::move(function))) {}

  template <class... Arguments>
  auto operator()(const Arguments&... arguments) {
    return run(1, arguments...);
  }

  /// Calls a function without arguments so many times and returns what the last call does. On CUDA
  /// this is one launch: what changes from call to call (a step count, the place in a data set) has
  /// to lie in tensors that the function updates.
  auto repeat(int times) { return run(times); }

  /// Captures and plans so far; null before the first call.
  const CompiledFunction* function() const { return shared_->compiled.get(); }

 private:
  template <class... Arguments>
  auto run(int times, const Arguments&... arguments) {
    using Result = decltype(shared_->function(arguments...));
    std::call_once(shared_->once, [&] {
      shared_->compiled = std::make_unique<CompiledFunction>(
          [f = &shared_->function](std::span<const Tensor> in) -> CallOutcome {
            return {call<Result, sizeof...(Arguments)>(
                *f, in, std::make_index_sequence<sizeof...(Arguments)>())};
          });
    });
    const std::array<Tensor, sizeof...(Arguments)> in = {arguments...};
    Tensors out = (*shared_->compiled)(in, times);
    if constexpr (std::is_same_v<Result, Tensor>) {
      return out[0];
    } else if constexpr (std::is_same_v<Result, Tensors>) {
      return out;
    }
  }

  template <class Result, size_t n, size_t... i>
  static Tensors call(F& f, [[maybe_unused]] std::span<const Tensor> in,
                      std::index_sequence<i...>) {
    if constexpr (std::is_void_v<Result>) {
      f(in[i]...);
      return {};
    } else {
      return {f(in[i]...)};
    }
  }

  /// Several threads may be the first to call it; copies of the handle are one function.
  struct Shared {
    explicit Shared(F f) : function(std::move(f)) {}
    F function;
    std::once_flag once;
    std::unique_ptr<CompiledFunction> compiled;
  };
  std::shared_ptr<Shared> shared_;
};

/// `auto step = compile([&](const Tensor& x, const Tensor& y) { …; return loss; });`, then `step(x,
/// y)`. The function takes tensors and returns a Tensor, Tensors or nothing.
template <class F>
auto compile(F function) {
  return Compiled<F>(std::move(function));
}

}  // namespace mica
