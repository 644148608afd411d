#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "mica/ops/sort/cuda_keys.cuh"
#include "mica/ops/sort/cuda_radix.h"
#include "mica/ops/sort/sort.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"

// Rows of any length, sorted by cub's radix sort: all of them at once, by keys that start with the
// row's number. The one file that includes it, for its time to compile.
namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int64_t kMostElements = (int64_t{1} << 31) - 1;  ///< sorted at once
constexpr int64_t kUniqueBlocks = 1024;  ///< each adds up the numbers of those before it

/// Where things lie in the workspace.
struct Buffers {
  size_t keys[2] = {}, positions[2] = {}, temporary = 0, end = 0;

  Buffers() = default;
  Buffers(int64_t count, size_t key_bytes, size_t temporary_bytes) {
    const auto take = [&](size_t bytes) {
      const size_t at = end;
      end += (bytes + 255) / 256 * 256;
      return at;
    };
    const auto n = static_cast<size_t>(count);
    for (size_t& at : keys) at = take(n * key_bytes);
    for (size_t& at : positions) at = take(n * sizeof(uint32_t));
    temporary = take(temporary_bytes);
  }
};

template <class Key>
size_t temporary_bytes(int64_t count, int bits) {
  cub::DoubleBuffer<Key> keys;
  cub::DoubleBuffer<uint32_t> positions;
  size_t bytes = 0;
  check_cuda(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, positions,
                                             static_cast<int>(count), 0, bits));
  return bytes;
}

/// A stable sort by the lowest `bits` of the keys. The buffers swap as cub pleases.
template <class Key>
void sort_pairs(Encoder& encoder, void* temporary, size_t bytes, cub::DoubleBuffer<Key>& keys,
                cub::DoubleBuffer<uint32_t>& positions, int64_t count, int bits) {
  // cub launches its own kernels, on the encoder's stream, so that they are ordered and captured
  // with the others.
  check_cuda(cub::DeviceRadixSort::SortPairs(temporary, bytes, keys, positions,
                                             static_cast<int>(count), 0, bits, encoder.stream()));
}
template <class Key>
void sort_pairs(const Call& c, const Buffers& buffers, cub::DoubleBuffer<Key>& keys,
                cub::DoubleBuffer<uint32_t>& positions, int64_t count, int bits) {
  sort_pairs(*c.encoder, static_cast<char*>(c.workspace) + buffers.temporary,
             buffers.end - buffers.temporary, keys, positions, count, bits);
}

template <class T>
cub::DoubleBuffer<T> double_buffer(const Call& c, const size_t (&at)[2]) {
  char* base = static_cast<char*>(c.workspace);
  return {reinterpret_cast<T*>(base + at[0]), reinterpret_cast<T*>(base + at[1])};
}

/// Keys of the elements of some rows, behind their rows' numbers where `with_rows`, and the
/// elements' positions.
template <class Key>
__global__ void __launch_bounds__(kThreads)
    make_keys(const __grid_constant__ SortRows rows, SortKeys keys, const void* in,
              int64_t first_row, uint32_t count, Divider length, bool with_rows, Key* out,
              uint32_t* positions) {
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads) {
    const uint32_t row = length.quotient(i);
    int64_t at[2];
    rows.rest.offsets(first_row + row, at);
    const uint64_t key = keys(in, at[1] + int64_t{i - row * length.divisor} * rows.in_step);
    out[i] = static_cast<Key>(with_rows ? uint64_t{row} << keys.bits | key : key);
    positions[i] = i;
  }
}

__global__ void __launch_bounds__(kThreads)
    make_row_keys(const uint32_t* positions, uint32_t count, Divider length, uint32_t* out) {
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads)
    out[i] = length.quotient(positions[i]);
}

/// The first k of each row, from the sorted positions of all.
__global__ void __launch_bounds__(kThreads)
    take_in_order(const __grid_constant__ SortRows rows, SortKeys keys, const void* in,
                  int64_t first_row, uint32_t count, Divider k, const uint32_t* positions,
                  void* values, int64_t* indices) {
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads) {
    const uint32_t row = k.quotient(i);
    const uint32_t rank = i - row * k.divisor;
    int64_t at[2];
    rows.rest.offsets(first_row + row, at);
    const int64_t from = positions[row * rows.length + rank] - row * rows.length;
    const int64_t to = at[0] + rank * rows.out_step;
    keys.copy(in, at[1] + from * rows.in_step, values, to);
    indices[to] = from;
  }
}

struct RadixState : KernelState {
  SortRows rows;
  SortKeys keys;
  int64_t batch = 0;  ///< rows that are sorted at once
  int row_bits = 0;
  Buffers buffers;

  bool wide() const { return keys.bits + row_bits > 32; }
  /// Keys and rows' numbers do not fit together: sorted by the one, then by the other.
  bool twice() const { return keys.bits + row_bits > 64; }
};

template <class P>
Support supports_radix(const P& p, const Specs& s) {
  if (s.in[0].shape[static_cast<int>(p.axis)] > kMostElements)
    return Support::no("rows of 2^31 elements or more");
  return Support::yes();
}

std::shared_ptr<RadixState> prepare_rows(const Specs& s, int64_t axis, bool descending) {
  auto state = std::make_shared<RadixState>();
  state->rows = SortRows(s, static_cast<int>(axis));
  state->keys = SortKeys::of(s.in[0].dtype, descending);
  const int64_t rows = state->rows.rest.count;
  const int64_t length = state->rows.length;
  if (rows == 0 || length == 0) return state;
  state->batch = std::min(rows, kMostElements / length);
  state->row_bits = std::bit_width(static_cast<uint64_t>(state->batch) - 1);
  const int64_t count = state->batch * length;
  const int bits = state->keys.bits + state->row_bits;
  size_t temporary = 0;
  if (state->twice()) {
    temporary = std::max(temporary_bytes<uint64_t>(count, state->keys.bits),
                         temporary_bytes<uint32_t>(count, state->row_bits));
  } else {
    temporary = state->wide() ? temporary_bytes<uint64_t>(count, bits)
                              : temporary_bytes<uint32_t>(count, bits);
  }
  state->buffers = Buffers(count, state->wide() ? sizeof(uint64_t) : sizeof(uint32_t), temporary);
  state->workspace_bytes = state->buffers.end;
  return state;
}

std::shared_ptr<RadixState> prepare_sort(const SortParams& p, const Specs& s) {
  return prepare_rows(s, p.axis, p.descending);
}
std::shared_ptr<RadixState> prepare_topk(const TopkParams& p, const Specs& s) {
  return prepare_rows(s, p.axis, p.largest);
}

template <class Key>
void sort_batch(const RadixState& s, const Call& c, int64_t first_row, int64_t batch) {
  Encoder& encoder = *c.encoder;
  const int64_t count = batch * s.rows.length;
  const Divider length(static_cast<uint32_t>(s.rows.length));
  const unsigned grid = grid_for(count, kThreads, encoder.multiprocessors());
  auto keys = double_buffer<Key>(c, s.buffers.keys);
  auto positions = double_buffer<uint32_t>(c, s.buffers.positions);
  const bool twice = s.twice();
  encoder.launch(make_keys<Key>, grid, kThreads, 0, s.rows, s.keys, c.in[0].data, first_row, count,
                 length, !twice && s.row_bits > 0, keys.Current(), positions.Current());
  sort_pairs(c, s.buffers, keys, positions, count, s.keys.bits + (twice ? 0 : s.row_bits));
  if (twice) {
    auto row_keys = double_buffer<uint32_t>(c, s.buffers.keys);
    encoder.launch(make_row_keys, grid, kThreads, 0, positions.Current(), count, length,
                   row_keys.Current());
    sort_pairs(c, s.buffers, row_keys, positions, count, s.row_bits);
  }
  const int64_t wanted = batch * s.rows.k;
  encoder.launch(take_in_order, grid_for(wanted, kThreads, encoder.multiprocessors()), kThreads, 0,
                 s.rows, s.keys, c.in[0].data, first_row, wanted,
                 Divider(static_cast<uint32_t>(s.rows.k)), positions.Current(), c.out[0].data,
                 c.out[1].as<int64_t>());
}

template <class P>
void run_rows(const P&, const RadixState& s, const Call& c) {
  if (c.out[0].numel() == 0) return;
  for (int64_t row = 0; row < s.rows.rest.count; row += s.batch) {
    const int64_t batch = std::min(s.batch, s.rows.rest.count - row);
    if (s.wide()) {
      sort_batch<uint64_t>(s, c, row, batch);
    } else {
      sort_batch<uint32_t>(s, c, row, batch);
    }
  }
}

/// Sorted keys of which each that differs from the one before starts a group. Every NaN is one.
template <class Key>
struct Groups {
  const Key* keys;
  int64_t n;
  int64_t each;  ///< keys of a block, a multiple of kThreads
  bool floating;
  Key nan;

  __device__ bool starts(int64_t i) const {
    return i < n && (i == 0 || keys[i] != keys[i - 1] || (floating && keys[i] == nan));
  }
};

template <class Key>
__global__ void __launch_bounds__(kThreads) count_groups(Groups<Key> groups, int64_t* of_blocks) {
  const int64_t first = blockIdx.x * groups.each;
  int64_t count = 0;
  for (int64_t i = first + threadIdx.x; i < first + groups.each; i += kThreads)
    count += groups.starts(i) ? 1 : 0;
  count = block_sum<kThreads>(count);
  if (threadIdx.x == 0) of_blocks[blockIdx.x] = count;
}

/// Numbers the groups, and writes what does not depend on their ends.
template <class Key>
__global__ void __launch_bounds__(kThreads)
    number_groups(Groups<Key> groups, const int64_t* of_blocks, SortKeys keys, const void* in,
                  const uint32_t* positions, void* values, int64_t* inverse, uint32_t* starts,
                  int64_t* total) {
  __shared__ int of_warps[kThreads / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int64_t before = 0;
  for (unsigned b = threadIdx.x; b < blockIdx.x; b += kThreads) before += of_blocks[b];
  before = block_sum<kThreads>(before);
  const int64_t first = blockIdx.x * groups.each;
  for (int64_t tile = first; tile < first + groups.each; tile += kThreads) {
    const int64_t i = tile + threadIdx.x;
    const bool start = groups.starts(i);
    const unsigned of_lanes = __ballot_sync(0xffffffffU, start);
    if (lane == 0) of_warps[warp] = __popc(of_lanes);
    __syncthreads();
    int64_t group = before + __popc(of_lanes & (0xffffffffU >> (31 - lane))) - 1;
    for (int w = 0; w < kThreads / 32; ++w) {
      if (w < warp) group += of_warps[w];
      before += of_warps[w];
    }
    __syncthreads();
    if (i >= groups.n) continue;
    inverse[positions[i]] = group;
    if (start) {
      starts[group] = static_cast<uint32_t>(i);
      keys.copy(in, positions[i], values, group);
    }
  }
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) *total = before;
}

/// Sizes of the groups; what is not used of the outputs is zero.
__global__ void __launch_bounds__(kThreads)
    count_members(const uint32_t* starts, const int64_t* total, int64_t n, int64_t* counts,
                  char* values, int bytes) {
  const int64_t groups = *total;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    if (i < groups) {
      counts[i] = (i + 1 < groups ? int64_t{starts[i + 1]} : n) - int64_t{starts[i]};
    } else {
      counts[i] = 0;
      for (int b = 0; b < bytes; ++b) values[i * bytes + b] = 0;
    }
  }
}

struct UniqueState : KernelState {
  SortKeys keys;
  Buffers buffers;
  size_t of_blocks = 0;
};

Support supports_unique(const NoParams&, const Specs& s) {
  if (s.in[0].numel() > kMostElements) return Support::no("2^31 elements or more");
  return Support::yes().with_contiguous(1);
}

std::shared_ptr<UniqueState> prepare_unique(const NoParams&, const Specs& s) {
  auto state = std::make_shared<UniqueState>();
  state->keys = SortKeys::of(s.in[0].dtype, false);
  const int64_t n = s.in[0].numel();
  const int bits = state->keys.bits;
  if (n > 0) {
    const bool wide = bits > 32;
    state->buffers =
        Buffers(n, wide ? sizeof(uint64_t) : sizeof(uint32_t),
                wide ? temporary_bytes<uint64_t>(n, bits) : temporary_bytes<uint32_t>(n, bits));
  }
  state->of_blocks = state->buffers.end;
  state->workspace_bytes = state->of_blocks + kUniqueBlocks * sizeof(int64_t);
  return state;
}

template <class Key>
void find_unique(const UniqueState& s, const Call& c) {
  Encoder& encoder = *c.encoder;
  const int64_t n = c.in[0].numel();
  auto keys = double_buffer<Key>(c, s.buffers.keys);
  auto positions = double_buffer<uint32_t>(c, s.buffers.positions);
  const unsigned grid = grid_for(n, kThreads, encoder.multiprocessors());
  if (n > 0) {
    SortRows row;
    row.rest = strided_loop<2>({}, {Strides{}, Strides{}});
    encoder.launch(make_keys<Key>, grid, kThreads, 0, row, s.keys, c.in[0].data, 0, n,
                   Divider(static_cast<uint32_t>(n)), false, keys.Current(), positions.Current());
    sort_pairs(c, s.buffers, keys, positions, n, s.keys.bits);
  }
  const int64_t each = ceil_div<int64_t>(ceil_div<int64_t>(n, kUniqueBlocks), kThreads) * kThreads;
  const auto blocks = static_cast<unsigned>(n > 0 ? ceil_div(n, each) : 1);
  const Groups<Key> groups{keys.Current(), n, each, s.keys.floating,
                           static_cast<Key>(s.keys.mask())};
  auto* of_blocks = reinterpret_cast<int64_t*>(static_cast<char*>(c.workspace) + s.of_blocks);
  auto* starts = reinterpret_cast<uint32_t*>(keys.Alternate());
  auto* total = c.out[3].as<int64_t>();
  encoder.launch(count_groups<Key>, blocks, kThreads, 0, groups, of_blocks);
  encoder.launch(number_groups<Key>, blocks, kThreads, 0, groups, of_blocks, s.keys, c.in[0].data,
                 positions.Current(), c.out[0].data, c.out[1].as<int64_t>(), starts, total);
  encoder.launch(count_members, grid, kThreads, 0, starts, total, n, c.out[2].as<int64_t>(),
                 c.out[0].as<char>(), s.keys.bits / 8);
}

void run_unique(const NoParams&, const UniqueState& s, const Call& c) {
  s.keys.bits > 32 ? find_unique<uint64_t>(s, c) : find_unique<uint32_t>(s, c);
}

}  // namespace

cuda::RadixPairs::RadixPairs(int64_t count, int bits) : count_(count), bits_(bits) {
  if (count == 0) return;
  const Buffers buffers(count, sizeof(uint32_t), temporary_bytes<uint32_t>(count, bits));
  std::copy_n(buffers.keys, 2, keys_);
  std::copy_n(buffers.positions, 2, positions_);
  temporary_ = buffers.temporary;
  end_ = buffers.end;
}

cuda::RadixPairs::Sorted cuda::RadixPairs::sort(Encoder& encoder, void* workspace) const {
  cub::DoubleBuffer<uint32_t> keys{at(workspace, keys_[0]), at(workspace, keys_[1])};
  cub::DoubleBuffer<uint32_t> positions{at(workspace, positions_[0]), at(workspace, positions_[1])};
  if (count_ > 0)
    sort_pairs(encoder, at(workspace, temporary_), end_ - temporary_, keys, positions, count_,
               bits_);
  return {keys.Current(), positions.Current()};
}

KernelList sort_cuda_kernels() {
  return {sort_block_kernel(),
          kernel<supports_radix<SortParams>, prepare_sort, run_rows<SortParams>>("radix")};
}
KernelList topk_cuda_kernels() {
  return {topk_block_kernel(), topk_selection_kernel(),
          kernel<supports_radix<TopkParams>, prepare_topk, run_rows<TopkParams>>("radix")};
}
KernelList unique_cuda_kernels() {
  return {kernel<supports_unique, prepare_unique, run_unique>("radix")};
}

}  // namespace mica
