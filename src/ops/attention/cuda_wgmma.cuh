#pragma once

// Attention by the tensor cores of compute capability 9.0: f16 and bf16. A group of four warps has
// 64 queries (or keys) and keeps their scores and results in registers; tiles of the other operands
// pass through shared memory, two at a time, for all groups of the block. The gradient has one
// kernel for keys and values and one for queries, each of which computes the weights again: nothing
// is added up by two blocks, so every run gives the same bits. Run-time compilation takes this file
// as it is.
#include "mica/ops/attention/cuda_terms.cuh"
#include "mica/ops/attention/cuda_wgmma.h"
#include "mica/runtime/cuda/wgmma.cuh"

#if defined(__CUDACC_RTC__) && defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace mica::attention {

using namespace mica::wgmma;

inline constexpr float kLog2E = 1.4426950408889634F;
inline constexpr float kLn2 = 0.6931471805599453F;

template <class T>
inline constexpr bool kBfloat = false;
template <>
inline constexpr bool kBfloat<fused::bf16> = true;

/// Two numbers as T, the first in the lower half.
template <class T>
__device__ u32 pack(float low, float high) {
  u32 both = 0;
  if constexpr (kBfloat<T>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
__device__ inline float exp2_of(float x) {
  float y = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#define MICA_EIGHT(i)                                                                         \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define MICA_D32                                                                          \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
  "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MICA_D64                                                                            \
  MICA_D32                                                                                  \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, " \
  "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MICA_OUT32 MICA_EIGHT(0), MICA_EIGHT(8), MICA_EIGHT(16), MICA_EIGHT(24)
#define MICA_OUT64 MICA_OUT32, MICA_EIGHT(32), MICA_EIGHT(40), MICA_EIGHT(48), MICA_EIGHT(56)
// Both operands in shared memory, K along their rows.
#define MICA_SHARED(n, kind, names, a_name, b_name, add_name, ...)                             \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " add_name                                    \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" n "k16.f32." kind "." kind " {" names \
               "}, " a_name ", " b_name ", p, 1, 1, 0, 0;\n}"                                  \
               : __VA_ARGS__                                                                   \
               : "l"(a), "l"(b), "r"(add))
// The left operand in registers, the right one with its rows along K.
#define MICA_LEFT(n, kind, names, a_names, b_name, ...)                                  \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" n "k16.f32." kind "." kind " {" names \
               "}, {" a_names "}, " b_name ", 1, 1, 1, 1;"                               \
               : __VA_ARGS__                                                             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

template <class T, int N>
__device__ void multiply_shared(float (&d)[N / 2], u64 a, u64 b, int add) {
  if constexpr (N == 64) {
    if constexpr (kBfloat<T>)
      MICA_SHARED("64", "bf16", MICA_D32, "%32", "%33", "%34", MICA_OUT32);
    else
      MICA_SHARED("64", "f16", MICA_D32, "%32", "%33", "%34", MICA_OUT32);
  } else {
    static_assert(N == 128);
    if constexpr (kBfloat<T>)
      MICA_SHARED("128", "bf16", MICA_D64, "%64", "%65", "%66", MICA_OUT64);
    else
      MICA_SHARED("128", "f16", MICA_D64, "%64", "%65", "%66", MICA_OUT64);
  }
}
template <class T, int N>
__device__ void multiply_left(float (&d)[N / 2], const u32 (&a)[4], u64 b) {
  if constexpr (N == 64) {
    if constexpr (kBfloat<T>)
      MICA_LEFT("64", "bf16", MICA_D32, "%32, %33, %34, %35", "%36", MICA_OUT32);
    else
      MICA_LEFT("64", "f16", MICA_D32, "%32, %33, %34, %35", "%36", MICA_OUT32);
  } else {
    static_assert(N == 128);
    if constexpr (kBfloat<T>)
      MICA_LEFT("128", "bf16", MICA_D64, "%64, %65, %66, %67", "%68", MICA_OUT64);
    else
      MICA_LEFT("128", "f16", MICA_D64, "%64, %65, %66, %67", "%68", MICA_OUT64);
  }
}
#undef MICA_LEFT
#undef MICA_SHARED
#undef MICA_OUT64
#undef MICA_OUT32
#undef MICA_D64
#undef MICA_D32
#undef MICA_EIGHT

/// A tile of `rows` rows: for each 64 columns all rows, of 128 bytes each.
template <int rows>
struct Tile {
  u32 at;
  /// 16 columns from k on, of rows from `row` on, a multiple of 64: K along them.
  __device__ u64 along(int row, int k) const {
    return descriptor(at + (k / 64 * rows + row) * 128 + k % 64 * 2);
  }
  /// 16 rows from `row` on, as K of all columns.
  __device__ u64 across(int row) const { return descriptor_across(at + row * 128, rows * 128); }
};

/// c (64, N) = 64 rows of a, from `row` on, times the rows of b.
template <class H, int rows, int N>
__device__ void multiply_rows(float (&c)[N / 2], const Tile<rows>& a, int row, const Tile<N>& b) {
#pragma unroll
  for (int k = 0; k < H::kWidth; k += 16)
    multiply_shared<typename H::T, N>(c, a.along(row, k), b.along(0, k), k > 0);
}
/// to (64, width) += weights (64, N) times the rows of b.
template <class H, int N>
__device__ void add_product(float (&to)[H::kWidth / 2], const u32 (&weights)[N / 16][4],
                            const Tile<N>& b) {
#pragma unroll
  for (int k = 0; k < N / 16; ++k)
    multiply_left<typename H::T, H::kWidth>(to, weights[k], b.across(k * 16));
}
/// Sums as the left operand of a product.
template <class T, int N>
__device__ void pack_left(u32 (&to)[N / 16][4], const float (&c)[N / 2]) {
#pragma unroll
  for (int k = 0; k < N / 16; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) to[k][i] = pack<T>(c[k * 8 + i * 2], c[k * 8 + i * 2 + 1]);
}

__device__ inline void copy_part(u32 to, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(inside ? 16 : 0));
}
__device__ inline void commit_parts() { asm volatile("cp.async.commit_group;"); }
/// Waits for the thread's copies but those of the last `groups`, and lets products see them.
template <int groups>
__device__ inline void wait_parts() {
  asm volatile("cp.async.wait_group %0;\nfence.proxy.async.shared::cta;" ::"n"(groups) : "memory");
}

/// Brings rows of one head of an operand; what is past its width becomes zeros.
template <class H, int rows>
class Bringer {
 public:
  __device__ Bringer(const AttentionRows& place, int64_t width)
      : stride_(place.row * 2), inside_(part() * 8 < width) {
    const int row = own_row();
    to_ = (part() / 8 * rows + row) * 128 + ((part() % 8) ^ (row % 8)) * 16;
  }
  /// Rows [first, first + rows) of the head that begins at `head`, zeros from `limit` on.
  __device__ void bring(const Tile<rows>& tile, const void* head, int first, int limit) const {
    const auto* const from = static_cast<const char*>(head) + part() * 16;
#pragma unroll
    for (int step = 0; step < rows; step += kStep) {
      if (rows % kStep != 0 && own_row() + step >= rows) break;
      const int row = first + own_row() + step;
      const bool inside = inside_ && row < limit;
      copy_part(tile.at + to_ + step * 128, inside ? from + row * stride_ : head, inside);
    }
  }

 private:
  static constexpr int kAcross = H::kWidth / 8;
  static constexpr int kStep = H::kGroups * kGroupThreads / kAcross;
  static_assert(kStep % 8 == 0);  // a thread's rows have one place in eight

  static __device__ int part() { return static_cast<int>(threadIdx.x) % kAcross; }
  static __device__ int own_row() { return static_cast<int>(threadIdx.x) / kAcross; }

  int64_t stride_;  ///< bytes
  u32 to_;
  bool inside_;
};

__device__ inline const void* head_of(const void* operand, const AttentionRows& place, int64_t b,
                                      int64_t h) {
  return static_cast<const char*>(operand) + place.at(b, h, 0) * 2;
}

/// Numbers of the thread in its group: it holds of sums the rows row() and row() + 8 and of every
/// eight columns column() and the one after it.
__device__ inline int group_of() { return static_cast<int>(threadIdx.x) / kGroupThreads; }
__device__ inline int warp_row() { return static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16; }
__device__ inline int own_row() { return warp_row() + static_cast<int>(threadIdx.x) % 32 / 4; }
__device__ inline int own_column() { return static_cast<int>(threadIdx.x) % 4 * 2; }

/// Where on the other side rows look: [first, last), of one row or of all of some.
struct Band {
  int first;
  int last;
  __device__ bool touches(int from, int count) const { return from < last && from + count > first; }
};
struct KeysOfQueries {
  const AttentionProblem& p;
  int64_t length;
  __device__ Band of(int row) const {
    return {static_cast<int>(p.first_key(row, length)), static_cast<int>(p.last_key(row, length))};
  }
  __device__ int rows() const { return static_cast<int>(p.queries); }
};
struct QueriesOfKeys {
  const AttentionProblem& p;
  int64_t length;
  __device__ Band of(int row) const {
    return {static_cast<int>(p.first_query(row, length)),
            static_cast<int>(p.last_query(row, length))};
  }
  __device__ int rows() const { return static_cast<int>(length); }
};
/// What a block, a group, a warp and a thread look at; bands of later rows begin and end later.
template <class Side>
struct Bands {
  Band group;   ///< any of its rows
  Band common;  ///< all of the warp's rows
  Band own[2];  ///< of the thread's

  __device__ Bands(const Side& side, int first) {
    const int group_first = first + group_of() * kGroupRows;
    group = any(side, group_first, kGroupRows);
    const int warp_first = group_first + warp_row();
    common = {0, 0};
    if (warp_first + 16 <= side.rows())
      common = {side.of(warp_first + 15).first, side.of(warp_first).last};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = group_first + own_row() + half * 8;
      own[half] = row < side.rows() ? side.of(row) : Band{0, 0};
    }
  }
  static __device__ Band any(const Side& side, int first, int count) {
    if (first >= side.rows()) return {0, 0};
    return {side.of(first).first, side.of(min(first + count, side.rows()) - 1).last};
  }
  __device__ bool whole(int from, int count) const {
    return common.first <= from && from + count <= common.last;
  }
};

/// Stores a group's rows that are inside, times a factor of each half.
template <class H>
__device__ void store_rows(void* to, const AttentionRows& place, int64_t b, int64_t h, int first,
                           int64_t limit, int64_t width, const float (&c)[H::kWidth / 2],
                           const float (&factor)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + group_of() * kGroupRows + own_row() + half * 8;
    if (row >= limit) continue;
    u32* const at = reinterpret_cast<u32*>(static_cast<unsigned short*>(to) + place.at(b, h, row) +
                                           own_column());
#pragma unroll
    for (int n = 0; n < H::kWidth / 8; ++n)
      if (n * 8 < width)
        at[n * 4] = pack<typename H::T>(c[n * 4 + half * 2] * factor[half],
                                        c[n * 4 + half * 2 + 1] * factor[half]);
  }
}

/// What dropout multiplies two weights beside each other with, the first of which has an even
/// number.
__device__ inline void drop_two(float (&kept)[2], const Terms& terms, int64_t first,
                                const Dropping& dropping) {
  const Philox4 block = philox(static_cast<unsigned long long>(terms.counter[0]),
                               static_cast<unsigned long long>(terms.counter[1] + first / 4));
  const bool upper = first % 4 != 0;
#pragma unroll
  for (int e = 0; e < 2; ++e)
    kept[e] = unit_float(upper ? block.v[e + 2] : block.v[e]) >= dropping.threshold
                  ? static_cast<float>(dropping.kept)
                  : 0;
}

/// Calls f<true>() for tiles that all rows of the warp look at, f<false>() for others; kernels that
/// do much for each score are compiled for the latter alone.
template <class H, class F>
__device__ void for_tile(bool whole, F&& f) {
  if constexpr (H::kMask == AttentionMask::none && !H::kDrops)
    if (whole) return f.template operator()<true>();
  f.template operator()<false>();
}

template <class H>
__device__ u32 first_tile() {
  extern __shared__ unsigned char attention_shared[];
  return (shared_address(attention_shared) + 1023) & ~1023U;
}

// H says how a kernel is compiled: T, kWidth, kGroups, kOthers, kMask, kDrops, and kPlain where
// scores need but a positive factor.

/// What rows have found so far.
struct Rows {
  float largest[2] = {-INFINITY, -INFINITY};  ///< of scores, or of what kPlain leaves of them
  float total[2] = {};
};
/// Makes weights of the scores of a tile that begins at key j0, and tells what earlier sums are to
/// be multiplied with.
template <class H, int N>
__device__ void soften(const AttentionProblem& p, const Terms& terms, const Dropping& dropping,
                       int64_t b, int64_t h, int first, int j0, const Bands<KeysOfQueries>& bands,
                       Rows& rows, float (&c)[N / 2], float (&shrink)[2]) {
  const float scale = static_cast<float>(p.scale) * kLog2E;
  const float factor = H::kPlain ? scale : 1;
  for_tile<H>(bands.whole(j0, N), [&]<bool whole>() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + group_of() * kGroupRows + own_row() + half * 8;
      float most = rows.largest[half];
#pragma unroll
      for (int n = 0; n < N / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = c[n * 4 + half * 2 + e];
          const int j = j0 + n * 8 + own_column() + e;
          if constexpr (!H::kPlain) score *= scale;
          if (!whole && (j < bands.own[half].first || j >= bands.own[half].last))
            score = -INFINITY;
          else if constexpr (H::kMask != AttentionMask::none)
            score += added<typename H::T, float>(p, terms, b, h, row, j) * kLog2E;
          most = fmaxf(most, score);
        }
      most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, 2));
      const float from = most == -INFINITY ? 0 : most * factor;
      shrink[half] = exp2_of(rows.largest[half] * factor - from);
      rows.largest[half] = most;
      rows.total[half] *= shrink[half];
#pragma unroll
      for (int n = 0; n < N / 8; ++n) {
        float* const two = &c[n * 4 + half * 2];
        two[0] = exp2_of(two[0] * factor - from);
        two[1] = exp2_of(two[1] * factor - from);
        rows.total[half] += two[0] + two[1];
        if constexpr (H::kDrops) {
          float kept[2];
          drop_two(kept, terms, p.weight(b, h, row, j0 + n * 8 + own_column()), dropping);
          two[0] *= kept[0];
          two[1] *= kept[1];
        }
      }
    }
  });
}

/// While a group makes weights of the scores of a tile, its values are multiplied with those of the
/// tile before.
template <class H>
__device__ void attend(const AttentionProblem& p, const Terms& terms, const Dropping& dropping,
                       const void* q, const void* k, const void* v, void* y, float* lse) {
  using T = typename H::T;
  constexpr int N = H::kOthers;
  constexpr int kRows = H::kGroups * kGroupRows;
  constexpr u32 kTileBytes = N * H::kWidth * 2;
  const Tile<kRows> sq{first_tile<H>()};
  const u32 keys = sq.at + kRows * H::kWidth * 2;
  const u32 values = keys + 2 * kTileBytes;
  const int64_t b = blockIdx.z;
  const int64_t h = blockIdx.y;
  const int64_t g = p.kv_head(h);
  // The longest rows of a causal call first.
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows;
  const int64_t length = keys_of(p, terms, b);
  const KeysOfQueries side{p, length};
  const Bands<KeysOfQueries> bands(side, first);
  const Band block = bands.any(side, first, kRows);
  const void* const k_head = head_of(k, p.k, b, g);
  const void* const v_head = head_of(v, p.v, b, g);
  const Bringer<H, N> bring_keys(p.k, p.width);
  const Bringer<H, N> bring_values(p.v, p.value_width);

  float sums[H::kWidth / 2] = {};
  u32 weights[N / 16][4] = {};
  Rows rows;
  Bringer<H, kRows>(p.q, p.width)
      .bring(sq, head_of(q, p.q, b, h), first, static_cast<int>(p.queries));
  bring_keys.bring({keys}, k_head, block.first, block.last);
  commit_parts();
  bring_keys.bring({keys + kTileBytes}, k_head, block.first + N, block.last);
  bring_values.bring({values}, v_head, block.first, block.last);
  commit_parts();
  float c[N / 2];
  wait_parts<1>();
  __syncthreads();
  choose_registers(c);
  begin_products();
  multiply_rows<H, kRows, N>(c, sq, group_of() * kGroupRows, Tile<N>{keys});
  commit_products();
  wait_products<0>();
  read_from_here(c);
  u32 stage = 0;
  for (int j0 = block.first; j0 < block.last; j0 += N, stage ^= 1) {
    const Tile<N> next_keys{keys + (stage ^ 1) * kTileBytes};
    const Tile<N> own_values{values + stage * kTileBytes};
    const bool mine = bands.group.touches(j0, N);
    float shrink[2] = {1, 1};
    if (mine) soften<H, N>(p, terms, dropping, b, h, first, j0, bands, rows, c, shrink);
    wait_products<0>();
    read_from_here(sums);
    write_from_here(weights);
    pack_left<T, N>(weights, c);
#pragma unroll
    for (int i = 0; i < H::kWidth / 2; ++i) sums[i] *= shrink[i / 2 % 2];
    wait_parts<0>();
    __syncthreads();  // nobody reads the keys of this tile or the values of the tile before
    bring_keys.bring({keys + stage * kTileBytes}, k_head, j0 + 2 * N, block.last);
    bring_values.bring({values + (stage ^ 1) * kTileBytes}, v_head, j0 + N, block.last);
    commit_parts();
    // Also where nobody looks: a group whose products depend on where it is would wait for each.
    if (mine) {
      choose_registers(c);
      begin_products();
      multiply_rows<H, kRows, N>(c, sq, group_of() * kGroupRows, next_keys);
      commit_products();
      add_product<H, N>(sums, weights, own_values);
      commit_products();
      wait_products<1>();
      read_from_here(c);
    } else if (bands.group.touches(j0 + N, N)) {
      choose_registers(c);
      begin_products();
      multiply_rows<H, kRows, N>(c, sq, group_of() * kGroupRows, next_keys);
      commit_products();
      wait_products<0>();
      read_from_here(c);
    }
  }
  wait_products<0>();
  read_from_here(sums);
  wait_parts<0>();
  const float factor = H::kPlain ? static_cast<float>(p.scale) * kLog2E : 1;
  float each[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = rows.total[half];
    total += __shfl_xor_sync(0xffffffffU, total, 1);
    total += __shfl_xor_sync(0xffffffffU, total, 2);
    const bool nothing = total == 0;
    each[half] = nothing ? 0 : 1 / total;
    const int row = first + group_of() * kGroupRows + own_row() + half * 8;
    if (own_column() == 0 && row < p.queries)
      lse[(b * p.heads + h) * p.queries + row] =
          nothing ? -INFINITY : (rows.largest[half] * factor + log2f(total)) * kLn2;
  }
  store_rows<H>(y, p.y, b, h, first, p.queries, p.value_width, sums, each);
}

/// Of a score and the gradient of its weight: the weight that was used, `kept` times what it was,
/// and the gradient of the score but for the scale.
template <class H>
__device__ void weigh(const AttentionProblem& p, const Terms& terms, int64_t b, int64_t h,
                      int query, int key, bool seen, const QueryTerms& row, float kept, float scale,
                      float& score, float& dweight) {
  float x = score * scale;
  if constexpr (H::kMask != AttentionMask::none)
    if (seen) x += added<typename H::T, float>(p, terms, b, h, query, key) * kLog2E;
  const float weight = seen ? exp2_of(x - row.lse) : 0;
  // What a query does not look at counts nothing, even where it is no number.
  const bool counts = H::kMask == AttentionMask::none ? seen : weight != 0;
  dweight = counts ? weight * (dweight * kept - row.delta) : 0;
  score = weight * kept;
}

/// dk and dv. As in `attend`, products of a tile go on while those of the next become weights.
template <class H>
__device__ void differentiate_keys(const AttentionGradProblem& all, const Terms& terms,
                                   const Dropping& dropping, const WgmmaGradPointers& t) {
  using T = typename H::T;
  constexpr int N = H::kOthers;
  constexpr int kRows = H::kGroups * kGroupRows;
  constexpr u32 kTileBytes = N * H::kWidth * 2;
  const AttentionProblem& p = all.problem;
  const Tile<kRows> sk{first_tile<H>()};
  const Tile<kRows> sv{sk.at + kRows * H::kWidth * 2};
  const u32 queries = sv.at + kRows * H::kWidth * 2;
  const u32 cotangents = queries + kGradStages * kTileBytes;
  const u32 of_queries = cotangents + kGradStages * kTileBytes;
  const int64_t b = blockIdx.z;
  const int64_t g = blockIdx.y;
  const int first = static_cast<int>(blockIdx.x) * kRows;
  const int64_t length = keys_of(p, terms, b);
  const QueriesOfKeys side{p, length};
  const Bands<QueriesOfKeys> bands(side, first);
  const Band block = bands.any(side, first, kRows);
  const float scale = static_cast<float>(p.scale) * kLog2E;
  const Bringer<H, N> bring_queries(p.q, p.width);
  const Bringer<H, N> bring_cotangents(all.dy, p.value_width);
  const int tiles = max(block.last - block.first + N - 1, 0) / N;
  const int count = tiles * static_cast<int>(p.group());

  const auto head_at = [&](int n) { return g * p.group() + n / tiles; };
  const auto query_at = [&](int n) { return block.first + n % tiles * N; };
  const auto bring = [&](int n) {
    if (n < count) {
      const u32 stage = n % kGradStages;
      const int64_t h = head_at(n);
      const int i0 = query_at(n);
      bring_queries.bring({queries + stage * kTileBytes}, head_of(t.q, p.q, b, h), i0, block.last);
      bring_cotangents.bring({cotangents + stage * kTileBytes}, head_of(t.dy, all.dy, b, h), i0,
                             block.last);
      const auto i = static_cast<int>(threadIdx.x);
      if (i < N) {
        const QueryTerms* const from = t.rows + (b * p.heads + h) * p.queries + i0 + i;
        const bool inside = i0 + i < block.last;
        asm volatile(
            "cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(of_queries + (stage * N + i) * 8),
            "l"(inside ? from : t.rows), "r"(inside ? 8 : 0));
      }
    }
    commit_parts();
  };
  float weights[N / 2];
  float dscores[N / 2];
  const auto multiply = [&](int n) {
    const u32 stage = n % kGradStages;
    choose_registers(weights);
    choose_registers(dscores);
    begin_products();
    multiply_rows<H, kRows, N>(weights, sk, group_of() * kGroupRows,
                               Tile<N>{queries + stage * kTileBytes});
    multiply_rows<H, kRows, N>(dscores, sv, group_of() * kGroupRows,
                               Tile<N>{cotangents + stage * kTileBytes});
    commit_products();
  };
  const auto read_both = [&] {
    read_from_here(weights);
    read_from_here(dscores);
  };
  Bringer<H, kRows>(p.k, p.width)
      .bring(sk, head_of(t.k, p.k, b, g), first, static_cast<int>(length));
  Bringer<H, kRows>(p.v, p.value_width)
      .bring(sv, head_of(t.v, p.v, b, g), first, static_cast<int>(length));
  bring(0);
  bring(1);
  float dk[H::kWidth / 2] = {};
  float dv[H::kWidth / 2] = {};
  u32 left[N / 16][4] = {};
  u32 dleft[N / 16][4] = {};
  wait_parts<1>();
  __syncthreads();
  multiply(0);
  wait_products<0>();
  read_both();
  for (int n = 0; n < count; ++n) {
    const u32 stage = n % kGradStages;
    const int i0 = query_at(n);
    const bool mine = bands.group.touches(i0, N);
    if (mine) {
      const int64_t h = head_at(n);
      for_tile<H>(bands.whole(i0, N), [&]<bool whole>() {
#pragma unroll
        for (int c = 0; c < N / 8; ++c) {
          QueryTerms two[2];
          asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                       : "=f"(two[0].lse), "=f"(two[0].delta), "=f"(two[1].lse), "=f"(two[1].delta)
                       : "r"(of_queries + (stage * N + c * 8 + own_column()) * 8));
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int query = i0 + c * 8 + own_column() + e % 2;
            const int key = first + group_of() * kGroupRows + own_row() + e / 2 * 8;
            const Band& own = bands.own[e / 2];
            const bool seen = whole || (query >= own.first && query < own.last);
            float kept = 1;
            if constexpr (H::kDrops)
              kept = dropped<float>(terms, p.weight(b, h, query, key), dropping);
            weigh<H>(p, terms, b, h, query, key, seen, two[e % 2], kept, scale, weights[c * 4 + e],
                     dscores[c * 4 + e]);
          }
        }
      });
    }
    wait_products<0>();
    read_from_here(dk);
    read_from_here(dv);
    write_from_here(left);
    write_from_here(dleft);
    pack_left<T, N>(left, weights);
    pack_left<T, N>(dleft, dscores);
    wait_parts<0>();
    __syncthreads();  // nobody reads the tile before
    bring(n + 2);
    if (mine) {
      multiply(n + 1);
      add_product<H, N>(dv, left, Tile<N>{cotangents + stage * kTileBytes});
      add_product<H, N>(dk, dleft, Tile<N>{queries + stage * kTileBytes});
      commit_products();
      wait_products<1>();
      read_both();
    } else {
      multiply(n + 1);
      wait_products<0>();
      read_both();
    }
  }
  wait_products<0>();
  read_from_here(dk);
  read_from_here(dv);
  wait_parts<0>();
  const auto own_scale = static_cast<float>(p.scale);
  store_rows<H>(t.dk, all.out.k, b, g, first, p.keys, p.width, dk, {own_scale, own_scale});
  store_rows<H>(t.dv, all.out.v, b, g, first, p.keys, p.value_width, dv, {1, 1});
}

/// dq.
template <class H>
__device__ void differentiate_queries(const AttentionGradProblem& all, const Terms& terms,
                                      const Dropping& dropping, const WgmmaGradPointers& t) {
  using T = typename H::T;
  constexpr int N = H::kOthers;
  constexpr int kRows = H::kGroups * kGroupRows;
  constexpr u32 kTileBytes = N * H::kWidth * 2;
  const AttentionProblem& p = all.problem;
  const Tile<kRows> sq{first_tile<H>()};
  const Tile<kRows> sdy{sq.at + kRows * H::kWidth * 2};
  const u32 keys = sdy.at + kRows * H::kWidth * 2;
  const u32 values = keys + kGradStages * kTileBytes;
  const int64_t b = blockIdx.z;
  const int64_t h = blockIdx.y;
  const int64_t g = p.kv_head(h);
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows;
  const int64_t length = keys_of(p, terms, b);
  const KeysOfQueries side{p, length};
  const Bands<KeysOfQueries> bands(side, first);
  const Band block = bands.any(side, first, kRows);
  const float scale = static_cast<float>(p.scale) * kLog2E;
  const void* const k_head = head_of(t.k, p.k, b, g);
  const void* const v_head = head_of(t.v, p.v, b, g);
  const Bringer<H, N> bring_keys(p.k, p.width);
  const Bringer<H, N> bring_values(p.v, p.value_width);
  const auto bring = [&](int n) {
    const u32 stage = n % kGradStages;
    const int j0 = block.first + n * N;
    if (j0 < block.last) {
      bring_keys.bring({keys + stage * kTileBytes}, k_head, j0, block.last);
      bring_values.bring({values + stage * kTileBytes}, v_head, j0, block.last);
    }
    commit_parts();
  };
  float weights[N / 2];
  float dscores[N / 2];
  const auto multiply = [&](int n) {
    const u32 stage = n % kGradStages;
    choose_registers(weights);
    choose_registers(dscores);
    begin_products();
    multiply_rows<H, kRows, N>(weights, sq, group_of() * kGroupRows,
                               Tile<N>{keys + stage * kTileBytes});
    multiply_rows<H, kRows, N>(dscores, sdy, group_of() * kGroupRows,
                               Tile<N>{values + stage * kTileBytes});
    commit_products();
  };
  const auto read_both = [&] {
    read_from_here(weights);
    read_from_here(dscores);
  };
  QueryTerms rows[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + group_of() * kGroupRows + own_row() + half * 8;
    rows[half] =
        row < p.queries ? t.rows[(b * p.heads + h) * p.queries + row] : QueryTerms{INFINITY, 0};
  }
  Bringer<H, kRows>(p.q, p.width)
      .bring(sq, head_of(t.q, p.q, b, h), first, static_cast<int>(p.queries));
  Bringer<H, kRows>(all.dy, p.value_width)
      .bring(sdy, head_of(t.dy, all.dy, b, h), first, static_cast<int>(p.queries));
  bring(0);
  bring(1);
  float dq[H::kWidth / 2] = {};
  u32 left[N / 16][4] = {};
  wait_parts<1>();
  __syncthreads();
  multiply(0);
  wait_products<0>();
  read_both();
  for (int n = 0, j0 = block.first; j0 < block.last; ++n, j0 += N) {
    const bool mine = bands.group.touches(j0, N);
    if (mine) {
      for_tile<H>(bands.whole(j0, N), [&]<bool whole>() {
#pragma unroll
        for (int c = 0; c < N / 8; ++c)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int query = first + group_of() * kGroupRows + own_row() + half * 8;
            const int key = j0 + c * 8 + own_column();
            const Band& own = bands.own[half];
            float kept[2] = {1, 1};
            if constexpr (H::kDrops) drop_two(kept, terms, p.weight(b, h, query, key), dropping);
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              const bool seen = whole || (key + e >= own.first && key + e < own.last);
              const int at = c * 4 + half * 2 + e;
              weigh<H>(p, terms, b, h, query, key + e, seen, rows[half], kept[e], scale,
                       weights[at], dscores[at]);
            }
          }
      });
    }
    wait_products<0>();
    read_from_here(dq);
    write_from_here(left);
    pack_left<T, N>(left, dscores);
    wait_parts<0>();
    __syncthreads();  // nobody reads the tile before
    bring(n + 2);
    if (mine) {
      multiply(n + 1);
      add_product<H, N>(dq, left, Tile<N>{keys + n % kGradStages * kTileBytes});
      commit_products();
      wait_products<1>();
      read_both();
    } else {
      multiply(n + 1);
      wait_products<0>();
      read_both();
    }
  }
  wait_products<0>();
  read_from_here(dq);
  wait_parts<0>();
  const auto own_scale = static_cast<float>(p.scale);
  store_rows<H>(t.dq, all.out.q, b, h, first, p.queries, p.width, dq, {own_scale, own_scale});
}

}  // namespace mica::attention

#endif
