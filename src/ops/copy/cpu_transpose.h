#pragma once

#include <optional>

#include "mica/ops/elementwise/cpu_loop.h"

namespace mica {

/// A batch of matrices (rows, columns) that are dense along the columns in the destination and
/// along the rows in the source, cut into tiles. Strides are in elements.
struct Transpose {
  static constexpr int64_t kTileBytes = 32768;  ///< of a tile of the source, at most

  int64_t rows = 0, columns = 0;
  int64_t to_row = 0;       ///< from one row of the destination to the next
  int64_t from_column = 0;  ///< from one column of the source to the next
  int64_t tile_rows = 0, tile_columns = 0;
  int64_t tiles = 0;  ///< of the whole batch

  /// A part of one matrix, with the places of its first element.
  struct Tile {
    int64_t to = 0, from = 0;
    int64_t rows = 0, columns = 0;
  };
  Tile tile(int64_t i) const;

  /// Sees a loop over (destination, source) as a batch of transposes, if it is one. `size` is that
  /// of the source's elements.
  static std::optional<Transpose> find(const StridedLoop<2>& loop, size_t size);

 private:
  int batch_axes_ = 0;
  std::array<int64_t, Dims::kMaxRank> batch_{}, to_batch_{}, from_batch_{};
};

/// Moves a matrix whose elements have `size` bytes. `stream` writes past the caches, where whole
/// lines can be: rows of the destination must start on one.
void transpose_matrix(size_t size, int64_t rows, int64_t columns, void* to, int64_t to_row,
                      const void* from, int64_t from_column, bool stream);

}  // namespace mica
