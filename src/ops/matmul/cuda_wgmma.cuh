#pragma once

// Large products by the tensor cores of compute capability 9.0: out (m, n) from a (m, k) and b (n,
// k), f16, bf16 or f32 as TF32, K together in both. A block takes tiles of 128 rows in turn. One
// thread of it has the copy engine bring operands into a ring of stages, and two groups of warps
// take every other tile each: while one multiplies, the other does to its sums what follows the
// product. Two blocks of a cluster have the same columns, and each brings half of b's rows for
// both. Run-time compilation takes this file as it is.
#include "mica/ops/fused/device.h"
#include "mica/runtime/cuda/wgmma.cuh"
#include "mica/runtime/portable.h"

namespace mica::wgmma {

inline constexpr int kTileM = 128;
inline constexpr int kStageRowBytes = 128;  ///< of K in a stage
inline constexpr int kStages = 5;
inline constexpr int kCluster = 2;
inline constexpr int kThreads = 3 * 128;
inline constexpr int kGroup = 8;  ///< pairs of tiles along m that are taken before the next along n

/// Bytes of the operands of a stage with tiles of `tile_n` columns.
MICA_PORTABLE constexpr int a_bytes() { return kTileM * kStageRowBytes; }
MICA_PORTABLE constexpr int stage_bytes(int tile_n) { return (kTileM + tile_n) * kStageRowBytes; }
/// Words from row to row of the 16 rows of 128 bytes that a warp turns its sums by: neither writing
/// nor reading them meets a bank twice.
MICA_PORTABLE constexpr int turned_pitch(int element_bytes) { return element_bytes == 2 ? 36 : 40; }
/// The stages begin at a multiple of 1024 bytes.
MICA_PORTABLE constexpr int turned_bytes(int element_bytes) {
  return 8 * 16 * turned_pitch(element_bytes) * 4;
}
/// Of the room where a warp has what the end of a step reads.
MICA_PORTABLE constexpr int room_bytes(int operands) { return operands * 4 * 32 * 16; }
MICA_PORTABLE constexpr int shared_bytes(int tile_n, int element_bytes) {
  return 1024 + kStages * stage_bytes(tile_n) + turned_bytes(element_bytes);
}

struct Problem {
  const void* bias;  ///< (n), or null
  int m;
  int n;
  int k_blocks;  ///< of kStageRowBytes
  int pairs_m;   ///< of tiles
  int tiles_n;
};

/// What the copy engine knows of an operand, as the driver describes it.
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

#if defined(__CUDACC_RTC__) && defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class T>
inline constexpr bool kIsBf16 = false;
template <>
inline constexpr bool kIsBf16<fused::bf16> = true;

__device__ inline void init_barrier(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
__device__ inline void expect_bytes(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ inline void wait_barrier(u32 barrier, u32 parity) {
  u32 done = 0;
  while (!done)
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
}
/// At the barrier of a block of the cluster. It orders nothing else: what was read before it was
/// read by the tensor cores, which have finished.
__device__ inline void arrive(u32 barrier, u32 block) {
  asm volatile(
      "{\n.reg .b32 at;\nmapa.shared::cluster.u32 at, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [at];\n}" ::"r"(barrier),
      "r"(block)
      : "memory");
}
__device__ inline void copy_box(u32 to, const TensorMap& map, u32 barrier, int k, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(k), "r"(row)
      : "memory");
}
/// To all blocks of the cluster.
__device__ inline void share_box(u32 to, const TensorMap& map, u32 barrier, int k, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(k), "r"(row), "h"(static_cast<unsigned short>(0b11))
      : "memory");
}
__device__ inline void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

/// The groups multiply in turn: each has its own barrier, where it waits and the other one arrives.
/// So nobody waits for a stage's contents before those that come before them were waited for.
__device__ inline void wait_turn(int group) {
  asm volatile("bar.sync %0, 256;" ::"r"(group) : "memory");
}
__device__ inline void give_turn(int group) {
  asm volatile("bar.arrive %0, 256;" ::"r"(group) : "memory");
}

#define MICA_EIGHT(i)                                                                         \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define MICA_SIXTY_FOUR                                                                         \
  MICA_EIGHT(0), MICA_EIGHT(8), MICA_EIGHT(16), MICA_EIGHT(24), MICA_EIGHT(32), MICA_EIGHT(40), \
      MICA_EIGHT(48), MICA_EIGHT(56)
#define MICA_WGMMA(shape, kind, d_names, a_name, b_name, add_name, ...)                   \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " add_name                               \
               ", 0;\nwgmma.mma_async.sync.aligned." shape kind " {" d_names "}, " a_name \
               ", " b_name                                                                \
               : __VA_ARGS__                                                              \
               : "l"(a), "l"(b), "r"(add))
#define MICA_WGMMA_128(kind, end) \
  MICA_WGMMA("m64n128", kind, MICA_D64, "%64", "%65, p, 1, 1" end ";\n}", "%66", MICA_SIXTY_FOUR)
#define MICA_WGMMA_192(kind, end)                                                         \
  MICA_WGMMA("m64n192", kind, MICA_D64 MICA_D96, "%96", "%97, p, 1, 1" end ";\n}", "%98", \
             MICA_SIXTY_FOUR, MICA_EIGHT(64), MICA_EIGHT(72), MICA_EIGHT(80), MICA_EIGHT(88))
#define MICA_D64                                                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, " \
  "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define MICA_D96                                                                                 \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
  "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

/// d (64, 2 N / 64 of a thread) = a (64, 32 bytes) b (N, 32 bytes), added to what it was where
/// `add`. b lies by columns (N) or by rows (K).
template <class T, int N, bool kByRows = false>
__device__ inline void multiply(float (&d)[N / 2], u64 a, u64 b, int add) {
  if constexpr (kByRows) {
    static_assert(N == 128 && sizeof(T) == 2);
    if constexpr (kIsBf16<T>) {
      MICA_WGMMA_128("k16.f32.bf16.bf16", ", 0, 1");
    } else {
      MICA_WGMMA_128("k16.f32.f16.f16", ", 0, 1");
    }
  } else if constexpr (N == 192) {
    if constexpr (sizeof(T) == 4) {
      MICA_WGMMA_192("k8.f32.tf32.tf32", "");
    } else if constexpr (kIsBf16<T>) {
      MICA_WGMMA_192("k16.f32.bf16.bf16", ", 0, 0");
    } else {
      MICA_WGMMA_192("k16.f32.f16.f16", ", 0, 0");
    }
  } else {
    static_assert(N == 128);
    if constexpr (sizeof(T) == 4) {
      MICA_WGMMA_128("k8.f32.tf32.tf32", "");
    } else if constexpr (kIsBf16<T>) {
      MICA_WGMMA_128("k16.f32.bf16.bf16", ", 0, 0");
    } else {
      MICA_WGMMA_128("k16.f32.f16.f16", ", 0, 0");
    }
  }
}
#undef MICA_D96
#undef MICA_D64
#undef MICA_WGMMA_192
#undef MICA_WGMMA_128
#undef MICA_WGMMA
#undef MICA_SIXTY_FOUR
#undef MICA_EIGHT

/// Where the tile of a block lies in the result.
struct Tile {
  int row;
  int col;
};

/// The pairs of tiles that a cluster takes, every step-th from the first on: near ones together.
template <int kTileN>
struct Near {
  int first = static_cast<int>(blockIdx.x) / kCluster;
  int step = static_cast<int>(gridDim.x) / kCluster;
  int end;
  __device__ explicit Near(const Problem& p) : end(p.pairs_m * p.tiles_n) {}
  __device__ Tile tile(const Problem& p, int pair) const {
    const int in_group = kGroup * p.tiles_n;
    const int group = pair / in_group;
    const int first = group * kGroup;
    const int wide = min(p.pairs_m - first, kGroup);
    const int rest = pair - group * in_group;
    const int n = rest / wide;
    const int rank = static_cast<int>(blockIdx.x) % kCluster;
    return {((first + rest - n * wide) * kCluster + rank) * kTileM, n * kTileN};
  }
};
/// A cluster stays with its columns, so that it can sum over them.
template <int kTileN>
struct Columns {
  int first, step, end;
  __device__ explicit Columns(const Problem& p) {
    const int cluster = static_cast<int>(blockIdx.x) / kCluster;
    first = cluster / p.tiles_n;
    step = static_cast<int>(gridDim.x) / kCluster / p.tiles_n;
    end = p.pairs_m;
  }
  __device__ Tile tile(const Problem& p, int pair) const {
    const int block = static_cast<int>(blockIdx.x);
    return {(pair * kCluster + block % kCluster) * kTileM, block / kCluster % p.tiles_n * kTileN};
  }
};

/// Two values beside each other, as they are kept.
__device__ inline void put_two(float* to, float x, float y) {
  *reinterpret_cast<float2*>(to) = float2{x, y};
}
template <class T>
__device__ inline void put_two(T* to, float x, float y) {
  *reinterpret_cast<u32*>(to) =
      u32{fused::Into<T>::from(x).bits} | u32{fused::Into<T>::from(y).bits} << 16;
}

/// What may follow a product: `end(at, x)` for some results of a row beside each other.
template <class End>
struct EachResult {
  static constexpr bool kBiased = true;
  static constexpr int kOperands = 0;
  using Offset = long long;  ///< in elements
  const End& end;
  __device__ void begin() {}
  __device__ void begin_part(int) {}
  __device__ void fetch(const Problem&, int, int, u32, u32) const {}
  template <class T, int V>
  __device__ void take(int, Offset at, T (&x)[V], const void*, u32) {
    end(at, x);
  }
  template <class T>
  __device__ void finish(const Problem&, T*) {}
};

/// What a thread has of a tile in one of the steps it is finished in: 16 bytes in every fourth of
/// 16 rows. A step is half of the rows of a part, and a part as many columns as make a row of a
/// stage.
template <class T, int kTileN>
struct Step {
  static constexpr int kCols = kStageRowBytes / static_cast<int>(sizeof(T));
  static constexpr int kSteps = 2 * kTileN / kCols;
  static constexpr int kRows = 4;
  int part, half, col, row;
  bool column_is_there;

  __device__ Step(const Problem& p, const Tile& tile, int step) : part(step / 2), half(step % 2) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
    col = tile.col + part * kCols + lane % 8 * (16 / static_cast<int>(sizeof(T)));
    row = tile.row + half * 64 + warp * 16 + lane / 8;
    column_is_there = col < p.n;
  }
  __device__ bool has(const Problem& p, int r) const {
    return row + r * 4 < p.m && column_is_there;
  }
  template <class Offset>
  __device__ Offset at(const Problem& p, int r) const {
    return static_cast<Offset>(row + r * 4) * p.n + col;
  }
};

/// Begins to bring there what the end of a step reads.
template <class T, int kTileN, class End>
__device__ void fetch(const Problem& p, const Tile& tile, int number, unsigned char* room,
                      const End& end) {
  if constexpr (End::kOperands > 0) {
    const Step<T, kTileN> step(p, tile, number);
    const u32 own = shared_address(room) + threadIdx.x % 32 * 16;
#pragma unroll
    for (int r = 0; r < step.kRows; ++r)
      if (step.has(p, r))
        end.fetch(p, step.row + r * 4, step.col, own + r * 32 * 16, step.kRows * 32 * 16);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
}

/// Ends with `end.take(part, at, x, …)` for some results of a row beside each other, as T rounds
/// them. Warps turn them by shared memory, so that what is read and written in memory is whole.
template <class T, int kTileN, class End>
__device__ void finish(const Problem& p, const Tile& tile, const float (&sums)[2][kTileN / 2],
                       T* turned, unsigned char* room, End& end) {
  using Own = Step<T, kTileN>;
  constexpr int kPitch = turned_pitch(sizeof(T)) * 4 / static_cast<int>(sizeof(T));
  constexpr int kCols = Own::kCols;
  constexpr int V = 16 / static_cast<int>(sizeof(T));
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int part = 0; part < kTileN / kCols; ++part) {
    const int col0 = tile.col + part * kCols;
    if (col0 >= p.n) break;
    fused::Vec<T, 2> bias[kCols / 8];
#pragma unroll
    for (int j = 0; j < kCols / 8; ++j) {
      const int col = col0 + j * 8 + lane % 4 * 2;
      bias[j] =
          End::kBiased && p.bias && col < p.n ? fused::load<T, 2>(p.bias, col) : fused::Vec<T, 2>{};
    }
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const Own step(p, tile, part * 2 + b);
      if (b == 0 && step.column_is_there) end.begin_part(step.col);
      __syncwarp();
#pragma unroll
      for (int j = 0; j < kCols / 8; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int from = (part * kCols / 8 + j) * 4 + h * 2;
          put_two(turned + (lane / 4 + h * 8) * kPitch + j * 8 + lane % 4 * 2,
                  sums[b][from] + fused::widen(bias[j].v[0]),
                  sums[b][from + 1] + fused::widen(bias[j].v[1]));
        }
      __syncwarp();
      if constexpr (End::kOperands > 0) asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll(End::kOperands > 0 ? 4 : 2)
      for (int r = 0; r < step.kRows; ++r) {
        auto own = *reinterpret_cast<const fused::Vec<T, V>*>(turned + (lane / 8 + r * 4) * kPitch +
                                                              lane % 8 * V);
        if (step.has(p, r))
          end.take(part, step.template at<typename End::Offset>(p, r), own.v,
                   room + (r * 32 + lane) * 16, step.kRows * 32 * 16);
      }
      if (part * 2 + b + 1 < Own::kSteps) fetch<T, kTileN>(p, tile, part * 2 + b + 1, room, end);
    }
  }
}

/// The whole kernel: blocks of kThreads in clusters of two, with shared_bytes(). kByRows: b is (k,
/// n), of 16 bits, and the tiles have 128 columns.
template <class T, int kTileN, bool kByRows, class Order, class End, int kStages = wgmma::kStages>
__device__ void product_in_order(const Problem& p, const TensorMap& a, const TensorMap& b,
                                 End& end) {
  extern __shared__ __align__(1024) unsigned char wgmma_shared[];
  __shared__ u64 barriers[2 * kStages];
  const u32 stages = (shared_address(wgmma_shared) + 1023) & ~1023U;
  constexpr int kStageBytes = stage_bytes(kTileN);
  constexpr int kBBytes = kStageBytes - a_bytes();
  auto* const turned = reinterpret_cast<T*>(wgmma_shared + (stages - shared_address(wgmma_shared)) +
                                            kStages * kStageBytes);
  const u32 full = shared_address(barriers);
  const u32 empty = full + kStages * 8;
  const int group = static_cast<int>(threadIdx.x) / 128;
  const u32 rank = blockIdx.x % kCluster;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      init_barrier(full + s * 8, 1);
      init_barrier(empty + s * 8, 4 * kCluster);  // the warps of a group, in each block
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  sync_cluster();
  const Order order(p);
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) {
      int stage = 0;
      u32 parity = 1;
      for (int pair = order.first; pair < order.end; pair += order.step) {
        const Tile tile = order.tile(p, pair);
        for (int k = 0; k < p.k_blocks; ++k) {
          wait_barrier(empty + stage * 8, parity);
          const u32 barrier = full + stage * 8;
          const u32 to = stages + stage * kStageBytes;
          constexpr int kPerBlock = kStageRowBytes / sizeof(T);
          expect_bytes(barrier, kStageBytes);
          const u32 to_b = to + a_bytes() + rank * (kBBytes / kCluster);
          const int col = tile.col + static_cast<int>(rank) * (kTileN / kCluster);
          copy_box(to, a, barrier, k * kPerBlock, tile.row);
          share_box(to_b, b, barrier, kByRows ? col : k * kPerBlock, kByRows ? k * kPerBlock : col);
          if (++stage == kStages) stage = 0, parity ^= 1;
        }
      }
    }
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const int warp = static_cast<int>(threadIdx.x) / 32 - 4;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const auto release = [&](int stage) {
      if (lane < kCluster) arrive(empty + stage * 8, static_cast<u32>(lane));
    };
    float sums[2][kTileN / 2];
    int first = (group - 1) * p.k_blocks;
    auto* const room = reinterpret_cast<unsigned char*>(turned) + turned_bytes(sizeof(T)) +
                       warp * room_bytes(End::kOperands);
    T* const own_turned = turned + warp * 16 * turned_pitch(sizeof(T)) * 4 / sizeof(T);
    end.begin();
    if (group == 2) give_turn(1);
    for (int pair = order.first + (group - 1) * order.step; pair < order.end;
         pair += 2 * order.step) {
      int stage = first % kStages;
      u32 parity = first / kStages & 1;
      int before = 0;
      const Tile tile = order.tile(p, pair);
      fetch<T, kTileN>(p, tile, 0, room, end);
      wait_turn(group);
      for (int k = 0; k < p.k_blocks; ++k) {
        wait_barrier(full + stage * 8, parity);
        begin_products();
        const u32 at = stages + stage * kStageBytes;
#pragma unroll
        for (int step = 0; step < 4; ++step)
#pragma unroll
          for (int half = 0; half < 2; ++half)
            multiply<T, kTileN, kByRows>(
                sums[half], descriptor(at + half * (a_bytes() / 2) + step * 32),
                kByRows ? descriptor_across(at + a_bytes() + step * 16 * 128, kBBytes / kCluster)
                        : descriptor(at + a_bytes() + step * 32),
                k + step > 0 ? 1 : 0);
        commit_products();
        if (k > 0) {
          wait_products<1>();
          release(before);
        }
        before = stage;
        if (++stage == kStages) stage = 0, parity ^= 1;
      }
      give_turn(3 - group);
      wait_products<0>();
#pragma unroll
      for (int half = 0; half < 2; ++half) read_from_here(sums[half]);
      release(before);
      first += 2 * p.k_blocks;
      finish<T, kTileN>(p, tile, sums, own_turned, room, end);
    }
    end.finish(p, turned);
  }
  // What arrives from the other block finds this one.
  sync_cluster();
}

/// Any product, with `end(at, x)` for some results beside each other.
template <class T, int kTileN, class End>
__device__ void product(const Problem& p, const TensorMap& a, const TensorMap& b, const End& end) {
  EachResult<End> each{end};
  product_in_order<T, kTileN, false, Near<kTileN>>(p, a, b, each);
}

#endif

}  // namespace mica::wgmma
