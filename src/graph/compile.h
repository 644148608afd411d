#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "mica/core/typed_values.h"
#include "mica/graph/call.h"

namespace mica {

class Plan;  // graph/plan.h

struct CompileOptions {
  /// How many plans a function keeps, one for each kind of arguments; the one that was used longest
  /// ago makes room.
  int max_plans = 32;
  /// Numbers of rows to capture for, where every tensor among the arguments and results is a batch
  /// whose rows do not know of each other: rows of zeros fill a batch up to the next of these, and
  /// those of the results are cut off. A batch larger than all of them is captured as it is.
  std::vector<int64_t> buckets = {};
};

/// How many calls of compiled functions run at once on the CPU, each in memory of its own; more
/// wait. As many as there are cores unless something else is set.
void set_max_concurrent_runs(int runs);
int max_concurrent_runs();

/// A function that is captured at its first call with certain input specs and replayed from then
/// on. A call does what the function itself would have done, or raises: see docs/compile.md.
///
/// The whole body becomes one graph: forward, backward and update. What it returns is copied out.
/// Results that require a gradient can be differentiated outside: their gradient is a second plan.
/// Any number of threads may call one. On the CPU calls run beside each other, each in memory of
/// its own (set_max_concurrent_runs). One that writes outside, a training step say, waits for
/// others of the same function and for all that use the memory that it writes to, and these for it.
class CompiledFunction {
 public:
  using Body = std::function<CallOutcome(std::span<const Tensor>, const CallForm&)>;

  explicit CompiledFunction(Body body, CompileOptions options = {});
  explicit CompiledFunction(TensorFunction function, CompileOptions options = {});
  ~CompiledFunction();
  CompiledFunction(const CompiledFunction&) = delete;
  CompiledFunction& operator=(const CompiledFunction&) = delete;

  /// `times` in a row, where there are no arguments; see Plan::run.
  Tensors operator()(std::span<const Tensor> arguments, int times = 1);
  CallOutcome call(std::span<const Tensor> arguments, int times = 1);
  CallOutcome call(std::span<const Tensor> arguments, int times, const CallForm& form);

  /// Captures the function for such arguments, where it was not, and computes what its plan keeps
  /// from run to run: a call then only runs. For functions that write to nothing outside.
  void prepare(std::span<const Tensor> arguments);

  /// How often the function was captured.
  int captures() const;
  /// The plan the last call ran; null before the first.
  const Plan* plan() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// Beside the plan of a function of C++ whose result is more than tensors.
struct ResultForm final : Companion {
  ResultForm();
  ~ResultForm() override;

  Values structure;
  Number number;
};

/// A call of a compiled function with these types.
template <class Result, class... Arguments>
struct CompiledCall {
  static constexpr bool kPlain = (std::derived_from<Arguments, Tensor> && ...);
  static constexpr bool kFlat =
      std::is_void_v<Result> || std::is_same_v<Result, Tensor> || std::is_same_v<Result, Tensors>;
  /// Numbers are part of the form, as what the function may branch on.
  template <class T>
  using NumberOf = std::conditional_t<std::is_same_v<T, bool>, bool,
                                      std::conditional_t<std::is_integral_v<T>, int64_t, double>>;

  /// As CallForm says: other calls of the same function may have arguments of other types.
  template <class F>
  static CallOutcome capture(void* f, std::span<const Tensor> in, const CallForm& form) {
    return capture(*static_cast<F*>(f), in, form, std::index_sequence_for<Arguments...>());
  }

  static Tensors take_apart(CallForm& form, const Arguments&... arguments) {
    const auto part = [&]<class T>(const T& argument) -> Values {
      if constexpr (std::is_arithmetic_v<T>) {
        form.constants.emplace_back(static_cast<NumberOf<T>>(argument));
        return {};
      } else {
        return to_values(argument);
      }
    };
    const Values all = Values::list({part(arguments)...});
    form.arguments = structure_of(all);
    return flatten(all);
  }

  static auto result(CallOutcome outcome) {
    if constexpr (std::is_same_v<Result, Tensor>) {
      return std::move(outcome.results[0]);
    } else if constexpr (std::is_same_v<Result, Tensors>) {
      return std::move(outcome.results);
    } else if constexpr (!std::is_void_v<Result>) {
      const auto& form = static_cast<const ResultForm&>(*outcome.companion);
      if constexpr (std::is_arithmetic_v<Result>) {
        return form.number.as<Result>();
      } else {
        const Tensors& flat = outcome.results;
        return from_values<Result>(unflatten(form.structure, {flat.data(), flat.size()}),
                                   ValuesPath("result"));
      }
    }
  }

 private:
  template <class F, size_t... i>
  static CallOutcome capture(F& f, [[maybe_unused]] std::span<const Tensor> in,
                             [[maybe_unused]] const CallForm& form, std::index_sequence<i...>) {
    if constexpr (kPlain) {
      return outcome_of([&] { return f(in[i]...); });
    } else {
      const Values all = unflatten(form.arguments, in);
      [[maybe_unused]] size_t number = 0;
      const auto argument = [&]<class T>(size_t at, std::type_identity<T>) -> T {
        if constexpr (std::is_arithmetic_v<T>) {
          return static_cast<T>(std::get<NumberOf<T>>(form.constants[number++]));
        } else {
          return from_values<T>(all.entries()[at], ValuesPath(ValuesPath("arguments"), all, at));
        }
      };
      // Braces: from left to right.
      const std::tuple<Arguments...> given{argument(i, std::type_identity<Arguments>())...};
      return outcome_of([&] { return std::apply(f, given); });
    }
  }

  template <class Body>
  static CallOutcome outcome_of(const Body& body) {
    if constexpr (std::is_void_v<Result>) {
      body();
      return {};
    } else if constexpr (kFlat) {
      return {.results = {body()}};
    } else {
      auto form = std::make_shared<ResultForm>();
      if constexpr (std::is_arithmetic_v<Result>) {
        form->number = body();
        return {.results = {}, .companion = form};
      } else {
        const Values made = to_values(body());
        form->structure = structure_of(made);
        return {.results = flatten(made), .companion = form};
      }
    }
  }
};

/// The compiled function that the first call makes, in whichever thread that is.
class FirstCompiled {
 public:
  FirstCompiled() = default;
  FirstCompiled(const FirstCompiled&) = delete;
  FirstCompiled& operator=(const FirstCompiled&) = delete;
  ~FirstCompiled();
  /// Null before.
  CompiledFunction* get() const { return first_.load(std::memory_order_acquire); }
  /// Makes one, and gives that of another thread where it was faster.
  CompiledFunction* set_first(CompiledFunction::Body body, const CompileOptions& options);

 private:
  std::atomic<CompiledFunction*> first_ = nullptr;
};

/// What compile() returns: call it as the function itself.
template <class F>
class Compiled {
 public:
  explicit Compiled(F f, CompileOptions options = {})
      : shared_(std::make_shared<Shared>(std::move(f), std::move(options))) {}

  /// Where the function takes a tensor, a number stands for one of no axes (f32, i64 or bool, where
  /// the tensors among the arguments lie): that one may change from call to call. For each value of
  /// a number that the function takes as such it is captured again.
  template <class... Arguments>
  auto operator()(const Arguments&... arguments) const {
    if constexpr (std::is_invocable_v<F&, const Arguments&...>) {
      return run(1, arguments...);
    } else {
      static_assert(std::is_invocable_v<F&, const Given<Arguments>&...>,
                    "mica: the compiled function does not take arguments of these types");
      Device device;
      (find_device(arguments, device), ...);
      return run(1, given(arguments, device)...);
    }
  }

  /// Calls a function without arguments so many times and returns what the last call does. On CUDA
  /// this is one launch: what changes from call to call (a step count, the place in a data set) has
  /// to lie in tensors that the function updates.
  auto repeat(int times) const { return run(times); }

  /// Captures and plans so far; null before the first call.
  const CompiledFunction* function() const { return shared_->compiled.get(); }

 private:
  template <class T>
  using Given = std::conditional_t<std::is_arithmetic_v<T>, Tensor, T>;
  /// A part of a tensor, x[mask], or a module's parameter is a tensor.
  template <class T>
  using Whole = std::conditional_t<std::derived_from<T, Tensor>, Tensor, T>;
  template <class T>
  static void find_device(const T& argument, Device& device) {
    if constexpr (std::derived_from<T, Tensor>)
      if (argument.defined()) device = argument.device();
  }
  template <class T>
  static Given<T> given(const T& argument, Device device) {
    if constexpr (std::is_same_v<T, bool>) {
      return scalar(argument, {DType::boolean, device});
    } else if constexpr (std::is_arithmetic_v<T>) {
      return scalar(argument, {std::is_integral_v<T> ? DType::i64 : DType::f32, device});
    } else {
      return argument;
    }
  }

  template <class... Arguments>
  auto run(int times, const Arguments&... arguments) const {
    using Result = std::remove_cvref_t<decltype(shared_->function(arguments...))>;
    using Way = CompiledCall<Whole<Result>, Whole<Arguments>...>;
    CompiledFunction* compiled = shared_->compiled.get();
    if (!compiled)
      compiled = shared_->compiled.set_first(
          [f = &shared_->function](std::span<const Tensor> in, const CallForm& form) {
            return form.capture(f, in, form);
          },
          shared_->options);
    if constexpr (Way::kPlain) {
      static const CallForm form(&Way::template capture<F>);
      const std::array<Tensor, sizeof...(Arguments)> in = {arguments...};
      return Way::result(compiled->call({in.data(), in.size()}, times, form));
    } else {
      CallForm form(&Way::template capture<F>);
      const Tensors in = Way::take_apart(form, arguments...);
      return Way::result(compiled->call({in.data(), in.size()}, times, form));
    }
  }

  /// Several threads may be the first to call it; copies of the handle are one function.
  struct Shared {
    Shared(F f, CompileOptions o) : function(std::move(f)), options(std::move(o)) {}
    F function;
    CompileOptions options;
    FirstCompiled compiled;
  };
  std::shared_ptr<Shared> shared_;
};

/// `auto step = compile([&](const Tensor& x, const Tensor& y) { …; return loss; });`, then `step(x,
/// y)`. The function takes and gives tensors, numbers, Values, and what core/typed_values.h makes
/// Values of: tuples, vectors, aggregates with fields(); or gives nothing.
template <class F>
auto compile(F function, CompileOptions options = {}) {
  return Compiled<F>(std::move(function), std::move(options));
}

}  // namespace mica
