#pragma once

#include <memory>
#include <mutex>

#include "mica/graph/plan.h"

namespace mica {

/// A function that is captured at its first call with certain input specs and replayed from then
/// on.
///
/// The whole body becomes one graph: forward, backward and update. What it returns is copied out
/// and has no history. It may write to tensors that exist outside (parameters, running statistics,
/// `.grad`); a `.grad` that the function itself uses up in an update is a temporary and undefined
/// afterwards.
class CompiledFunction {
 public:
  explicit CompiledFunction(TensorFunction function) : function_(std::move(function)) {}

  /// `times` in a row, where there are no arguments; see Plan::run.
  Tensors operator()(std::span<const Tensor> arguments, int times = 1);

  /// How often the function was captured.
  int captures() const { return captures_; }
  /// The plan the last call ran; null before the first.
  const Plan* plan() const { return last_; }

 private:
  struct Entry {
    std::vector<TensorSpec> specs;
    uint64_t stamp;
    std::unique_ptr<Plan> plan;
  };
  static constexpr size_t kMostPlans = 32;

  std::string reason(const std::vector<TensorSpec>& specs, uint64_t stamp) const;

  TensorFunction function_;
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
  explicit Compiled(F function) : function_(std::make_shared<F>(std::move(function))) {}

  template <class... Arguments>
  auto operator()(const Arguments&... arguments) {
    return run(1, arguments...);
  }

  /// Calls a function without arguments so many times and returns what the last call does. On CUDA
  /// this is one launch: what changes from call to call (a step count, the place in a data set) has
  /// to lie in tensors that the function updates.
  auto repeat(int times) { return run(times); }

  /// Captures and plans so far; null before the first call.
  const CompiledFunction* function() const { return compiled_.get(); }

 private:
  template <class... Arguments>
  auto run(int times, const Arguments&... arguments) {
    using Result = decltype((*function_)(arguments...));
    if (!compiled_) {
      compiled_ = std::make_shared<CompiledFunction>([f = function_](std::span<const Tensor> in) {
        return call<Result, sizeof...(Arguments)>(*f, in,
                                                  std::make_index_sequence<sizeof...(Arguments)>());
      });
    }
    const std::array<Tensor, sizeof...(Arguments)> in = {arguments...};
    Tensors out = (*compiled_)(in, times);
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

  std::shared_ptr<F> function_;
  std::shared_ptr<CompiledFunction> compiled_;
};

/// `auto step = compile([&](const Tensor& x, const Tensor& y) { …; return loss; });`, then `step(x,
/// y)`. The function takes tensors and returns a Tensor, Tensors or nothing.
template <class F>
auto compile(F function) {
  return Compiled<F>(std::move(function));
}

}  // namespace mica
