// A row is held in registers by a few threads or a block, and so read once; what of a long row does
// not fit is read again. The parameters' gradients are sums over the rows: each block adds up those
// of its own rows, a second launch adds up the blocks'.
#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/layer_norm/cuda_parameter.cuh"
#include "mica/ops/layer_norm/cuda_warp_rows.h"
#include "mica/ops/layer_norm/layer_norm.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/rows.cuh"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kMostThreads = 1024;     ///< of a block for one row
constexpr int kMostGradThreads = 512;  ///< the same, for the gradient
constexpr int kColumnThreads = 256;

/// Loads of V elements of a row that a thread holds; of the gradient it also holds sums.
constexpr int held_loads(int v) { return v == 1 ? 8 : 4; }
constexpr int held_grad_loads(int v) { return v == 1 ? 8 : v == 8 ? 2 : 4; }

struct Rows {
  int64_t count, n;
};

/// y, and the mean (not where the norm is not centred) and 1/std of each row.
template <class T, int V>
__global__ void __launch_bounds__(kMostThreads)
    normalise_rows(Rows rows, int group, Compute<T> eps, const T* x, Parameter weight,
                   Parameter bias, T* y, Compute<T>* mean, Compute<T>* rstd) {
  using C = Compute<T>;
  constexpr int K = held_loads(V);
  const bool centred = mean != nullptr;
  const int lane = static_cast<int>(threadIdx.x) % group;
  const int groups = static_cast<int>(blockDim.x) / group;
  const int64_t step = static_cast<int64_t>(gridDim.x) * groups;
  // All threads of a block stay in the loop, since they reduce together.
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * groups; first < rows.count;
       first += step) {
    const int64_t row = first + static_cast<int>(threadIdx.x) / group;
    const int64_t n = row < rows.count ? rows.n : 0;
    const T* from = x + row * rows.n;
    Vec<T, V> held[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t column = static_cast<int64_t>(lane + k * group) * V;
      if (column < n) held[k] = load_vec<V>(from + column);
    }
    const auto each = [&](auto f) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const int64_t column = static_cast<int64_t>(lane + k * group) * V;
        if (column < n) f(column, held[k]);
      }
      for (int64_t column = static_cast<int64_t>(lane + K * group) * V; column < n;
           column += group * V)
        f(column, load_vec<V>(from + column));
    };
    C centre = 0;
    if (centred) {
      each([&](int64_t, const Vec<T, V>& values) {
#pragma unroll
        for (int e = 0; e < V; ++e) centre += to_compute(values.v[e]);
      });
      centre = group_sum(centre, group) / static_cast<C>(rows.n);
    }
    C squares = 0;
    each([&](int64_t, const Vec<T, V>& values) {
#pragma unroll
      for (int e = 0; e < V; ++e) {
        const C off = to_compute(values.v[e]) - centre;
        squares += off * off;
      }
    });
    const C inverse = C(1) / sqrt(group_sum(squares, group) / static_cast<C>(rows.n) + eps);
    each([&](int64_t column, const Vec<T, V>& values) {
      C scale[V];
      C shift[V];
      weight.load<T>(column, 1, scale);
      bias.load<T>(column, 0, shift);
      Vec<T, V> v;
#pragma unroll
      for (int e = 0; e < V; ++e)
        v.v[e] = convert<T>((to_compute(values.v[e]) - centre) * inverse * scale[e] + shift[e]);
      store_vec<V>(y + row * rows.n + column, v);
    });
    if (lane == 0 && row < rows.count) {
      if (centred) mean[row] = centre;
      rstd[row] = inverse;
    }
  }
}

/// Writes what the threads of a block have added up for the columns they hold, added up over the
/// block's rows: element (lane + k * group) * V + e of `to` from sums[k][e].
template <int V, int K, class C>
__device__ void write_column_sums(C (&sums)[K][V], int64_t n, int group, C* to) {
  const int lane = static_cast<int>(threadIdx.x) % group;
  if (group == static_cast<int>(blockDim.x)) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t column = static_cast<int64_t>(lane + k * group) * V;
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (column < n) to[column + e] = sums[k][e];
    }
    return;
  }
  constexpr int kWarps = RowThreads{}.threads / 32;
  __shared__ C shared[kWarps][32 * V];
#pragma unroll
  for (int k = 0; k < K; ++k) {
#pragma unroll
    for (int e = 0; e < V; ++e)
      for (int offset = group; offset < 32; offset *= 2)
        sums[k][e] += __shfl_xor_sync(0xffffffffU, sums[k][e], offset);
    __syncthreads();  // the step before may still be reading
    if (threadIdx.x % 32 == static_cast<unsigned>(lane)) {
#pragma unroll
      for (int e = 0; e < V; ++e) shared[threadIdx.x / 32][lane * V + e] = sums[k][e];
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < group * V; i += static_cast<int>(blockDim.x)) {
      C sum = 0;
      for (int warp = 0; warp < kWarps; ++warp) sum += shared[warp][i];
      const int64_t column = static_cast<int64_t>(k) * group * V + i;
      if (column < n) to[column] = sum;
    }
  }
}

/// dx, and where dweight is not null the sums of the block's rows for dweight and dbias (null where
/// the norm is not centred), n of each for every block: then rows fit in the registers.
template <class T, int V>
__global__ void __launch_bounds__(kMostGradThreads)
    differentiate_rows(Rows rows, int group, const T* dy, const T* x, Parameter weight,
                       const Compute<T>* mean, const Compute<T>* rstd, T* dx, Compute<T>* dweight,
                       Compute<T>* dbias) {
  using C = Compute<T>;
  constexpr int K = held_grad_loads(V);
  const bool centred = mean != nullptr;
  const int lane = static_cast<int>(threadIdx.x) % group;
  const int groups = static_cast<int>(blockDim.x) / group;
  const int64_t step = static_cast<int64_t>(gridDim.x) * groups;
  C sum_weight[K][V] = {};
  C sum_bias[K][V] = {};
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * groups; first < rows.count;
       first += step) {
    const int64_t row = first + static_cast<int>(threadIdx.x) / group;
    const int64_t n = row < rows.count ? rows.n : 0;
    const int64_t start = row * rows.n;
    const C centre = centred && row < rows.count ? mean[row] : C(0);
    const C inverse = row < rows.count ? rstd[row] : C(0);
    Vec<T, V> slope[K];
    Vec<T, V> value[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t column = static_cast<int64_t>(lane + k * group) * V;
      if (column < n) {
        slope[k] = load_vec<V>(dy + start + column);
        value[k] = load_vec<V>(x + start + column);
      }
    }
    const auto rest = [&](auto f) {
      for (int64_t column = static_cast<int64_t>(lane + K * group) * V; column < n;
           column += group * V)
        f(column, load_vec<V>(dy + start + column), load_vec<V>(x + start + column));
    };
    C total = 0;    // of dy * weight
    C product = 0;  // of its product with x - mean
    const auto add = [&](int64_t column, const Vec<T, V>& d, const Vec<T, V>& v) {
      C scale[V];
      weight.load<T>(column, 1, scale);
#pragma unroll
      for (int e = 0; e < V; ++e) {
        const C g = rounded_product(to_compute(d.v[e]), scale[e]);
        total += g;
        product += g * (to_compute(v.v[e]) - centre);
      }
    };
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t column = static_cast<int64_t>(lane + k * group) * V;
      if (column < n) {
        add(column, slope[k], value[k]);
#pragma unroll
        for (int e = 0; e < V; ++e) {
          const C d = to_compute(slope[k].v[e]);
          sum_weight[k][e] += d * (to_compute(value[k].v[e]) - centre) * inverse;
          sum_bias[k][e] += d;
        }
      }
    }
    rest(add);
    group_sums(total, product, group);
    const C shift = centred ? total / static_cast<C>(rows.n) : C(0);
    const C factor = product * inverse * inverse / static_cast<C>(rows.n);
    const auto write = [&](int64_t column, const Vec<T, V>& d, const Vec<T, V>& v) {
      C scale[V];
      weight.load<T>(column, 1, scale);
      Vec<T, V> result;
#pragma unroll
      for (int e = 0; e < V; ++e) {
        const C off = to_compute(v.v[e]) - centre;
        const C g = rounded_product(to_compute(d.v[e]), scale[e]);
        result.v[e] = convert<T>((g - shift - off * factor) * inverse);
      }
      store_vec<V>(dx + start + column, result);
    };
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t column = static_cast<int64_t>(lane + k * group) * V;
      if (column < n) write(column, slope[k], value[k]);
    }
    rest(write);
  }
  if (dweight == nullptr) return;
  write_column_sums(sum_weight, rows.n, group, dweight + blockIdx.x * rows.n);
  if (dbias != nullptr) write_column_sums(sum_bias, rows.n, group, dbias + blockIdx.x * rows.n);
}

/// The same sums of rows that do not fit: blockIdx.x tells the columns, blockIdx.y the part of the
/// rows.
template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    column_sums(Rows rows, const T* dy, const T* x, const Compute<T>* mean, const Compute<T>* rstd,
                Compute<T>* dweight, Compute<T>* dbias) {
  using C = Compute<T>;
  const int64_t column = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x;
  if (column >= rows.n) return;
  C weight = 0;
  C bias = 0;
#pragma unroll 4
  for (int64_t row = blockIdx.y; row < rows.count; row += gridDim.y) {
    const C d = to_compute(dy[row * rows.n + column]);
    const C centre = mean != nullptr ? mean[row] : C(0);
    weight += d * (to_compute(x[row * rows.n + column]) - centre) * rstd[row];
    bias += d;
  }
  dweight[blockIdx.y * rows.n + column] = weight;
  if (dbias != nullptr) dbias[blockIdx.y * rows.n + column] = bias;
}

struct NormState : KernelState {
  Rows rows{};
  int width = 1;  ///< elements of a load
  RowThreads layout;
  // Of the gradient:
  bool fused = false;  ///< the parameters' gradients are added up along with dx
  int parts = 1;       ///< of the rows, added up apart
};

Support supports(const LayerNormParams&, const Specs&) {
  return Support::yes().with_contiguous(0b111);
}
Support supports_grad(const LayerNormGradParams&, const Specs&) {
  return Support::yes().with_contiguous(0b11111);
}

std::shared_ptr<NormState> plan(const Specs& s, const TensorSpec& x, const Shape& normalized,
                                int (*held)(int), int most_threads) {
  auto state = std::make_shared<NormState>();
  state->rows.n = numel(normalized);
  state->rows.count = 1;
  for (int i = 0; i < x.rank() - normalized.rank(); ++i) state->rows.count *= x.shape[i];
  const auto v = static_cast<int>(16 / size_of(x.dtype));
  state->width = all_aligned(s) && state->rows.n % v == 0 ? v : 1;
  state->layout = row_threads(state->rows.n / state->width, held(state->width), most_threads);
  return state;
}

std::shared_ptr<NormState> prepare(const LayerNormParams& p, const Specs& s) {
  return plan(s, s.in[0], p.normalized_shape, held_loads, kMostThreads);
}

template <bool centred>
void run(const LayerNormParams& p, const NormState& s, const Call& c) {
  const DType dtype = c.in[0].dtype();
  cuda_switch_float(dtype, "layer_norm", [&]<class T>() {
    using C = Compute<T>;
    const auto kernel = s.width > 1 ? normalise_rows<T, kVec16<T>> : normalise_rows<T, 1>;
    c.encoder->launch(kernel, row_grid(s.rows.count, s.layout), s.layout.threads, 0, s.rows,
                      s.layout.group, static_cast<C>(p.eps), c.in[0].as<const T>(),
                      Parameter(c.in[1], dtype), centred ? Parameter(c.in[2], dtype) : Parameter(),
                      c.out[0].as<T>(), centred ? c.out[1].as<C>() : nullptr,
                      c.out[centred ? 2 : 1].template as<C>());
  });
}

std::shared_ptr<NormState> prepare_grad(const LayerNormGradParams& p, const Specs& s) {
  const TensorSpec& x = s.in[1];
  auto state = plan(s, x, p.normalized_shape, held_grad_loads, kMostGradThreads);
  const RowThreads& layout = state->layout;
  const int held = layout.group * held_grad_loads(state->width) * state->width;
  state->fused = p.parameters && state->rows.n <= held;
  if (!p.parameters) return state;
  const int multiprocessors = runtime(DeviceKind::cuda).encoder(x.device.index)->multiprocessors();
  int64_t most = 0;
  int64_t wanted = 0;
  if (state->fused) {
    most = ceil_div<int64_t>(state->rows.count, layout.threads / layout.group);
    wanted = int64_t{multiprocessors} * (kMostGradThreads / layout.threads);
  } else {
    most = state->rows.count;
    wanted =
        ceil_div<int64_t>(int64_t{multiprocessors} * 8,
                          ceil_div<int64_t>(std::max<int64_t>(state->rows.n, 1), kColumnThreads));
  }
  state->parts = static_cast<int>(std::clamp<int64_t>(std::min(most, wanted), 1, 65535));
  const size_t bytes = x.dtype == DType::f64 ? sizeof(double) : sizeof(float);
  if (state->parts > 1)
    state->workspace_bytes = 2 * static_cast<size_t>(state->parts * state->rows.n) * bytes;
  return state;
}

template <bool centred>
void run_grad(const LayerNormGradParams& p, const NormState& s, const Call& c) {
  const DType dtype = c.in[1].dtype();
  cuda_switch_float(dtype, "layer_norm_grad", [&]<class T>() {
    using C = Compute<T>;
    const T* dy = c.in[0].as<const T>();
    const T* x = c.in[1].as<const T>();
    const C* mean = centred ? c.in[3].as<const C>() : nullptr;
    const C* rstd = c.in[centred ? 4 : 3].template as<const C>();
    C* dweight = p.parameters ? c.out[1].as<C>() : nullptr;
    C* dbias = p.parameters && centred ? c.out[2].as<C>() : nullptr;
    auto* partial = static_cast<C*>(c.workspace);
    C* sums = s.parts > 1 ? partial : dweight;
    C* bias_sums = s.parts > 1 && centred ? partial + s.parts * s.rows.n : dbias;
    const auto kernel = s.width > 1 ? differentiate_rows<T, kVec16<T>> : differentiate_rows<T, 1>;
    const unsigned grid =
        s.fused ? static_cast<unsigned>(s.parts) : row_grid(s.rows.count, s.layout);
    c.encoder->launch(kernel, grid, s.layout.threads, 0, s.rows, s.layout.group, dy, x,
                      Parameter(c.in[2], dtype), mean, rstd, c.out[0].as<T>(),
                      s.fused ? sums : nullptr, s.fused ? bias_sums : nullptr);
    if (!p.parameters) return;
    if (!s.fused) {
      const dim3 blocks(static_cast<unsigned>(ceil_div<int64_t>(s.rows.n, kColumnThreads)),
                        static_cast<unsigned>(s.parts));
      c.encoder->launch(column_sums<T>, blocks, kColumnThreads, 0, s.rows, dy, x, mean, rstd, sums,
                        bias_sums);
    }
    if (s.parts > 1)
      c.encoder->launch(
          add_parts<C>,
          dim3(static_cast<unsigned>(ceil_div<int64_t>(s.rows.n, 32)), centred ? 2 : 1),
          dim3(32, 8), 0, s.rows.n, s.parts, partial, dweight, dbias);
  });
}

}  // namespace

KernelList layer_norm_cuda_kernels() {
  return {layer_norm_warp_kernel(), kernel<supports, prepare, run<true>>("rows")};
}
KernelList rms_norm_cuda_kernels() { return {kernel<supports, prepare, run<false>>("rows")}; }
KernelList layer_norm_grad_cuda_kernels() {
  return {layer_norm_grad_warp_kernel(),
          kernel<supports_grad, prepare_grad, run_grad<true>>("rows")};
}
KernelList rms_norm_grad_cuda_kernels() {
  return {kernel<supports_grad, prepare_grad, run_grad<false>>("rows")};
}

}  // namespace mica
