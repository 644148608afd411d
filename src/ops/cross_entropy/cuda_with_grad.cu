// The loss and its gradient of few rows and classes: one block keeps the logits in registers until
// it knows how many rows count.
#include <limits>

#include "mica/ops/cross_entropy/composed.h"
#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/ops/cross_entropy/cuda_targets.cuh"
#include "mica/runtime/cuda/ahead.cuh"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 1024;
constexpr int kLanes = 8;  ///< of a row
constexpr int kEach = 4;   ///< classes of a lane
constexpr int kRows = 4;   ///< of kLanes lanes
constexpr int kGroups = kThreads / kLanes;

template <class C, class F>
__device__ C over_lanes(C x, F combine) {
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    x = combine(x, __shfl_xor_sync(0xffffffffU, x, offset));
  return x;
}

/// logits and grad (rows, classes).
template <class T>
__global__ void __launch_bounds__(kThreads)
    loss_and_grad(const T* __restrict__ logits, CudaTargets targets, int rows, int classes,
                  Compute<T> smoothing, Compute<T>* __restrict__ loss, T* __restrict__ grad) {
  wait_for_inputs();
  using C = Compute<T>;
  constexpr C kMost = std::numeric_limits<C>::max();
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  C x[kRows][kEach];
  int64_t target[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = r * kGroups + group;
    const bool present = row < rows;
    target[r] = present ? targets[row] : targets.ignored;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int c = e * kLanes + lane;
      x[r][e] = present && c < classes ? to_compute(logits[row * classes + c]) : -kMost;
    }
  }
  // x becomes the softmax.
  C sum_of_losses = 0;
  int counted = 0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r * kGroups >= rows) break;
    C largest = -kMost;
    C total = 0;   // of the logits
    C wanted = 0;  // the target's logit
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int c = e * kLanes + lane;
      if (c >= classes) continue;
      largest = max(largest, x[r][e]);  // a NaN is in the sum
      total += x[r][e];
      if (c == target[r]) wanted = x[r][e];
    }
    // It stays finite, so that infinite logits give the infinite logarithm they should.
    largest = min(over_lanes(largest, MaxOf{}), kMost);
    wanted = over_lanes(wanted, SumOf{});
    if (smoothing != C(0)) total = over_lanes(total, SumOf{});
    C sum = 0;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      x[r][e] = e * kLanes + lane < classes ? exp_of(x[r][e] - largest) : C(0);
      sum += x[r][e];
    }
    sum = over_lanes(sum, SumOf{});
    const C scale = C(1) / sum;
#pragma unroll
    for (int e = 0; e < kEach; ++e) x[r][e] *= scale;
    const bool valid = target[r] >= 0 && target[r] < classes;
    if (lane != 0 || target[r] == targets.ignored) continue;
    const C lse = largest + log(sum);
    C value = valid ? lse - wanted : static_cast<C>(NAN);
    if (smoothing != C(0))
      value = (C(1) - smoothing) * value + smoothing * (lse - total / static_cast<C>(classes));
    sum_of_losses += value;
    ++counted;
  }
  sum_of_losses = block_sum<kThreads>(sum_of_losses);
  counted = block_sum<kThreads>(counted);
  if (threadIdx.x == 0) *loss = sum_of_losses / static_cast<C>(counted);
  const C share = C(1) / static_cast<C>(counted);
  const C off = smoothing / static_cast<C>(classes);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = r * kGroups + group;
    if (row >= rows) break;
    const C factor = target[r] >= 0 && target[r] < classes ? share : static_cast<C>(NAN);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int c = e * kLanes + lane;
      if (c >= classes) break;
      const C value = factor * (x[r][e] - (c == target[r] ? off + (C(1) - smoothing) : off));
      grad[row * classes + c] = convert<T>(target[r] == targets.ignored ? C(0) : value);
    }
  }
}

Support supports(const CrossEntropyParams&, const Specs& s) {
  if (s.in[0].shape[0] > kRows * kGroups || s.in[0].shape[1] > kEach * kLanes)
    return Support::no("more than a block keeps in registers");
  return Support::yes().with_contiguous(0b11);
}

void run(const CrossEntropyParams& p, const Call& c) {
  const CudaTargets targets{c.in[1].data, c.in[1].dtype(), p.ignore_index};
  cuda_switch_float(c.in[0].dtype(), "cross_entropy_with_grad", [&]<class T>() {
    using C = Compute<T>;
    const LaunchAhead ahead;
    c.encoder->launch(loss_and_grad<T>, 1, kThreads, 0, c.in[0].as<const T>(), targets,
                      static_cast<int>(c.in[0].shape()[0]), static_cast<int>(c.in[0].shape()[1]),
                      static_cast<C>(p.label_smoothing), c.out[0].as<C>(), c.out[1].as<T>());
  });
}

}  // namespace

KernelList cross_entropy_with_grad_cuda_kernels() {
  return {kernel<supports, run>("one_block"), cross_entropy_with_grad_composed_kernel()};
}

}  // namespace mica
