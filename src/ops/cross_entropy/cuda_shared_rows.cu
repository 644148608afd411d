// The loss and its gradient of many classes, f16 and bf16: a block keeps a row of logits in shared
// memory, so that it is read once, and has the next one come while it computes.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/ops/cross_entropy/cuda_shared_rows.h"
#include "mica/ops/cross_entropy/cuda_targets.cuh"
#include "mica/runtime/cuda/async_copy.cuh"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 1024;
constexpr int64_t kFewClasses = 4096;
constexpr int64_t kMostBytes = 112 << 10;  // of a row: two of them fit
constexpr float kLog2E = 1.4426950408889634F;

__device__ inline float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline __half2 larger(__half2 a, __half2 b) { return __hmax2(a, b); }
__device__ inline __nv_bfloat162 larger(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __hmax2(a, b);
}
template <class T>
using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;

/// How many targets count; one block.
__global__ void __launch_bounds__(kThreads)
    count_targets(CudaTargets targets, int64_t rows, int64_t* count) {
  wait_for_inputs();
  int64_t mine = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < rows; i += kThreads)
    mine += targets[i] != targets.ignored ? 1 : 0;
  mine = block_sum<kThreads>(mine);
  if (threadIdx.x == 0) *count = mine;
}

/// The mean of the rows' losses, in a fixed order; one block.
__global__ void __launch_bounds__(kThreads)
    mean_loss(const float* losses, int64_t rows, const int64_t* count, float* loss) {
  wait_for_inputs();
  float mine = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < rows; i += kThreads) mine += losses[i];
  mine = block_sum<kThreads>(mine);
  if (threadIdx.x == 0) *loss = mine / static_cast<float>(*count);
}

/// Every thread reads those vectors of a row alone that it copied itself.
template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    loss_and_grad(const T* __restrict__ logits, CudaTargets targets, int64_t rows, int classes,
                  float smoothing, const int64_t* __restrict__ count, float* __restrict__ losses,
                  T* __restrict__ grad) {
  constexpr int V = kVec16<T>;
  constexpr float kMost = std::numeric_limits<float>::max();
  extern __shared__ float4 space[];
  wait_for_inputs();
  const int vectors = classes / V;
  const auto first = static_cast<int>(threadIdx.x);
  const auto begin_copy = [&](int64_t row, int place) {
    for (int j = first; row < rows && j < vectors; j += kThreads)
      copy_async<16>(reinterpret_cast<float*>(space + place * vectors + j),
                     logits + row * classes + int64_t{j} * V);
    commit_copies();
  };
  const float share = 1 / static_cast<float>(*count);
  const float off = smoothing / static_cast<float>(classes);
  int place = 0;
  begin_copy(blockIdx.x, place);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x, place ^= 1) {
    begin_copy(row + gridDim.x, place ^ 1);
    wait_copies<1>();
    const auto* x = reinterpret_cast<const T*>(space + place * vectors);
    const int64_t target = targets[row];
    const bool valid = target >= 0 && target < classes;
    const bool counts_here = target != targets.ignored;
    float largest = -kMost;
    float total = 0;
    if (first < vectors) {
      Vec<Pair<T>, V / 2> most =
          load_vec<V / 2>(reinterpret_cast<const Pair<T>*>(x) + first * V / 2);
      for (int j = first + kThreads; j < vectors; j += kThreads) {
        const auto v = load_vec<V / 2>(reinterpret_cast<const Pair<T>*>(x) + j * V / 2);
#pragma unroll
        for (int e = 0; e < V / 2; ++e)
          most.v[e] = larger(most.v[e], v.v[e]);  // a NaN is in the sum
      }
#pragma unroll
      for (int e = 0; e < V / 2; ++e)
        largest = fmaxf(largest, fmaxf(to_compute(most.v[e].x), to_compute(most.v[e].y)));
    }
    // It stays finite, so that infinite logits give the infinite logarithm they should.
    largest = fminf(block_reduce<kThreads>(largest, -kMost, MaxOf{}), kMost);
    float sum = 0;
    const float shift = largest * kLog2E;
    for (int j = first; j < vectors; j += kThreads) {
      const Vec<T, V> v = load_vec<V>(x + j * V);
#pragma unroll
      for (int e = 0; e < V; ++e) sum += power_of_2(fmaf(to_compute(v.v[e]), kLog2E, -shift));
      if (smoothing != 0) {
#pragma unroll
        for (int e = 0; e < V; ++e) total += to_compute(v.v[e]);
      }
    }
    sum = block_sum<kThreads>(sum);
    if (smoothing != 0) total = block_sum<kThreads>(total);
    const float lse = largest + logf(sum);
    const float factor = valid ? share : NAN;
    const float by = lse * kLog2E;
    const auto slope = [&](float value, float wanted) {
      return factor * (power_of_2(fmaf(value, kLog2E, -by)) - wanted);
    };
    T* to = grad + row * classes;
    for (int j = first; j < vectors; j += kThreads) {
      const Vec<T, V> v = load_vec<V>(x + j * V);
      float g[V];
#pragma unroll
      for (int e = 0; e < V; ++e) g[e] = counts_here ? slope(to_compute(v.v[e]), off) : 0;
      store_vec<V>(to + int64_t{j} * V, pack<T>(g));
    }
    // By the thread that wrote the vector around it.
    if (valid && target / V % kThreads == first) {
      const float value = to_compute(x[target]);
      if (counts_here) to[target] = convert<T>(slope(value, off + (1 - smoothing)));
      float loss = lse - value;
      if (smoothing != 0)
        loss = (1 - smoothing) * loss + smoothing * (lse - total / static_cast<float>(classes));
      losses[row] = counts_here ? loss : 0;
    } else if (!valid && first == 0) {
      losses[row] = counts_here ? NAN : 0;
    }
  }
}

struct State : KernelState {
  int64_t rows = 0;
};

Support supports(const CrossEntropyParams&, const Specs& s) {
  constexpr int64_t kManyRows = 512;
  const TensorSpec& logits = s.in[0];
  if (size_of(logits.dtype) != 2) return Support::no("computes f16 and bf16");
  const int64_t bytes = logits.shape[1] * int64_t{2};
  if (logits.shape[1] < kFewClasses) return Support::no("few classes");
  if (bytes > kMostBytes) return Support::no("shared memory does not hold two rows");
  if (bytes % 16 != 0 || !logits.aligned || !s.out[1].aligned)
    return Support::no("rows that are not whole vectors");
  if (logits.shape[0] == 0) return Support::no("there is nothing to compute");
  Support support = logits.shape[0] < kManyRows ? Support::possible() : Support::yes();
  return std::move(support).with_contiguous(0b11);
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
  const auto blocks =
      static_cast<unsigned>(std::min<int64_t>(s.rows, c.encoder->multiprocessors()));
  c.encoder->launch(count_targets, 1, kThreads, 0, targets, s.rows, count);
  const auto launch = [&]<class T>() {
    const int64_t classes = c.in[0].shape()[1];
    c.encoder->launch(loss_and_grad<T>, blocks, kThreads,
                      2 * static_cast<size_t>(classes) * sizeof(T), c.in[0].as<const T>(), targets,
                      s.rows, static_cast<int>(classes), static_cast<float>(p.label_smoothing),
                      count, losses, c.out[1].as<T>());
  };
  if (c.in[0].dtype() == DType::f16)
    launch.operator()<__half>();
  else
    launch.operator()<__nv_bfloat16>();
  c.encoder->launch(mean_loss, 1, kThreads, 0, losses, s.rows, count, c.out[0].as<float>());
}

}  // namespace

Kernel cross_entropy_with_grad_shared_kernel() {
  return kernel<supports, prepare, run>("shared_rows");
}

}  // namespace mica
