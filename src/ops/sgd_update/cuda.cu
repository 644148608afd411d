#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/sgd_update/sgd_update.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int kPerThread = 4;
constexpr int64_t kChunk = kThreads * kPerThread;  ///< elements of a block
constexpr int kMostTensors = 96;  ///< of a launch; their addresses are kernel parameters

template <class T>
struct Group {
  struct Entry {
    T* param;
    const T* grad;
    T* momentum;
    int64_t n;
  };
  Entry entries[kMostTensors];
  unsigned end[kMostTensors];  ///< one past the last block of each tensor
};

template <class C>
struct Factors {
  C momentum, fresh, decay;
  bool nesterov;
};

template <class T, bool kMomentum>
__global__ void __launch_bounds__(kThreads)
    update(const __grid_constant__ Group<T> group, const float* lr, Factors<Compute<T>> f) {
  using C = Compute<T>;
  int k = 0;
  while (blockIdx.x >= group.end[k]) ++k;
  const typename Group<T>::Entry e = group.entries[k];
  const unsigned block = blockIdx.x - (k == 0 ? 0 : group.end[k - 1]);
  const C rate = static_cast<C>(*lr);
  const int64_t first = block * kChunk + threadIdx.x;
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    const int64_t i = first + j * kThreads;
    if (i >= e.n) break;
    const C p = to_compute(e.param[i]);
    const C g = to_compute(e.grad[i]) + f.decay * p;
    C direction = g;
    if constexpr (kMomentum) {
      const C m = f.momentum * to_compute(e.momentum[i]) + f.fresh * g;
      e.momentum[i] = convert<T>(m);
      direction = f.nesterov ? g + f.momentum * m : m;
    }
    e.param[i] = convert<T>(p - rate * direction);
  }
}

Support supports(const SgdParams& p, const Specs& s) {
  const auto n = static_cast<size_t>(p.count);
  for (size_t i = 1; i < s.in.size(); ++i) {
    const TensorSpec& param = s.in[1 + (i - 1) % n];
    if (s.in[i].strides != param.strides)
      return Support::no("a gradient is laid out otherwise than its parameter");
    if (param.dtype != s.in[1].dtype) return Support::no("the parameters differ in dtype");
  }
  return Support::yes();
}

template <class T>
void run_as(const SgdParams& p, const Call& c) {
  using C = Compute<T>;
  const auto count = static_cast<size_t>(p.count);
  const Factors<C> factors{.momentum = static_cast<C>(p.momentum),
                           .fresh = static_cast<C>(1 - p.dampening),
                           .decay = static_cast<C>(p.weight_decay),
                           .nesterov = p.nesterov};
  const bool momentum = p.momentum != 0;
  size_t k = 1;
  while (k <= count) {
    Group<T> group{};
    int tensors = 0;
    unsigned blocks = 0;
    for (; k <= count && tensors < kMostTensors; ++k) {
      const int64_t n = c.in[k].numel();
      if (n == 0) continue;
      group.entries[tensors] = {.param = c.in[k].as<T>(),
                                .grad = c.in[k + count].as<const T>(),
                                .momentum = momentum ? c.in[k + 2 * count].as<T>() : nullptr,
                                .n = n};
      blocks += static_cast<unsigned>(ceil_div(n, kChunk));
      group.end[tensors++] = blocks;
    }
    c.encoder->launch(momentum ? update<T, true> : update<T, false>, blocks, kThreads, 0, group,
                      c.in[0].as<const float>(), factors);
  }
}

void run(const SgdParams& p, const Call& c) {
  cuda_switch_float(c.in[1].dtype(), "sgd_update", [&]<class T>() { run_as<T>(p, c); });
}

}  // namespace

KernelList sgd_update_cuda_kernels() { return {kernel<supports, run>("multi_tensor")}; }

}  // namespace mica
