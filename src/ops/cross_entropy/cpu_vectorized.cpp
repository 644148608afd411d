#include <algorithm>
#include <bit>
#include <cmath>

#include "mica/ops/cross_entropy/targets.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {
namespace {

constexpr int64_t kElementsPerThread = 1 << 13;

double exp_of(double x) { return std::exp(x); }

// For x <= 0 and without branches, so that loops over it become vector code: 2^n times a polynomial
// for e^r with |r| <= log(2) / 2, within 2 ulp. Results below the smallest normal number are 0.
float exp_of(float x) {
  constexpr float kSmallest = -87.33654F;
  const float inside = x < kSmallest ? kSmallest : x;
  const float n = std::rint(inside * 1.44269504F);
  const float r = inside - n * 0.693359375F + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const auto power = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < kSmallest ? 0.0F : p * power;
}

template <class T>
T logsumexp(const T* row, int64_t classes) {
  T largest = row[0];
#pragma omp simd reduction(max : largest)
  for (int64_t c = 1; c < classes; ++c) largest = row[c] > largest ? row[c] : largest;
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < classes; ++c) sum += exp_of(row[c] - largest);
  return largest + std::log(sum);
}

template <class T>
T mean(const T* row, int64_t classes) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < classes; ++c) sum += row[c];
  return sum / static_cast<T>(classes);
}

struct State : KernelState {};

Support supports(const CrossEntropyParams&, const Specs& specs) {
  if (specs.in[0].dtype != DType::f32 && specs.in[0].dtype != DType::f64)
    return Support::no("computes f32 and f64 only");
  return Support::yes().with_contiguous(1);
}

// The workspace holds the rows' losses, so that their sum has one order.
std::shared_ptr<State> prepare(const CrossEntropyParams&, const Specs& specs) {
  auto state = std::make_shared<State>();
  state->workspace_bytes = static_cast<size_t>(specs.in[0].shape[0]) * sizeof(double);
  return state;
}

template <class T>
void forward(const CrossEntropyParams& params, const Call& call) {
  const int64_t rows = call.in[0].shape()[0];
  const int64_t classes = call.in[0].shape()[1];
  const Targets targets(call.in[1], classes, params.ignore_index);
  const auto smoothing = static_cast<T>(params.label_smoothing);
  auto* losses = static_cast<double*>(call.workspace);
  parallel_for(rows, std::max<int64_t>(1, kElementsPerThread / classes),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const T* logits = call.in[0].as<T>() + row * classes;
                   const T lse = logsumexp(logits, classes);
                   call.out[1].as<T>()[row] = lse;
                   const int64_t target = targets[row];
                   T loss = 0;
                   if (target != Targets::kIgnored) loss = (1 - smoothing) * (lse - logits[target]);
                   if (target != Targets::kIgnored && smoothing > 0)
                     loss += smoothing * (lse - mean(logits, classes));
                   losses[row] = static_cast<double>(loss);
                 }
               });
  double total = 0;
  for (int64_t row = 0; row < rows; ++row) total += losses[row];
  *call.out[0].as<T>() = static_cast<T>(total / static_cast<double>(targets.counted()));
}

void run(const CrossEntropyParams& params, const State&, const Call& call) {
  if (call.in[0].dtype() == DType::f64) return forward<double>(params, call);
  forward<float>(params, call);
}

Support supports_grad(const CrossEntropyParams&, const Specs& specs) {
  if (specs.out[0].dtype != DType::f32 && specs.out[0].dtype != DType::f64)
    return Support::no("computes f32 and f64 only");
  return Support::yes().with_contiguous(0b1010);
}

template <class T>
void backward(const CrossEntropyParams& params, const Call& call) {
  const int64_t rows = call.in[1].shape()[0];
  const int64_t classes = call.in[1].shape()[1];
  const Targets targets(call.in[2], classes, params.ignore_index);
  const T scale = *call.in[0].as<T>() / static_cast<T>(targets.counted());
  const double share = params.label_smoothing / static_cast<double>(classes);
  const auto wanted = static_cast<T>(1 - params.label_smoothing + share);  // of the target's class
  const auto others = static_cast<T>(share);
  parallel_for(rows, std::max<int64_t>(1, kElementsPerThread / classes),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const T* logits = call.in[1].as<T>() + row * classes;
                   T* result = call.out[0].as<T>() + row * classes;
                   const T lse = call.in[3].as<T>()[row];
                   const int64_t target = targets[row];
                   if (target == Targets::kIgnored) {
                     std::fill_n(result, classes, T(0));
                     continue;
                   }
#pragma omp simd
                   for (int64_t c = 0; c < classes; ++c)
                     result[c] = scale * (exp_of(logits[c] - lse) - others);
                   result[target] = scale * (exp_of(logits[target] - lse) - wanted);
                 }
               });
}

void run_grad(const CrossEntropyParams& params, const Call& call) {
  if (call.out[0].dtype() == DType::f64) return backward<double>(params, call);
  backward<float>(params, call);
}

}  // namespace

Kernel cross_entropy_vectorized_kernel() { return kernel<supports, prepare, run>("vectorized"); }
Kernel cross_entropy_grad_vectorized_kernel() {
  return kernel<supports_grad, run_grad>("vectorized");
}

}  // namespace mica
