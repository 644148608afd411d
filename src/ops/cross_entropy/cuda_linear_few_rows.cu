// A classifier's last layer, its loss and all of its gradient for the layer's input, of few rows: a
// thread reads its part of the weights, of two rows and of what their gradient takes at once, and
// has it in registers until the end.
#include "mica/ops/cross_entropy/cuda_linear.cuh"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kRows = 2;              ///< of a thread
constexpr int kPairs = 4;             ///< of rows in a block
constexpr int kOwn = kPairs * kRows;  ///< rows of a block, at most
constexpr int kMostRows = kOwn * kLossBlocks;
constexpr int kWarpInner = 32 * 4;  ///< of K for a warp
constexpr int kMostWarps = 4;       ///< that share a pair's K
constexpr int kMostInner = kMostWarps * kWarpInner;
constexpr int kLossLanes = 8;  ///< of a row's softmax
constexpr int kEach = kMostClasses / kLossLanes;
constexpr int kLossThreads = kOwn * kLossLanes;  ///< the last ones of a block
constexpr int kMostThreads = kPairs * kMostWarps * 32 + kLossThreads;

__device__ inline float4 quad(const float* from, bool inside) {
  return inside ? *reinterpret_cast<const float4*>(from) : make_float4(0, 0, 0, 0);
}
__device__ inline float dot(float4 a, float4 b) {
  return a.x * b.x + a.y * b.y + (a.z * b.z + a.w * b.w);
}

template <class F>
__device__ float4 each(float4 a, F f) {
  return make_float4(f(a.x), f(a.y), f(a.z), f(a.w));
}
template <class F>
__device__ float4 each(float4 a, float4 b, F f) {
  return make_float4(f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w));
}

/// `most` is at least the number of classes. `warps` share a pair of rows.
template <int most>
__global__ void __launch_bounds__(kMostThreads) few_rows(LinearLoss p, int own, int warps) {
  __shared__ float parts[kPairs * kMostWarps][kRows * most];
  __shared__ float grads[kOwn][most];
  __shared__ float row_losses[kOwn];
  __shared__ float losses[kLossBlocks];
  wait_for_inputs();
  cluster_arrive();
  const int tid = static_cast<int>(threadIdx.x);
  const int rank = static_cast<int>(blockIdx.x);
  const int warp = tid / 32;
  const int pair = warp / warps;  // kPairs: a warp of the softmax
  const bool multiplies = pair < kPairs;
  const int col = (warp % warps * 32 + tid % 32) * 4;
  const bool counts = tid < p.rows && p.targets[tid] != p.targets.ignored;

  // A thread of the softmax has to do with one row, whose bias and target it reads at once too.
  using Row = LossRow<float, kLossLanes, kEach>;
  const int at = (tid - kPairs * warps * 32) / kLossLanes;
  const int loss_row = rank * own + at;
  const bool present = at < own && loss_row < p.rows;
  int64_t target = p.targets.ignored;
  Row row;

  float4 weight[most];
  float4 saved[kRows] = {};
  if (multiplies) {
    float4 x[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int64_t from = int64_t{min(rank * own + pair * kRows + r, p.rows - 1)} * p.inner + col;
      x[r] = quad(p.x + from, col < p.inner);
      if (p.saved) saved[r] = quad(p.saved + from, col < p.inner);
    }
#pragma unroll
    for (int c = 0; c < most; ++c)
      weight[c] = quad(p.weight + min(c, p.classes - 1) * p.inner + col, col < p.inner);
    float sums[kRows * most];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < most; ++c) sums[r * most + c] = dot(x[r], weight[c]);
    add_lanes<kRows * most, 16>(sums, parts[warp]);
  } else {
    if (present) target = p.targets[loss_row];
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      row.x[e] = p.bias && Row::class_of(e) < p.classes ? p.bias[Row::class_of(e)] : 0;
  }
  const int counted = __syncthreads_count(counts);

  if (!multiplies) {
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int c = Row::class_of(e);
      if (c >= p.classes) continue;
      for (int w = 0; w < warps; ++w)
        row.x[e] += parts[at / kRows * warps + w][at % kRows * most + c];
    }
    const float value = row.softmax(target, p.classes, p.smoothing);
    if (Row::lane() == 0) row_losses[at] = target == p.targets.ignored ? 0 : value;
    const float share = 1 / static_cast<float>(counted);
    row.write_grad(grads[at], target, p.targets.ignored, p.classes, p.smoothing, share);
    if (present)
      row.write_grad(p.grad + loss_row * p.classes, target, p.targets.ignored, p.classes,
                     p.smoothing, share);
  } else if (p.activation == Activation::gelu) {
    // The slope does not depend on the loss, so it is here while others compute that.
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      saved[r] = each(saved[r], [](float z) { return functor::GeluGrad{}(1.0F, z); });
  }
  __syncthreads();
  cluster_wait();  // the others have started
  if (tid == 0) {
    float sum = 0;
#pragma unroll
    for (int r = 0; r < kOwn; ++r) sum += row_losses[r];
    send(of_block(&losses[rank], 0), sum);
  }
  cluster_arrive();
  if (p.dx && multiplies && col < p.inner) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int own_row = pair * kRows + r;
      const int row = rank * own + own_row;
      if (own_row >= own || row >= p.rows) break;
      float4 dx = make_float4(0, 0, 0, 0);
#pragma unroll
      for (int c = 0; c < most; ++c) {
        const float g = c < p.classes ? grads[own_row][c] : 0;
        dx.x += g * weight[c].x;
        dx.y += g * weight[c].y;
        dx.z += g * weight[c].z;
        dx.w += g * weight[c].w;
      }
      if (p.activation == Activation::relu) dx = each(dx, saved[r], functor::ReluGrad{});
      if (p.activation == Activation::gelu)
        dx = each(dx, saved[r], [](float dy, float slope) { return dy * slope; });
      *reinterpret_cast<float4*>(p.dx + int64_t{row} * p.inner + col) = dx;
    }
  }
  cluster_wait();
  if (rank != 0 || tid != 0) return;
  float total = 0;
#pragma unroll
  for (int b = 0; b < kLossBlocks; ++b) total += losses[b];
  *p.loss = total / static_cast<float>(counted);
}

template <class P>
Support supports(const P&, const Specs& s) {
  const int64_t inner = s.in[0].shape[1];
  if (s.in[0].shape[0] > kMostRows || inner > kMostInner || inner == 0)
    return Support::no("more than threads hold at once, or nothing");
  const bool aligned = s.in[0].aligned && s.in[1].aligned &&
                       (s.out.size() < 3 || (s.out[2].aligned && s.in[4].aligned));
  if (inner % 4 != 0 || !aligned) return Support::no("rows do not lie on 16-byte boundaries");
  return cluster_supports(s).with_contiguous(0b11111);
}

template <class P>
void run(const P& params, const Call& c) {
  const LinearLoss p = linear_loss_of(params, c);
  const int warps = ceil_div(p.inner, kWarpInner);
  const ProgrammaticLaunch overlap;
  c.encoder->launch_clusters(p.classes <= 10 ? few_rows<10> : few_rows<kMostClasses>, kLossBlocks,
                             kPairs * warps * 32 + kLossThreads, 0, kLossBlocks, p,
                             ceil_div(p.rows, kLossBlocks), warps);
}

}  // namespace

template <class P>
Kernel linear_loss_few_rows_kernel() {
  return kernel<supports<P>, run<P>>("few_rows");
}
template Kernel linear_loss_few_rows_kernel<CrossEntropyParams>();
template Kernel linear_loss_few_rows_kernel<LinearCrossEntropyParams>();

}  // namespace mica
