#pragma once

// Attention by tiles: a warp has 16 queries (or keys) and keeps their scores and results in
// registers; tiles of the other operands pass through shared memory. The gradient has one kernel
// for keys and values and one for queries, each of which computes the weights again: nothing is
// added up by two blocks, so every run gives the same bits.
#include "mica/ops/attention/cuda_fragments.cuh"
#include "mica/ops/attention/cuda_terms.cuh"
#include "mica/ops/attention/cuda_tiles.h"
#include "mica/runtime/cuda/async_copy.cuh"
#include "mica/runtime/cuda/encoder.h"

namespace mica::attention {

using cuda::convert;
using cuda::kVec16;

inline constexpr int kTileThreads = 128;
inline constexpr float kLog2E = 1.4426950408889634F;
inline constexpr float kLn2 = 0.6931471805599453F;

/// From row to row of a tile in shared memory: no two rows of eight begin in one bank.
template <int D>
inline constexpr int kPitch = D + 8;

/// Begins to copy rows [first, first + rows) to shared memory; zeros past `limit` and `width`.
template <class T, int D>
__device__ void copy_rows(T* to, int rows, const T* from, const AttentionRows& place, int64_t b,
                          int64_t h, int64_t first, int64_t limit, int width) {
  constexpr int V = kVec16<T>;
  constexpr int kAcross = D / V;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kAcross; i += kTileThreads) {
    const int row = i / kAcross;
    const int column = i % kAcross * V;
    const bool inside = first + row < limit && column < width;
    const T* at = from + (inside ? place.at(b, h, first + row) + column : 0);
    cuda::copy_async<16>(reinterpret_cast<float*>(to + row * kPitch<D> + column), at,
                         inside ? 16 : 0);
  }
}

/// c (16, 8 N) = rows of a times rows of b.
template <class M, int D, int N>
__device__ void multiply_rows(float (&c)[N][4], const typename M::T* a, int row0,
                              const typename M::T* b) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) c[n][e] = 0;
#pragma unroll
  for (int k = 0; k < D; k += M::kDepth) {
    const typename M::A left = M::rows(a, kPitch<D>, row0, k);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      typename M::B right[2];
      M::right_rows(right, b, kPitch<D>, n * 8, k);
      M::multiply(c[n], left, right[0]);
      M::multiply(c[n + 1], left, right[1]);
    }
  }
}

/// to (16, D) += c (16, 8 N) times the rows of b.
template <class M, int D, int N>
__device__ void add_product(float (&to)[D / 8][4], const float (&c)[N][4], const typename M::T* b) {
#pragma unroll
  for (int k = 0; k < N * 8 / M::kDepth; ++k) {
    const typename M::A left = M::left(c, k);
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
      typename M::B right[2];
      M::right_columns(right, b, kPitch<D>, k * M::kDepth, n * 8);
      M::multiply(to[n], left, right[0]);
      M::multiply(to[n + 1], left, right[1]);
    }
  }
}

/// Stores a warp's rows, times a factor of each half.
template <class T, int D>
__device__ void store_rows(T* to, const AttentionRows& place, int64_t b, int64_t h, int64_t first,
                           int64_t limit, int width, const float (&c)[D / 8][4],
                           const float (&factor)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first + lane_of() / 4 + half * 8;
    if (row >= limit) continue;
    T* at = to + place.at(b, h, row);
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      const int column = n * 8 + lane_of() % 4 * 2;
      if (column >= width) continue;
      const float both[2] = {c[n][2 * half] * factor[half], c[n][2 * half + 1] * factor[half]};
      cuda::store_vec<2>(at + column, cuda::pack<T>(both));
    }
  }
}

template <class M, int D>
__global__ void __launch_bounds__(kTileThreads)
    attend_tiles(const __grid_constant__ AttentionProblem p, Terms terms, Dropping dropping,
                 const typename M::T* q, const typename M::T* k, const typename M::T* v,
                 typename M::T* y, float* lse) {
  using T = typename M::T;
  constexpr int kKeys = 64;
  constexpr int N = kKeys / 8;
  extern __shared__ float4 space[];
  T* const sq = reinterpret_cast<T*>(space);
  T* const sk = sq + kTileRows * kPitch<D>;
  T* const sv = sk + kKeys * kPitch<D>;
  const int64_t b = blockIdx.z;
  const int64_t h = blockIdx.y;
  const int64_t g = p.kv_head(h);
  // The longest rows of a causal call first.
  const int64_t first = int64_t{gridDim.x - 1 - blockIdx.x} * kTileRows;
  const auto warp_row = static_cast<int>(threadIdx.x / 32 * 16);
  const int64_t length = keys_of(p, terms, b);
  const int64_t last = first + kTileRows < p.queries ? first + kTileRows : p.queries;
  const int64_t begin = p.first_key(first, length);
  const int64_t end = p.last_key(last - 1, length);
  int64_t low[2], high[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first + warp_row + lane_of() / 4 + half * 8;
    low[half] = row < p.queries ? p.first_key(row, length) : 0;
    high[half] = row < p.queries ? p.last_key(row, length) : 0;
  }
  const float scale = static_cast<float>(p.scale) * kLog2E;
  float sums[D / 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY};
  float total[2] = {};
  copy_rows<T, D>(sq, kTileRows, q, p.q, b, h, first, p.queries, static_cast<int>(p.width));
  copy_rows<T, D>(sk, kKeys, k, p.k, b, g, begin, length, static_cast<int>(p.width));
  cuda::commit_copies();
  for (int64_t j0 = begin; j0 < end; j0 += kKeys) {
    cuda::wait_all_copies();
    __syncthreads();  // also: nobody reads the values of the tile before
    copy_rows<T, D>(sv, kKeys, v, p.v, b, g, j0, length, static_cast<int>(p.value_width));
    cuda::commit_copies();
    float c[N][4];
    multiply_rows<M, D, N>(c, sq, warp_row, sk);
    __syncthreads();
    copy_rows<T, D>(sk, kKeys, k, p.k, b, g, j0 + kKeys, length, static_cast<int>(p.width));
    cuda::commit_copies();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t row = first + warp_row + lane_of() / 4 + half * 8;
      const bool whole = low[half] <= j0 && j0 + kKeys <= high[half];
      float most = largest[half];
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int64_t j = j0 + n * 8 + lane_of() % 4 * 2 + e;
          float& score = c[n][2 * half + e];
          score *= scale;
          if (!whole && (j < low[half] || j >= high[half]))
            score = -INFINITY;
          else if (p.mask != AttentionMask::none)
            score += added<T, float>(p, terms, b, h, row, j) * kLog2E;
          most = fmaxf(most, score);
        }
      most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, 2));
      const float from = most == -INFINITY ? 0 : most;
      const float factor = exp2f(largest[half] - from);
      largest[half] = most;
      total[half] *= factor;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        sums[n][2 * half] *= factor;
        sums[n][2 * half + 1] *= factor;
      }
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& weight = c[n][2 * half + e];
          weight = exp2f(weight - from);
          total[half] += weight;
          if (p.dropout > 0)
            weight *= dropped<float>(terms, p.weight(b, h, row, j0 + n * 8 + lane_of() % 4 * 2 + e),
                                     dropping);
        }
    }
    cuda::wait_copies<1>();
    __syncthreads();
    add_product<M, D, N>(sums, c, sv);
  }
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    total[half] += __shfl_xor_sync(0xffffffffU, total[half], 1);
    total[half] += __shfl_xor_sync(0xffffffffU, total[half], 2);
    const bool nothing = total[half] == 0;
    factor[half] = nothing ? 0 : 1 / total[half];
    const int64_t row = first + warp_row + lane_of() / 4 + half * 8;
    if (lane_of() % 4 == 0 && row < p.queries)
      lse[(b * p.heads + h) * p.queries + row] =
          nothing ? -INFINITY : (largest[half] + log2f(total[half])) * kLn2;
  }
  store_rows<T, D>(y, p.y, b, h, first + warp_row, p.queries, static_cast<int>(p.value_width), sums,
                   factor);
}

template <class T>
struct GradPointers {
  const T *dy, *q, *k, *v;
  const QueryTerms* rows;
  T *dq, *dk, *dv;
};

/// Makes of a score and the gradient of its weight the weight that was used and the gradient of the
/// score, times the scale.
template <class T>
__device__ void weigh(const AttentionProblem& p, const Terms& terms, const Dropping& dropping,
                      int64_t b, int64_t h, int64_t query, int64_t key, bool seen,
                      const QueryTerms& row, float& score, float& dweight) {
  const float scale = static_cast<float>(p.scale);
  float weight = 0;
  if (seen) {
    float value = score * scale;
    if (p.mask != AttentionMask::none) value += added<T, float>(p, terms, b, h, query, key);
    weight = exp2f(value * kLog2E - row.lse);
  }
  const float kept =
      p.dropout > 0 && seen ? dropped<float>(terms, p.weight(b, h, query, key), dropping) : 1;
  dweight = weight == 0 ? 0 : weight * (dweight * kept - row.delta) * scale;
  score = weight * kept;
}

/// dk and dv of 64 keys.
template <class M, int D, int kQueries>
__global__ void __launch_bounds__(kTileThreads)
    grad_key_tiles(const __grid_constant__ AttentionGradProblem g, Terms terms, Dropping dropping,
                   GradPointers<typename M::T> t) {
  using T = typename M::T;
  constexpr int N = kQueries / 8;
  const AttentionProblem& p = g.problem;
  extern __shared__ float4 space[];
  T* const sk = reinterpret_cast<T*>(space);
  T* const sv = sk + kTileRows * kPitch<D>;
  T* const sq = sv + kTileRows * kPitch<D>;
  T* const sdy = sq + kQueries * kPitch<D>;
  auto* const of_queries = reinterpret_cast<QueryTerms*>(sdy + kQueries * kPitch<D>);
  const int64_t b = blockIdx.z;
  const int64_t group = blockIdx.y;
  const int64_t first = int64_t{blockIdx.x} * kTileRows;
  const auto warp_row = static_cast<int>(threadIdx.x / 32 * 16);
  const int64_t length = keys_of(p, terms, b);
  const int64_t last = first + kTileRows < length ? first + kTileRows : length;
  const int64_t begin = p.first_query(first, length);
  const int64_t end = first < length ? p.last_query(last - 1, length) : begin;
  const auto width = static_cast<int>(p.width);
  const auto value_width = static_cast<int>(p.value_width);
  int64_t low[2], high[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t key = first + warp_row + lane_of() / 4 + half * 8;
    low[half] = key < length ? p.first_query(key, length) : 0;
    high[half] = key < length ? p.last_query(key, length) : 0;
  }
  float dk[D / 8][4] = {};
  float dv[D / 8][4] = {};
  copy_rows<T, D>(sk, kTileRows, t.k, p.k, b, group, first, length, width);
  copy_rows<T, D>(sv, kTileRows, t.v, p.v, b, group, first, length, value_width);
  for (int64_t h = group * p.group(); h < (group + 1) * p.group(); ++h)
    for (int64_t i0 = begin; i0 < end; i0 += kQueries) {
      __syncthreads();  // nobody reads the tile before
      copy_rows<T, D>(sq, kQueries, t.q, p.q, b, h, i0, p.queries, width);
      copy_rows<T, D>(sdy, kQueries, t.dy, g.dy, b, h, i0, p.queries, value_width);
      const int64_t rows = (b * p.heads + h) * p.queries;
      for (int i = static_cast<int>(threadIdx.x); i < kQueries; i += kTileThreads)
        of_queries[i] = i0 + i < p.queries ? t.rows[rows + i0 + i] : QueryTerms{INFINITY, 0};
      cuda::wait_all_copies();
      __syncthreads();
      float weights[N][4];
      float dscores[N][4];
      multiply_rows<M, D, N>(weights, sk, warp_row, sq);
      multiply_rows<M, D, N>(dscores, sv, warp_row, sdy);
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int column = n * 8 + lane_of() % 4 * 2 + e % 2;
          const int64_t query = i0 + column;
          const int64_t key = first + warp_row + lane_of() / 4 + e / 2 * 8;
          weigh<T>(p, terms, dropping, b, h, query, key, query >= low[e / 2] && query < high[e / 2],
                   of_queries[column], weights[n][e], dscores[n][e]);
        }
      add_product<M, D, N>(dv, weights, sdy);
      add_product<M, D, N>(dk, dscores, sq);
    }
  cuda::wait_all_copies();
  const float one[2] = {1, 1};
  store_rows<T, D>(t.dk, g.out.k, b, group, first + warp_row, p.keys, width, dk, one);
  store_rows<T, D>(t.dv, g.out.v, b, group, first + warp_row, p.keys, value_width, dv, one);
}

/// dq of 64 queries.
template <class M, int D, int kKeys>
__global__ void __launch_bounds__(kTileThreads)
    grad_query_tiles(const __grid_constant__ AttentionGradProblem g, Terms terms, Dropping dropping,
                     GradPointers<typename M::T> t) {
  using T = typename M::T;
  constexpr int N = kKeys / 8;
  const AttentionProblem& p = g.problem;
  extern __shared__ float4 space[];
  T* const sq = reinterpret_cast<T*>(space);
  T* const sdy = sq + kTileRows * kPitch<D>;
  T* const sk = sdy + kTileRows * kPitch<D>;
  T* const sv = sk + kKeys * kPitch<D>;
  const int64_t b = blockIdx.z;
  const int64_t h = blockIdx.y;
  const int64_t kv = p.kv_head(h);
  const int64_t first = int64_t{gridDim.x - 1 - blockIdx.x} * kTileRows;
  const auto warp_row = static_cast<int>(threadIdx.x / 32 * 16);
  const int64_t length = keys_of(p, terms, b);
  const int64_t last = first + kTileRows < p.queries ? first + kTileRows : p.queries;
  const int64_t begin = p.first_key(first, length);
  const int64_t end = p.last_key(last - 1, length);
  const auto width = static_cast<int>(p.width);
  const auto value_width = static_cast<int>(p.value_width);
  int64_t low[2], high[2];
  QueryTerms rows[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first + warp_row + lane_of() / 4 + half * 8;
    const bool inside = row < p.queries;
    const int64_t at = (b * p.heads + h) * p.queries + row;
    low[half] = inside ? p.first_key(row, length) : 0;
    high[half] = inside ? p.last_key(row, length) : 0;
    rows[half] = inside ? t.rows[at] : QueryTerms{INFINITY, 0};
  }
  float dq[D / 8][4] = {};
  copy_rows<T, D>(sq, kTileRows, t.q, p.q, b, h, first, p.queries, width);
  copy_rows<T, D>(sdy, kTileRows, t.dy, g.dy, b, h, first, p.queries, value_width);
  for (int64_t j0 = begin; j0 < end; j0 += kKeys) {
    __syncthreads();
    copy_rows<T, D>(sk, kKeys, t.k, p.k, b, kv, j0, length, width);
    copy_rows<T, D>(sv, kKeys, t.v, p.v, b, kv, j0, length, value_width);
    cuda::wait_all_copies();
    __syncthreads();
    float weights[N][4];
    float dscores[N][4];
    multiply_rows<M, D, N>(weights, sq, warp_row, sk);
    multiply_rows<M, D, N>(dscores, sdy, warp_row, sv);
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int half = e / 2;
        const int64_t query = first + warp_row + lane_of() / 4 + half * 8;
        const int64_t key = j0 + n * 8 + lane_of() % 4 * 2 + e % 2;
        weigh<T>(p, terms, dropping, b, h, query, key, key >= low[half] && key < high[half],
                 rows[half], weights[n][e], dscores[n][e]);
      }
    add_product<M, D, N>(dq, dscores, sk);
  }
  cuda::wait_all_copies();
  const float one[2] = {1, 1};
  store_rows<T, D>(t.dq, g.out.q, b, h, first + warp_row, p.queries, width, dq, one);
}

inline unsigned tile_count(int64_t n) {
  return static_cast<unsigned>((n + kTileRows - 1) / kTileRows);
}

template <class M, int D>
void attend(const AttentionProblem& p, const Call& call) {
  using T = typename M::T;
  const T* q = call.in[0].as<const T>();
  const size_t shared = size_t{3} * kTileRows * kPitch<D> * sizeof(T);
  call.encoder->launch(
      attend_tiles<M, D>,
      {tile_count(p.queries), static_cast<unsigned>(p.heads), static_cast<unsigned>(p.batch)},
      kTileThreads, shared, p, terms_of(call, kAttentionInputs), dropping_of(p), q,
      p.packed ? q : call.in[1].as<const T>(), p.packed ? q : call.in[2].as<const T>(),
      call.out[0].as<T>(), call.out[1].as<float>());
}

template <class M, int D>
void differentiate(const AttentionGradProblem& g, const QueryTerms* rows, const Call& call) {
  using T = typename M::T;
  constexpr int kOthers = D > 64 ? 32 : 64;
  const AttentionProblem& p = g.problem;
  const T* q = call.in[1].as<const T>();
  T* dq = call.out[0].as<T>();
  const GradPointers<T> t{call.in[0].as<const T>(),
                          q,
                          p.packed ? q : call.in[2].as<const T>(),
                          p.packed ? q : call.in[3].as<const T>(),
                          rows,
                          dq,
                          p.packed ? dq : call.out[1].as<T>(),
                          p.packed ? dq : call.out[2].as<T>()};
  const size_t shared =
      size_t{2} * (kTileRows + kOthers) * kPitch<D> * sizeof(T) + kOthers * sizeof(QueryTerms);
  const Terms terms = terms_of(call, kAttentionGradInputs);
  const Dropping dropping = dropping_of(p);
  const auto batch = static_cast<unsigned>(p.batch);
  call.encoder->launch(grad_key_tiles<M, D, kOthers>,
                       {tile_count(p.keys), static_cast<unsigned>(p.kv_heads), batch}, kTileThreads,
                       shared, g, terms, dropping, t);
  call.encoder->launch(grad_query_tiles<M, D, kOthers>,
                       {tile_count(p.queries), static_cast<unsigned>(p.heads), batch}, kTileThreads,
                       shared, g, terms, dropping, t);
}

/// Calls f<D>() for the width of heads.
template <class F>
void switch_width(const AttentionProblem& p, F&& f) {
  if (p.width <= 64 && p.value_width <= 64)
    f.template operator()<64>();
  else
    f.template operator()<128>();
}

}  // namespace mica::attention
