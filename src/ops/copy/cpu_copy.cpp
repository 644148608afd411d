#include "mica/ops/copy/cpu_copy.h"

#include <cstring>

#include "mica/core/switch_bytes.h"
#include "mica/runtime/cpu/convert.h"
#include "mica/runtime/cpu/stream.h"

namespace mica {
namespace {

constexpr int64_t kChunk = 1024;              // elements that are converted at a time
constexpr int64_t kChunkBytes = kChunk * 16;  // at most
constexpr int64_t kLine = 64;                 // bytes of a cache line
constexpr int64_t kStreamedRun = 2 * kLine;   // bytes worth being written past the caches

/// Whether runs of T are converted from and to any type (runtime/cpu/convert.h).
template <class T>
inline constexpr bool kCarrier = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                 std::is_same_v<T, int64_t> || std::is_same_v<T, uint64_t>;
/// Half types are converted by vectors from and to float alone.
template <class T>
inline constexpr bool kByFloat = std::is_same_v<Compute<T>, float> && !std::is_same_v<T, float>;

/// By way of C, in chunks that stay in the cache.
template <class D, class S, class C>
void convert_by(const S* from, int64_t n, D* to) {
  C values[kChunk];
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t m = std::min(kChunk, n - i);
    load_run<S, C>(from + i, 1, m, values);
    store_run<D, C>(values, m, to + i, 1);
  }
}

/// Real numbers become complex by way of the parts' type.
template <class D, class S>
void convert_to_complex(const S* from, int64_t n, D* to) {
  if constexpr (kIsComplex<S>) {
    for (int64_t i = 0; i < n; ++i) to[i] = D(from[i]);
  } else {
    typename D::value_type parts[kChunk];
    for (int64_t i = 0; i < n; i += kChunk) {
      const int64_t m = std::min(kChunk, n - i);
      load_run(from + i, 1, m, parts);
      for (int64_t k = 0; k < m; ++k) to[i + k] = D(parts[k]);
    }
  }
}

template <class D, class S>
void convert(const void* from, int64_t n, void* to) {
  const auto* in = static_cast<const S*>(from);
  auto* out = static_cast<D*>(to);
  if constexpr (std::is_same_v<D, S>) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(D));
  } else if constexpr (kIsComplex<D>) {
    convert_to_complex(in, n, out);
  } else if constexpr (kIsComplex<S>) {
    fail<DTypeError>("copy: {} does not hold complex numbers", dtype_of<D>);
  } else if constexpr (std::is_same_v<S, bool>) {
    convert<D, uint8_t>(from, n, to);  // 0 and 1
  } else if constexpr ((kByFloat<S> && !std::is_same_v<D, float>) ||
                       (kByFloat<D> && !std::is_same_v<S, float>)) {
    convert_by<D, S, float>(in, n, out);
  } else if constexpr (kCarrier<S>) {
    store_run<D, S>(in, n, out, 1);
  } else if constexpr (kCarrier<D>) {
    load_run<S, D>(in, 1, n, out);
  } else {
    convert_by<D, S, int64_t>(in, n, out);
  }
}

template <class S, class D>
void stream(const void* from, int64_t n, void* to) {
  stream_run(static_cast<const S*>(from), n, static_cast<D*>(to));
}
auto streaming(DType to, DType from) -> void (*)(const void*, int64_t, void*) {
  if (from == DType::f32 && to == DType::f64) return stream<float, double>;
  if (from == DType::f32 && to == DType::f16) return stream<float, Half>;
  if (from == DType::f32 && to == DType::bf16) return stream<float, BFloat16>;
  if (from == DType::f64 && to == DType::f32) return stream<double, float>;
  if (from == DType::f16 && to == DType::f32) return stream<Half, float>;
  if (from == DType::bf16 && to == DType::f32) return stream<BFloat16, float>;
  return nullptr;
}

/// n elements of a type of the same size, `to_step` and `from_step` apart.
template <class Word>
void move_words(Word* to, int64_t to_step, const Word* from, int64_t from_step, int64_t n) {
  if (to_step == 1 && from_step == 0) {
    std::fill_n(to, n, *from);
  } else if (to_step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * from_step];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
  }
}

void move(int64_t size, void* to, int64_t to_step, const void* from, int64_t from_step, int64_t n) {
  switch_words(static_cast<size_t>(size), [&]<class Word>() {
    move_words(static_cast<Word*>(to), to_step, static_cast<const Word*>(from), from_step, n);
  });
}

/// The axes in the order of the destination's strides. Whole runs are copied in the source's order:
/// it is read ahead then, and writing jumps at less cost than reading.
StridedLoop<2> loop_over(const TensorSpec& to, const TensorSpec& from) {
  const Strides source = broadcast_strides(from, to.shape);
  const StridedLoop<2> loop(to.shape, {to.strides, source});
  const auto& steps = loop.stride[1];
  if (loop.inner_stride(0) != 1 || loop.inner_stride(1) != 1 ||
      std::count(steps.begin(), steps.begin() + loop.rank, 0) > 0)
    return loop;
  StridedLoop<2> other(to.shape, {source, to.strides});
  std::swap(other.stride[0], other.stride[1]);
  return other;
}

/// Calls `f(offsets, n)` for runs along the innermost axis, in parallel. Runs may be short: from
/// one to the next the offsets are counted on.
template <class F>
void each_run(const StridedLoop<2>& loop, F&& f) {
  if (loop.numel == 0) return;
  const int outer_axes = loop.rank - 1;
  const int64_t outer = loop.numel / loop.inner();
  // A single run is cut into pieces, one for each thread.
  const int64_t pieces = outer > 1 ? outer : loop.inner();
  const int64_t grain =
      outer > 1 ? std::max<int64_t>(1, kElementGrain / loop.inner()) : kElementGrain;
  parallel_for(pieces, grain, [&](int64_t begin, int64_t end) {
    std::array<int64_t, 2> offsets{};
    if (outer == 1) {
      for (size_t k = 0; k < 2; ++k) offsets[k] = begin * loop.inner_stride(static_cast<int>(k));
      f(offsets, end - begin);
      stream_fence();
      return;
    }
    std::array<int64_t, Dims::kMaxRank> index{};
    int64_t rest = begin;
    for (int axis = outer_axes - 1; axis >= 0; --axis) {
      const auto i = static_cast<size_t>(axis);
      index[i] = rest % loop.size[i];
      rest /= loop.size[i];
      for (size_t k = 0; k < 2; ++k) offsets[k] += index[i] * loop.stride[k][i];
    }
    for (int64_t run = begin; run < end; ++run) {
      f(offsets, loop.inner());
      for (int axis = outer_axes - 1; axis >= 0; --axis) {
        const auto i = static_cast<size_t>(axis);
        for (size_t k = 0; k < 2; ++k) offsets[k] += loop.stride[k][i];
        if (++index[i] < loop.size[i]) break;
        for (size_t k = 0; k < 2; ++k) offsets[k] -= loop.size[i] * loop.stride[k][i];
        index[i] = 0;
      }
    }
    stream_fence();
  });
}

bool on_a_line(const void* p) { return reinterpret_cast<uintptr_t>(p) % kLine == 0; }

}  // namespace

CopyPlan::CopyPlan(const TensorSpec& to, const TensorSpec& from)
    : loop_(loop_over(to, from)),
      to_type_(to.dtype),
      from_type_(from.dtype),
      to_size_(static_cast<int64_t>(size_of(to.dtype))),
      from_size_(static_cast<int64_t>(size_of(from.dtype))),
      convert_(switch_all(to.dtype,
                          [&]<class D>() {
                            return switch_all(from.dtype,
                                              []<class S>() -> Convert { return convert<D, S>; });
                          })),
      stream_(streaming(to.dtype, from.dtype)),
      large_(static_cast<size_t>(loop_.numel * to_size_) >= kStreamingBytes),
      transpose_(Transpose::find(loop_, size_of(from.dtype))) {}

void CopyPlan::run(void* to, const void* from) const {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  if (out == in) return;  // a result written over its operand, which lies alike
  if (transpose_) {
    const int64_t elements = transpose_->tile_rows * transpose_->tile_columns;
    parallel_for(transpose_->tiles, std::max<int64_t>(1, kElementGrain / elements),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) copy_tile(transpose_->tile(i), out, in);
                   stream_fence();
                 });
    return;
  }
  const bool dense = loop_.inner_stride(0) == 1 && loop_.inner_stride(1) == 1;
  const auto copy = dense ? &CopyPlan::copy_dense : &CopyPlan::copy_strided;
  each_run(loop_, [&](const std::array<int64_t, 2>& at, int64_t n) {
    (this->*copy)(out + at[0] * to_size_, in + at[1] * from_size_, n);
  });
}

void CopyPlan::copy_dense(std::byte* to, const std::byte* from, int64_t n) const {
  if (!large_ || n * to_size_ < kStreamedRun) return convert_(from, n, to);
  if (to_type_ == from_type_) {
    stream_bytes(to, from, static_cast<size_t>(n * to_size_));
  } else if (stream_) {
    stream_(from, n, to);
  } else {
    alignas(kLine) std::byte chunk[kChunkBytes];
    // The first chunk is shorter, so that the others start on a line.
    int64_t m = kChunk - static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kLine) / to_size_;
    for (int64_t i = 0; i < n; i += m, m = kChunk) {
      m = std::min(m, n - i);
      convert_(from + i * from_size_, m, chunk);
      stream_bytes(to + i * to_size_, chunk, static_cast<size_t>(m * to_size_));
    }
  }
}

void CopyPlan::copy_strided(std::byte* to, const std::byte* from, int64_t n) const {
  const int64_t to_step = loop_.inner_stride(0);
  const int64_t from_step = loop_.inner_stride(1);
  if (to_type_ == from_type_) return move(to_size_, to, to_step, from, from_step, n);
  std::byte gathered[kChunkBytes];
  std::byte converted[kChunkBytes];
  if (from_step == 0) {
    convert_(from, 1, converted);
    return move(to_size_, to, to_step, converted, 0, n);
  }
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t m = std::min(kChunk, n - i);
    move(from_size_, gathered, 1, from + i * from_step * from_size_, from_step, m);
    convert_(gathered, m, converted);
    move(to_size_, to + i * to_step * to_size_, to_step, converted, 1, m);
  }
}

void CopyPlan::copy_tile(const Transpose::Tile& tile, std::byte* to, const std::byte* from) const {
  const Transpose& t = *transpose_;
  to += tile.to * to_size_;
  from += tile.from * from_size_;
  if (to_type_ == from_type_) {
    const bool lines = on_a_line(to) && t.to_row * to_size_ % kLine == 0;
    transpose_matrix(size_of(to_type_), tile.rows, tile.columns, to, t.to_row, from, t.from_column,
                     large_ && lines);
    return;
  }
  std::byte transposed[Transpose::kTileBytes];
  transpose_matrix(size_of(from_type_), tile.rows, tile.columns, transposed, tile.columns, from,
                   t.from_column, false);
  for (int64_t r = 0; r < tile.rows; ++r)
    convert_(transposed + r * tile.columns * from_size_, tile.columns,
             to + r * t.to_row * to_size_);
}

}  // namespace mica
