#include <algorithm>
#include <cmath>

#include "mica/ops/cross_entropy/targets.h"
#include "mica/runtime/cpu/exp.h"
#include "mica/runtime/cpu/parallel.h"
#include "mica/runtime/cpu/runs.h"

namespace mica {
namespace {

using simd::Vec;

constexpr int64_t kElementsPerThread = 1 << 13;

struct State : KernelState {};

Support supports(const CrossEntropyParams&, const Specs&) {
  return Support::yes().with_contiguous(1);
}
Support supports_grad(const CrossEntropyParams&, const Specs&) {
  return Support::yes().with_contiguous(0b1010);
}

// The workspace holds the rows' losses, so that their sum has one order.
std::shared_ptr<State> prepare(const CrossEntropyParams&, const Specs& specs) {
  auto state = std::make_shared<State>();
  state->workspace_bytes = static_cast<size_t>(specs.in[0].shape[0]) * sizeof(double);
  return state;
}

/// Calls f(row) for each row, in parallel.
template <class F>
void for_rows(int64_t rows, int64_t classes, F&& f) {
  parallel_for(rows, std::max<int64_t>(1, kElementsPerThread / classes),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) f(row);
               });
}

template <class T>
double logsumexp(const T* row, int64_t classes) {
  using C = Compute<T>;
  RunReader<T> reader;
  C largest = -kInfinity<C>;
  for_runs<T>(classes, [&](int64_t i, int64_t count) {
    largest = std::max(largest, largest_of(reader(row + i, count), count));
  });
  const Vec<C> shift(largest);
  double sum = 0;
  for_runs<T>(classes, [&](int64_t i, int64_t count) {
    const C* z = reader(row + i, count);
    sum += sum_vectors<C>(count, [&](int64_t k, int64_t lanes) {
      return simd::exp_inline(load_lanes(z + k, lanes, -kInfinity<C>) - shift);
    });
  });
  return static_cast<double>(largest) + std::log(sum);
}

template <class T>
void forward(const CrossEntropyParams& params, const Call& call) {
  using C = Compute<T>;
  const int64_t rows = call.in[0].shape()[0];
  const int64_t classes = call.in[0].shape()[1];
  const Targets targets(call.in[1], classes, params.ignore_index);
  const double smoothing = params.label_smoothing;
  auto* losses = static_cast<double*>(call.workspace);
  for_rows(rows, classes, [&](int64_t row) {
    const T* logits = call.in[0].as<T>() + row * classes;
    const double lse = logsumexp(logits, classes);
    call.out[1].as<C>()[row] = static_cast<C>(lse);
    const int64_t target = targets[row];
    losses[row] = 0;
    if (target == Targets::kIgnored) return;
    losses[row] = (1 - smoothing) * (lse - static_cast<double>(logits[target]));
    if (smoothing > 0) {
      const double sum = sum_run(logits, logits, 0, classes, [](Vec<C> z, Vec<C>) { return z; });
      losses[row] += smoothing * (lse - sum / static_cast<double>(classes));
    }
  });
  double total = 0;
  for (int64_t row = 0; row < rows; ++row) total += losses[row];
  *call.out[0].as<C>() = static_cast<C>(total / static_cast<double>(targets.counted()));
}

void run(const CrossEntropyParams& params, const State&, const Call& call) {
  switch_float(call.in[0].dtype(), "cross_entropy", [&]<class T>() { forward<T>(params, call); });
}

template <class T>
void backward(const CrossEntropyParams& params, const Call& call) {
  using C = Compute<T>;
  const int64_t rows = call.in[1].shape()[0];
  const int64_t classes = call.in[1].shape()[1];
  const Targets targets(call.in[2], classes, params.ignore_index);
  const C scale = *call.in[0].as<C>() / static_cast<C>(targets.counted());
  const double share = params.label_smoothing / static_cast<double>(classes);
  for_rows(rows, classes, [&](int64_t row) {
    const T* logits = call.in[1].as<T>() + row * classes;
    T* result = call.out[0].as<T>() + row * classes;
    const C lse = call.in[3].as<C>()[row];
    const int64_t target = targets[row];
    if (target == Targets::kIgnored) {
      std::fill_n(result, classes, T(0));
      return;
    }
    const Vec<C> factor(scale), shift(lse), others(share);
    const auto value = [&](Vec<C> z, Vec<C> wanted) {
      return factor * (simd::exp_inline(z - shift) - wanted);
    };
    map_run(logits, logits, result, classes, [&](Vec<C> z, Vec<C>) { return value(z, others); });
    const Vec<C> logit(static_cast<C>(logits[target]));
    result[target] = static_cast<T>(value(logit, Vec<C>(1 - params.label_smoothing + share))[0]);
  });
}

void run_grad(const CrossEntropyParams& params, const Call& call) {
  switch_float(call.out[0].dtype(), "cross_entropy_grad",
               [&]<class T>() { backward<T>(params, call); });
}

}  // namespace

Kernel cross_entropy_vectorized_kernel() { return kernel<supports, prepare, run>("vectorized"); }
Kernel cross_entropy_grad_vectorized_kernel() {
  return kernel<supports_grad, run_grad>("vectorized");
}

}  // namespace mica
