#include "mica/core/switch_bytes.h"
#include "mica/ops/copy/copy.h"

#include <algorithm>
#include <bit>

#include "mica/op/kernel.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/strided.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;                 ///< of a tile
constexpr int kStreamThreads = 128;           ///< of a pass in order, a step each
constexpr int kMostCast = 8;                  ///< elements a thread converts at once
constexpr int kTile = 4096;                   ///< most elements of a tile
constexpr int kTileSide = 64;                 ///< its sides, where the matrix has as many
constexpr int kPerThread = kTile / kThreads;  ///< under way together
constexpr int kLeastSide = 16;                ///< of a matrix worth tiles

/// Dtypes that are cast by vectors; others one by one, which compiles a few kernels instead of
/// many.
constexpr DTypeSet kVectorCasts{{DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64,
                                 DType::i32, DType::u8, DType::boolean},
                                "a dtype that is often cast"};
template <class T>
inline constexpr bool kCastsByVectors =
    std::is_same_v<T, bool> || std::is_same_v<T, uint8_t> || std::is_same_v<T, int32_t> ||
    std::is_same_v<T, int64_t> || (!std::is_integral_v<T> && sizeof(T) > 1);
/// T where elements are taken one by one, else a type that stands for it and is never read.
template <class T, int V>
using Alone = std::conditional_t<V == 1, T, bool>;

/// V elements at p + offset (one value repeated where `dense` is false) of a dtype known at run
/// time.
template <class To, int V>
__device__ Vec<To, V> load_as(const void* p, DType dtype, int64_t offset, bool dense) {
  const auto load = [&]<class From>() {
    Vec<To, V> y;
    const auto* typed = static_cast<const From*>(p);
    if (dense) {
      const Vec<From, V> x = load_vec<V>(typed + offset);
#pragma unroll
      for (int e = 0; e < V; ++e) y.v[e] = convert<To>(x.v[e]);
    } else {
      const To value = convert<To>(typed[offset]);
#pragma unroll
      for (int e = 0; e < V; ++e) y.v[e] = value;
    }
    return y;
  };
  switch (dtype) {  // the same for all threads
    case DType::f64:
      return load.template operator()<double>();
    case DType::f32:
      return load.template operator()<float>();
    case DType::f16:
      return load.template operator()<__half>();
    case DType::bf16:
      return load.template operator()<__nv_bfloat16>();
    case DType::i64:
      return load.template operator()<int64_t>();
    case DType::i32:
      return load.template operator()<int32_t>();
    case DType::u8:
      return load.template operator()<uint8_t>();
    case DType::boolean:
      return load.template operator()<bool>();
    case DType::f8_e4m3:
      return load.template operator()<Alone<Float8E4M3, V>>();
    case DType::f8_e5m2:
      return load.template operator()<Alone<Float8E5M2, V>>();
    case DType::i16:
      return load.template operator()<Alone<int16_t, V>>();
    case DType::i8:
      return load.template operator()<Alone<int8_t, V>>();
    case DType::u64:
      return load.template operator()<Alone<uint64_t, V>>();
    case DType::u32:
      return load.template operator()<Alone<uint32_t, V>>();
    default:
      return load.template operator()<Alone<uint16_t, V>>();
  }
}

/// Operands of the loop: out, in.
template <class To, int V>
__global__ void __launch_bounds__(kStreamThreads)
    cast_strided(const __grid_constant__ StridedLoop<2> loop, To* out, const void* in, DType from) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kStreamThreads + threadIdx.x;
  const bool dense = V == 1 || (loop.unit & 2U) != 0;
  if (first < loop.count) {
    int64_t at[2];
    loop.offsets(first, at);
    store_vec<V>(out + at[0], load_as<To, V>(in, from, at[1], dense));
  }
  if (first < loop.tail) {
    const int64_t i = loop.count * V + first;
    out[i] = load_as<To, 1>(in, from, dense ? i : 0, true).v[0];
  }
}

/// The same without a change of dtype; Word is any type of the element's size.
template <class Word, int V>
__global__ void __launch_bounds__(kStreamThreads)
    copy_strided(const __grid_constant__ StridedLoop<2> loop, Word* out, const Word* in) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kStreamThreads + threadIdx.x;
  const bool dense = V == 1 || (loop.unit & 2U) != 0;
  if (first < loop.count) {
    int64_t at[2];
    loop.offsets(first, at);
    Vec<Word, V> x;
    if (dense) {
      x = load_vec<V>(in + at[1]);
    } else {
      const Word value = in[at[1]];
#pragma unroll
      for (int e = 0; e < V; ++e) x.v[e] = value;
    }
    store_vec<V>(out + at[0], x);
  }
  if (first < loop.tail) {
    const int64_t i = loop.count * V + first;
    out[i] = in[dense ? i : 0];
  }
}

/// A batch of matrices (rows, columns) that are dense along the columns in `out` and along the rows
/// in `in`, moved in tiles whose sides are powers of two.
struct Transpose {
  int64_t batch = 1, rows = 0, columns = 0;
  int64_t out_batch = 0, out_row = 0;
  int64_t in_batch = 0, in_column = 0;
  int row_bits = 0, column_bits = 0;  ///< a tile has 2^row_bits rows
  Divider tiles{}, tiles_across{};    ///< of a matrix
};

/// A block moves a tile through shared memory, so that reads and writes are both along the dense
/// axis.
template <class Word>
__global__ void __launch_bounds__(kThreads, 4)
    transpose_tiles(Transpose t, Word* out, const Word* in) {
  constexpr int kGap = sizeof(Word) < 4 ? 4 / sizeof(Word) : 1;  // columns start in other banks
  __shared__ Word tile[kTile + kTile / kLeastSide * kGap];       // [column][row]
  const int tile_rows = 1 << t.row_bits, tile_columns = 1 << t.column_bits;
  const int pitch = tile_rows + kGap;
  const int thread = static_cast<int>(threadIdx.x);
  const int in_x = thread & (tile_rows - 1), in_y = thread >> t.row_bits;
  const int out_x = thread & (tile_columns - 1), out_y = thread >> t.column_bits;
  const int in_step = kThreads >> t.row_bits, out_step = kThreads >> t.column_bits;
  const uint32_t b = t.tiles.quotient(blockIdx.x);
  const uint32_t place = blockIdx.x - b * t.tiles.divisor;
  const uint32_t down = t.tiles_across.quotient(place);
  const int64_t row0 = static_cast<int64_t>(down) << t.row_bits;
  const int64_t column0 = static_cast<int64_t>(place - down * t.tiles_across.divisor)
                          << t.column_bits;
  const auto rows = static_cast<int>(min(t.rows - row0, int64_t{tile_rows}));
  const auto columns = static_cast<int>(min(t.columns - column0, int64_t{tile_columns}));
  // The places of a thread are a fixed step apart.
  const Word* source = in + b * t.in_batch + (column0 + in_y) * t.in_column + row0 + in_x;
  Word* destination = out + b * t.out_batch + (row0 + out_y) * t.out_row + column0 + out_x;
  Word x[kPerThread];
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    if (in_x < rows && in_y + j * in_step < columns) x[j] = *source;
    source += in_step * t.in_column;
  }
  Word* to = tile + in_y * pitch + in_x;
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    if (in_x < rows && in_y + j * in_step < columns) *to = x[j];
    to += in_step * pitch;
  }
  __syncthreads();
  const Word* from = tile + out_x * pitch + out_y;
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    if (out_x < columns && out_y + j * out_step < rows) *destination = *from;
    from += out_step;
    destination += out_step * t.out_row;
  }
}

/// Images of few channels that become channels_last: a thread takes 16 bytes of each channel's
/// plane, which become as many pixels.
struct Interleave {
  int channels = 0;  ///< 0: it is another loop
  int64_t pixels = 0, images = 1;
  int64_t in_plane = 0, in_image = 0, out_image = 0;
};

template <class Word, int C>
__global__ void __launch_bounds__(kStreamThreads)
    interleave_planes(Interleave t, Word* out, const Word* in) {
  constexpr int V = kVec16<Word>;
  const int64_t of_image = t.pixels / V;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kStreamThreads + threadIdx.x;
  if (thread >= of_image * t.images) return;
  const int64_t image = thread / of_image;
  const int64_t pixel = (thread - image * of_image) * V;
  Vec<Word, V> plane[C];
#pragma unroll
  for (int c = 0; c < C; ++c)
    plane[c] = load_vec<V>(in + image * t.in_image + c * t.in_plane + pixel);
#pragma unroll
  for (int part = 0; part < C; ++part) {
    Vec<Word, V> x;
#pragma unroll
    for (int e = 0; e < V; ++e) x.v[e] = plane[(part * V + e) % C].v[(part * V + e) / C];
    store_vec<V>(out + image * t.out_image + pixel * C + part * V, x);
  }
}

Interleave find_interleave(const StridedLoop<2>& loop, int vector, bool aligned) {
  constexpr int64_t kMostChannels = 4;
  if (loop.rank < 2 || loop.rank > 3 || !aligned || loop.size[0] < 2 ||
      loop.size[0] > kMostChannels || loop.stride[0][0] != 1 || loop.stride[1][1] != 1 ||
      loop.stride[0][1] != loop.size[0])
    return {};
  Interleave t{.channels = static_cast<int>(loop.size[0]),
               .pixels = loop.size[1],
               .in_plane = loop.stride[1][0]};
  if (loop.rank == 3) {
    t.images = loop.size[2];
    t.in_image = loop.stride[1][2];
    t.out_image = loop.stride[0][2];
  }
  for (const int64_t n : {t.pixels, t.in_plane, t.in_image, t.out_image})
    if (n % vector != 0) return {};
  return t;
}

struct CopyState : KernelState {
  StridedLoop<2> loop;
  int vector = 1;
  bool transposes = false;
  Transpose transpose;
  Interleave interleave;
};

/// Recognises a loop as a batch of transposes large enough for tiles.
bool find_transpose(const StridedLoop<2>& loop, Transpose& t) {
  if (loop.rank < 2 || loop.rank > 3 || loop.stride[0][0] != 1 || loop.stride[1][0] == 1)
    return false;
  for (int row = 1; row < loop.rank; ++row) {
    if (loop.stride[1][row] != 1 || loop.size[row] < kLeastSide || loop.size[0] < kLeastSide)
      continue;
    t = {.rows = loop.size[row],
         .columns = loop.size[0],
         .out_row = loop.stride[0][row],
         .in_column = loop.stride[1][0]};
    if (loop.rank == 3) {
      const int batch = 3 - row;
      t.batch = loop.size[batch];
      t.out_batch = loop.stride[0][batch];
      t.in_batch = loop.stride[1][batch];
    }
    // A short side makes the other longer, up to the block's threads.
    const auto bits = [](int64_t n, int most) {
      return std::bit_width(static_cast<uint64_t>(std::min<int64_t>(n, most)) - 1);
    };
    t.column_bits = bits(t.columns, kTileSide);
    t.row_bits = bits(t.rows, std::min(kTile >> t.column_bits, kThreads));
    t.column_bits = bits(t.columns, std::min(kTile >> t.row_bits, kThreads));
    const int64_t across = ceil_div<int64_t>(t.columns, int64_t{1} << t.column_bits);
    const int64_t tiles = ceil_div<int64_t>(t.rows, int64_t{1} << t.row_bits) * across;
    if (tiles * t.batch >= kNarrowLimit) return false;
    t.tiles = Divider(static_cast<uint32_t>(tiles));
    t.tiles_across = Divider(static_cast<uint32_t>(across));
    return true;
  }
  return false;
}

std::shared_ptr<CopyState> plan(const TensorSpec& out, const TensorSpec& in) {
  auto state = std::make_shared<CopyState>();
  state->loop =
      strided_loop<2>(out.shape, {out.strides, broadcast_strides(in.shape, in.strides, out.shape)});
  if (state->loop.count == 0) return state;
  if (out.dtype == in.dtype && (size_of(out.dtype) == 2 || size_of(out.dtype) == 4)) {
    const auto vector = static_cast<int>(16 / size_of(out.dtype));
    state->interleave = find_interleave(state->loop, vector, out.aligned && in.aligned);
    if (state->interleave.channels > 0) return state;
  }
  if (out.dtype == in.dtype && size_of(out.dtype) <= 8 &&
      find_transpose(state->loop, state->transpose)) {
    state->transposes = true;
    return state;
  }
  const auto try_vectors = [&](int v) {
    if (state->vector == 1 && state->loop.vectorize(v, {out.aligned, in.aligned}))
      state->vector = v;
  };
  if (out.dtype == in.dtype) {
    try_vectors(static_cast<int>(16 / size_of(out.dtype)));
  } else if (kVectorCasts.contains(out.dtype) && kVectorCasts.contains(in.dtype)) {
    // Two 16-byte accesses of the wider type at most.
    const size_t wide = std::max(size_of(out.dtype), size_of(in.dtype));
    for (int v = std::min(static_cast<int>(32 / wide), kMostCast); v > 1; v /= 2) try_vectors(v);
  }
  return state;
}

template <class Word>
void launch_same(const CopyState& s, Encoder& encoder, void* out, const void* in) {
  auto* o = static_cast<Word*>(out);
  const auto* i = static_cast<const Word*>(in);
  if constexpr (sizeof(Word) == 2 || sizeof(Word) == 4) {
    if (const Interleave& t = s.interleave; t.channels > 0) {
      const unsigned grid = grid_over(t.images * (t.pixels / kVec16<Word>), kStreamThreads);
      const auto kernel = t.channels == 2   ? interleave_planes<Word, 2>
                          : t.channels == 3 ? interleave_planes<Word, 3>
                                            : interleave_planes<Word, 4>;
      encoder.launch(kernel, grid, kStreamThreads, 0, t, o, i);
      return;
    }
  }
  if constexpr (sizeof(Word) <= 8) {  // `plan` finds no others: their tiles are too large
    if (s.transposes) {
      const Transpose& t = s.transpose;
      const auto grid = static_cast<unsigned>(t.tiles.divisor * t.batch);
      encoder.launch(transpose_tiles<Word>, grid, kThreads, 0, t, o, i);
      return;
    }
  }
  const unsigned grid = grid_over(s.loop.count, kStreamThreads);
  const auto kernel = s.vector > 1 ? copy_strided<Word, kVec16<Word>> : copy_strided<Word, 1>;
  encoder.launch(kernel, grid, kStreamThreads, 0, s.loop, o, i);
}

template <class To, int V>
void launch_cast(const CopyState& s, Encoder& encoder, void* out, const Arg& in) {
  const unsigned grid = grid_over(s.loop.count, kStreamThreads);
  encoder.launch(cast_strided<To, V>, grid, kStreamThreads, 0, s.loop, static_cast<To*>(out),
                 in.data, in.dtype());
}

void copy(const CopyState& s, Encoder& encoder, const Arg& out, const Arg& in) {
  if (s.loop.count == 0) return;
  if (out.dtype() == in.dtype()) {
    return switch_words(size_of(out.dtype()),
                        [&]<class Word>() { launch_same<Word>(s, encoder, out.data, in.data); });
  }
  cuda_switch_all(out.dtype(), [&]<class To>() {
    if constexpr (kCastsByVectors<To>) {
      if (s.vector == 2) return launch_cast<To, 2>(s, encoder, out.data, in);
      if (s.vector == 4) return launch_cast<To, 4>(s, encoder, out.data, in);
      if (s.vector == kMostCast) return launch_cast<To, kMostCast>(s, encoder, out.data, in);
    }
    launch_cast<To, 1>(s, encoder, out.data, in);
  });
}

Support same_or_real(const TensorSpec& out, const TensorSpec& in) {
  if (out.dtype == in.dtype || (!is_complex(out.dtype) && !is_complex(in.dtype)))
    return Support::yes();
  return Support::no("it converts no complex numbers");
}
Support supports_copy(const CopyParams&, const Specs& s) { return same_or_real(s.out[0], s.in[0]); }
Support supports_into(const NoParams&, const Specs& s) { return same_or_real(s.in[0], s.in[1]); }

std::shared_ptr<CopyState> prepare_copy(const CopyParams&, const Specs& s) {
  return plan(s.out[0], s.in[0]);
}
void run_copy(const CopyParams&, const CopyState& state, const Call& c) {
  copy(state, *c.encoder, c.out[0], c.in[0]);
}

// Inputs: destination (mutated), source.
std::shared_ptr<CopyState> prepare_into(const NoParams&, const Specs& s) {
  return plan(s.in[0], s.in[1]);
}
void run_into(const NoParams&, const CopyState& state, const Call& c) {
  copy(state, *c.encoder, c.in[0], c.in[1]);
}

}  // namespace

KernelList copy_cuda_kernels() {
  return {kernel<supports_copy, prepare_copy, run_copy>("strided")};
}
KernelList copy_into_cuda_kernels() {
  return {kernel<supports_into, prepare_into, run_into>("strided")};
}

}  // namespace mica
