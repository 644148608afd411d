// Attention with a warp for each query, and its gradient with a warp for each query, then for each
// key: any dtype, strides and sizes. The lanes of a warp take 32 keys (or queries), each one score;
// then they take the columns of the result.
#include "mica/ops/attention/cuda_kernels.h"
#include "mica/ops/attention/cuda_terms.cuh"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace {

using namespace mica::cuda;
using namespace mica::attention;

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kColumns = 256;  // of a result, by one warp
constexpr int kPerLane = kColumns / 32;

template <class C, class T>
__device__ void load_row(C* to, const T* from, int64_t stride, int width) {
  for (int e = static_cast<int>(threadIdx.x % 32); e < width; e += 32)
    to[e] = static_cast<C>(to_compute(from[e * stride]));
}

template <class C, class T>
__device__ C dot(const C* row, const T* other, int64_t stride, int width) {
  C sum = 0;
  for (int e = 0; e < width; ++e) sum += row[e] * static_cast<C>(to_compute(other[e * stride]));
  return sum;
}

/// Adds weights of 32 rows times their columns, which begin at `column`; `at` is a lane's row.
template <class C, class T>
__device__ void add_rows(C (&sums)[kPerLane], C weight, const T* row, int64_t stride, int column,
                         int width) {
  for (int l = 0; l < 32; ++l) {
    const C w = __shfl_sync(0xffffffffU, weight, l);
    const T* from = reinterpret_cast<const T*>(
        __shfl_sync(0xffffffffU, reinterpret_cast<unsigned long long>(row), l));
    if (w == C(0)) continue;
#pragma unroll
    for (int c = 0; c < kPerLane; ++c) {
      const int e = column + c * 32 + static_cast<int>(threadIdx.x % 32);
      if (e < width) sums[c] += w * static_cast<C>(to_compute(from[e * stride]));
    }
  }
}

template <class C, class T>
__device__ void store_row(T* to, int64_t stride, const C (&sums)[kPerLane], C factor, int column,
                          int width) {
#pragma unroll
  for (int c = 0; c < kPerLane; ++c) {
    const int e = column + c * 32 + static_cast<int>(threadIdx.x % 32);
    if (e < width) to[e * stride] = convert<T>(sums[c] * factor);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    attend(const __grid_constant__ AttentionProblem p, Terms terms, Dropping dropping, const T* q,
           const T* k, const T* v, T* y, Compute<T>* lse) {
  using C = Compute<T>;
  extern __shared__ double rows[];
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (n >= p.batch * p.heads * p.queries) return;
  const int64_t i = n % p.queries;
  const int64_t h = n / p.queries % p.heads;
  const int64_t b = n / p.queries / p.heads;
  const int64_t g = p.kv_head(h);
  const auto width = static_cast<int>(p.width);
  const auto value_width = static_cast<int>(p.value_width);
  const int column = static_cast<int>(blockIdx.y) * kColumns;
  C* query = reinterpret_cast<C*>(rows) + warp * width;
  load_row(query, q + p.q.at(b, h, i), p.q.col, width);
  __syncwarp();
  const int64_t length = attention::keys_of(p, terms, b);
  const int64_t end = p.last_key(i, length);
  C largest = -C(INFINITY);
  C total = 0;
  C sums[kPerLane] = {};
  for (int64_t first = p.first_key(i, length); first < end; first += 32) {
    const int64_t j = first + lane;
    C score = -C(INFINITY);
    const int64_t key = j < end ? j : end - 1;
    if (j < end)
      score = dot(query, k + p.k.at(b, g, j), p.k.col, width) * static_cast<C>(p.scale) +
              added<T, C>(p, terms, b, h, i, j);
    const C most = warp_max(score);
    const C now = most > largest ? most : largest;
    if (now == -C(INFINITY) && !__any_sync(0xffffffffU, score != score)) continue;
    const C factor = largest == -C(INFINITY) ? C(0) : exp(largest - now);
    C weight = exp(score - now);
    total = total * factor + warp_sum(weight);
    largest = now;
#pragma unroll
    for (int c = 0; c < kPerLane; ++c) sums[c] *= factor;
    if (p.dropout > 0) weight *= dropped<C>(terms, p.weight(b, h, i, key), dropping);
    add_rows(sums, weight, v + p.v.at(b, g, key), p.v.col, column, value_width);
  }
  const bool nothing = total == C(0);
  store_row(y + p.y.at(b, h, i), p.y.col, sums, nothing ? C(0) : 1 / total, column, value_width);
  if (lane == 0 && column == 0) lse[n] = nothing ? -C(INFINITY) : largest + log(total);
}

struct State : KernelState {
  AttentionProblem problem;
};

std::shared_ptr<State> prepare(const AttentionParams& params, const Specs& specs) {
  auto state = std::make_shared<State>();
  state->problem = attention_problem(params, specs);
  return state;
}

Support supports(const AttentionParams& params, const Specs& s) {
  constexpr int64_t kWidest = 1024;  // rows of which fit into shared memory
  const AttentionProblem p = attention_problem(params, s);
  if (p.width > kWidest || p.value_width > kWidest) return Support::no("heads wider than 1024");
  return Support::yes();
}
Support supports_grad(const AttentionParams& params, const Specs& s) {
  constexpr int64_t kWidest = 512;
  const AttentionProblem p = attention_grad_problem(params, s);
  if (p.width > kWidest || p.value_width > kWidest) return Support::no("heads wider than 512");
  return Support::yes().with_contiguous(1 << kAttentionGradLse | 1 << kAttentionGradDlse);
}

unsigned column_blocks(int64_t width) {
  return static_cast<unsigned>(width == 0 ? 1 : ceil_div<int64_t>(width, kColumns));
}

void run(const AttentionParams&, const State& state, const Call& call) {
  const AttentionProblem& p = state.problem;
  const int64_t rows = p.batch * p.heads * p.queries;
  cuda_switch_float(call.out[0].dtype(), "attention", [&]<class T>() {
    const T* q = call.in[0].as<const T>();
    call.encoder->launch(attend<T>, {grid_over(rows, kWarps), column_blocks(p.value_width), 1},
                         kThreads, static_cast<size_t>(kWarps * p.width) * sizeof(Compute<T>), p,
                         terms_of(call, kAttentionInputs), dropping_of(p), q,
                         p.packed ? q : call.in[1].as<const T>(),
                         p.packed ? q : call.in[2].as<const T>(), call.out[0].as<T>(),
                         call.out[1].as<Compute<T>>());
  });
}

// The gradient.

struct GradState : State {
  AttentionOperands out;
  AttentionRows dy;
};

std::shared_ptr<GradState> prepare_grad(const AttentionParams& params, const Specs& specs) {
  auto state = std::make_shared<GradState>();
  state->problem = attention_grad_problem(params, specs);
  state->out = attention_grad_outputs(params, specs);
  state->dy = attention_rows(specs.in[0]);
  const AttentionProblem& p = state->problem;
  state->workspace_bytes = static_cast<size_t>(p.batch * p.heads * p.queries) *
                           (specs.in[0].dtype == DType::f64 ? sizeof(double) : sizeof(float));
  return state;
}

template <class T>
struct GradTensors {
  const T *dy, *q, *k, *v, *y;
  const Compute<T>*lse, *dlse;
  Compute<T>* deltas;  ///< the sum of dy · y of each query, less dlse
  T *dq, *dk, *dv;
};

/// The weight of a key, as it was before dropout, and the gradient of its score times the scale.
template <class T, class C>
struct Weight {
  C used = 0;
  C dscore = 0;

  __device__ Weight(const AttentionProblem& p, const Terms& terms, Dropping dropping, int64_t b,
                    int64_t h, int64_t i, int64_t j, C product, C dweight, C lse, C delta) {
    if (lse == -C(INFINITY)) return;
    const C score = product * static_cast<C>(p.scale) + added<T, C>(p, terms, b, h, i, j);
    const C weight = exp(score - lse);
    const C kept = p.dropout > 0 ? dropped<C>(terms, p.weight(b, h, i, j), dropping) : C(1);
    used = weight * kept;
    dscore = weight * (dweight * kept - delta) * static_cast<C>(p.scale);
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    grad_queries(const __grid_constant__ AttentionProblem p, Terms terms, Dropping dropping,
                 const __grid_constant__ AttentionRows dy_rows,
                 const __grid_constant__ AttentionRows dq_rows, GradTensors<T> t) {
  using C = Compute<T>;
  extern __shared__ double rows[];
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (n >= p.batch * p.heads * p.queries) return;
  const int64_t i = n % p.queries;
  const int64_t h = n / p.queries % p.heads;
  const int64_t b = n / p.queries / p.heads;
  const int64_t g = p.kv_head(h);
  const auto width = static_cast<int>(p.width);
  const auto value_width = static_cast<int>(p.value_width);
  const int column = static_cast<int>(blockIdx.y) * kColumns;
  C* query = reinterpret_cast<C*>(rows) + warp * (width + value_width);
  C* dy = query + width;
  load_row(query, t.q + p.q.at(b, h, i), p.q.col, width);
  load_row(dy, t.dy + dy_rows.at(b, h, i), dy_rows.col, value_width);
  __syncwarp();
  C product = 0;
  for (int e = lane; e < value_width; e += 32)
    product += dy[e] * static_cast<C>(to_compute(t.y[p.y.at(b, h, i) + e * p.y.col]));
  const C delta = warp_sum(product) - (t.dlse ? t.dlse[n] : C(0));
  if (lane == 0 && column == 0) t.deltas[n] = delta;
  const C lse = t.lse[n];
  const int64_t length = attention::keys_of(p, terms, b);
  const int64_t end = p.last_key(i, length);
  C sums[kPerLane] = {};
  for (int64_t first = p.first_key(i, length); first < end; first += 32) {
    const int64_t j = first + lane;
    const int64_t key = j < end ? j : end - 1;
    C dscore = 0;
    if (j < end)
      dscore = Weight<T, C>(p, terms, dropping, b, h, i, j,
                            dot(query, t.k + p.k.at(b, g, j), p.k.col, width),
                            dot(dy, t.v + p.v.at(b, g, j), p.v.col, value_width), lse, delta)
                   .dscore;
    add_rows(sums, dscore, t.k + p.k.at(b, g, key), p.k.col, column, width);
  }
  store_row(t.dq + dq_rows.at(b, h, i), dq_rows.col, sums, C(1), column, width);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    grad_keys(const __grid_constant__ AttentionProblem p, Terms terms, Dropping dropping,
              const __grid_constant__ AttentionRows dy_rows,
              const __grid_constant__ AttentionRows dk_rows,
              const __grid_constant__ AttentionRows dv_rows, GradTensors<T> t) {
  using C = Compute<T>;
  extern __shared__ double rows[];
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (n >= p.batch * p.kv_heads * p.keys) return;
  const int64_t j = n % p.keys;
  const int64_t g = n / p.keys % p.kv_heads;
  const int64_t b = n / p.keys / p.kv_heads;
  const auto width = static_cast<int>(p.width);
  const auto value_width = static_cast<int>(p.value_width);
  const int column = static_cast<int>(blockIdx.y) * kColumns;
  C* key = reinterpret_cast<C*>(rows) + warp * (width + value_width);
  C* value = key + width;
  load_row(key, t.k + p.k.at(b, g, j), p.k.col, width);
  load_row(value, t.v + p.v.at(b, g, j), p.v.col, value_width);
  __syncwarp();
  const int64_t length = attention::keys_of(p, terms, b);
  const int64_t begin = p.first_query(j, length);
  const int64_t end = j < length ? p.last_query(j, length) : begin;
  C dk[kPerLane] = {};
  C dv[kPerLane] = {};
  for (int64_t h = g * p.group(); h < (g + 1) * p.group(); ++h)
    for (int64_t first = begin; first < end; first += 32) {
      const int64_t i = first + lane;
      const int64_t query = i < end ? i : end - 1;
      const int64_t row = (b * p.heads + h) * p.queries + query;
      const T* q = t.q + p.q.at(b, h, query);
      const T* dy = t.dy + dy_rows.at(b, h, query);
      C used = 0;
      C dscore = 0;
      if (i < end) {
        const Weight<T, C> w(p, terms, dropping, b, h, i, j, dot(key, q, p.q.col, width),
                             dot(value, dy, dy_rows.col, value_width), t.lse[row], t.deltas[row]);
        used = w.used;
        dscore = w.dscore;
      }
      add_rows(dk, dscore, q, p.q.col, column, width);
      add_rows(dv, used, dy, dy_rows.col, column, value_width);
    }
  store_row(t.dk + dk_rows.at(b, g, j), dk_rows.col, dk, C(1), column, width);
  store_row(t.dv + dv_rows.at(b, g, j), dv_rows.col, dv, C(1), column, value_width);
}

void run_grad(const AttentionParams&, const GradState& state, const Call& call) {
  const AttentionProblem& p = state.problem;
  const Dropping dropping = dropping_of(p);
  const Terms terms = terms_of(call, kAttentionGradInputs);
  cuda_switch_float(call.in[0].dtype(), "attention_grad", [&]<class T>() {
    using C = Compute<T>;
    const T* q = call.in[1].as<const T>();
    T* dq = call.out[0].as<T>();
    const GradTensors<T> t{call.in[0].as<const T>(),
                           q,
                           p.packed ? q : call.in[2].as<const T>(),
                           p.packed ? q : call.in[3].as<const T>(),
                           call.in[kAttentionGradY].as<const T>(),
                           call.in[kAttentionGradLse].as<const C>(),
                           call.in[kAttentionGradDlse].as<const C>(),
                           static_cast<C*>(call.workspace),
                           dq,
                           p.packed ? dq : call.out[1].as<T>(),
                           p.packed ? dq : call.out[2].as<T>()};
    const size_t shared = static_cast<size_t>(kWarps * (p.width + p.value_width)) * sizeof(C);
    call.encoder->launch(grad_queries<T>,
                         {grid_over(p.batch * p.heads * p.queries, kWarps), column_blocks(p.width)},
                         kThreads, shared, p, terms, dropping, state.dy, state.out.q, t);
    call.encoder->launch(grad_keys<T>,
                         {grid_over(p.batch * p.kv_heads * p.keys, kWarps),
                          column_blocks(p.width > p.value_width ? p.width : p.value_width)},
                         kThreads, shared, p, terms, dropping, state.dy, state.out.k, state.out.v,
                         t);
  });
}

}  // namespace

Kernel attention_direct_kernel() { return kernel<supports, prepare, run>("direct"); }
Kernel attention_grad_direct_kernel() {
  return kernel<supports_grad, prepare_grad, run_grad>("direct");
}

}  // namespace mica
