// Attention of few queries, as generation has them: the keys of a query are split over the blocks
// of a cluster, their warps, and groups of lanes that hold a row of the operands each. Every group
// keeps its own largest score and sums; they meet at the end, in the same order each time.
#include <algorithm>

#include "mica/ops/attention/cuda_kernels.h"
#include "mica/ops/attention/cuda_terms.cuh"
#include "mica/runtime/cuda/cluster.cuh"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

using namespace mica::cuda;
using namespace mica::attention;

constexpr int kThreads = 128;
constexpr int kMostSplits = 8;  ///< blocks of a cluster, as many as every GPU with clusters takes
constexpr int kTogether = 4;    ///< keys that a group loads at once
constexpr int64_t kMostQueries = 4;
constexpr int64_t kMostBlocks = 65535;

/// What a group, a block or a cluster has found; the sums are of the largest score's scale.
struct Found {
  float largest;
  float total;
};

/// What sums of the scale `from` are multiplied with to be of the scale `to`.
__device__ float rescale(float from, float to) { return from == -INFINITY ? 0 : expf(from - to); }

template <class T>
__device__ Vec<T, kVec16<T>> load_part(const T* row, int column, int width) {
  if (column < width) return load_vec<kVec16<T>>(row + column);
  Vec<T, kVec16<T>> zeros;
#pragma unroll
  for (int e = 0; e < kVec16<T>; ++e) zeros.v[e] = convert<T>(0.0F);
  return zeros;
}

/// A group of `lanes` takes every (groups of the cluster)-th run of kTogether keys.
/// Grid: blocks of a cluster, heads times queries, sequences.
template <class T, int lanes>
__global__ void __launch_bounds__(kThreads)
    attend_split(const __grid_constant__ AttentionProblem p, Terms terms, Dropping dropping,
                 const T* q, const T* k, const T* v, T* y, float* lse) {
  constexpr int V = kVec16<T>;
  constexpr int kGroups = kThreads / lanes;
  constexpr int kWidth = lanes * V;
  __shared__ Found of_groups[kGroups];
  __shared__ float sums_of_groups[kGroups][kWidth];
  __shared__ __align__(16) float received[kMostSplits][kWidth + 4];  // sums, largest, total
  wait_for_inputs();
  const auto splits = static_cast<int>(gridDim.x);
  const auto rank = static_cast<int>(blockIdx.x);
  const int64_t i = blockIdx.y % p.queries;
  const int64_t h = blockIdx.y / p.queries;
  const int64_t b = blockIdx.z;
  const int64_t g = p.kv_head(h);
  const auto width = static_cast<int>(p.width);
  const auto value_width = static_cast<int>(p.value_width);
  const auto group = static_cast<int>(threadIdx.x) / lanes;
  const int column = static_cast<int>(threadIdx.x) % lanes * V;
  const auto scale = static_cast<float>(p.scale);
  const int64_t length = attention::keys_of(p, terms, b);
  const int64_t begin = p.first_key(i, length);
  const int64_t end = p.last_key(i, length);

  const Vec<T, V> packed = load_part(q + p.q.at(b, h, i), column, width);
  float query[V];
#pragma unroll
  for (int e = 0; e < V; ++e) query[e] = to_compute(packed.v[e]) * scale;
  float sums[V] = {};
  Found own{-INFINITY, 0};
  const int64_t step = int64_t{splits} * kGroups * kTogether;
  // Lanes of a warp stay together: they exchange what they have.
  const int64_t first_of_warp =
      begin + (int64_t{rank} * kGroups + threadIdx.x / 32 * (32 / lanes)) * kTogether;
  for (int64_t j0 = first_of_warp; j0 < end; j0 += step) {
    const int64_t from = j0 + group % (32 / lanes) * kTogether;
    Vec<T, V> keys[kTogether];
    Vec<T, V> values[kTogether];
#pragma unroll
    for (int t = 0; t < kTogether; ++t) {
      const int64_t j = from + t < end ? from + t : end - 1;
      keys[t] = load_part(k + p.k.at(b, g, j), column, width);
      values[t] = load_part(v + p.v.at(b, g, j), column, value_width);
    }
    float scores[kTogether];
    float largest = own.largest;
#pragma unroll
    for (int t = 0; t < kTogether; ++t) {
      float sum = 0;
#pragma unroll
      for (int e = 0; e < V; ++e) sum += query[e] * to_compute(keys[t].v[e]);
#pragma unroll
      for (int other = lanes / 2; other > 0; other /= 2)
        sum += __shfl_xor_sync(0xffffffffU, sum, other);
      const int64_t j = from + t;
      const float more = j < end ? added<T, float>(p, terms, b, h, i, j) : -INFINITY;
      scores[t] = more == -INFINITY ? more : sum + more;
      largest = fmaxf(largest, scores[t]);
    }
    const float factor = rescale(own.largest, largest);
    own.largest = largest;
    own.total *= factor;
#pragma unroll
    for (int e = 0; e < V; ++e) sums[e] *= factor;
#pragma unroll
    for (int t = 0; t < kTogether; ++t) {
      if (scores[t] == -INFINITY) continue;  // of a value that is not seen nothing counts, NaN too
      float weight = expf(scores[t] - largest);
      own.total += weight;
      if (p.dropout > 0) weight *= dropped<float>(terms, p.weight(b, h, i, from + t), dropping);
#pragma unroll
      for (int e = 0; e < V; ++e) sums[e] += weight * to_compute(values[t].v[e]);
    }
  }
  if (column == 0) of_groups[group] = own;
#pragma unroll
  for (int e = 0; e < V; ++e) sums_of_groups[group][column + e] = sums[e];
  if (splits > 1) cluster_arrive();  // every block has begun, and its memory is there
  __syncthreads();

  // Of the block: a thread takes a column.
  Found block{-INFINITY, 0};
  for (int n = 0; n < kGroups; ++n) block.largest = fmaxf(block.largest, of_groups[n].largest);
  for (int n = 0; n < kGroups; ++n)
    block.total += of_groups[n].total * rescale(of_groups[n].largest, block.largest);
  if (splits > 1) cluster_wait();
  for (int e = static_cast<int>(threadIdx.x); e < kWidth + 2; e += kThreads) {
    float sum = e == kWidth ? block.largest : block.total;
    if (e < kWidth) {
      sum = 0;
      for (int n = 0; n < kGroups; ++n)
        sum += sums_of_groups[n][e] * rescale(of_groups[n].largest, block.largest);
    }
    if (splits > 1)
      send(of_block(&received[rank][e], 0), sum);
    else
      received[0][e] = sum;
  }
  if (splits > 1) {
    cluster_arrive();
    cluster_wait();
    if (rank != 0) return;
  }
  __syncthreads();

  Found all{-INFINITY, 0};
  for (int r = 0; r < splits; ++r) all.largest = fmaxf(all.largest, received[r][kWidth]);
  for (int r = 0; r < splits; ++r)
    all.total += received[r][kWidth + 1] * rescale(received[r][kWidth], all.largest);
  const float factor = all.total == 0 ? 0 : 1 / all.total;
  for (int e = static_cast<int>(threadIdx.x); e < value_width; e += kThreads) {
    float sum = 0;
    for (int r = 0; r < splits; ++r)
      sum += received[r][e] * rescale(received[r][kWidth], all.largest);
    y[p.y.at(b, h, i) + e] = convert<T>(sum * factor);
  }
  if (threadIdx.x == 0)
    lse[(b * p.heads + h) * p.queries + i] =
        all.total == 0 ? -INFINITY : all.largest + logf(all.total);
}

bool has_whole_rows(const AttentionRows& rows, int64_t vector) {
  return rows.col == 1 && rows.offset % vector == 0 && rows.batch % vector == 0 &&
         rows.head % vector == 0 && rows.row % vector == 0;
}

/// Lanes that hold a row, a power of two; more than a warp where the row is too long.
int lanes_of(const AttentionProblem& p, DType dtype) {
  const auto vector = static_cast<int64_t>(16 / size_of(dtype));
  const int64_t wanted = ceil_div(std::max(p.width, p.value_width), vector);
  int lanes = 4;
  while (lanes < wanted) lanes *= 2;
  return lanes;
}

Support supports(const AttentionParams& params, const Specs& s) {
  const AttentionProblem p = attention_problem(params, s);
  const DType dtype = s.in[0].dtype;
  if (dtype == DType::f64) return Support::no("computes f32, f16 and bf16");
  if (p.batch * p.heads * p.queries * p.keys * p.width * p.value_width == 0)
    return Support::no("nothing to compute");
  if (p.queries > kMostQueries) return Support::no("more than four queries");
  if (p.batch > kMostBlocks || p.heads * p.queries > kMostBlocks)
    return Support::no("too many sequences or heads");
  const auto vector = static_cast<int64_t>(16 / size_of(dtype));
  if (p.width % vector != 0 || p.value_width % vector != 0)
    return Support::no("heads that are not whole vectors");
  if (lanes_of(p, dtype) > 32) return Support::no("rows of more than 512 bytes");
  IndexSet copied;
  const AttentionRows* rows[] = {&p.q, &p.k, &p.v};
  for (size_t i = 0; i < (p.packed ? 1 : 3); ++i) {
    if (!s.in[i].aligned) return Support::no("an operand does not lie on a 16-byte boundary");
    if (!has_whole_rows(*rows[i], vector)) copied.insert(static_cast<int>(i));
  }
  return Support::yes().with_contiguous(copied);
}

struct State : KernelState {
  AttentionProblem problem;
  unsigned splits = 1;
};

std::shared_ptr<State> prepare(const AttentionParams& params, const Specs& s) {
  constexpr int64_t kShortest = 32;  // keys of a block
  auto state = std::make_shared<State>();
  state->problem = attention_problem(params, s);
  const AttentionProblem& p = state->problem;
  const DeviceProperties device = runtime(DeviceKind::cuda).properties(s.out[0].device.index);
  const int64_t queries = p.batch * p.heads * p.queries;
  while (device.compute_capability >= 90 && state->splits < kMostSplits &&
         queries * state->splits < device.multiprocessors && p.keys > kShortest * state->splits)
    state->splits *= 2;
  return state;
}

template <class T>
void launch(const State& state, const Call& call) {
  const AttentionProblem& p = state.problem;
  const T* q = call.in[0].as<const T>();
  const dim3 grid(state.splits, static_cast<unsigned>(p.heads * p.queries),
                  static_cast<unsigned>(p.batch));
  const auto with_lanes = [&]<int lanes>() {
    const ProgrammaticLaunch overlap;
    call.encoder->launch_clusters(attend_split<T, lanes>, grid, kThreads, 0, state.splits, p,
                                  terms_of(call, kAttentionInputs), dropping_of(p), q,
                                  p.packed ? q : call.in[1].as<const T>(),
                                  p.packed ? q : call.in[2].as<const T>(), call.out[0].as<T>(),
                                  call.out[1].as<float>());
  };
  switch (lanes_of(p, call.in[0].dtype())) {
    case 4:
      return with_lanes.template operator()<4>();
    case 8:
      return with_lanes.template operator()<8>();
    case 16:
      return with_lanes.template operator()<16>();
    default:
      return with_lanes.template operator()<32>();
  }
}

void run(const AttentionParams&, const State& state, const Call& call) {
  const DType dtype = call.in[0].dtype();
  if (dtype == DType::f32)
    launch<float>(state, call);
  else if (dtype == DType::f16)
    launch<__half>(state, call);
  else
    launch<__nv_bfloat16>(state, call);
}

}  // namespace

Kernel attention_split_keys_kernel() { return kernel<supports, prepare, run>("split_keys"); }

}  // namespace mica
