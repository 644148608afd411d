// What the gradient of attention reads of each query: eight lanes for one.
#include "mica/ops/attention/cuda_terms.cuh"
#include "mica/ops/attention/cuda_tiles.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica::attention {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int kLanes = 8;
constexpr float kLog2E = 1.4426950408889634F;

template <class T>
__global__ void __launch_bounds__(kThreads)
    describe(const __grid_constant__ AttentionGradProblem g, const T* dy, const T* y,
             const float* lse, const float* dlse, QueryTerms* rows) {
  constexpr int V = kVec16<T>;
  const AttentionProblem& p = g.problem;
  const int64_t n = int64_t{blockIdx.x} * (kThreads / kLanes) + threadIdx.x / kLanes;
  const bool inside = n < p.batch * p.heads * p.queries;
  const int64_t at = inside ? n : 0;
  const int64_t i = at % p.queries;
  const int64_t h = at / p.queries % p.heads;
  const int64_t b = at / p.queries / p.heads;
  const T* const d = dy + g.dy.at(b, h, i);
  const T* const own = y + p.y.at(b, h, i);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  float sum = 0;
  for (int e = lane * V; e < p.value_width; e += kLanes * V) {
    const Vec<T, V> left = load_vec<V>(d + e);
    const Vec<T, V> right = load_vec<V>(own + e);
#pragma unroll
    for (int k = 0; k < V; ++k) sum += to_compute(left.v[k]) * to_compute(right.v[k]);
  }
#pragma unroll
  for (int other = kLanes / 2; other > 0; other /= 2)
    sum += __shfl_xor_sync(0xffffffffU, sum, other);
  if (!inside || lane != 0) return;
  rows[n] = {lse[n] == -INFINITY ? INFINITY : lse[n] * kLog2E, sum - (dlse ? dlse[n] : 0)};
}

template <class T>
void launch(const AttentionGradProblem& g, const Call& call, QueryTerms* rows) {
  const AttentionProblem& p = g.problem;
  call.encoder->launch(describe<T>, grid_over(p.batch * p.heads * p.queries, kThreads / kLanes),
                       kThreads, 0, g, call.in[0].as<const T>(),
                       call.in[kAttentionGradY].as<const T>(),
                       call.in[kAttentionGradLse].as<const float>(),
                       call.in[kAttentionGradDlse].as<const float>(), rows);
}

}  // namespace

size_t query_terms_bytes(const AttentionProblem& p) {
  return static_cast<size_t>(p.batch * p.heads * p.queries) * sizeof(QueryTerms);
}

QueryTerms* describe_queries(const AttentionGradProblem& g, const Call& call) {
  auto* const rows = static_cast<QueryTerms*>(call.workspace);
  const DType dtype = call.in[0].dtype();
  if (dtype == DType::f32)
    launch<float>(g, call, rows);
  else if (dtype == DType::f16)
    launch<__half>(g, call, rows);
  else
    launch<__nv_bfloat16>(g, call, rows);
  return rows;
}

}  // namespace mica::attention
