#include "mica/op/kernel.h"
#include "mica/ops/schedule_lr/rate_at.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace {

constexpr int kThreads = 32;

__global__ void advance(const RateCurve* curve, const double* base_lr, const bool* where,
                        int64_t* steps, int64_t* number, double* lr, int64_t groups) {
  if (where && !*where) {
    if (threadIdx.x == 0) *number = 0;
    return;
  }
  const int64_t done = *steps;
  for (int64_t g = threadIdx.x; g < groups; g += kThreads)
    lr[g] = rate_at(curve, kRateCurves, base_lr[g], done);
  __syncthreads();
  if (threadIdx.x == 0) *number = *steps = done + 1;
}

void run(const NoParams&, const Call& c) {
  c.encoder->launch(advance, 1, kThreads, 0, c.in[0].as<const RateCurve>(),
                    c.in[1].as<const double>(), c.in[2].as<const bool>(), c.in[3].as<int64_t>(),
                    c.in[4].as<int64_t>(), c.in[5].as<double>(), c.in[1].numel());
}

}  // namespace

KernelList schedule_lr_cuda_kernels() {
  return {kernel<supports_all<NoParams>, run>("single_block")};
}

}  // namespace mica
