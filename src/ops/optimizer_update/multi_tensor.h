#pragma once

// Ops that go through lists of tensors: what they share on every device, and their CPU kernels.
// Inputs: numbers, a step count, `count` targets, `count` gradients, `count` tensors of each state,
// and of half-precision parameters `count` masters.
#include <algorithm>
#include <array>
#include <cstring>

#include "mica/core/dtype_switch.h"
#include "mica/op/dispatch.h"
#include "mica/runtime/cpu/parallel.h"
#include "mica/runtime/cpu/runs.h"

namespace mica::update {

inline constexpr size_t kScalars = 2;  ///< inputs before the lists

/// The inputs of a call as the lists they are.
template <class T>
struct Lists {
  std::span<const T> in;
  size_t count;

  const T& target(size_t k) const { return in[kScalars + k]; }
  const T& grad(size_t k) const { return in[kScalars + count + k]; }
  const T& state(size_t s, size_t k) const { return in[kScalars + (2 + s) * count + k]; }
  std::span<const T> targets() const { return in.subspan(kScalars, count); }
};

template <class P, class T>
Lists<T> lists_of(const P& p, std::span<const T> in) {
  return {in, static_cast<size_t>(p.count)};
}

/// The numbers that a formula reads; zeros where there are none.
template <class Step>
std::array<double, Step::kNumbers> numbers_of(const Arg& a) {
  std::array<double, Step::kNumbers> numbers{};
  if (!a.defined()) return numbers;
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] =
        a.dtype() == DType::f64 ? a.as<double>()[i] : static_cast<double>(a.as<float>()[i]);
  return numbers;
}
inline int64_t step_of(const Arg& a) { return a.defined() ? *a.as<int64_t>() : 0; }
/// Whether this step is left out.
inline bool is_skipped(const Arg& a) { return a.defined() && *a.as<int64_t>() == 0; }

inline bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

/// The tensors of each parameter besides itself and its gradient: states, and a master.
template <class O>
size_t kept_of(const typename O::Params& p, std::span<const TensorSpec> in) {
  return O::visit(p, [&]<class Step>() {
    const bool half =
        Step::kMasters && p.count > 0 && in.size() > kScalars && is_half(in[kScalars].dtype);
    return static_cast<size_t>(Step::kStates) + half;
  });
}

template <class O>
void infer(const typename O::Params& p, std::span<const TensorSpec> in, OutSpecs&) {
  check(p.count >= 0 && static_cast<size_t>(p.count) <= in.size(),
        "{}: expected a number of tensors, got {}", O::kName, p.count);
  const auto lists = lists_of(p, in);
  const size_t n = lists.count;
  const size_t kept = kept_of<O>(p, in);
  const int64_t numbers = O::visit(p, []<class Step>() { return int64_t{Step::kNumbers}; });
  const bool masters =
      kept > O::visit(p, []<class Step>() { return static_cast<size_t>(Step::kStates); });
  check(in.size() == kScalars + (2 + kept) * n, "{}: expected {} inputs{}, got {}", O::kName,
        kScalars + (2 + kept) * n, masters ? ", masters among them" : "", in.size());
  if constexpr (O::kScalar != nullptr)
    check<DTypeError>(in[0].defined && in[0].numel() == numbers && in[0].is_contiguous() &&
                          (in[0].dtype == DType::f32 || in[0].dtype == DType::f64),
                      "{}: {} must be {} f32 or f64 number{}, got {}", O::kName, O::kScalar,
                      numbers == 1 ? "one" : "two", numbers == 1 ? "" : "s", in[0]);
  check<DTypeError>(
      in[1].defined ? in[1].numel() == 1 && in[1].dtype == DType::i64 : !O::kNeedsStep,
      "{}: step must be one i64 number, got {}", O::kName, in[1]);
  for (size_t k = 0; k < n; ++k) {
    const TensorSpec& param = lists.target(k);
    check<DTypeError>(is_floating(param.dtype), "{}: parameter {} must be floating, got {}",
                      O::kName, k, param.dtype);
    check(param.is_contiguous() || param.is_channels_last(),
          "{}: parameter {} must be dense, got {}", O::kName, k, param);
    const auto expect = [&](const TensorSpec& other, DType dtype, const char* what) {
      check<ShapeError>(other.shape == param.shape && other.dtype == dtype,
                        "{}: {} {} must be like its parameter {}{}, got {}", O::kName, what, k,
                        param, dtype == param.dtype ? "" : ", in f32", other);
    };
    expect(lists.grad(k), param.dtype, "gradient");
    check<DTypeError>(masters == is_half(param.dtype) ||
                          !O::visit(p, []<class Step>() { return Step::kMasters; }),
                      "{}: parameters in half precision need a call of their own, got {} and {}",
                      O::kName, lists.target(0).dtype, param.dtype);
    for (size_t s = 0; s < kept; ++s)
      expect(lists.state(s, k), masters ? DType::f32 : param.dtype,
             masters && s + 1 == kept ? "master" : O::state_name(p, static_cast<int>(s)));
  }
}

template <class O>
bool mutates(const typename O::Params& p, int input, int) {
  const int64_t i = input - static_cast<int64_t>(kScalars);
  return (i >= 0 && i < p.count) || i >= 2 * p.count;
}

/// Whether each parameter's tensors have their elements in one order.
template <class O>
Support supports(const typename O::Params& p, const Specs& s) {
  for (size_t i = kScalars; i < s.in.size(); ++i)
    if (!s.in[i].lies_like(s.in[kScalars + (i - kScalars) % static_cast<size_t>(p.count)]))
      return Support::no("a gradient is laid out otherwise than its parameter");
  return Support::yes();
}

/// Calls f(k, begin, end) for ranges of the elements of all tensors, in one parallel region. Within
/// a tensor ranges start at multiples of a vector's width, so that the number of threads does not
/// change how an element is computed.
template <class F>
void for_all_elements(std::span<const Arg> tensors, F&& f) {
  constexpr int64_t kGrain = 32768;
  constexpr int64_t kUnit = 64;
  int64_t total = 0;
  for (const Arg& t : tensors) total += t.numel();
  parallel_for(total, kGrain, [&](int64_t begin, int64_t end) {
    int64_t first = 0;  // of tensor k, in the list of all elements
    for (size_t k = 0; k < tensors.size() && first < end; ++k) {
      const int64_t n = tensors[k].numel();
      const auto place = [&](int64_t i) {
        return i >= first + n ? n : std::max<int64_t>(i - first, 0) / kUnit * kUnit;
      };
      if (place(begin) < place(end)) f(k, place(begin), place(end));
      first += n;
    }
  });
}

/// Takes the step on n elements that lie side by side.
template <class Step, class C>
void step_along(const typename Step::template Factors<simd::Vec<C>>& factors, C* param,
                const C* grad, C* const* states, int64_t n) {
  using V = simd::Vec<C>;
  constexpr int64_t kWidth = V::kWidth;
  constexpr size_t kStates = Step::kStates;
  const auto take = [&](C* p, const C* g, const auto& s) {
    V x = Step::kReads ? V::load(p) : V();
    V state[kStates + 1];
    for (size_t j = 0; j != kStates; ++j) state[j] = V::load(s[j]);
    Step::apply(factors, x, V::load(g), state);
    x.store(p);
    for (size_t j = 0; j != kStates; ++j) state[j].store(s[j]);
  };
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    std::array<C*, kStates> at;
    for (size_t j = 0; j != kStates; ++j) at[j] = states[j] + i;
    take(param + i, grad + i, at);
  }
  if (i == n) return;
  C rest[2 + kStates][kWidth] = {};
  const size_t bytes = static_cast<size_t>(n - i) * sizeof(C);
  std::array<C*, kStates> at;
  if constexpr (Step::kReads) std::memcpy(rest[0], param + i, bytes);
  std::memcpy(rest[1], grad + i, bytes);
  for (size_t j = 0; j != kStates; ++j) std::memcpy(at[j] = rest[2 + j], states[j] + i, bytes);
  take(rest[0], rest[1], at);
  std::memcpy(param + i, rest[0], bytes);
  for (size_t j = 0; j != kStates; ++j) std::memcpy(states[j] + i, at[j], bytes);
}

/// The same for elements of f16 or bf16, by way of floats.
template <class Step, class T>
  requires(!Step::kMasters)
void step_by_runs(const typename Step::template Factors<simd::Vec<float>>& factors, T* param,
                  const T* grad, int64_t n) {
  static_assert(Step::kStates == 0);
  float run[2][kRunLength];
  for (int64_t i = 0; i < n; i += kRunLength) {
    const int64_t count = std::min(kRunLength, n - i);
    if constexpr (Step::kReads) load_run(param + i, 1, count, run[0]);
    load_run(grad + i, 1, count, run[1]);
    float* const* no_states = nullptr;
    step_along<Step>(factors, run[0], run[1], no_states, count);
    store_run(run[0], count, param + i, 1);
  }
}

/// The value that a step works on: the master, unless somebody wrote to the parameter.
template <class T>
float current(T param, float master) {
  return static_cast<T>(master) == param ? master : static_cast<float>(param);
}

/// And with masters, which come after the states.
template <class Step, class T>
  requires(Step::kMasters)
void step_by_runs(const typename Step::template Factors<simd::Vec<float>>& factors, T* param,
                  const T* grad, float* const* kept, int64_t n) {
  constexpr size_t kStates = Step::kStates;
  float run[kRunLength];
  for (int64_t i = 0; i < n; i += kRunLength) {
    const int64_t count = std::min(kRunLength, n - i);
    float* master = kept[kStates] + i;
    for (int64_t j = 0; j < count; ++j) master[j] = current(param[i + j], master[j]);
    load_run(grad + i, 1, count, run);
    std::array<float*, kStates> at;
    for (size_t j = 0; j != kStates; ++j) at[j] = kept[j] + i;
    step_along<Step>(factors, master, run, at.data(), count);
    store_run(master, count, param + i, 1);
  }
}

template <class O>
void run_vectorized(const typename O::Params& p, const Call& c) {
  if (is_skipped(c.in[1])) return;
  O::visit(p, [&]<class Step>() {
    const auto lists = lists_of(p, c.in);
    const auto numbers = numbers_of<Step>(c.in[0]);
    const int64_t step = step_of(c.in[1]);
    const auto floats = Step::template factors<simd::Vec<float>>(p, numbers.data(), step);
    const auto doubles = Step::template factors<simd::Vec<double>>(p, numbers.data(), step);
    for_all_elements(lists.targets(), [&](size_t k, int64_t begin, int64_t end) {
      switch_float(lists.target(k).dtype(), O::kName, [&]<class T>() {
        using C = Compute<T>;
        constexpr bool kMaster = Step::kMasters && !kComputesInPlace<T>;
        std::array<C*, Step::kStates + kMaster> kept;
        for (size_t s = 0; s < kept.size(); ++s)
          kept[s] = lists.state(s, k).template as<C>() + begin;
        T* param = lists.target(k).template as<T>() + begin;
        const T* grad = lists.grad(k).template as<T>() + begin;
        if constexpr (std::is_same_v<T, double>) {
          step_along<Step>(doubles, param, grad, kept.data(), end - begin);
        } else if constexpr (std::is_same_v<T, float>) {
          step_along<Step>(floats, param, grad, kept.data(), end - begin);
        } else if constexpr (kMaster) {
          step_by_runs<Step>(floats, param, grad, kept.data(), end - begin);
        } else {
          step_by_runs<Step>(floats, param, grad, end - begin);
        }
      });
    });
  });
}

template <class O>
void run_reference(const typename O::Params& p, const Call& c) {
  if (is_skipped(c.in[1])) return;
  O::visit(p, [&]<class Step>() {
    const auto lists = lists_of(p, c.in);
    const auto numbers = numbers_of<Step>(c.in[0]);
    const auto factors = Step::template factors<double>(p, numbers.data(), step_of(c.in[1]));
    for (size_t k = 0; k < lists.count; ++k) {
      switch_float(lists.target(k).dtype(), O::kName, [&]<class T>() {
        using C = Compute<T>;
        constexpr bool kMaster = Step::kMasters && !kComputesInPlace<T>;
        T* param = lists.target(k).template as<T>();
        const T* grad = lists.grad(k).template as<T>();
        for (int64_t i = 0; i < lists.target(k).numel(); ++i) {
          double states[Step::kStates + 1];
          const auto kept = [&](size_t s) -> C& { return lists.state(s, k).template as<C>()[i]; };
          for (size_t s = 0; s != Step::kStates; ++s) states[s] = static_cast<double>(kept(s));
          double x = Step::kReads ? static_cast<double>(param[i]) : 0;
          if constexpr (kMaster) x = current(param[i], kept(Step::kStates));
          Step::apply(factors, x, static_cast<double>(grad[i]), states);
          param[i] = static_cast<T>(static_cast<C>(x));
          if constexpr (kMaster) kept(Step::kStates) = static_cast<C>(x);
          for (size_t s = 0; s != Step::kStates; ++s) kept(s) = static_cast<C>(states[s]);
        }
      });
    }
  });
}

template <class O>
OpDef define() {
  return Op<typename O::Params>(O::kName)
      .inputs({"numbers?", "step?", "tensors..."})
      .outputs({})
      .template infer<infer<O>>()
      .template mutates<mutates<O>>()
      .no_gradient("it is an update")
      .cpu({kernel<supports<O>, run_vectorized<O>>("vectorized"),
            kernel<supports<O>, run_reference<O>>("reference")})
      .build();
}

}  // namespace mica::update
