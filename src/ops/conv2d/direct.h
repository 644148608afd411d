#pragma once

#include <algorithm>
#include <vector>

#include "mica/ops/conv2d/geometry.h"
#include "mica/ops/conv2d/tile.h"
#include "mica/runtime/cpu/parallel.h"

// Convolution image by image without a matrix of windows. An image is copied to pixels (rows,
// columns, channels) with its padding; there a window's row is one run of memory, and tiles of sums
// (tile.h) over some pixels and all or some output channels walk along such runs.
namespace mica::direct {

inline constexpr int64_t kPanelBytes =
    16384;  // of the second operand, which stays in the first cache
inline constexpr int64_t kMostScratch = 1 << 22;  // floats of one thread

/// How `channels` columns are cut into blocks of whole vectors, each the width of a tile.
struct Columns {
  struct Block {
    int64_t first;
    const TileKernel* kernel;
  };
  std::vector<Block> blocks;
  int64_t padded = 0;

  explicit Columns(int64_t channels);
};

/// Pixels with margins, (rows, columns, channels).
struct Grid {
  int64_t channels, h, w;  ///< of the image
  int64_t top, left;       ///< margins
  int64_t rows, columns;   ///< with margins

  int64_t row() const { return columns * channels; }
  /// Tiles read beyond the last pixel what they do not keep.
  int64_t size() const { return (rows * columns + Tile::kMostRows) * channels; }
};

// Workspace: the second operand (not wgrad), then for each thread two grids' pixels and (wgrad) its
// sums. Counts are in floats.
struct State : KernelState {
  Conv2dGeometry g;
  bool channels_last = false;
  int64_t threads = 1;
  Columns columns;  ///< of the result's channels; of dy's for wgrad
  Grid in;          ///< forward and wgrad: x; dgrad: dy
  int64_t operand = 0, pixels = 0, sums = 0;

  State(const Conv2dGeometry& geometry, bool last, int64_t channels, const Grid& grid);
  int64_t per_thread() const { return in.size() + pixels + sums; }
  void finish() {
    workspace_bytes = static_cast<size_t>(operand + threads * per_thread()) * sizeof(float);
  }
};

inline Grid x_grid(const Conv2dGeometry& g) {
  return {g.c, g.h, g.w, g.padding.h, g.padding.w, g.h + 2 * g.padding.h, g.w + 2 * g.padding.w};
}

/// Without margins.
inline Grid dy_grid(const Conv2dGeometry& g) { return {g.o, g.oh, g.ow, 0, 0, g.oh, g.ow}; }

inline int64_t result_size(int64_t pixels, const Columns& columns) {
  return (pixels + Tile::kMostRows) * columns.padded;
}

/// Whether direct kernels take a convolution whose results have these columns; `pixels` are those
/// a thread keeps beside the grid.
Support supports_geometry(const Conv2dGeometry& g, DType dtype, const Columns& columns,
                          const Grid& grid, int64_t pixels, bool weight_gradient = false);

/// One image (channels, h, w), or (h, w, channels), into the middle of a grid whose margins stay.
void put_image(const Grid& grid, bool channels_last, const float* image, float* to);

/// The second operand, block after block, as (taps, inner, the block's columns): weight(tap, i, v)
/// of inner channel i and column v, zero past the last column.
template <class F>
void arrange(const State& s, int64_t inner, int64_t channels, float* to, F&& weight) {
  const int64_t taps = s.g.kh * s.g.kw;
  for (const auto& [first, kernel] : s.columns.blocks)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t i = 0; i < inner; ++i)
        for (int64_t v = first; v < first + kernel->columns; ++v)
          *to++ = v < channels ? weight(tap, i, v) : 0.0F;
}

/// Calls f(image, grid, pixels, sums) for every image; which images share memory depends on the
/// state alone. The grids' margins are zero.
template <class F>
void for_images(const State& s, void* workspace, F&& f) {
  parallel_for(s.threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      float* grid = static_cast<float*>(workspace) + s.operand + thread * s.per_thread();
      float* pixels = grid + s.in.size();
      float* sums = pixels + s.pixels;
      std::fill_n(grid, s.in.size(), 0.0F);
      std::fill_n(sums, s.sums, 0.0F);
      for (int64_t n = s.g.n * thread / s.threads; n < s.g.n * (thread + 1) / s.threads; ++n)
        f(n, grid, pixels, sums);
    }
  });
}

/// The second operand of the forward pass, then the bias (padded o), zeros where it is null.
void arrange_forward(const State& s, const float* weight, const float* bias, float* to);

/// The results of one image, (pixels, padded channels), from its grid, the weight arranged as (kh,
/// kw, c; o) and the bias (padded o).
void forward_image(const State& s, const float* grid, const float* weight, const float* bias,
                   float* out);

}  // namespace mica::direct
