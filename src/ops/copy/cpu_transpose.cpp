#include "mica/ops/copy/cpu_transpose.h"

#include <cstring>
#include <utility>

#include "mica/core/switch_bytes.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace mica {
namespace {

constexpr int64_t kLine = 64;  // bytes of a cache line
constexpr int64_t kMostRepeats = 64;
constexpr int64_t kMostTileRows = 512;  // long runs of the source, whole lines of the destination

/// As many vectors of 16 bytes as each has elements, transposed.
template <class Word>
class Square {
 public:
  static constexpr int kSide = 16 / static_cast<int>(sizeof(Word));

  Square(const Word* from, int64_t from_column) {
    for (int i = 0; i < kSide; ++i) std::memcpy(&v_[i], from + i * from_column, 16);
    // Each pass rotates the bits of an element's place, row before column, by one.
    for (int pass = 1; pass < kSide; pass *= 2) {
      Vec t[kSide];
      for (int i = 0; i < kSide / 2; ++i) {
        t[2 * i] =
            interleave<0>(v_[i], v_[i + kSide / 2], std::make_integer_sequence<int, kSide>());
        t[2 * i + 1] = interleave<kSide / 2>(v_[i], v_[i + kSide / 2],
                                             std::make_integer_sequence<int, kSide>());
      }
      std::memcpy(v_, t, sizeof t);
    }
  }

  using Vec [[gnu::vector_size(16)]] = Word;
  const Vec& operator[](int row) const { return v_[row]; }

 private:
  /// Elements of a and b by turns, from element `first` on.
  template <int first, int... i>
  static Vec interleave(Vec a, Vec b, std::integer_sequence<int, i...>) {
    return __builtin_shufflevector(a, b, (first + i / 2 + i % 2 * kSide)...);
  }

  Vec v_[kSide];
};

template <class Word>
void transpose_singly(int64_t rows, int64_t columns, Word* to, int64_t to_row, const Word* from,
                      int64_t from_column) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[r * to_row + c] = from[c * from_column + r];
}

/// One vector's width of columns, over all rows.
template <class Word>
void transpose_squares(int64_t rows, Word* to, int64_t to_row, const Word* from,
                       int64_t from_column) {
  constexpr int kSide = Square<Word>::kSide;
  int64_t r = 0;
  for (; r + kSide <= rows; r += kSide) {
    const Square<Word> square(from + r, from_column);
    for (int i = 0; i < kSide; ++i) std::memcpy(to + (r + i) * to_row, &square[i], 16);
  }
  transpose_singly(rows - r, kSide, to + r * to_row, to_row, from + r, from_column);
}

/// Writes a line from its quarters.
template <class Vec>
void store_line(void* to, const Vec& a, const Vec& b, const Vec& c, const Vec& d,
                [[maybe_unused]] bool stream) {
#if defined(__AVX2__)
  if (stream) {
    const auto bits = [](const Vec& v) { return reinterpret_cast<__m128i>(v); };
    auto* out = static_cast<__m256i*>(to);
    _mm256_stream_si256(out, _mm256_set_m128i(bits(b), bits(a)));
    _mm256_stream_si256(out + 1, _mm256_set_m128i(bits(d), bits(c)));
    return;
  }
#endif
  auto* out = static_cast<std::byte*>(to);
  std::memcpy(out, &a, 16);
  std::memcpy(out + 16, &b, 16);
  std::memcpy(out + 32, &c, 16);
  std::memcpy(out + 48, &d, 16);
}

/// One line's width of columns, over all rows.
template <class Word>
void transpose_lines(int64_t rows, Word* to, int64_t to_row, const Word* from, int64_t from_column,
                     bool stream) {
  constexpr int kSide = Square<Word>::kSide;
  int64_t r = 0;
  for (; r + kSide <= rows; r += kSide) {
    const Word* at = from + r;
    const Square<Word> a(at, from_column);
    const Square<Word> b(at + kSide * from_column, from_column);
    const Square<Word> c(at + 2 * kSide * from_column, from_column);
    const Square<Word> d(at + 3 * kSide * from_column, from_column);
    for (int i = 0; i < kSide; ++i)
      store_line(to + (r + i) * to_row, a[i], b[i], c[i], d[i], stream);
  }
  transpose_singly(rows - r, 4 * kSide, to + r * to_row, to_row, from + r, from_column);
}

/// K values that lie together in the source, as the channels of a picture's points do, to K rows.
template <int K, class Word>
void take_apart(int64_t columns, Word* to, int64_t to_row, const Word* from) {
  for (int64_t c = 0; c < columns; ++c)
    for (int k = 0; k < K; ++k) to[k * to_row + c] = from[c * K + k];
}

/// The other way round.
template <int K, class Word>
void put_together(int64_t rows, Word* to, const Word* from, int64_t from_column) {
  for (int64_t r = 0; r < rows; ++r)
    for (int k = 0; k < K; ++k) to[r * K + k] = from[k * from_column + r];
}

/// Few rows or columns without gaps.
template <class Word>
bool transpose_narrow(int64_t rows, int64_t columns, Word* to, int64_t to_row, const Word* from,
                      int64_t from_column) {
  return [&]<int... k>(std::integer_sequence<int, k...>) {
    const auto apart = [&]<int K>() {
      if (rows != K || from_column != K) return false;
      take_apart<K>(columns, to, to_row, from);
      return true;
    };
    const auto together = [&]<int K>() {
      if (columns != K || to_row != K) return false;
      put_together<K>(rows, to, from, from_column);
      return true;
    };
    return ((apart.template operator()<k + 2>() || together.template operator()<k + 2>()) || ...);
  }(std::make_integer_sequence<int, 3>());
}

template <class Word>
void transpose_words(int64_t rows, int64_t columns, Word* to, int64_t to_row, const Word* from,
                     int64_t from_column, bool stream) {
  if (transpose_narrow(rows, columns, to, to_row, from, from_column)) return;
  constexpr int kSide = Square<Word>::kSide;
  constexpr int kLineColumns = 4 * kSide;
  int64_t c = 0;
  for (; c + kLineColumns <= columns; c += kLineColumns)
    transpose_lines(rows, to + c, to_row, from + c * from_column, from_column, stream);
  for (; c + kSide <= columns; c += kSide)
    transpose_squares(rows, to + c, to_row, from + c * from_column, from_column);
  transpose_singly(rows, columns - c, to + c, to_row, from + c * from_column, from_column);
}

}  // namespace

std::optional<Transpose> Transpose::find(const StridedLoop<2>& loop, size_t size) {
  if (size > 8) return std::nullopt;  // an element of 16 bytes is a run of its own
  const int inner = loop.rank - 1;
  const auto at = [](int i) { return static_cast<size_t>(i); };
  // Columns that repeat one element are worth it where there are few: a long run is filled faster.
  const bool repeats = loop.inner_stride(1) == 0 && loop.inner() <= kMostRepeats;
  if (loop.numel == 0 || loop.inner_stride(0) != 1 || !(loop.inner_stride(1) > 1 || repeats))
    return std::nullopt;
  int row = inner - 1;
  while (row >= 0 && loop.stride[1][at(row)] != 1) --row;
  if (row < 0) return std::nullopt;
  Transpose t;
  t.rows = loop.size[at(row)];
  t.columns = loop.size[at(inner)];
  t.to_row = loop.stride[0][at(row)];
  t.from_column = loop.inner_stride(1);
  int64_t matrices = 1;
  for (int axis = 0; axis < inner; ++axis) {
    if (axis == row) continue;
    const size_t k = at(t.batch_axes_++);
    t.batch_[k] = loop.size[at(axis)];
    t.to_batch_[k] = loop.stride[0][at(axis)];
    t.from_batch_[k] = loop.stride[1][at(axis)];
    matrices *= t.batch_[k];
  }
  // Tiles of one line's columns, wider where there are few rows.
  const int64_t line = kLine / static_cast<int64_t>(size);
  const int64_t elements = kTileBytes / static_cast<int64_t>(size);
  t.tile_rows = std::min(t.rows, kMostTileRows);
  t.tile_columns = std::min(t.columns, std::max<int64_t>(1, elements / t.tile_rows / line) * line);
  t.tile_rows = std::min(t.rows, elements / t.tile_columns);
  t.tiles = matrices * ((t.rows + t.tile_rows - 1) / t.tile_rows) *
            ((t.columns + t.tile_columns - 1) / t.tile_columns);
  return t;
}

Transpose::Tile Transpose::tile(int64_t i) const {
  const int64_t across = (columns + tile_columns - 1) / tile_columns;
  const int64_t down = (rows + tile_rows - 1) / tile_rows;
  const int64_t column = i % across * tile_columns;
  i /= across;
  const int64_t row = i % down * tile_rows;
  i /= down;
  Tile t{row * to_row + column, column * from_column + row, std::min(tile_rows, rows - row),
         std::min(tile_columns, columns - column)};
  for (int axis = batch_axes_ - 1; axis >= 0; --axis) {
    const auto k = static_cast<size_t>(axis);
    t.to += i % batch_[k] * to_batch_[k];
    t.from += i % batch_[k] * from_batch_[k];
    i /= batch_[k];
  }
  return t;
}

void transpose_matrix(size_t size, int64_t rows, int64_t columns, void* to, int64_t to_row,
                      const void* from, int64_t from_column, bool stream) {
  switch_bytes(size, [&]<class Word>() {
    transpose_words(rows, columns, static_cast<Word*>(to), to_row, static_cast<const Word*>(from),
                    from_column, stream);
  });
}

}  // namespace mica
