// A classifier's last layer, its loss and the gradient of both, of few rows and classes: one
// cluster computes the logits in f32 and keeps them and their gradient in shared memory.
#include <algorithm>

#include "mica/ops/cross_entropy/composed.h"
#include "mica/ops/cross_entropy/cuda_linear.cuh"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kBlocks = kLossBlocks;
constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kMostRows = kThreads;  ///< each thread reads a target
constexpr int kMostInner = 8192;

// Products: a thread has two rows and all classes, eight threads share K. So threads of a warp read
// the same weights, and few sums are left to add up.
constexpr int kLanes = 8;
constexpr int kRows = 2;
constexpr int kGroupRows = 32 / kLanes * kRows;  ///< of a warp

// Softmax: eight threads have a row.
constexpr int kEach = kMostClasses / kLanes;
constexpr int kOwnRows = kThreads / kLanes;  ///< of a block, at most
static_assert(kOwnRows * kBlocks >= kMostRows);

struct Problem : LinearLoss {
  /// Every block has `own` rows to take the softmax of. `splits` blocks compute the products of all
  /// their rows together, each with `slice` of K; `groups` warps cover these rows.
  int own = 0, splits = 0, slice = 0, groups = 0;
};

/// Products of a warp's rows, from `row0` on, with all classes: (kGroupRows, most). The thread
/// takes V of K from `k` on, then those `step` further.
template <int most, int V>
__device__ void multiply(const Problem& p, int row0, int k, int k_end, int step, float* to) {
  const int rows0 = static_cast<int>(threadIdx.x) % 32 / kLanes * kRows;  // among the warp's
  const float* x[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) x[r] = p.x + int64_t{min(row0 + rows0 + r, p.rows - 1)} * p.inner;
  float acc[kRows * most] = {};
#pragma unroll 2
  for (; k < k_end; k += step) {
    Vec<float, V> a[kRows];
    Vec<float, V> b[most];
#pragma unroll
    for (int r = 0; r < kRows; ++r) a[r] = load_vec<V>(x[r] + k);
#pragma unroll
    for (int c = 0; c < most; ++c)
      b[c] = load_vec<V>(p.weight + min(c, p.classes - 1) * p.inner + k);
#pragma unroll
    for (int c = 0; c < most; ++c)
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int e = 0; e < V; ++e) acc[r * most + c] += a[r].v[e] * b[c].v[e];
  }
  add_lanes<kRows * most, kLanes / 2>(acc, to + rows0 * most);
}

/// The gradient for a block's rows of x, or for what an activation made them of; `grads` are those
/// of their logits, (rows, most).
template <int most, int V>
__device__ void write_dx(const Problem& p, const float* grads, int row0) {
  const int across = p.inner / V;
  const int rows = min(p.own, p.rows - row0);
  for (int i = static_cast<int>(threadIdx.x); i < rows * across; i += kThreads) {
    const int row = i / across;
    const int col = (i - row * across) * V;
    const int64_t at = int64_t{row0 + row} * p.inner + col;
    Vec<float, V> saved{};
    if (p.saved) saved = load_vec<V>(p.saved + at);
    Vec<float, V> dx{};
#pragma unroll
    for (int c = 0; c < most; ++c) {
      if (c >= p.classes) break;
      const Vec<float, V> weight = load_vec<V>(p.weight + c * p.inner + col);
#pragma unroll
      for (int e = 0; e < V; ++e) dx.v[e] += grads[row * most + c] * weight.v[e];
    }
#pragma unroll
    for (int e = 0; e < V; ++e) {
      if (p.activation == Activation::relu) dx.v[e] = functor::ReluGrad{}(dx.v[e], saved.v[e]);
      if (p.activation == Activation::gelu) dx.v[e] = functor::GeluGrad{}(dx.v[e], saved.v[e]);
    }
    store_vec<V>(p.dx + at, dx);
  }
}

/// `most` is at least the number of classes.
template <int most, int V>
__global__ void __launch_bounds__(kThreads) linear_loss(Problem p) {
  __shared__ float parts[kWarps][kGroupRows * most];
  __shared__ float received[kOwnRows * most];  // splits, own rows, classes
  __shared__ float grads[kOwnRows * most];
  __shared__ float losses[kBlocks];
  wait_for_inputs();
  cluster_arrive();
  using Row = LossRow<float, kLanes, kEach>;
  const int tid = static_cast<int>(threadIdx.x);
  const int rank = static_cast<int>(blockIdx.x);
  const int own = tid / kLanes;
  const int own_row = rank * p.own + own;
  const bool present = own < p.own && own_row < p.rows;
  const bool counts = tid < p.rows && p.targets[tid] != p.targets.ignored;
  const int64_t target = present ? p.targets[own_row] : p.targets.ignored;
  float bias[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e)
    bias[e] = p.bias && Row::class_of(e) < p.classes ? p.bias[Row::class_of(e)] : 0;

  const int split = rank % p.splits;
  const int first_block = rank - split;  // of those with the same rows
  const int warp = tid / 32;
  const int k_parts = kWarps / p.groups;
  if (warp < k_parts * p.groups)
    multiply<most, V>(p, first_block * p.own + warp % p.groups * kGroupRows,
                      split * p.slice + (warp / p.groups * kLanes + Row::lane()) * V,
                      min(p.inner, (split + 1) * p.slice), k_parts * kLanes * V, parts[warp]);
  const int counted = __syncthreads_count(counts);

  cluster_wait();  // the others have started
  for (int i = tid; i < p.splits * p.own * most; i += kThreads) {
    const int row = i / most;
    float v = 0;
    for (int part = 0; part < k_parts; ++part)
      v += parts[part * p.groups + row / kGroupRows][i % (kGroupRows * most)];
    float* const to = received + (split * p.own + row % p.own) * most + i % most;
    if (p.splits == 1) {
      *to = v;
    } else {
      send(of_block(to, first_block + row / p.own), v);
    }
  }
  if (p.splits == 1) {
    __syncthreads();
  } else {
    cluster_arrive();
    cluster_wait();
  }

  Row row;
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    row.x[e] = 0;
    if (!present || Row::class_of(e) >= p.classes) continue;
    for (int s = 0; s < p.splits; ++s)
      row.x[e] += received[(s * p.own + own) * most + Row::class_of(e)];
    row.x[e] += bias[e];
  }
  const float value = row.softmax(target, p.classes, p.smoothing);
  const bool adds = Row::lane() == 0 && target != p.targets.ignored;
  const float sum = block_sum<kThreads>(adds ? value : 0);
  if (tid == 0) send(of_block(&losses[rank], 0), sum);
  cluster_arrive();
  if (present) {
    const float share = 1 / static_cast<float>(counted);
    for (float* const to : {p.grad + own_row * p.classes, grads + own * most})
      row.write_grad(to, target, p.targets.ignored, p.classes, p.smoothing, share);
  }
  if (p.dx) {
    __syncthreads();
    write_dx<most, V>(p, grads, rank * p.own);
  }
  cluster_wait();
  if (rank != 0 || tid != 0) return;
  float total = 0;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) total += losses[b];
  *p.loss = total / static_cast<float>(counted);
}

template <class P>
Support supports(const P&, const Specs& s) {
  const int64_t rows = s.in[0].shape[0];
  const int64_t inner = s.in[0].shape[1];
  if (rows > kMostRows || inner > kMostInner) return Support::no("more than a cluster is good for");
  Support support = cluster_supports(s);
  if (support.kind == Support::Kind::no) return support;
  // Beyond this, eight multiprocessors take longer than two launches that use all.
  constexpr int64_t kMostElements = 1 << 15;
  return (rows * inner <= kMostElements ? Support::yes() : Support::possible())
      .with_contiguous(0b11111);
}

/// How the blocks share the work: where K is long they share it too, since then reading the weights
/// once for each block takes longer than the blocks' meeting.
void divide(Problem& p) {
  constexpr int kLong = 1024;
  constexpr int kTogether = kOwnRows;  // rows of blocks that share K
  p.own = ceil_div(p.rows, kBlocks);
  p.splits = 1;
  while (p.inner >= kLong && p.splits < kBlocks && 2 * p.splits * p.own <= kTogether) p.splits *= 2;
  p.slice = ceil_div(p.inner, 4 * p.splits) * 4;
  p.groups = ceil_div(p.splits * p.own, kGroupRows);
}

template <class P>
void run(const P& params, const Call& c) {
  Problem p{linear_loss_of(params, c)};
  divide(p);
  const bool vectors = p.inner % 4 == 0 && is_aligned(p.x, 16) && is_aligned(p.weight, 16) &&
                       is_aligned(p.dx, 16) && is_aligned(p.saved, 16);
  const ProgrammaticLaunch overlap;
  const auto launch = [&](void (*kernel)(Problem)) {
    c.encoder->launch_clusters(kernel, kBlocks, kThreads, 0, kBlocks, p);
  };
  if (p.classes <= 10) {
    launch(vectors ? linear_loss<10, 4> : linear_loss<10, 1>);
  } else {
    launch(vectors ? linear_loss<kMostClasses, 4> : linear_loss<kMostClasses, 1>);
  }
}

template <class P>
KernelList list(const Kernel& composed) {
  return {linear_loss_few_rows_kernel<P>(), kernel<supports<P>, run<P>>("one_cluster"), composed};
}

}  // namespace

LinearLoss linear_loss_of(const CrossEntropyParams& params, const Call& c) {
  LinearLoss p{};
  p.x = c.in[0].as<const float>();
  p.weight = c.in[1].as<const float>();
  p.bias = c.in[2].defined() ? c.in[2].as<const float>() : nullptr;
  p.targets = {c.in[3].data, c.in[3].dtype(), params.ignore_index};
  p.rows = static_cast<int>(c.in[0].shape()[0]);
  p.inner = static_cast<int>(c.in[0].shape()[1]);
  p.classes = static_cast<int>(c.in[1].shape()[0]);
  p.smoothing = static_cast<float>(params.label_smoothing);
  p.loss = c.out[0].as<float>();
  p.grad = c.out[1].as<float>();
  return p;
}

LinearLoss linear_loss_of(const LinearCrossEntropyParams& params, const Call& c) {
  LinearLoss p = linear_loss_of(params.loss, c);
  p.dx = c.out[2].as<float>();
  p.activation = params.activation;
  if (c.in[4].defined()) p.saved = c.in[4].as<const float>();
  return p;
}

Support cluster_supports(const Specs& s) {
  if (s.in[0].dtype != DType::f32) return Support::no("computes in f32");
  if (s.in[0].shape[0] == 0) return Support::no("no rows");
  if (s.in[1].shape[0] > kMostClasses) return Support::no("more classes than threads hold");
  if (runtime(DeviceKind::cuda).properties(s.in[0].device.index).compute_capability < 90)
    return Support::no("no clusters before compute capability 9.0");
  return Support::yes();
}

KernelList linear_cross_entropy_cuda_kernels() {
  return list<CrossEntropyParams>(linear_cross_entropy_composed_kernel());
}

KernelList linear_cross_entropy_dgrad_cuda_kernels() {
  return list<LinearCrossEntropyParams>(linear_cross_entropy_dgrad_composed_kernel());
}

}  // namespace mica
