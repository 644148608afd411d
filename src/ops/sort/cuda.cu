#include <algorithm>
#include <bit>

#include "mica/ops/reduce/cuda_source.cuh"
#include "mica/ops/sort/cuda_keys.cuh"
#include "mica/ops/sort/sort.h"
#include "mica/runtime/cuda/encoder.h"

// What a block sorts in shared memory: short rows, and the best few of long ones.
namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int kSelectThreads = 1024;

/// Keys and where along the row they came from, ordered by both: equal values stay in order.
/// Where keys have at most 32 bits the two are one number.
template <bool kPacked>
struct Entries {
  uint64_t key[kBlockSort];
  uint32_t index[kPacked ? 1 : kBlockSort];

  __device__ void put(int at, uint64_t k, uint32_t i) {
    if constexpr (kPacked) {
      key[at] = k << 32 | i;
    } else {
      key[at] = k;
      index[at] = i;
    }
  }
  /// Goes behind every entry of a row.
  __device__ void put_last(int at) {
    put(at, kPacked ? ~uint64_t{0} >> 32 : ~uint64_t{0}, ~uint32_t{0});
  }
  __device__ int64_t from(int at) const {
    return kPacked ? static_cast<uint32_t>(key[at]) : index[at];
  }
  /// Puts the lower one first, or the higher one.
  __device__ void exchange(int a, int b, bool ascending) {
    const uint64_t first = key[a];
    const uint64_t second = key[b];
    bool greater = first > second;
    if constexpr (!kPacked) greater = greater || (first == second && index[a] > index[b]);
    if (greater != ascending) return;
    key[a] = second;
    key[b] = first;
    if constexpr (!kPacked) {
      const uint32_t other = index[a];
      index[a] = index[b];
      index[b] = other;
    }
  }
};

/// Bitonic sort of stretches of `width` entries, a power of two, out of `count`, by a block.
template <bool kPacked>
__device__ void sort_stretches(Entries<kPacked>& entries, int width, int count) {
  for (int size = 2; size <= width; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      for (int c = static_cast<int>(threadIdx.x); c < count / 2;
           c += static_cast<int>(blockDim.x)) {
        const int low = 2 * c - (c & (stride - 1));
        entries.exchange(low, low + stride, (low & (width - 1) & size) == 0);
      }
      // At strides up to 32 a warp stays among its own 64 entries.
      const int next = stride > 1 ? stride / 2 : size;
      if (stride > 32 || next > 32) {
        __syncthreads();
      } else {
        __syncwarp();
      }
    }
  }
  __syncthreads();
}

/// A block sorts kBlockSort / width rows.
template <bool kPacked>
__global__ void __launch_bounds__(kThreads)
    sort_in_block(const __grid_constant__ SortRows rows, SortKeys keys, const void* in,
                  void* values, int64_t* indices, int width_bits) {
  __shared__ Entries<kPacked> entries;
  const int width = 1 << width_bits;
  const int together = kBlockSort >> width_bits;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * together; first < rows.rest.count;
       first += static_cast<int64_t>(gridDim.x) * together) {
    for (int e = static_cast<int>(threadIdx.x); e < kBlockSort; e += kThreads) {
      const int64_t row = first + (e >> width_bits);
      const int i = e & (width - 1);
      if (row < rows.rest.count && i < rows.length) {
        int64_t at[2];
        rows.rest.offsets(row, at);
        entries.put(e, keys(in, at[1] + i * rows.in_step), static_cast<uint32_t>(i));
      } else {
        entries.put_last(e);
      }
    }
    __syncthreads();
    sort_stretches(entries, width, kBlockSort);
    for (int e = static_cast<int>(threadIdx.x); e < kBlockSort; e += kThreads) {
      const int64_t row = first + (e >> width_bits);
      const int rank = e & (width - 1);
      if (row < rows.rest.count && rank < rows.k) {
        int64_t at[2];
        rows.rest.offsets(row, at);
        const int64_t from = entries.from(e);
        const int64_t to = at[0] + rank * rows.out_step;
        keys.copy(in, at[1] + from * rows.in_step, values, to);
        indices[to] = from;
      }
    }
    __syncthreads();
  }
}

/// Where the k-th key of a row lies, as far as it is known: its highest bits are `prefix`. Of the
/// `ties` keys that begin so, `need` are among the first k.
struct Cut {
  uint64_t prefix;
  int64_t ties, need;
};

/// Finds the next digit of the k-th key from how often each occurs, by a warp.
__device__ void narrow(Cut& cut, const int (&histogram)[256]) {
  const int lane = static_cast<int>(threadIdx.x);
  int64_t sum = 0;
  for (int d = 8 * lane; d < 8 * lane + 8; ++d) sum += histogram[d];
  int64_t before = sum;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int64_t other = __shfl_up_sync(0xffffffffU, before, distance);
    if (lane >= distance) before += other;
  }
  before -= sum;
  int64_t need = cut.need - before;
  __syncwarp();  // all have read the cut that one of them writes
  if (need <= 0 || need > sum) return;
  int digit = 8 * lane;
  while (need > histogram[digit]) need -= histogram[digit++];
  cut = {cut.prefix << 8 | static_cast<uint64_t>(digit), histogram[digit], need};
}

/// A block finds the first k of a row: the k-th key by its digits, highest first, then all before
/// it and as many equal ones as are wanted, the first of them.
template <bool kPacked>
__global__ void __launch_bounds__(kSelectThreads)
    select_in_block(const __grid_constant__ SortRows rows, SortKeys keys, const void* in,
                    void* values, int64_t* indices, int width) {
  __shared__ Entries<kPacked> entries;
  __shared__ int histogram[256];
  __shared__ int of_warps[kSelectThreads / 32];
  __shared__ Cut cut;
  __shared__ int taken;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  for (int64_t row = blockIdx.x; row < rows.rest.count; row += gridDim.x) {
    int64_t at[2];
    rows.rest.offsets(row, at);
    if (thread == 0) {
      cut = {0, rows.length, rows.k};
      taken = 0;
    }
    for (int e = thread; e < width; e += kSelectThreads) entries.put_last(e);
    __syncthreads();
    int shift = keys.bits;  // of the digits that are known
    const auto known = [&](uint64_t key) { return shift < 64 ? key >> shift : 0; };
    while (shift > 0 && cut.ties != cut.need) {
      if (thread < 256) histogram[thread] = 0;
      __syncthreads();
      const uint64_t prefix = cut.prefix;
#pragma unroll 4
      for (int64_t start = 0; start < rows.length; start += kSelectThreads) {
        const int64_t i = start + thread;
        const uint64_t key = i < rows.length ? keys(in, at[1] + i * rows.in_step) : 0;
        const bool counts = i < rows.length && known(key) == prefix;
        const unsigned counting = __ballot_sync(0xffffffffU, counts);
        if (counts) {
          const auto digit = static_cast<int>(key >> (shift - 8) & 255);
          // One addition for all lanes that have the same digit, as most have at first.
          const unsigned peers = __match_any_sync(counting, digit);
          if (lane == __ffs(static_cast<int>(peers)) - 1)
            atomicAdd(&histogram[digit], __popc(peers));
        }
      }
      shift -= 8;
      __syncthreads();
      if (warp == 0) narrow(cut, histogram);
      __syncthreads();
    }
    const Cut found = cut;
    const bool some_ties = found.ties > found.need;
    int64_t ties = 0;  // so far
    for (int64_t start = 0; start < rows.length; start += kSelectThreads) {
      const int64_t i = start + thread;
      const uint64_t key = i < rows.length ? keys(in, at[1] + i * rows.in_step) : 0;
      const bool less = i < rows.length && known(key) < found.prefix;
      bool tie = i < rows.length && known(key) == found.prefix;
      if (some_ties && ties < found.need) {
        const unsigned of_lanes = __ballot_sync(0xffffffffU, tie);
        if (lane == 0) of_warps[warp] = __popc(of_lanes);
        __syncthreads();
        int64_t rank = ties + __popc(of_lanes & ((1U << lane) - 1));
        for (int w = 0; w < kSelectThreads / 32; ++w) {
          if (w < warp) rank += of_warps[w];
          ties += of_warps[w];
        }
        __syncthreads();
        tie = tie && rank < found.need;
      } else if (some_ties) {
        tie = false;
      }
      if (less || tie) entries.put(atomicAdd(&taken, 1), key, static_cast<uint32_t>(i));
    }
    __syncthreads();
    sort_stretches(entries, width, width);
    for (int rank = thread; rank < rows.k; rank += kSelectThreads) {
      const int64_t from = entries.from(rank);
      const int64_t to = at[0] + rank * rows.out_step;
      keys.copy(in, at[1] + from * rows.in_step, values, to);
      indices[to] = from;
    }
    __syncthreads();
  }
}

struct BlockSortState : KernelState {
  SortRows rows;
  SortKeys keys;
};

template <class P>
Support supports_short(const P& p, const Specs& s) {
  if (s.in[0].shape[static_cast<int>(p.axis)] > kBlockSort)
    return Support::no("rows of more than 2048 elements");
  return Support::yes();
}

bool is_descending(const SortParams& p) { return p.descending; }
bool is_descending(const TopkParams& p) { return p.largest; }

template <class P>
std::shared_ptr<BlockSortState> prepare_short(const P& p, const Specs& s) {
  auto state = std::make_shared<BlockSortState>();
  state->rows = SortRows(s, static_cast<int>(p.axis));
  state->keys = SortKeys::of(s.in[0].dtype, is_descending(p));
  return state;
}

template <class P>
void run_short(const P&, const BlockSortState& s, const Call& c) {
  if (c.out[0].numel() == 0) return;
  const int width_bits = std::bit_width(static_cast<uint64_t>(s.rows.length) - 1);
  const unsigned grid =
      grid_for(s.rows.rest.count, kBlockSort >> width_bits, c.encoder->multiprocessors());
  c.encoder->launch(s.keys.bits <= 32 ? sort_in_block<true> : sort_in_block<false>, grid, kThreads,
                    0, s.rows, s.keys, c.in[0].data, c.out[0].data, c.out[1].as<int64_t>(),
                    width_bits);
}

/// A block to a row is slow where a few rows are very long.
Support supports_selection(const TopkParams& p, const Specs& s) {
  constexpr int64_t kLongRow = 1 << 17;
  constexpr int64_t kManyRows = 64;
  const int64_t length = s.in[0].shape[static_cast<int>(p.axis)];
  if (p.k > kBlockSort) return Support::no("more than 2048 of a row");
  if (length >= kNarrowLimit) return Support::no("rows of 2^31 elements or more");
  const bool slow = length > kLongRow && s.in[0].numel() < kManyRows * length;
  return slow ? Support::possible() : Support::yes();
}

void run_selection(const TopkParams&, const BlockSortState& s, const Call& c) {
  if (c.out[0].numel() == 0) return;
  const auto width = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(s.rows.k)));
  const unsigned grid = grid_for(s.rows.rest.count, 1, c.encoder->multiprocessors());
  c.encoder->launch(s.keys.bits <= 32 ? select_in_block<true> : select_in_block<false>, grid,
                    kSelectThreads, 0, s.rows, s.keys, c.in[0].data, c.out[0].data,
                    c.out[1].as<int64_t>(), width);
}

/// Whether a goes before b: NaN last.
template <class T>
__device__ bool goes_before(T a, T b) {
  return a < b || (b != b && a == a);
}

/// How many of n elements go before each value, or, for the right side, do not go after it.
/// Operands of the loop: out, values, and where the sequence of each value starts.
template <class Source>
__global__ void __launch_bounds__(kThreads)
    search(const __grid_constant__ StridedLoop<3> loop, Source source, const char* sorted,
           const char* values, int64_t* out, int64_t n, int64_t step, bool right) {
  const int bytes = source.bytes();
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < loop.count;
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    int64_t at[3];
    loop.offsets(i, at);
    const auto value = source.one(values + at[1] * bytes);
    int64_t low = 0;
    int64_t high = n;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const auto here = source.one(sorted + (at[2] + middle * step) * bytes);
      if (right ? !goes_before(value, here) : goes_before(here, value)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    out[at[0]] = low;
  }
}

struct SearchState : KernelState {
  StridedLoop<3> loop;
};

std::shared_ptr<SearchState> prepare_search(const SearchsortedParams&, const Specs& s) {
  const Shape& shape = s.in[1].shape;
  Strides sequences = Dims::filled(shape.rank(), 0);
  if (s.in[0].rank() > 1)
    for (int d = 0; d + 1 < shape.rank(); ++d) sequences[d] = s.in[0].strides[d];
  auto state = std::make_shared<SearchState>();
  state->loop = strided_loop<3>(shape, {s.out[0].strides, s.in[1].strides, sequences});
  return state;
}

void run_search(const SearchsortedParams& p, const SearchState& s, const Call& c) {
  const unsigned grid = grid_for(s.loop.count, kThreads, c.encoder->multiprocessors());
  with_ordered_source(c.in[0].dtype(), [&](auto source) {
    c.encoder->launch(search<decltype(source)>, grid, kThreads, 0, s.loop, source,
                      c.in[0].as<const char>(), c.in[1].as<const char>(), c.out[0].as<int64_t>(),
                      c.in[0].shape().back(), c.in[0].strides().back(), p.right);
  });
}

}  // namespace

Kernel cuda::sort_block_kernel() {
  return kernel<supports_short<SortParams>, prepare_short<SortParams>, run_short<SortParams>>(
      "block");
}
Kernel cuda::topk_block_kernel() {
  return kernel<supports_short<TopkParams>, prepare_short<TopkParams>, run_short<TopkParams>>(
      "block");
}

Kernel cuda::topk_selection_kernel() {
  return kernel<supports_selection, prepare_short<TopkParams>, run_selection>("selection");
}

KernelList searchsorted_cuda_kernels() {
  return {kernel<supports_all<SearchsortedParams>, prepare_search, run_search>("binary")};
}

}  // namespace mica
