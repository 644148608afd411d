#include <algorithm>
#include <limits>

#include "mica/ops/sparse/csr.h"
#include "mica/ops/sparse/cuda_pattern.cuh"
#include "mica/ops/sparse/cuda_table.cuh"

// Products of sparse matrices: a warp to each row of the result. It adds up in shared memory, in
// the order of the entries: in a table of columns where there are few products, else in a band of
// columns after the other.
namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kSlots = 512;          ///< of the table
constexpr int64_t kFew = 256;        ///< products that the table takes
constexpr int kBandBytes = 1 << 15;  ///< of sums
constexpr int kBandBits = 1 << 16;   ///< columns of a band where they are only counted

struct Nothing {
  __device__ float operator()(int64_t) const { return 0; }
};
/// The values of a factor.
template <class T>
struct ValuesOf {
  const T* values;
  __device__ Compute<T> operator()(int64_t e) const { return to_compute(values[e]); }
};

/// Goes over the products of a row of A and the rows of B it names: calls f(there, column, product)
/// in all lanes, entry by entry of A. What comes next is loaded before f is called.
template <class I, class Left, class Right, class F>
__device__ void for_each_product(const DevicePattern<I>& a, const DevicePattern<I>& b,
                                 EntryRange row, Left left, Right right, F&& f) {
  using C = decltype(left(0));
  const int lane = lane_number();
  for (int64_t first = row.begin; first < row.end; first += 32) {
    EntryRange of_lane{0, 0};
    C value = 0;
    if (first + lane < row.end) {
      const int64_t k = a.column(first + lane);
      if (k >= 0) of_lane = b.row(k);
      value = left(first + lane);
    }
    const auto entries = static_cast<int>(::min(row.end - first, int64_t{32}));
    int entry = 0;
    int64_t at = __shfl_sync(kAllLanes, of_lane.begin, 0);
    int64_t end = __shfl_sync(kAllLanes, of_lane.end, 0);
    const auto to_next = [&] {
      while (at >= end && ++entry < entries) {
        at = __shfl_sync(kAllLanes, of_lane.begin, entry);
        end = __shfl_sync(kAllLanes, of_lane.end, entry);
      }
    };
    I next_column{};
    C next_value = 0;
    const auto load = [&] {
      if (entry >= entries || at + lane >= end) return;
      next_column = b.col[at + lane];
      next_value = right(at + lane);
    };
    to_next();
    load();
    while (entry < entries) {
      bool there = at + lane < end;
      const auto column = static_cast<int64_t>(next_column);
      const C product = __shfl_sync(kAllLanes, value, entry) * next_value;
      const int64_t here = at + lane;
      at += 32;
      to_next();
      load();
      if (there && static_cast<uint64_t>(column) >= static_cast<uint64_t>(b.columns)) {
        (void)b.column(here);
        there = false;
      }
      f(there, column, product);
    }
  }
}

/// How many products a row has.
template <class I>
__device__ int64_t count_products(const DevicePattern<I>& a, const DevicePattern<I>& b,
                                  EntryRange row) {
  int64_t count = 0;
  for (int64_t e = row.begin + lane_number(); e < row.end; e += 32) {
    const int64_t k = a.column(e);
    if (k >= 0) count += b.row(k).size();
  }
  return warp_sum(count);
}

template <class I>
struct Factors {
  DevicePattern<I> a, b;
};

__device__ void clear_words(uint32_t* words, int64_t n, uint32_t to) {
  for (int64_t i = lane_number(); i < n; i += 32) words[i] = to;
  __syncwarp();
}

/// crow[r + 1] = the number of different columns in row r of the product.
template <class I>
__global__ void __launch_bounds__(32)
    count_columns(const __grid_constant__ Factors<I> p, int64_t band, I* crow) {
  extern __shared__ __align__(16) uint32_t shared[];
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    p.a.check_ends();
    p.b.check_ends();
    crow[0] = 0;
  }
  for (int64_t r = blockIdx.x; r < p.a.rows; r += gridDim.x) {
    const EntryRange row = p.a.row(r);
    int64_t count = 0;
    const int64_t products = count_products(p.a, p.b, row);
    if (p.b.columns > band && products <= kFew) {
      auto* keys = reinterpret_cast<int*>(shared);
      clear_words(shared, kSlots, static_cast<uint32_t>(kFreeSlot));
      for_each_product(p.a, p.b, row, Nothing(), Nothing(), [&](bool there, int64_t column, float) {
        int found = 0;
        if (there) take_slot(keys, kSlots, static_cast<int>(column), found);
        count += there && found == kFreeSlot ? 1 : 0;
      });
    } else if (products > 0) {
      for (int64_t start = 0; start < p.b.columns; start += band) {
        const int64_t size = ::min(band, p.b.columns - start);
        clear_words(shared, ceil_div<int64_t>(size, 32), 0);
        for_each_product(p.a, p.b, row, Nothing(), Nothing(),
                         [&](bool there, int64_t column, float) {
                           const int64_t i = column - start;
                           if (there && i >= 0 && i < size)
                             atomicOr(shared + i / 32, 1U << (i % 32));
                         });
        __syncwarp();
        for (int64_t w = lane_number(); w < ceil_div<int64_t>(size, 32); w += 32)
          count += __popc(shared[w]);
        __syncwarp();
      }
    }
    count = warp_sum(count);
    if (threadIdx.x == 0) crow[r + 1] = static_cast<I>(count);
    __syncwarp();
  }
}

constexpr int kScanThreads = 1024;
constexpr int kScanEach = 8;  ///< neighbours that a thread adds up

/// Each of crow becomes the sum of those up to it; one block.
template <class I>
__global__ void __launch_bounds__(kScanThreads)
    add_up(I* crow, int64_t rows, Fault too_many, Fault* fault) {
  __shared__ int64_t of_warps[kScanThreads / 32];
  const int lane = lane_number();
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  int64_t before = 0;
  for (int64_t tile = 1; tile <= rows; tile += int64_t{kScanThreads} * kScanEach) {
    const int64_t first = tile + int64_t{threadIdx.x} * kScanEach;
    int64_t own[kScanEach];
    int64_t sum = 0;
#pragma unroll
    for (int i = 0; i < kScanEach; ++i) {
      if (first + i <= rows) sum += static_cast<int64_t>(crow[first + i]);
      own[i] = sum;
    }
    int64_t up_to = sum;
    for (int distance = 1; distance < 32; distance *= 2) {
      const int64_t other = __shfl_up_sync(kAllLanes, up_to, distance);
      if (lane >= distance) up_to += other;
    }
    if (lane == 31) of_warps[warp] = up_to;
    __syncthreads();
    const int64_t of_warp = of_warps[lane];
    const int64_t start = before + warp_sum(lane < warp ? of_warp : int64_t{0}) + up_to - sum;
#pragma unroll
    for (int i = 0; i < kScanEach; ++i)
      if (first + i <= rows) crow[first + i] = static_cast<I>(start + own[i]);
    before += warp_sum(of_warp);
    __syncthreads();
  }
  if (threadIdx.x == 0 && before > static_cast<int64_t>(std::numeric_limits<I>::max()))
    note_fault(fault, too_many);
}

void run_ends(const CsrParams& p, const Call& c) {
  cuda_switch_index(c.in[0].dtype(), [&]<class I>() {
    const PatternTexts texts = MICA_PATTERN_TEXTS("csr_product_ends");
    const Factors<I> factors{{texts, c, c.in[0], c.in[1], c.in[2].numel() - 1},
                             {texts, c, c.in[2], c.in[3], p.columns}};
    const int64_t rows = factors.a.rows;
    const int64_t band = std::min<int64_t>(ceil_div<int64_t>(p.columns, 32) * 32, kBandBits);
    const auto bytes = std::max(static_cast<size_t>(band) / 8, kSlots * sizeof(int));
    c.encoder->launch(count_columns<I>, grid_of_rows(c, rows), 32, bytes, factors, band,
                      c.out[0].as<I>());
    Fault too_many;
    too_many.op = sizeof(I) == 4 ? "csr_product: the product has more entries than i32 indices can "
                                   "count; use i64"
                                 : "csr_product: the product has more entries than i64 can count";
    c.encoder->launch(add_up<I>, 1, kScanThreads, 0, c.out[0].as<I>(), rows, too_many,
                      c.encoder->fault());
  });
}

template <class T, class I>
struct Product {
  Factors<I> factors;
  const T* left;
  const T* right;
  DevicePattern<I> out;  ///< rows and entries of the result
  I* col;
  T* values;
  const bool* rise;  ///< the columns of each row of B rise, so that none comes twice
  int64_t band;      ///< columns that the shared memory has sums for
  const char* misfit;
};

/// Writes the entries of a row in order.
template <class T, class I>
struct RowWriter {
  const Product<T, I>& p;
  EntryRange range;
  int64_t written = 0;

  __device__ void put(int64_t place, int64_t column, Compute<T> sum) const {
    if (place >= range.size()) return;
    p.col[range.begin + place] = static_cast<I>(column);
    p.values[range.begin + place] = convert<T>(sum);
  }
};

/// The few products of a row in a table, whose columns are then counted into order.
template <class T, class I>
__device__ void multiply_in_table(const Product<T, I>& p, EntryRange row, bool distinct,
                                  Compute<T>* sums, RowWriter<T, I>& to) {
  using C = Compute<T>;
  auto* keys = reinterpret_cast<int*>(sums + kSlots);
  const int lane = lane_number();
  for (int i = lane; i < kSlots; i += 32) {
    keys[i] = kFreeSlot;
    sums[i] = 0;
  }
  __syncwarp();
  for_each_product(p.factors.a, p.factors.b, row, ValuesOf<T>{p.left}, ValuesOf<T>{p.right},
                   [&](bool there, int64_t column, C product) {
                     int slot = 0;
                     int found = 0;
                     if (there) slot = take_slot(keys, kSlots, static_cast<int>(column), found);
                     __syncwarp();
                     add_in_turn(sums, slot, product, there, distinct);
                   });
  int n = 0;
  for (int i = lane; i < kSlots; i += 32) {  // to the front, which has been read
    const int key = keys[i];
    const C sum = sums[i];
    const unsigned taken = __ballot_sync(kAllLanes, key != kFreeSlot);
    if (key != kFreeSlot) {
      const int place = n + __popc(taken & lanes_before());
      keys[place] = key;
      sums[place] = sum;
    }
    n += __popc(taken);
    __syncwarp();
  }
  for (int i = lane; i < n; i += 32) {
    int place = 0;
    for (int j = 0; j < n; ++j) place += keys[j] < keys[i] ? 1 : 0;
    to.put(place, keys[i], sums[i]);
  }
  to.written = n;
}

/// A band of columns [start, start + size).
template <class T, class I>
__device__ void multiply_in_band(const Product<T, I>& p, EntryRange row, bool distinct,
                                 int64_t start, int64_t size, Compute<T>* sums,
                                 RowWriter<T, I>& to) {
  using C = Compute<T>;
  auto* bits = reinterpret_cast<uint32_t*>(sums + p.band);
  const int lane = lane_number();
  for (int64_t i = lane; i < size; i += 32) sums[i] = 0;
  clear_words(bits, ceil_div<int64_t>(size, 32), 0);
  for_each_product(p.factors.a, p.factors.b, row, ValuesOf<T>{p.left}, ValuesOf<T>{p.right},
                   [&](bool there, int64_t column, C product) {
                     const int64_t i = column - start;
                     const bool mine = there && i >= 0 && i < size;
                     const int at = mine ? static_cast<int>(i) : 0;
                     if (mine) atomicOr(bits + at / 32, 1U << (at % 32));
                     add_in_turn(sums, at, product, mine, distinct);
                   });
  const int64_t words = ceil_div<int64_t>(size, 32);
  for (int64_t first = 0; first < words; first += 32) {
    const uint32_t own = first + lane < words ? bits[first + lane] : 0;
    for (unsigned some = __ballot_sync(kAllLanes, own != 0); some != 0; some &= some - 1) {
      const int w = __ffs(static_cast<int>(some)) - 1;
      const uint32_t word = __shfl_sync(kAllLanes, own, w);
      if ((word >> lane & 1U) != 0) {
        const int64_t i = (first + w) * 32 + lane;
        to.put(to.written + __popc(word & lanes_before()), start + i, sums[i]);
      }
      to.written += __popc(word);
    }
  }
  __syncwarp();
}

template <class T, class I>
__global__ void __launch_bounds__(32) multiply_rows(const __grid_constant__ Product<T, I> p) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto* sums = reinterpret_cast<Compute<T>*>(memory);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    p.out.check_ends();
    p.factors.a.check_ends();
  }
  const bool distinct = *p.rise;
  const int64_t columns = p.factors.b.columns;
  for (int64_t r = blockIdx.x; r < p.factors.a.rows; r += gridDim.x) {
    const EntryRange row = p.factors.a.row(r);
    RowWriter<T, I> to{p, p.out.row(r)};
    const int64_t products = count_products(p.factors.a, p.factors.b, row);
    if (columns > p.band && products <= kFew) {
      multiply_in_table(p, row, distinct, sums, to);
    } else if (products > 0) {
      for (int64_t start = 0; start < columns; start += p.band)
        multiply_in_band(p, row, distinct, start, ::min(p.band, columns - start), sums, to);
    }
    const auto wanted =
        static_cast<int64_t>(p.out.crow[r + 1]) - static_cast<int64_t>(p.out.crow[r]);
    if (threadIdx.x == 0 && to.written != wanted)
      note_fault(p.out.fault, {r, to.written, wanted, p.misfit});
    __syncwarp();
  }
}

struct FlagState : KernelState {
  FlagState() { workspace_bytes = 16; }
};

std::shared_ptr<FlagState> prepare(const CsrProductParams&, const Specs&) {
  return std::make_shared<FlagState>();
}

template <class T, class I>
void multiply(const CsrProductParams& p, const Call& c) {
  using namespace csr_product_inputs;
  using C = Compute<T>;
  const PatternTexts texts = MICA_PATTERN_TEXTS("csr_product");
  auto* rise = static_cast<bool*>(c.workspace);
  const int64_t band = std::min<int64_t>(ceil_div<int64_t>(p.columns, 32) * 32,
                                         kBandBytes / static_cast<int>(sizeof(C)));
  const Product<T, I> product{
      {{texts, c, c.in[kCrowA], c.in[kColA], c.in[kCrowB].numel() - 1},
       {texts, c, c.in[kCrowB], c.in[kColB], p.columns}},
      c.in[kA].as<const T>(),
      c.in[kB].as<const T>(),
      {texts, c, c.in[kCrow], p.entries},
      c.out[0].as<I>(),
      c.out[1].as<T>(),
      rise,
      band,
      "csr_product: crow is not that of the product: row {0} has {1} entries, not {2}"};
  find_order(c, product.factors.b, rise);
  const size_t bytes =
      std::max(static_cast<size_t>(band) * sizeof(C) + static_cast<size_t>(band) / 8,
               kSlots * (sizeof(C) + sizeof(int)));
  c.encoder->launch(multiply_rows<T, I>, grid_of_rows(c, product.factors.a.rows), 32, bytes,
                    product);
}

void run(const CsrProductParams& p, const FlagState&, const Call& c) {
  using namespace csr_product_inputs;
  cuda_switch_float(c.in[kA].dtype(), "csr_product", [&]<class T>() {
    cuda_switch_index(c.in[0].dtype(), [&]<class I>() { multiply<T, I>(p, c); });
  });
}

}  // namespace

KernelList csr_product_ends_cuda_kernels() {
  return {kernel<supports_row_major<CsrParams>, run_ends>("warps")};
}
KernelList csr_product_cuda_kernels() {
  return {kernel<supports_row_major<CsrProductParams>, prepare, run>("warps")};
}

}  // namespace mica
