#pragma once

// LSTM and GRU steps by kernels that stay on the chip for all of them. A cluster of H / 32 blocks
// has some sequences of the batch to itself. Each of its blocks has 32 units, whose recurrent
// weights, 128 rows of slots or columns of them, lie in its registers as operands of the tensor
// cores from the first step to the last. What a step needs from the other blocks comes through
// their shared memory, and its arrival is counted there in bytes (mbarrier): no barrier stops the
// cluster. Two buffers take turns: a block sends into one only after every block has sent it what
// was computed from the other.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "mica/ops/recurrent/cell.h"
#include "mica/ops/recurrent/cuda_persistent.h"
#include "mica/runtime/cuda/cluster.cuh"
#include "mica/runtime/cuda/types.cuh"

namespace mica::persistent {

inline constexpr int kUnits = 32;  ///< of a block
inline constexpr int kSlots = 4;
inline constexpr int kThreads = 256;

using u32 = uint32_t;
using cuda::of_block;
using cuda::shared_address;

__device__ inline void init_barrier(u32 barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
}
__device__ inline void expect_bytes(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ inline void wait_barrier(u32 barrier, u32 parity) {
  u32 done = 0;
  while (!done)
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
}
__device__ inline void sync_cluster() {
  cuda::cluster_arrive();
  cuda::cluster_wait();
}
__device__ inline u32 block_in_cluster() {
  u32 rank = 0;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// Shared memory of this block to that of another, which counts the bytes.
__device__ inline void copy_to_block(u32 to, u32 from, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(to),
      "r"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ inline void load_matrices(u32 (&r)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
/// Brings what will be read some steps later from the device's memory into its cache.
__device__ inline void prefetch(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}
inline constexpr int kPrefetchSteps = 4;
template <class T>
__device__ inline void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (std::is_same_v<T, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// Accurate to f16's and bf16's digits, a few instructions each.
struct Fast {
  float v;
  Fast() = default;
  __device__ Fast(float x) : v(x) {}  // NOLINT(google-explicit-constructor)
  __device__ friend Fast operator+(Fast a, Fast b) { return a.v + b.v; }
  __device__ friend Fast operator-(Fast a, Fast b) { return a.v - b.v; }
  __device__ friend Fast operator*(Fast a, Fast b) { return a.v * b.v; }
  __device__ friend Fast operator/(Fast a, Fast b) { return __fdividef(a.v, b.v); }
  __device__ Fast operator-() const { return -v; }
  __device__ friend Fast exp(Fast x) { return __expf(x.v); }
  /// 1 - 2 / (e^2x + 1); where e^2x overflows the division gives 0.
  __device__ friend Fast tanh(Fast x) {
    // Near 0 the difference has few digits: the series does.
    const float a = x.v * x.v;
    const float series = x.v * (1.0F + a * (-0.33333333F + a * (0.13333333F - a * 0.05396825F)));
    const float other = 1.0F - __fdividef(2.0F, __expf(2.0F * x.v) + 1.0F);
    return fabsf(x.v) < 0.25F ? series : other;
  }
};

template <class T>
__device__ inline float number(T x) {
  return cuda::to_compute(x);
}
template <class T>
using Four = cuda::Vec<T, 4>;

/// Which of the weight's blocks of H rows makes a slot of the state's sums; -1: none.
__device__ constexpr int state_gate(bool lstm, int slot) {
  return lstm || slot < 2 ? slot : slot == 3 ? 2 : -1;
}

template <class T>
__device__ inline u32 pair_of(T a, T b) {
  cuda::Vec<T, 2> two;
  two.v[0] = a, two.v[1] = b;
  return *reinterpret_cast<u32*>(&two);
}

/// Where a thread's values of a tile are: those of unit `unit` and sequence `column`.
struct Place {
  int warp, lane, group, pair, unit, column;
  __device__ Place()
      : warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32),
        group(lane / 4),
        pair(group & 1),
        unit(warp * 4 + group / 2),
        column(lane % 4 * 2 + pair) {}
};

/// The block's lengths of its sequences, 0 for those that there are not.
template <int kBatch>
__device__ inline void load_lengths(int* to, const int64_t* lengths, int first_row, int batch,
                                    int steps) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= kBatch) return;
  const int row = first_row + i;
  to[i] = row >= batch ? 0 : lengths ? static_cast<int>(lengths[row]) : steps;
}

/// sum[m][j] += weight[m] times tile j of an operand (2 kDepth, kBatch, 8) in shared memory. A load
/// brings two steps in depth of one tile; that of the next ones goes ahead where registers allow.
template <class T, int kRows, int kDepth, int kTiles>
__device__ inline void multiply_tiles(float (&sum)[kRows][kTiles][4],
                                      const u32 (&weight)[kRows][kDepth][4], u32 operand,
                                      int lane) {
  constexpr int kBatch = kTiles * kTile;
  constexpr int kAhead = kTiles <= 3 ? 2 : 1;
  const u32 from = operand + static_cast<u32>((lane / 8 * kBatch + lane % 8) * 16);
  u32 b[kAhead][kTiles][4];
  const auto load = [&](int k) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
      load_matrices(b[k % kAhead][j], from + static_cast<u32>((k * 4 * kBatch + j * kTile) * 16));
  };
  if (kAhead > 1) load(0);
#pragma unroll
  for (int k = 0; k < kDepth / 2; ++k) {
    if (kAhead == 1) {
      load(k);
    } else if (k + 1 < kDepth / 2) {
      load(k + 1);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int m = 0; m < kRows; ++m)
#pragma unroll
        for (int j = 0; j < kTiles; ++j)
          multiply<T>(sum[m][j], weight[m][2 * k + half], b[k % kAhead][j][2 * half],
                      b[k % kAhead][j][2 * half + 1]);
  }
}

/// Bytes of a buffer of states: (H / 8, sequences, 8) numbers.
template <int kHidden, int kTiles>
constexpr int state_bytes() {
  return kHidden * kTiles * kTile * 2;
}
/// Sent by one block.
template <int kTiles>
constexpr int part_bytes() {
  return kUnits * kTiles * kTile * 2;
}
template <int kHidden, int kTiles>
constexpr int forward_shared_bytes() {
  return 2 * state_bytes<kHidden, kTiles>() + 4 * part_bytes<kTiles>() + 16 + kTiles * kTile * 4;
}

template <class T, bool kLstm, int kHidden, int kTiles>
__global__ void __launch_bounds__(kThreads, 1) forward_kernel(const Forward<T> a) {
#if __CUDA_ARCH__ >= 900
  using recurrent_cell_math::GruStep;
  using recurrent_cell_math::LstmStep;
  constexpr int kBatch = kTiles * kTile;
  constexpr int kBlocks = kHidden / kUnits;
  constexpr int kDepth = kHidden / 16;
  constexpr int kState = state_bytes<kHidden, kTiles>();
  constexpr int kPart = part_bytes<kTiles>();
  extern __shared__ __align__(128) unsigned char shared[];
  unsigned char* states = shared;                 // two
  unsigned char* stage = shared + 2 * kState;     // two of h, as they are sent
  unsigned char* cell_stage = stage + 2 * kPart;  // two of c
  unsigned char* barriers = stage + 4 * kPart;
  int* lengths = reinterpret_cast<int*>(barriers + 16);
  const u32 barrier = shared_address(barriers);
  const Place at;
  const int rank = static_cast<int>(block_in_cluster());
  const int unit = rank * kUnits + at.unit;
  const int first_row = static_cast<int>(blockIdx.x) / kBlocks * kBatch;

  // Rows of a warp's 16 by 16 tiles: slots 0 and 2 of its four units, then 1 and 3 of them.
  u32 weight[1][kDepth][4];
#pragma unroll
  for (int k = 0; k < kDepth; ++k)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int gate = state_gate(kLstm, at.pair * 2 + r % 2);
      const int column = k * 16 + r / 2 * 8 + at.lane % 4 * 2;
      weight[0][k][r] = gate < 0
                            ? 0U
                            : *reinterpret_cast<const u32*>(
                                  a.w_hh + (int64_t{gate} * kHidden + unit) * kHidden + column);
    }

  if (threadIdx.x == 0) {
    init_barrier(barrier);
    init_barrier(barrier + 8);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    expect_bytes(barrier, kBlocks * kPart);
    expect_bytes(barrier + 8, kBlocks * kPart);
  }
  load_lengths<kBatch>(lengths, a.lengths, first_row, a.batch, a.steps);
  // The first states, as the tensor cores read them; the block's own as if it had sent them.
  for (int i = static_cast<int>(threadIdx.x); i < kHidden / 8 * kBatch; i += kThreads) {
    const int row = first_row + i % kBatch;
    uint4 eight = make_uint4(0, 0, 0, 0);
    if (row < a.batch)
      eight = *reinterpret_cast<const uint4*>(a.h0 + int64_t{row} * kHidden + i / kBatch * 8);
    reinterpret_cast<uint4*>(states + kState)[i] = eight;
    const int own = i - rank * kUnits / 8 * kBatch;
    if (own >= 0 && own < kUnits / 8 * kBatch) reinterpret_cast<uint4*>(stage + kPart)[own] = eight;
  }
  // Elements of the first tile in a step's tensors; the next tile's are kNext after them.
  constexpr int kNext = kTile * kHidden;
  const int64_t first = (int64_t{first_row} + at.column) * kHidden + unit;
  const int64_t step_size = int64_t{a.batch} * kHidden;
  const int rows = a.batch - first_row - at.column;  // tile j has one where j * kTile < rows
  const int staged = ((at.unit / 8) * kBatch + at.column) * 8 + at.unit % 8;
  float c[kTiles];
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
    c[j] = kLstm && j * kTile < rows ? number(a.c0[first + j * kNext]) : 0;
  sync_cluster();

  const auto time_of = [&](int i) { return a.reverse ? a.steps - 1 - i : i; };
  Four<T> x[kTiles] = {};
  const auto load_gates = [&](int i) {
    const auto* from = reinterpret_cast<const Four<T>*>(a.gates) + time_of(i) * step_size + first;
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
      if (j * kTile < rows) x[j] = from[j * kNext];
    if (i + kPrefetchSteps >= a.steps) return;
    from += (a.reverse ? -kPrefetchSteps : kPrefetchSteps) * step_size;
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
      if (j * kTile < rows) prefetch(from + j * kNext);
  };
  load_gates(0);
  for (int i = 0; i < a.steps; ++i) {
    const int t = time_of(i);
    // The state before step i lies in buffer (i + 1) % 2.
    const int buffer = (i + 1) & 1;
    if (i > 0) {
      wait_barrier(barrier + static_cast<u32>(buffer) * 8, ((i - 1) / 2) & 1);
      if (threadIdx.x == 0) expect_bytes(barrier + static_cast<u32>(buffer) * 8, kBlocks * kPart);
    }
    float sum[1][kTiles][4] = {};
    multiply_tiles<T, 1, kDepth, kTiles>(sum, weight, shared_address(states + buffer * kState),
                                         at.lane);
    T* h_stage = reinterpret_cast<T*>(stage + (i & 1) * kPart) + staged;
    const T* h_before = reinterpret_cast<const T*>(stage + buffer * kPart) + staged;
    T* c_stage = reinterpret_cast<T*>(cell_stage + (i & 1) * kPart) + staged;
    auto* kept = reinterpret_cast<Four<T>*>(a.kept) + t * step_size + first;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      // Two threads have two slots each of one unit for two sequences: each takes one of these.
      const float(&d)[4] = sum[0][j];
      const float p = __shfl_xor_sync(0xffffffffU, at.pair ? d[0] : d[1], 4);
      const float q = __shfl_xor_sync(0xffffffffU, at.pair ? d[2] : d[3], 4);
      float s[4] = {at.pair ? p : d[0], at.pair ? q : d[2], at.pair ? d[1] : p, at.pair ? d[3] : q};
#pragma unroll
      for (int k = 0; k < 4; ++k) s[k] += number(x[j].v[k]);
      const bool on = t < lengths[j * kTile + at.column];
      const T before = h_before[j * kTile * 8];
      T h;
      if constexpr (kLstm) {
        const auto step = LstmStep<Fast>::forward(s[0], s[1], s[2], s[3], c[j]);
        s[0] = step.i.v, s[1] = step.f.v, s[2] = step.g.v, s[3] = step.o.v;
        if (on) c[j] = step.c.v;
        h = cuda::convert<T>(step.h.v);
      } else {
        const auto step = GruStep<Fast>::forward(s[0], s[1], s[2], s[3], number(before));
        s[0] = step.r.v, s[1] = step.z.v, s[2] = step.n.v;
        h = cuda::convert<T>(step.h.v);
      }
      h_stage[j * kTile * 8] = on ? h : before;
      if (a.kept && j * kTile < rows) {
#pragma unroll
        for (int k = 0; k < 4; ++k) s[k] = on ? s[k] : 0;
        kept[j * kNext] = cuda::pack<T, 4>(s);
        if (kLstm) c_stage[j * kTile * 8] = cuda::convert<T>(c[j]);
      }
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (i + 1 < a.steps) {
      if (threadIdx.x < kBlocks) {
        const int to = static_cast<int>(threadIdx.x);
        copy_to_block(of_block(states + (i & 1) * kState + rank * kPart, to),
                      shared_address(stage + (i & 1) * kPart), kPart,
                      of_block(barriers + (i & 1) * 8, to));
      }
      load_gates(i + 1);
    }
    for (int k = static_cast<int>(threadIdx.x); k < kUnits / 8 * kBatch; k += kThreads) {
      const int row = k % kBatch;
      if (first_row + row >= a.batch) continue;
      const int64_t out =
          t * step_size + (int64_t{first_row} + row) * kHidden + rank * kUnits + k / kBatch * 8;
      *reinterpret_cast<uint4*>(a.y + out) =
          t < lengths[row] ? reinterpret_cast<const uint4*>(stage + (i & 1) * kPart)[k]
                           : make_uint4(0, 0, 0, 0);
      if (kLstm && a.kept)
        *reinterpret_cast<uint4*>(a.cells + out) =
            reinterpret_cast<const uint4*>(cell_stage + (i & 1) * kPart)[k];
    }
  }
  const T* last = reinterpret_cast<const T*>(stage + ((a.steps - 1) & 1) * kPart) + staged;
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    if (j * kTile >= rows) continue;
    a.hn[first + j * kNext] = last[j * kTile * 8];
    if (kLstm) a.cn[first + j * kNext] = cuda::convert<T>(c[j]);
  }
  sync_cluster();  // nobody's shared memory goes while others may send to it
#endif
}

/// Sums that one block sends to another are (32 units, sequences) numbers of T; rows lie so that no
/// two of a warp's accesses meet in a bank.
template <int kTiles>
constexpr int sum_pitch() {
  return kTile * (kTiles % 2 == 0 ? kTiles + 1 : kTiles);
}
/// From all blocks, or to all.
template <int kHidden, int kTiles>
constexpr int sums_bytes() {
  return kHidden * sum_pitch<kTiles>() * 2;
}
template <int kTiles>
constexpr int dgates_bytes() {
  return kUnits * kSlots * kTiles * kTile * 2;
}
template <int kHidden, int kTiles>
constexpr int backward_shared_bytes() {
  return 4 * sums_bytes<kHidden, kTiles>() + 2 * dgates_bytes<kTiles>() + 16 + kTiles * kTile * 4;
}

template <class T, bool kLstm, int kHidden, int kTiles>
__global__ void __launch_bounds__(kThreads, 1) backward_kernel(const Backward<T> a) {
#if __CUDA_ARCH__ >= 900
  using recurrent_cell_math::GruGrad;
  using recurrent_cell_math::LstmGrad;
  constexpr int kBatch = kTiles * kTile;
  constexpr int kBlocks = kHidden / kUnits;
  constexpr int kDepth = kUnits * kSlots / 16;           // of a block's own slots
  constexpr int kRows = kHidden / 16 / (kThreads / 32);  // tiles of 16 units for each warp
  constexpr int kTogether = kRows < 2 ? kRows : 2;       // of them at a time
  constexpr int kSendUnits = kRows * 16 < kUnits ? kRows * 16 : kUnits;
  constexpr int kPitch = sum_pitch<kTiles>();
  constexpr int kSums = sums_bytes<kHidden, kTiles>();
  constexpr int kGates = dgates_bytes<kTiles>();
  static_assert(kRows >= 1);
  extern __shared__ __align__(128) unsigned char shared[];
  unsigned char* sums = shared;               // two that arrive: (blocks, units, pitch)
  unsigned char* stage = shared + 2 * kSums;  // two that are sent, likewise
  unsigned char* gates = stage + 2 * kSums;   // two of (slots / 8, sequences, 8)
  unsigned char* barriers = gates + 2 * kGates;
  int* lengths = reinterpret_cast<int*>(barriers + 16);
  const u32 barrier = shared_address(barriers);
  const Place at;
  const int rank = static_cast<int>(block_in_cluster());
  const int unit = rank * kUnits + at.unit;
  const int first_row = static_cast<int>(blockIdx.x) / kBlocks * kBatch;

  // Of the block's 128 slots (unit by unit) the weights to this warp's units.
  u32 weight[kRows / kTogether][kTogether][kDepth][4];
#pragma unroll
  for (int m = 0; m < kRows; ++m)
#pragma unroll
    for (int k = 0; k < kDepth; ++k)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int to = (at.warp * kRows + m) * 16 + r % 2 * 8 + at.group;
        const int slot = k * 16 + r / 2 * 8 + at.lane % 4 * 2;
        T two[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int gate = state_gate(kLstm, (slot + e) % kSlots);
          const int from = rank * kUnits + (slot + e) / kSlots;
          two[e] = gate < 0 ? cuda::convert<T>(0.0F)
                            : a.w_hh[(int64_t{gate} * kHidden + from) * kHidden + to];
        }
        weight[m / kTogether][m % kTogether][k][r] = pair_of(two[0], two[1]);
      }

  if (threadIdx.x == 0) {
    init_barrier(barrier);
    init_barrier(barrier + 8);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    expect_bytes(barrier, kSums);
    expect_bytes(barrier + 8, kSums);
  }
  load_lengths<kBatch>(lengths, a.lengths, first_row, a.batch, a.steps);
  constexpr int kNext = kTile * kHidden;
  const int64_t first = (int64_t{first_row} + at.column) * kHidden + unit;
  const int64_t step_size = int64_t{a.batch} * kHidden;
  const int rows = a.batch - first_row - at.column;
  const auto time_of = [&](int i) { return a.reverse ? a.steps - 1 - i : i; };
  float dc[kTiles], carry[kTiles], c[kTiles];
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    const bool there = j * kTile < rows;
    const int64_t state = first + j * kNext;
    dc[j] = kLstm && there && a.dcn ? number(a.dcn[state]) : 0;
    carry[j] = there && a.dhn ? number(a.dhn[state]) : 0;
    c[j] = kLstm && there ? number(a.cells[time_of(a.steps - 1) * step_size + state]) : 0;
  }
  sync_cluster();

  Four<T> activated[kTiles] = {};
  T dy[kTiles] = {};
  T before[kTiles] = {};  // the cell of the step before, of a GRU the state
  const auto load_step = [&](int i) {
    const int64_t here = time_of(i) * step_size + first;
    const int64_t earlier = i == 0 ? first : time_of(i - 1) * step_size + first;
    const T* from = kLstm ? (i == 0 ? a.c0 : a.cells) : (i == 0 ? a.h0 : a.y);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      if (j * kTile >= rows) continue;
      activated[j] = reinterpret_cast<const Four<T>*>(a.gates)[here + j * kNext];
      if (a.dy) dy[j] = a.dy[here + j * kNext];
      before[j] = from[earlier + j * kNext];
      // Walking backwards a sequence begins at its own last step.
      if (!kLstm && a.lengths && i > 0 && time_of(i - 1) >= lengths[j * kTile + at.column])
        before[j] = a.h0[first + j * kNext];
    }
  };
  load_step(a.steps - 1);
  // What the blocks sent back from the step after.
  const auto receive = [&](int s) {
    const int buffer = (s - 1) & 1;
    wait_barrier(barrier + static_cast<u32>(buffer) * 8, ((s - 1) / 2) & 1);
    if (threadIdx.x == 0) expect_bytes(barrier + static_cast<u32>(buffer) * 8, kSums);
    const T* from =
        reinterpret_cast<const T*>(sums + buffer * kSums) + at.unit * kPitch + at.column;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      float sum = 0;
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) sum += number(from[b * kUnits * kPitch + j * kTile]);
      carry[j] += sum;
    }
  };
  for (int s = 0; s < a.steps; ++s) {
    const int i = a.steps - 1 - s;
    const int t = time_of(i);
    const int buffer = s & 1;
    if (s > 0) receive(s);
    unsigned char* own = gates + buffer * kGates;
    auto* own_four =
        reinterpret_cast<Four<T>*>(own) + ((at.unit / 2) * kBatch + at.column) * 2 + at.unit % 2;
    auto* out = reinterpret_cast<Four<T>*>(a.dgates) + t * step_size + first;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      float d[4] = {0, 0, 0, 0};
      if (t < lengths[j * kTile + at.column]) {
        const float dh = carry[j] + (a.dy ? number(dy[j]) : 0);
        const Four<T>& g = activated[j];
        if constexpr (kLstm) {
          const auto grad =
              LstmGrad<Fast>::backward(number(g.v[0]), number(g.v[1]), number(g.v[2]),
                                       number(g.v[3]), c[j], number(before[j]), dh, dc[j]);
          d[0] = grad.i.v, d[1] = grad.f.v, d[2] = grad.g.v, d[3] = grad.o.v;
          dc[j] = grad.c.v;
          carry[j] = 0;
        } else {
          const auto grad = GruGrad<Fast>::backward(number(g.v[0]), number(g.v[1]), number(g.v[2]),
                                                    number(g.v[3]), number(before[j]), dh);
          d[0] = grad.r.v, d[1] = grad.z.v, d[2] = grad.n.v, d[3] = grad.q.v;
          carry[j] = grad.h.v;
        }
      }
      if (kLstm) c[j] = number(before[j]);
      const Four<T> four = cuda::pack<T, 4>(d);
      own_four[j * kTile * 2] = four;
      if (j * kTile < rows) out[j * kNext] = four;
    }
    __syncthreads();
    if (i > 0) load_step(i - 1);
#pragma unroll
    for (int m = 0; m < kRows / kTogether; ++m) {
      float sum[kTogether][kTiles][4] = {};
      multiply_tiles<T, kTogether, kDepth, kTiles>(sum, weight[m], shared_address(own), at.lane);
#pragma unroll
      for (int l = 0; l < kTogether; ++l) {
        const int row = (at.warp * kRows + m * kTogether + l) * 16 + at.group;
        T* to = reinterpret_cast<T*>(stage + buffer * kSums) + row * kPitch + at.lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < kTiles; ++j)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float two[2] = {sum[l][j][half * 2], sum[l][j][half * 2 + 1]};
            *reinterpret_cast<cuda::Vec<T, 2>*>(to + half * 8 * kPitch + j * kTile) =
                cuda::pack<T, 2>(two);
          }
      }
    }
    // A warp's units belong to one block or two, or are half of one's.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (at.lane < kRows * 16 / kSendUnits) {
      const int sent = at.warp * kRows * 16 + at.lane * kSendUnits;
      const int to = sent / kUnits;
      const int place = (rank * kUnits + sent % kUnits) * kPitch * 2;
      copy_to_block(of_block(sums + buffer * kSums + place, to),
                    shared_address(stage + buffer * kSums + sent * kPitch * 2),
                    kSendUnits * kPitch * 2, of_block(barriers + buffer * 8, to));
    }
  }
  receive(a.steps);
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    if (j * kTile >= rows) continue;
    a.dh0[first + j * kNext] = cuda::convert<T>(carry[j]);
    if (kLstm) a.dc0[first + j * kNext] = cuda::convert<T>(dc[j]);
  }
  sync_cluster();
#endif
}

}  // namespace mica::persistent
