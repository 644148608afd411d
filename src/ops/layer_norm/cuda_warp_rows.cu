// Norms of rows that a warp holds in registers, with what stands beside them in a residual network:
// a sum before the norm, and one after the norm's gradient. Every load of a row is under way before
// the first is waited for. The parameters' gradients are added up by each warp over its rows, then
// over the warps of a block, then over the blocks.
#include <algorithm>

#include "mica/ops/anchored/anchored.h"
#include "mica/ops/layer_norm/cuda_parameter.cuh"
#include "mica/ops/layer_norm/cuda_warp_rows.h"
#include "mica/ops/layer_norm/layer_norm.h"
#include "mica/runtime/cuda/async_copy.cuh"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"
#include "mica/runtime/cuda/programmatic_launch.h"
#include "mica/runtime/runtime.h"

namespace mica {

const OpDef& add_op();
const OpDef& layer_norm_op();
const OpDef& layer_norm_grad_op();

namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kMostLoads = 4;  // of a row, by one thread

/// The first column of load k.
template <int V>
__device__ int column_of(int k) {
  return (static_cast<int>(threadIdx.x) % 32 + k * 32) * V;
}

/// y of x, or, `adds`, of the sum of x and another tensor, which is stored.
template <class T, int K, bool adds>
__global__ void __launch_bounds__(kThreads)
    normalise(int64_t count, int n, float eps, const T* __restrict__ x, const T* __restrict__ other,
              const T* __restrict__ weight, const T* __restrict__ bias, T* __restrict__ sum,
              T* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd) {
  constexpr int V = kVec16<T>;
  // Where there are few rows the parameters are on their way while those are still computed.
  constexpr int kLine = 128;  // bytes
  if (blockIdx.x == 0)
    for (int at = static_cast<int>(threadIdx.x) * kLine; at < n * static_cast<int>(sizeof(T));
         at += kThreads * kLine) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(reinterpret_cast<const char*>(weight) + at));
      asm volatile("prefetch.global.L2 [%0];" ::"l"(reinterpret_cast<const char*>(bias) + at));
    }
  wait_for_inputs();
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= count) return;
  const int64_t start = row * n;
  Vec<T, V> a[K];
  [[maybe_unused]] Vec<T, V> b[K];
#pragma unroll
  for (int k = 0; k < K; ++k)
    if (column_of<V>(k) < n) {
      a[k] = load_vec<V>(x + start + column_of<V>(k));
      if constexpr (adds) b[k] = load_vec<V>(other + start + column_of<V>(k));
    }
  float total = 0;
#pragma unroll
  for (int k = 0; k < K; ++k)
    if (column_of<V>(k) < n) {
#pragma unroll
      for (int e = 0; e < V; ++e) {
        if constexpr (adds) a[k].v[e] = convert<T>(to_compute(a[k].v[e]) + to_compute(b[k].v[e]));
        total += to_compute(a[k].v[e]);
      }
      if constexpr (adds) store_vec<V>(sum + start + column_of<V>(k), a[k]);
    }
  const float centre = warp_sum(total) / static_cast<float>(n);
  float squares = 0;
#pragma unroll
  for (int k = 0; k < K; ++k)
    if (column_of<V>(k) < n) {
#pragma unroll
      for (int e = 0; e < V; ++e) {
        const float off = to_compute(a[k].v[e]) - centre;
        squares += off * off;
      }
    }
  const float inverse = 1 / sqrtf(warp_sum(squares) / static_cast<float>(n) + eps);
#pragma unroll
  for (int k = 0; k < K; ++k)
    if (column_of<V>(k) < n) {
      const Vec<T, V> scale = load_vec<V>(weight + column_of<V>(k));
      const Vec<T, V> shift = load_vec<V>(bias + column_of<V>(k));
      float v[V];
#pragma unroll
      for (int e = 0; e < V; ++e)
        v[e] = (to_compute(a[k].v[e]) - centre) * inverse * to_compute(scale.v[e]) +
               to_compute(shift.v[e]);
      store_vec<V>(y + start + column_of<V>(k), pack<T>(v));
    }
  if (threadIdx.x % 32 == 0) {
    mean[row] = centre;
    rstd[row] = inverse;
  }
}

/// Lets the compiler know nothing of what a vector holds, so that it converts its elements again
/// instead of keeping them: registers are what decides how many rows are under way.
template <class T, int V>
__device__ void forget(Vec<T, V>& vec) {
  static_assert(sizeof vec == 16);
  auto* words = reinterpret_cast<uint32_t*>(&vec);
#pragma unroll
  for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(words[i]));
}

/// dx, with `added` where it is not null, and the sums of the block's rows for dweight and dbias: n
/// of each for every block.
template <class T, int K>
__global__ void __launch_bounds__(kThreads, 2)
    differentiate(int64_t count, int n, const T* __restrict__ dy, const T* __restrict__ x,
                  const T* __restrict__ weight, const float* __restrict__ mean,
                  const float* __restrict__ rstd, const T* __restrict__ added, T* __restrict__ dx,
                  float* __restrict__ dweight, float* __restrict__ dbias) {
  constexpr int V = kVec16<T>;
  // The weight and what threads have on its way to them, a row ahead; then kWarps rows of n sums.
  extern __shared__ float4 space[];
  auto* scales = reinterpret_cast<T*>(space);
  auto* shared = reinterpret_cast<float*>(space);
  float4* const own = space + n / V + static_cast<int>(threadIdx.x);
  wait_for_inputs();
  const auto warp = static_cast<int>(threadIdx.x / 32);
  for (int c = static_cast<int>(threadIdx.x) * V; c < n; c += kThreads * V)
    store_vec<V>(scales + c, load_vec<V>(weight + c));
  __syncthreads();
  float sum_weight[K][V] = {};
  float sum_bias[K][V] = {};
  const float share = 1 / static_cast<float>(n);
  const auto place = [&](int stage, int tensor, int k) {
    return own + ((stage * 3 + tensor) * K + k) * kThreads;
  };
  const auto bring = [&](int64_t r, int stage) {
    if (r < count)
#pragma unroll
      for (int k = 0; k < K; ++k)
        if (column_of<V>(k) < n) {
          const int64_t at = r * n + column_of<V>(k);
          copy_async<16>(reinterpret_cast<float*>(place(stage, 0, k)), dy + at);
          copy_async<16>(reinterpret_cast<float*>(place(stage, 1, k)), x + at);
          if (added) copy_async<16>(reinterpret_cast<float*>(place(stage, 2, k)), added + at);
        }
    commit_copies();
  };
  const int64_t step = int64_t{gridDim.x} * kWarps;
  int64_t row = int64_t{blockIdx.x} * kWarps + warp;
  bring(row, 0);
  for (int stage = 0; row < count; row += step, stage ^= 1) {
    const int64_t start = row * n;
    bring(row + step, stage ^ 1);
    const float inverse = rstd[row];
    const float centre = mean[row];
    wait_copies<1>();
    Vec<T, V> slope[K];
    Vec<T, V> value[K];
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (column_of<V>(k) < n) {
        slope[k] = *reinterpret_cast<const Vec<T, V>*>(place(stage, 0, k));
        value[k] = *reinterpret_cast<const Vec<T, V>*>(place(stage, 1, k));
      }
    float total = 0;
    float product = 0;
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (column_of<V>(k) < n) {
        const Vec<T, V> scale = load_vec<V>(scales + column_of<V>(k));
#pragma unroll
        for (int e = 0; e < V; ++e) {
          const float d = to_compute(slope[k].v[e]);
          const float normal = (to_compute(value[k].v[e]) - centre) * inverse;
          const float g = rounded_product(d, to_compute(scale.v[e]));
          total += g;
          product = fmaf(g, normal, product);
          sum_weight[k][e] = fmaf(d, normal, sum_weight[k][e]);
          sum_bias[k][e] += d;
        }
        forget(slope[k]);
        forget(value[k]);
      }
    for (int offset = 16; offset > 0; offset /= 2) {
      total += __shfl_xor_sync(0xffffffffU, total, offset);
      product += __shfl_xor_sync(0xffffffffU, product, offset);
    }
    const float shift = total * share;
    const float factor = product * share;
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (column_of<V>(k) < n) {
        const Vec<T, V> scale = load_vec<V>(scales + column_of<V>(k));
        float v[V];
#pragma unroll
        for (int e = 0; e < V; ++e) {
          const float normal = (to_compute(value[k].v[e]) - centre) * inverse;
          const float g = rounded_product(to_compute(slope[k].v[e]), to_compute(scale.v[e]));
          v[e] = (g - shift - normal * factor) * inverse;
        }
        Vec<T, V> result = pack<T>(v);
        if (added) {  // to what was rounded, as the op's own result is
          const auto& more = *reinterpret_cast<const Vec<T, V>*>(place(stage, 2, k));
#pragma unroll
          for (int e = 0; e < V; ++e) v[e] = to_compute(result.v[e]) + to_compute(more.v[e]);
          result = pack<T>(v);
        }
        store_vec<V>(dx + start + column_of<V>(k), result);
      }
  }
  const auto write = [&](const float(&sums)[K][V], float* to) {
    __syncthreads();  // who reads the weight, or the sums before
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (column_of<V>(k) < n) {
#pragma unroll
        for (int e = 0; e < V; ++e) shared[warp * n + column_of<V>(k) + e] = sums[k][e];
      }
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < n; c += kThreads) {
      float sum = 0;
      for (int w = 0; w < kWarps; ++w) sum += shared[w * n + c];
      to[int64_t{blockIdx.x} * n + c] = sum;
    }
  };
  write(sum_weight, dweight);
  write(sum_bias, dbias);
}

/// Adds up `parts` rows of n sums: of dweight, and behind them of dbias. A block has 32 columns,
/// and 32 warps share the parts; blockIdx.y tells which gradient.
__global__ void __launch_bounds__(1024)
    add_blocks(int n, int parts, const float* __restrict__ partial, float* __restrict__ dweight,
               float* __restrict__ dbias) {
  __shared__ float sums[32][33];
  wait_for_inputs();
  const int column = static_cast<int>(blockIdx.x * 32 + threadIdx.x);
  const float* from = partial + int64_t{blockIdx.y} * parts * n + column;
  float sum = 0;
  if (column < n) {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.y); i < parts; i += 32) sum += from[int64_t{i} * n];
  }
  sums[threadIdx.x][threadIdx.y] = sum;
  __syncthreads();
  sum = warp_sum(sums[threadIdx.y][threadIdx.x]);
  const int own = static_cast<int>(blockIdx.x * 32 + threadIdx.y);
  if (threadIdx.x == 0 && own < n) (blockIdx.y == 0 ? dweight : dbias)[own] = sum;
}

/// Loads of a row of n that a thread makes; 0 where a warp does not hold it.
int loads_of(int64_t n, DType dtype) {
  const auto v = static_cast<int64_t>(16 / size_of(dtype));
  const int64_t loads = ceil_div<int64_t>(n, 32 * v);
  return dtype != DType::f64 && n > 0 && n % v == 0 && loads <= kMostLoads ? static_cast<int>(loads)
                                                                           : 0;
}

/// Calls f<T, K>() for the element type and the loads of a row.
template <class F>
void switch_loads(DType dtype, int loads, F&& f) {
  const auto of = [&]<class T>() {
    switch (loads) {
      case 1:
        return f.template operator()<T, 1>();
      case 2:
        return f.template operator()<T, 2>();
      case 3:
        return f.template operator()<T, 3>();
      default:
        return f.template operator()<T, 4>();
    }
  };
  if (dtype == DType::f32) return of.template operator()<float>();
  if (dtype == DType::f16) return of.template operator()<__half>();
  return of.template operator()<__nv_bfloat16>();
}

struct State : KernelState {
  int64_t count = 0;
  int64_t n = 0;
  int loads = 0;
  int parts = 1;
  int added = -1;  ///< an input
};

std::shared_ptr<State> plan(const TensorSpec& x, const Shape& normalized) {
  auto state = std::make_shared<State>();
  state->n = numel(normalized);
  state->count = state->n == 0 ? 0 : x.numel() / state->n;
  state->loads = loads_of(state->n, x.dtype);
  return state;
}

/// Why rows are not a warp's; empty where they are. `x` and what it is normalised with.
std::string why_not(const Specs& s, const TensorSpec& x, const TensorSpec& weight,
                    const Shape& normalized) {
  if (x.numel() == 0) return "there is nothing to compute";
  if (loads_of(numel(normalized), x.dtype) == 0) return "a warp does not hold the rows";
  if (!weight.defined || weight.dtype != x.dtype) return "the weight is of the rows' dtype";
  if (!all_aligned(s)) return "a tensor does not lie on a 16-byte boundary";
  return {};
}

// A sum, then the norm of it.

Support supports_sum(const AnchoredParams& params, const Specs& s) {
  const Anchored& a = *params.call;
  if (a.op != &layer_norm_op() || !a.before.program || a.after.program)
    return Support::no("it carries a sum before layer_norm");
  const Program& p = *a.before;
  const bool sum = p.inputs == 2 && p.instructions.size() == 1 &&
                   p.instructions[0].op == &add_op() &&
                   p.instructions[0].operands[0] != p.instructions[0].operands[1];
  if (!sum || s.in[3].shape != s.in[0].shape || s.in[3].dtype != s.in[0].dtype ||
      s.out[0].dtype != s.in[0].dtype)
    return Support::no("what comes before is not a sum of two tensors alike");
  if (!s.in[2].defined || s.in[2].dtype != s.in[0].dtype)
    return Support::no("the bias is of the rows' dtype");
  const Shape& normalized = a.params.as<LayerNormParams>().normalized_shape;
  const std::string reason = why_not(s, s.in[0], s.in[1], normalized);
  if (!reason.empty()) return Support::no(reason);
  return Support::yes().with_contiguous(0b1111);
}

std::shared_ptr<State> prepare_sum(const AnchoredParams& params, const Specs& s) {
  return plan(s.in[0], params.call->params.as<LayerNormParams>().normalized_shape);
}

void run_sum(const AnchoredParams& params, const State& s, const Call& c) {
  const ProgrammaticLaunch overlap;
  switch_loads(c.in[0].dtype(), s.loads, [&]<class T, int K>() {
    c.encoder->launch(
        normalise<T, K, true>, grid_over(s.count, kWarps), kThreads, 0, s.count,
        static_cast<int>(s.n), static_cast<float>(params.call->params.as<LayerNormParams>().eps),
        c.in[0].as<const T>(), c.in[3].as<const T>(), c.in[1].as<const T>(), c.in[2].as<const T>(),
        c.out.back().as<T>(), c.out[0].as<T>(), c.out[1].as<float>(), c.out[2].as<float>());
  });
}

// The norm alone.

Support supports_norm(const LayerNormParams& p, const Specs& s) {
  const std::string reason = why_not(s, s.in[0], s.in[1], p.normalized_shape);
  if (!reason.empty()) return Support::no(reason);
  if (!s.in[2].defined || s.in[2].dtype != s.in[0].dtype)
    return Support::no("the bias is of the rows' dtype");
  return Support::yes().with_contiguous(0b111);
}

std::shared_ptr<State> prepare_norm(const LayerNormParams& p, const Specs& s) {
  return plan(s.in[0], p.normalized_shape);
}

void run_norm(const LayerNormParams& p, const State& s, const Call& c) {
  const ProgrammaticLaunch overlap;
  switch_loads(c.in[0].dtype(), s.loads, [&]<class T, int K>() {
    c.encoder->launch(normalise<T, K, false>, grid_over(s.count, kWarps), kThreads, 0, s.count,
                      static_cast<int>(s.n), static_cast<float>(p.eps), c.in[0].as<const T>(),
                      nullptr, c.in[1].as<const T>(), c.in[2].as<const T>(), nullptr,
                      c.out[0].as<T>(), c.out[1].as<float>(), c.out[2].as<float>());
  });
}

// The gradient.

Support supports_rows(const LayerNormGradParams& p, const Specs& s) {
  const std::string reason = why_not(s, s.in[1], s.in[2], p.normalized_shape);
  if (!reason.empty()) return Support::no(reason);
  if (!p.parameters) return Support::no("gradients of the parameters are wanted");
  return Support::yes().with_contiguous(0b11111);
}

std::shared_ptr<State> prepare_rows(const LayerNormGradParams& p, const Specs& s) {
  auto state = plan(s.in[1], p.normalized_shape);
  const int multiprocessors =
      runtime(DeviceKind::cuda).encoder(s.in[1].device.index)->multiprocessors();
  state->parts = static_cast<int>(
      std::min<int64_t>(ceil_div<int64_t>(state->count, kWarps), int64_t{2} * multiprocessors));
  state->workspace_bytes = 2 * static_cast<size_t>(state->parts * state->n) * sizeof(float);
  return state;
}

void run_rows(const LayerNormGradParams&, const State& s, const Call& c) {
  auto* partial = static_cast<float*>(c.workspace);
  switch_loads(c.in[1].dtype(), s.loads, [&]<class T, int K>() {
    const T* added =
        s.added < 0 ? nullptr : c.in[static_cast<size_t>(s.added)].template as<const T>();
    const ProgrammaticLaunch overlap;
    const size_t ahead = static_cast<size_t>(s.n) * sizeof(T) + size_t{2 * 3 * K} * kThreads * 16;
    const size_t sums = static_cast<size_t>(kWarps * s.n) * sizeof(float);
    c.encoder->launch(differentiate<T, K>, static_cast<unsigned>(s.parts), kThreads,
                      std::max(ahead, sums), s.count, static_cast<int>(s.n), c.in[0].as<const T>(),
                      c.in[1].as<const T>(), c.in[2].as<const T>(), c.in[3].as<const float>(),
                      c.in[4].as<const float>(), added, c.out[0].as<T>(), partial,
                      partial + s.parts * s.n);
  });
  const ProgrammaticLaunch overlap;
  c.encoder->launch(add_blocks, dim3(static_cast<unsigned>(ceil_div<int64_t>(s.n, 32)), 2),
                    dim3(32, 32), 0, static_cast<int>(s.n), s.parts, partial, c.out[1].as<float>(),
                    c.out[2].as<float>());
}

// The same with a sum after it.

Support supports_rows_sum(const AnchoredParams& params, const Specs& s) {
  const Anchored& a = *params.call;
  if (a.op != &layer_norm_grad_op()) return Support::no("it carries a sum after layer_norm_grad");
  const auto known = known_after(params, layer_norm_grad_op());
  if (!known || known->added < 0 || known->activation != Activation::none || a.keeps_result)
    return Support::no("what comes after is not a sum alone");
  const TensorSpec& added = s.in[static_cast<size_t>(known->added)];
  if (added.shape != s.out[0].shape || added.dtype != s.in[1].dtype ||
      s.out[0].dtype != s.in[1].dtype)
    return Support::no("what is added is not alike");
  Support support = supports_rows(a.params.as<LayerNormGradParams>(), s);
  support.contiguous.insert(known->added);
  return support;
}

std::shared_ptr<State> prepare_rows_sum(const AnchoredParams& params, const Specs& s) {
  auto state = prepare_rows(params.call->params.as<LayerNormGradParams>(), s);
  state->added = known_after(params, layer_norm_grad_op())->added;
  return state;
}

void run_rows_sum(const AnchoredParams& params, const State& s, const Call& c) {
  run_rows(params.call->params.as<LayerNormGradParams>(), s, c);
}

}  // namespace

Kernel layer_norm_carrying_sum_kernel() {
  return kernel<supports_sum, prepare_sum, run_sum>("sum_norm");
}
Kernel layer_norm_warp_kernel() { return kernel<supports_norm, prepare_norm, run_norm>("warps"); }
Kernel layer_norm_grad_warp_kernel() {
  return kernel<supports_rows, prepare_rows, run_rows>("warps");
}
Kernel layer_norm_grad_carrying_sum_kernel() {
  return kernel<supports_rows_sum, prepare_rows_sum, run_rows_sum>("norm_grad_sum");
}

}  // namespace mica
