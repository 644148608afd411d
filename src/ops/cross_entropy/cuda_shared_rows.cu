// The loss and its gradient of many classes: a block keeps a row of logits in shared memory, so
// that it is read once. Two blocks share a multiprocessor: while one computes, the other reads or
// writes.
#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/ops/cross_entropy/cuda_shared_rows.h"
#include "mica/ops/cross_entropy/cuda_targets.cuh"
#include "mica/runtime/cuda/async_copy.cuh"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 512;
constexpr int kSumThreads = 1024;
constexpr int64_t kFewClasses = 4096;
constexpr int64_t kMostBytes = 108 << 10;  // of a row: two of them fit

/// How many targets count; one block.
__global__ void __launch_bounds__(kSumThreads)
    count_targets(CudaTargets targets, int64_t rows, int64_t* count) {
  wait_for_inputs();
  int64_t mine = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < rows; i += kSumThreads)
    mine += targets[i] != targets.ignored ? 1 : 0;
  mine = block_sum<kSumThreads>(mine);
  if (threadIdx.x == 0) *count = mine;
}

/// The mean of the rows' losses, in a fixed order; one block.
__global__ void __launch_bounds__(kSumThreads)
    mean_loss(const float* losses, int64_t rows, const int64_t* count, float* loss) {
  wait_for_inputs();
  float mine = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < rows; i += kSumThreads) mine += losses[i];
  mine = block_sum<kSumThreads>(mine);
  if (threadIdx.x == 0) *loss = mine / static_cast<float>(*count);
}

template <class T>
__global__ void __launch_bounds__(kThreads, 2)
    loss_and_grad(const T* __restrict__ logits, CudaTargets targets, int classes, float smoothing,
                  const int64_t* __restrict__ count, float* __restrict__ losses,
                  T* __restrict__ grad) {
  constexpr int V = kVec16<T>;
  constexpr float kMost = std::numeric_limits<float>::max();
  extern __shared__ float4 space[];
  const auto* row = reinterpret_cast<const T*>(space);
  wait_for_inputs();
  const int64_t start = int64_t{blockIdx.x} * classes;
  const int vectors = classes / V;
  const auto first = static_cast<int>(threadIdx.x);
  for (int j = first; j < vectors; j += kThreads)
    copy_async<16>(reinterpret_cast<float*>(space + j), logits + start + int64_t{j} * V);
  const int64_t target = targets[blockIdx.x];
  const float share = 1 / static_cast<float>(*count);
  const bool valid = target >= 0 && target < classes;
  wait_all_copies();
  // Of the vectors that this thread copied itself.
  float largest = -kMost;
  float total = 0;
  for (int j = first; j < vectors; j += kThreads) {
    const Vec<T, V> v = load_vec<V>(row + j * V);
#pragma unroll
    for (int e = 0; e < V; ++e) largest = fmaxf(largest, to_compute(v.v[e]));
    if (smoothing != 0) {
#pragma unroll
      for (int e = 0; e < V; ++e) total += to_compute(v.v[e]);
    }
  }
  // It stays finite, so that infinite logits give the infinite logarithm they should.
  largest = fminf(block_reduce<kThreads>(largest, -kMost, MaxOf{}), kMost);
  float sum = 0;
  for (int j = first; j < vectors; j += kThreads) {
    const Vec<T, V> v = load_vec<V>(row + j * V);
#pragma unroll
    for (int e = 0; e < V; ++e) sum += exp_of(to_compute(v.v[e]) - largest);
  }
  sum = block_sum<kThreads>(sum);
  if (smoothing != 0) total = block_sum<kThreads>(total);
  const float lse = largest + logf(sum);
  const bool counts_here = target != targets.ignored;
  const float off = smoothing / static_cast<float>(classes);
  const float factor = !counts_here ? 0.0F : valid ? share : NAN;
  const auto aimed = static_cast<int>(valid ? target : -1);
  for (int j = first; j < vectors; j += kThreads) {
    const Vec<T, V> v = load_vec<V>(row + j * V);
    float g[V];
#pragma unroll
    for (int e = 0; e < V; ++e) g[e] = factor * (exp_of(to_compute(v.v[e]) - lse) - off);
    if (aimed / V == j && aimed >= 0) {
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (aimed % V == e)
          g[e] = factor * (exp_of(to_compute(v.v[e]) - lse) - (off + (1 - smoothing)));
    }
    if (!counts_here) {
#pragma unroll
      for (int e = 0; e < V; ++e) g[e] = 0;  // of any logits
    }
    store_vec<V>(grad + start + int64_t{j} * V, pack<T>(g));
  }
  if (threadIdx.x != 0) return;
  float value = valid ? lse - to_compute(logits[start + target]) : NAN;
  if (smoothing != 0)
    value = (1 - smoothing) * value + smoothing * (lse - total / static_cast<float>(classes));
  losses[blockIdx.x] = counts_here ? value : 0;
}

struct State : KernelState {
  int64_t rows = 0;
};

Support supports(const CrossEntropyParams&, const Specs& s) {
  const TensorSpec& logits = s.in[0];
  const int64_t bytes = logits.shape[1] * static_cast<int64_t>(size_of(logits.dtype));
  if (logits.dtype == DType::f64) return Support::no("computes f32, f16 and bf16");
  if (logits.shape[1] < kFewClasses) return Support::no("few classes");
  if (bytes > kMostBytes) return Support::no("shared memory does not hold two rows");
  if (bytes % 16 != 0 || !logits.aligned || !s.out[1].aligned)
    return Support::no("rows that are not whole vectors");
  if (logits.shape[0] == 0) return Support::no("there is nothing to compute");
  return Support::yes().with_contiguous(0b11);
}

/// The count, then the loss of each row.
std::shared_ptr<State> prepare(const CrossEntropyParams&, const Specs& s) {
  auto state = std::make_shared<State>();
  state->rows = s.in[0].shape[0];
  state->workspace_bytes = sizeof(int64_t) + static_cast<size_t>(state->rows) * sizeof(float);
  return state;
}

void run(const CrossEntropyParams& p, const State& s, const Call& c) {
  const CudaTargets targets{c.in[1].data, c.in[1].dtype(), p.ignore_index};
  auto* count = static_cast<int64_t*>(c.workspace);
  auto* losses = reinterpret_cast<float*>(count + 1);
  const ProgrammaticLaunch overlap;
  c.encoder->launch(count_targets, 1, kSumThreads, 0, targets, s.rows, count);
  const auto launch = [&]<class T>() {
    const int64_t classes = c.in[0].shape()[1];
    c.encoder->launch(loss_and_grad<T>, static_cast<unsigned>(s.rows), kThreads,
                      static_cast<size_t>(classes) * sizeof(T), c.in[0].as<const T>(), targets,
                      static_cast<int>(classes), static_cast<float>(p.label_smoothing), count,
                      losses, c.out[1].as<T>());
  };
  if (c.in[0].dtype() == DType::f32) {
    launch.operator()<float>();
  } else if (c.in[0].dtype() == DType::f16) {
    launch.operator()<__half>();
  } else {
    launch.operator()<__nv_bfloat16>();
  }
  c.encoder->launch(mean_loss, 1, kSumThreads, 0, losses, s.rows, count, c.out[0].as<float>());
}

}  // namespace

Kernel cross_entropy_with_grad_shared_kernel() {
  return kernel<supports, prepare, run>("shared_rows");
}

}  // namespace mica
