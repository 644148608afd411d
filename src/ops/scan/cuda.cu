#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/scan/cuda_row.cuh"
#include "mica/ops/scan/scan.h"
#include "mica/runtime/cuda/encoder.h"

// A scan joins elements in order: rows by a warp or a block with a running carry, columns by a
// thread each. Long ones are cut into pieces: a first pass finds the total of each.
namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kColumnSteps = 8;      ///< elements of a column that are under way together
constexpr int64_t kShortRow = 32;    ///< up to so many elements a thread scans a row
constexpr int64_t kFewColumns = 16;  ///< are scanned as rows
constexpr int64_t kColumnThreads = 1 << 17;
constexpr int64_t kLeastPiece = 64;  ///< elements of a column
constexpr int64_t kMostPieces = 64;  ///< of a column: each adds up the totals before it
constexpr int64_t kWave = 1056;      ///< blocks that a large GPU runs at once
constexpr int64_t kMostBlocks = 65535;

/// What is scanned in: f32 in double, as its sums of many elements need, and halves in float.
template <class S>
using Wide = std::conditional_t<std::is_same_v<S, Typed<float>>, double, typename S::Value>;

template <class S>
struct Sums {
  using Source = S;
  using Acc = Wide<S>;
  static constexpr int kInputs = 1;
  S source;

  __device__ static constexpr int neutral(int) { return 0; }
  template <class V>
  __device__ static Acc of(const V (&x)[1]) {
    return static_cast<Acc>(x[0]);
  }
  __device__ static Acc join(const Acc& a, const Acc& b) { return a + b; }
  __device__ static Acc result(const Acc& a) { return a; }
};

template <class S>
struct Products {
  using Source = S;
  using Acc = Wide<S>;
  static constexpr int kInputs = 1;
  S source;

  __device__ static constexpr int neutral(int) { return 1; }
  template <class V>
  __device__ static Acc of(const V (&x)[1]) {
    return static_cast<Acc>(x[0]);
  }
  __device__ static Acc join(const Acc& a, const Acc& b) { return a * b; }
  __device__ static Acc result(const Acc& a) { return a; }
};

/// h -> a h + b.
template <class S>
struct Recurrences {
  using Source = S;
  struct Acc {
    Wide<S> a, b;
  };
  static constexpr int kInputs = 2;
  S source;

  __device__ static constexpr int neutral(int input) { return input == 0 ? 1 : 0; }
  template <class V>
  __device__ static Acc of(const V (&x)[2]) {
    return {static_cast<Wide<S>>(x[0]), static_cast<Wide<S>>(x[1])};
  }
  __device__ static Acc join(const Acc& x, const Acc& y) { return {y.a * x.a, y.a * x.b + y.b}; }
  __device__ static Wide<S> result(const Acc& x) { return x.b; }
};

template <class Op>
__device__ typename Op::Acc identity() {
  typename Op::Source::Value x[Op::kInputs];
#pragma unroll
  for (int m = 0; m < Op::kInputs; ++m) x[m] = Op::neutral(m);
  return Op::of(x);
}

/// The value of the lane `distance` before this one.
template <class Acc>
__device__ Acc shuffle_up(const Acc& a, int distance) {
  uint32_t words[sizeof(Acc) / 4];
  memcpy(words, &a, sizeof a);
#pragma unroll
  for (uint32_t& w : words) w = __shfl_up_sync(0xffffffffU, w, distance);
  Acc b;
  memcpy(&b, words, sizeof b);
  return b;
}
template <class Acc>
__device__ Acc last_lane(const Acc& a) {
  uint32_t words[sizeof(Acc) / 4];
  memcpy(words, &a, sizeof a);
#pragma unroll
  for (uint32_t& w : words) w = __shfl_sync(0xffffffffU, w, 31);
  Acc b;
  memcpy(&b, words, sizeof b);
  return b;
}

/// Joins the lanes up to this one, in order.
template <class Op>
__device__ typename Op::Acc scan_lanes(typename Op::Acc a) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const typename Op::Acc before = shuffle_up(a, distance);
    if (lane >= distance) a = Op::join(before, a);
  }
  return a;
}

/// Joins `count` totals in order, by a block; every thread gets the result.
template <class Op>
__device__ typename Op::Acc join_totals(const typename Op::Acc* totals, int64_t count) {
  alignas(16) __shared__ unsigned char memory[kWarps * sizeof(typename Op::Acc)];
  auto* of_warps = reinterpret_cast<typename Op::Acc*>(memory);
  const int64_t each = ceil_div<int64_t>(count, kThreads);
  auto sum = identity<Op>();
  const int64_t end = ::min((threadIdx.x + 1) * each, count);
  for (int64_t i = threadIdx.x * each; i < end; ++i) sum = Op::join(sum, totals[i]);
  sum = scan_lanes<Op>(sum);
  __syncthreads();  // an earlier call may still be reading
  if (threadIdx.x % 32 == 31) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = of_warps[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum = Op::join(sum, of_warps[w]);
  return sum;
}

template <class Op>
inline constexpr int kRounds = Op::kInputs == 1 ? 4 : 2;  ///< loads of a thread before it computes

/// A warp, or with `block` a block, scans one piece of a row after the other. With `totals_only`
/// it writes totals[row * pieces + piece] instead of results; otherwise it reads those, where there
/// are several pieces (which only blocks have).
template <class Op>
__global__ void __launch_bounds__(kThreads)
    scan_rows(const __grid_constant__ Scan s, const __grid_constant__ Op op, const char* a,
              const char* b, char* out, typename Op::Acc* totals, bool block, bool totals_only) {
  using Acc = typename Op::Acc;
  using Value = typename Op::Source::Value;
  constexpr int kM = Op::kInputs;
  constexpr int kI = kScanItems<typename Op::Source>;
  constexpr int kK = kRounds<Op>;
  constexpr int kEach = kK * kI;  // elements of a thread
  constexpr int kWarpTile = 32 * kEach;
  using Vectors = Exchange<Value, kI, kK>;
  alignas(16) __shared__ unsigned char memory[2 * kWarps * sizeof(Acc)];
  alignas(16) __shared__ unsigned char vectors[kWarps][Vectors::kBytes];
  auto* of_warps = reinterpret_cast<Acc*>(memory);  // two sets, used in turn
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const Vectors exchange{reinterpret_cast<uint4*>(vectors[warp])};
  const int groups = block ? 1 : kWarps;
  const int64_t units = s.rows.count * s.pieces;
  int set = 0;
  for (int64_t start = static_cast<int64_t>(blockIdx.x) * groups; start < units;
       start += static_cast<int64_t>(gridDim.x) * groups) {
    const int64_t unit = start + (block ? 0 : warp);
    if (unit >= units) break;  // whole warps, which wait for no other
    const int64_t row_index = s.pieces > 1 ? unit / s.pieces : unit;
    const int64_t piece = unit - row_index * s.pieces;
    const ScanRow<Op> row(s, op, row_index, a, b, out);
    Acc carry = identity<Op>();
    if (s.pieces > 1 && !totals_only) carry = join_totals<Op>(totals + row_index * s.pieces, piece);
    const int64_t end = ::min(s.n, (piece + 1) * s.length);
    const int64_t step = block ? kWarps * kWarpTile : kWarpTile;
    for (int64_t tile = piece * s.length; tile < end; tile += step) {
      const int64_t first = tile + (block ? warp * kWarpTile : 0) + lane * kI;
      Value x[kM][kK][kI];
#pragma unroll
      for (int k = 0; k < kK; ++k)
#pragma unroll
        for (int m = 0; m < kM; ++m) row.load(m, first + k * 32 * kI, end, x[m][k]);
#pragma unroll
      for (int m = 0; m < kM; ++m) exchange.gather(x[m]);
      const auto item = [&](int e) {
        Value one[kM];
#pragma unroll
        for (int m = 0; m < kM; ++m) one[m] = x[m][e / kI][e % kI];
        return Op::of(one);
      };
      Acc total = item(0);
#pragma unroll
      for (int e = 1; e < kEach; ++e) total = Op::join(total, item(e));
      total = scan_lanes<Op>(total);
      const Acc others = shuffle_up(total, 1);
      total = last_lane(total);
      Acc base = carry;
      if (block) {
        if (lane == 0) of_warps[set * kWarps + warp] = total;
        __syncthreads();
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
          if (w == warp) base = carry;
          carry = Op::join(carry, of_warps[set * kWarps + w]);
        }
        set ^= 1;
      } else {
        carry = Op::join(carry, total);
      }
      if (totals_only) continue;
      Acc sum = lane == 0 ? base : Op::join(base, others);
      auto before = static_cast<Value>(Op::result(sum));
      Value y[kK][kI];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        sum = Op::join(sum, item(e));
        const auto value = static_cast<Value>(Op::result(sum));
        y[e / kI][e % kI] = s.exclusive ? before : value;
        before = value;
      }
      exchange.scatter(y);
#pragma unroll
      for (int k = 0; k < kK; ++k) row.put(first + k * 32 * kI, end, y[k]);
    }
    if (totals_only && threadIdx.x == 0) totals[unit] = carry;
  }
}

/// A thread scans one piece of a column. Totals lie at [piece * columns + column].
template <class Op>
__global__ void __launch_bounds__(kThreads)
    scan_columns(const __grid_constant__ Scan s, const __grid_constant__ Op op, const char* a,
                 const char* b, char* out, typename Op::Acc* totals, bool totals_only) {
  using Acc = typename Op::Acc;
  using Value = typename Op::Source::Value;
  constexpr int kM = Op::kInputs;
  for (int64_t u = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       u < s.rows.count * s.pieces; u += static_cast<int64_t>(gridDim.x) * kThreads) {
    const int64_t piece = s.pieces > 1 ? u / s.rows.count : 0;
    const int64_t column = u - piece * s.rows.count;
    const ScanRow<Op> row(s, op, column, a, b, out);
    Acc sum = identity<Op>();
    if (!totals_only)
      for (int64_t k = 0; k < piece; ++k) sum = Op::join(sum, totals[k * s.rows.count + column]);
    const int64_t end = ::min(s.n, (piece + 1) * s.length);
    for (int64_t i = piece * s.length; i < end; i += kColumnSteps) {
      Value x[kColumnSteps][kM] = {};
#pragma unroll
      for (int j = 0; j < kColumnSteps; ++j)
#pragma unroll
        for (int m = 0; m < kM; ++m)
          if (i + j < end) x[j][m] = row.load_one(m, i + j);
#pragma unroll
      for (int j = 0; j < kColumnSteps; ++j) {
        if (i + j >= end) break;
        const Acc next = Op::join(sum, Op::of(x[j]));
        if (!totals_only) row.put_one(i + j, Op::result(s.exclusive ? sum : next));
        sum = next;
      }
    }
    if (totals_only) totals[u] = sum;
  }
}

struct ScanState : KernelState {
  Scan scan;
  bool columns = false;
  bool block = false;  ///< rows: a block to each, else a warp
};

template <int kInputs>
std::shared_ptr<ScanState> prepare(const ScanParams& p, const Specs& s) {
  const auto axis = static_cast<int>(p.axis);
  const TensorSpec* operands[3] = {&s.out[0], &s.in[0], &s.in[kInputs - 1]};
  const auto without_axis = [&](const Dims& dims) {
    Dims rest;
    for (int d = 0; d < dims.rank(); ++d)
      if (d != axis) rest.push_back(dims[d]);
    return rest;
  };
  auto state = std::make_shared<ScanState>();
  Scan& scan = state->scan;
  StridedLoop<3>& rows = scan.rows;
  rows = strided_loop<3>(without_axis(s.out[0].shape),
                         {without_axis(operands[0]->strides), without_axis(operands[1]->strides),
                          without_axis(operands[2]->strides)});
  scan.n = scan.length = s.out[0].shape[axis];
  scan.exclusive = p.exclusive;
  scan.reverse = p.reverse;
  if (rows.count == 0 || scan.n == 0) return state;
  const int items = items_of(s.in[0].dtype);
  scan.vectors = !p.reverse || scan.n % items == 0;
  for (int k = 0; k < 3; ++k) {
    scan.step[k] = operands[k]->strides[axis];
    scan.vectors = scan.vectors && scan.step[k] == 1 && operands[k]->aligned;
    for (int d = 0; d < rows.rank; ++d)
      scan.vectors = scan.vectors && rows.stride[k][d] % items == 0;
  }
  const bool side_by_side =
      rows.rank > 0 && rows.size[0] >= kFewColumns && rows.stride[0][0] < scan.step[0];
  state->columns = side_by_side || (scan.n <= kShortRow && rows.count >= kThreads);
  constexpr int kK = kInputs == 1 ? 4 : 2;
  const int64_t warp_tile = 32 * items * kK;
  int64_t unit = 1;
  int64_t wanted = 1;
  if (state->columns) {
    wanted = std::min({ceil_div(kColumnThreads, rows.count), scan.n / kLeastPiece, kMostPieces});
  } else {
    state->block = scan.n > 2 * warp_tile;
    unit = kWarps * warp_tile;
    if (2 * rows.count < kWave) wanted = std::min(kWave / rows.count, scan.n / (2 * unit));
  }
  if (wanted > 1) {
    scan.length = ceil_div(ceil_div(scan.n, wanted), unit) * unit;
    scan.pieces = ceil_div(scan.n, scan.length);
    constexpr size_t kAccBytes = kInputs * sizeof(double);
    state->workspace_bytes = static_cast<size_t>(scan.pieces * rows.count) * kAccBytes;
  }
  return state;
}

template <class Op>
void launch(const ScanState& state, const Op& op, const Call& c) {
  const Scan& s = state.scan;
  if (s.rows.count == 0 || s.n == 0) return;
  const auto* a = c.in[0].as<const char>();
  const auto* b = c.in.back().as<const char>();
  auto* out = c.out[0].as<char>();
  auto* totals = static_cast<typename Op::Acc*>(c.workspace);
  const int64_t units = s.rows.count * s.pieces;
  const int per_block = state.columns ? kThreads : state.block ? 1 : kWarps;
  const auto grid =
      static_cast<unsigned>(std::min(ceil_div<int64_t>(units, per_block), kMostBlocks));
  for (const bool totals_only : {true, false}) {
    if (totals_only && s.pieces == 1) continue;
    if (state.columns) {
      c.encoder->launch(scan_columns<Op>, grid, kThreads, 0, s, op, a, b, out, totals, totals_only);
    } else {
      c.encoder->launch(scan_rows<Op>, grid, kThreads, 0, s, op, a, b, out, totals, state.block,
                        totals_only);
    }
  }
}

template <template <class> class Op>
void run(const ScanParams&, const ScanState& state, const Call& c) {
  with_source(c.in[0].dtype(),
              [&](auto source) { launch(state, Op<decltype(source)>{source}, c); });
}

void run_linear(const ScanParams&, const ScanState& state, const Call& c) {
  with_float_source(c.in[0].dtype(),
                    [&](auto source) { launch(state, Recurrences<decltype(source)>{source}, c); });
}

}  // namespace

KernelList cumsum_cuda_kernels() {
  return {kernel<supports_all<ScanParams>, prepare<1>, run<Sums>>("pieces")};
}
KernelList cumprod_cuda_kernels() {
  return {kernel<supports_all<ScanParams>, prepare<1>, run<Products>>("pieces")};
}
KernelList linear_scan_cuda_kernels() {
  return {kernel<supports_all<ScanParams>, prepare<2>, run_linear>("pieces")};
}

}  // namespace mica
