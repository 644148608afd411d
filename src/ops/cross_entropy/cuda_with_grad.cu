// The loss and its gradient of few rows and classes: one block keeps the logits in registers until
// it knows how many rows count.
#include "mica/ops/cross_entropy/composed.h"
#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/ops/cross_entropy/cuda_shared_rows.h"
#include "mica/ops/cross_entropy/cuda_targets.cuh"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 1024;
constexpr int kLanes = 8;  ///< of a row
constexpr int kEach = 4;   ///< classes of a lane
constexpr int kRows = 4;   ///< of kLanes lanes
constexpr int kGroups = kThreads / kLanes;

/// logits and grad (rows, classes).
template <class T>
__global__ void __launch_bounds__(kThreads)
    loss_and_grad(const T* __restrict__ logits, CudaTargets targets, int rows, int classes,
                  Compute<T> smoothing, Compute<T>* __restrict__ loss, T* __restrict__ grad) {
  wait_for_inputs();
  using C = Compute<T>;
  using Row = LossRow<C, kLanes, kEach>;
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  Row row[kRows];
  int64_t target[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int at = r * kGroups + group;
    const bool present = at < rows;
    target[r] = present ? targets[at] : targets.ignored;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int c = Row::class_of(e);
      row[r].x[e] = present && c < classes ? to_compute(logits[at * classes + c]) : C(0);
    }
  }
  C sum_of_losses = 0;
  int counted = 0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r * kGroups >= rows) break;
    const C value = row[r].softmax(target[r], classes, smoothing);
    if (Row::lane() != 0 || target[r] == targets.ignored) continue;
    sum_of_losses += value;
    ++counted;
  }
  sum_of_losses = block_sum<kThreads>(sum_of_losses);
  counted = block_sum<kThreads>(counted);
  if (threadIdx.x == 0) *loss = sum_of_losses / static_cast<C>(counted);
  const C share = C(1) / static_cast<C>(counted);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int at = r * kGroups + group;
    if (at >= rows) break;
    row[r].write_grad(grad + at * classes, target[r], targets.ignored, classes, smoothing, share);
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
    const ProgrammaticLaunch overlap;
    c.encoder->launch(loss_and_grad<T>, 1, kThreads, 0, c.in[0].as<const T>(), targets,
                      static_cast<int>(c.in[0].shape()[0]), static_cast<int>(c.in[0].shape()[1]),
                      static_cast<C>(p.label_smoothing), c.out[0].as<C>(), c.out[1].as<T>());
  });
}

}  // namespace

KernelList cross_entropy_with_grad_cuda_kernels() {
  return {kernel<supports, run>("one_block"), cross_entropy_with_grad_shared_kernel(),
          cross_entropy_with_grad_composed_kernel()};
}

}  // namespace mica
