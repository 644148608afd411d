#pragma once

// Ops that go through lists of tensors: what they share on every device, and their CPU kernels.
// Inputs: a scalar, a step count, `count` targets, `count` gradients, `count` tensors of each
// state.
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

inline double scalar_of(const Arg& a) {
  if (!a.defined()) return 0;
  return a.dtype() == DType::f64 ? *a.as<double>() : static_cast<double>(*a.as<float>());
}
inline int64_t step_of(const Arg& a) { return a.defined() ? *a.as<int64_t>() : 0; }

template <class O>
size_t states_of(const typename O::Params& p) {
  return O::visit(p, []<class Step>() { return static_cast<size_t>(Step::kStates); });
}

template <class O>
void infer(const typename O::Params& p, std::span<const TensorSpec> in, OutSpecs&) {
  const size_t states = states_of<O>(p);
  check(p.count >= 0 && static_cast<size_t>(p.count) <= in.size(),
        "{}: expected a number of tensors, got {}", O::kName, p.count);
  const auto lists = lists_of(p, in);
  const size_t n = lists.count;
  check(in.size() == kScalars + (2 + states) * n, "{}: expected {} inputs, got {}", O::kName,
        kScalars + (2 + states) * n, in.size());
  if constexpr (O::kScalar != nullptr)
    check<DTypeError>(in[0].defined && in[0].numel() == 1 &&
                          (in[0].dtype == DType::f32 || in[0].dtype == DType::f64),
                      "{}: {} must be one f32 or f64 number, got {}", O::kName, O::kScalar, in[0]);
  check<DTypeError>(
      in[1].defined ? in[1].numel() == 1 && in[1].dtype == DType::i64 : !O::kNeedsStep,
      "{}: step must be one i64 number, got {}", O::kName, in[1]);
  for (size_t k = 0; k < n; ++k) {
    const TensorSpec& param = lists.target(k);
    check<DTypeError>(is_floating(param.dtype), "{}: parameter {} must be floating, got {}",
                      O::kName, k, param.dtype);
    check(param.is_contiguous() || param.is_channels_last(),
          "{}: parameter {} must be dense, got {}", O::kName, k, param);
    const auto expect = [&](const TensorSpec& other, const char* what) {
      check<ShapeError>(other.shape == param.shape && other.dtype == param.dtype,
                        "{}: {} {} must be like its parameter {}, got {}", O::kName, what, k, param,
                        other);
    };
    expect(lists.grad(k), "gradient");
    for (size_t s = 0; s < states; ++s)
      expect(lists.state(s, k), O::state_name(p, static_cast<int>(s)));
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
void step_by_runs(const typename Step::template Factors<simd::Vec<float>>& factors, T* param,
                  const T* grad, T* const* states, int64_t n) {
  constexpr size_t kStates = Step::kStates;
  float run[2 + kStates][kRunLength];
  std::array<float*, kStates> at;
  for (size_t j = 0; j != kStates; ++j) at[j] = run[2 + j];
  for (int64_t i = 0; i < n; i += kRunLength) {
    const int64_t count = std::min(kRunLength, n - i);
    if constexpr (Step::kReads) load_run(param + i, 1, count, run[0]);
    load_run(grad + i, 1, count, run[1]);
    for (size_t j = 0; j != kStates; ++j) load_run(states[j] + i, 1, count, at[j]);
    step_along<Step>(factors, run[0], run[1], at.data(), count);
    store_run(run[0], count, param + i, 1);
    for (size_t j = 0; j != kStates; ++j) store_run(at[j], count, states[j] + i, 1);
  }
}

template <class O>
void run_vectorized(const typename O::Params& p, const Call& c) {
  O::visit(p, [&]<class Step>() {
    const auto lists = lists_of(p, c.in);
    const double scalar = scalar_of(c.in[0]);
    const int64_t step = step_of(c.in[1]);
    const auto floats = Step::template factors<simd::Vec<float>>(p, scalar, step);
    const auto doubles = Step::template factors<simd::Vec<double>>(p, scalar, step);
    for_all_elements(lists.targets(), [&](size_t k, int64_t begin, int64_t end) {
      switch_float(lists.target(k).dtype(), O::kName, [&]<class T>() {
        std::array<T*, Step::kStates> states;
        for (size_t s = 0; s < states.size(); ++s)
          states[s] = lists.state(s, k).template as<T>() + begin;
        T* param = lists.target(k).template as<T>() + begin;
        const T* grad = lists.grad(k).template as<T>() + begin;
        if constexpr (std::is_same_v<T, double>) {
          step_along<Step>(doubles, param, grad, states.data(), end - begin);
        } else if constexpr (std::is_same_v<T, float>) {
          step_along<Step>(floats, param, grad, states.data(), end - begin);
        } else {
          step_by_runs<Step>(floats, param, grad, states.data(), end - begin);
        }
      });
    });
  });
}

template <class O>
void run_reference(const typename O::Params& p, const Call& c) {
  O::visit(p, [&]<class Step>() {
    const auto lists = lists_of(p, c.in);
    const auto factors = Step::template factors<double>(p, scalar_of(c.in[0]), step_of(c.in[1]));
    for (size_t k = 0; k < lists.count; ++k) {
      switch_float(lists.target(k).dtype(), O::kName, [&]<class T>() {
        T* param = lists.target(k).template as<T>();
        const T* grad = lists.grad(k).template as<T>();
        for (int64_t i = 0; i < lists.target(k).numel(); ++i) {
          double x = Step::kReads ? static_cast<double>(param[i]) : 0;
          double states[Step::kStates + 1];
          const auto state = [&](size_t s) -> T& { return lists.state(s, k).template as<T>()[i]; };
          for (size_t s = 0; s != Step::kStates; ++s) states[s] = static_cast<double>(state(s));
          Step::apply(factors, x, static_cast<double>(grad[i]), states);
          param[i] = static_cast<T>(x);
          for (size_t s = 0; s != Step::kStates; ++s) state(s) = static_cast<T>(states[s]);
        }
      });
    }
  });
}

template <class O>
OpDef define() {
  return Op<typename O::Params>(O::kName)
      .inputs({"scalar?", "step?", "tensors..."})
      .outputs({})
      .template infer<infer<O>>()
      .template mutates<mutates<O>>()
      .no_gradient("it is an update")
      .cpu({kernel<supports<O>, run_vectorized<O>>("vectorized"),
            kernel<supports<O>, run_reference<O>>("reference")})
      .build();
}

}  // namespace mica::update
