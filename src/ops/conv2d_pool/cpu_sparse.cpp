#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/conv2d/direct.h"
#include "mica/ops/conv2d_pool/kernels.h"
#include "mica/ops/conv2d_pool/rows.h"
#include "mica/ops/copy/cpu_transpose.h"
#include "mica/runtime/cpu/cpu_features.h"
#include "mica/runtime/cpu/parallel.h"

// The gradients of a convolution whose result is pooled, from the results alone that were largest
// in their windows: of 2x2 windows a quarter of the products. What is zero there, as behind ReLU
// and dropout, is left out too. Images lie as in conv2d's direct kernels, so a window of x is kh
// runs of kw * c floats.
namespace mica {
namespace {

using direct::Grid;

constexpr int64_t kStripBytes = 32768;     // of an image, which stay in the first cache
constexpr int64_t kMostScratch = 1 << 22;  // floats of one thread
constexpr int64_t kShortRun = 16;
constexpr int64_t kLine = 16;  // floats

int64_t whole_lines(int64_t floats) { return (floats + kLine - 1) / kLine * kLine; }

/// How kh runs of `length` floats are cut into blocks that registers hold.
struct Blocks {
  struct Block {
    int64_t row, rows;
    int64_t column, columns;  ///< columns are whole vectors
    pooled::RowKernel kernel;
    const int32_t* mask;
  };
  std::vector<Block> blocks;
  std::vector<int32_t> masks;  ///< all ones, then of a run's last vector
  int64_t size = 0;            ///< floats of the largest one

  Blocks(const Blocks&) = delete;  // blocks point to its masks
  Blocks& operator=(const Blocks&) = delete;
  Blocks(int64_t kh, int64_t length) {
    // A run that one narrow vector holds is slower in a wide one: of 5 floats 221 µs and 160 on a
    // Zen 5 core.
    const bool wide = length > pooled::avx2::kRows.width;
    const auto& kernels = wide && kAvx512Files && has_full_rate_avx512() ? pooled::avx512::kRows
                                                                         : pooled::avx2::kRows;
    const int64_t width = kernels.width;
    masks.assign(static_cast<size_t>(2 * width), -1);
    if (length % width != 0) std::fill(masks.begin() + width + length % width, masks.end(), 0);
    const int64_t vectors = (length + width - 1) / width;
    const int64_t parts = (vectors + pooled::kMostVectors - 1) / pooled::kMostVectors;
    const int64_t most_rows =
        std::min<int64_t>(pooled::kMostVectors / 2, parts > 1 ? 1 : pooled::kMostVectors / vectors);
    const int64_t bands = (kh + most_rows - 1) / most_rows;
    for (int64_t band = 0; band < bands; ++band)
      for (int64_t part = 0; part < parts; ++part) {  // of nearly equal size
        const int64_t row = kh * band / bands;
        const int64_t rows = kh * (band + 1) / bands - row;
        const int64_t first = vectors * part / parts;
        const int64_t count = vectors * (part + 1) / parts - first;
        blocks.push_back({row, rows, first * width, count * width, kernels.of[rows][count],
                          masks.data() + (part + 1 == parts ? width : 0)});
        size = std::max(size, rows * count * width);
      }
  }
};

/// Calls f(place in the block, place in (c, kh, kw)) for every weight of a block.
template <class F>
void for_weights(const Conv2dGeometry& g, const Blocks::Block& block, F&& f) {
  const int64_t count = std::min(block.columns, g.kw * g.c - block.column);
  for (int64_t row = 0; row < block.rows; ++row) {
    int64_t j = block.column / g.c;
    int64_t c = block.column % g.c;
    for (int64_t v = 0; v < count; ++v) {
      f(row * block.columns + v, (c * g.kh + block.row + row) * g.kw + j);
      if (++c == g.c) {
        c = 0;
        ++j;
      }
    }
  }
}

struct State : KernelState {
  Conv2dGeometry g;
  int64_t results = 0;  ///< of one channel of an image, pooled
  int64_t threads = 1;
  Grid x;  ///< of x or dx
  Blocks blocks;
  std::vector<int32_t> window;  ///< by position: where its window starts in the grid
  // Floats of the workspace: what threads share, then for each one a grid, sums and lists.
  int64_t shared = 0, grid = 0, sums = 0, lists = 0;

  State(const Conv2dPoolGeometry& geometry)
      : g(geometry.conv),
        results(geometry.pool.oh * geometry.pool.ow),
        threads(std::clamp<int64_t>(g.n, 1, num_threads())),
        x(direct::x_grid(g)),
        blocks(g.kh, g.kw * g.c) {
    for (int64_t h = 0; h < g.oh; ++h)
      for (int64_t w = 0; w < g.ow; ++w)
        window.push_back(static_cast<int32_t>(h * g.stride.h * x.row() + w * g.stride.w * g.c));
    // A run's last vector reaches past the image.
    grid = whole_lines(x.size() + 2 * kLine);
  }
  int64_t per_thread() const { return grid + sums + lists; }
  int64_t images_before(int64_t thread) const { return g.n * thread / threads; }
  void finish() {
    workspace_bytes = static_cast<size_t>(shared + threads * per_thread()) * sizeof(float);
  }
};

Support supports_geometry(const Conv2dPoolGeometry& geometry, const Specs& specs) {
  const Conv2dGeometry& g = geometry.conv;
  if (specs.in[0].dtype != DType::f32) return Support::no("computes f32 only");
  if (g.groups != 1 || g.dilation != Size2(1))
    return Support::no("takes no groups and no dilation");
  if (g.n == 0 || g.o == 0 || g.window() == 0 || g.pixels() == 0 || g.h * g.w == 0)
    return Support::no("takes no empty images and weights");
  const int64_t scratch = direct::x_grid(g).size() + 2 * g.o * geometry.pool.oh * geometry.pool.ow;
  if (scratch > kMostScratch || g.o * (g.window() + g.kh * 2 * kLine) > kMostScratch)
    return Support::no("keeps whole images in the cache, and these are too large");
  for (const TensorSpec& out : specs.out)
    if (!out.is_contiguous()) return Support::no("writes row-major results only");
  return Support::yes().with_contiguous(7);
}

/// Not a zero of either sign. Written for loops that must not wait for comparisons of floats.
bool counts(float value) { return std::bit_cast<uint32_t>(value) << 1 != 0; }

/// Raises unless all positions of an image are inside the plane.
void check_positions(const char* op, const State& s, const int32_t* positions) {
  uint32_t highest = 0;
  for (int64_t i = 0; i < s.g.o * s.results; ++i)
    highest = std::max(highest, static_cast<uint32_t>(positions[i]));
  check<IndexError>(highest < s.g.pixels(), "{}: position {} is outside the image of {} elements",
                    op, static_cast<int32_t>(highest), s.g.pixels());
}

/// Calls f(thread, its memory) for every thread's share of the images.
template <class F>
void for_threads(const State& s, void* workspace, F&& f) {
  parallel_for(s.threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      f(t, static_cast<float*>(workspace) + s.shared + t * s.per_thread());
  });
}

// Gradient of the weight: for each channel of dy, the windows of x at the positions, scaled.

Conv2dPoolGeometry wgrad_geometry(const Conv2dPoolGradParams& p, const Specs& specs) {
  return conv2d_pool_geometry("conv2d_pool_wgrad", p.conv, p.pool, specs.in[2].shape, p.shape);
}

Support supports_wgrad(const Conv2dPoolGradParams& params, const Specs& specs) {
  if (!specs.in[1].defined) return Support::no("nothing was pooled");
  return supports_geometry(wgrad_geometry(params, specs), specs);
}

struct WeightState : State {
  int64_t strip = 0;  ///< pooled results whose windows lie in so much of x that the cache holds it
  int64_t bias = 0;   ///< where the bias's sums begin in those of a thread

  explicit WeightState(const Conv2dPoolGeometry& geometry) : State(geometry) {
    const Pool2dGeometry& pool = geometry.pool;
    const int64_t row_bytes = x.row() * static_cast<int64_t>(sizeof(float));
    const int64_t rows = (kStripBytes / row_bytes - g.kh) / (g.stride.h * pool.stride.h);
    strip = std::clamp<int64_t>(rows, 1, pool.oh) * pool.ow;
    bias = g.o * static_cast<int64_t>(blocks.blocks.size()) * blocks.size;
    sums = whole_lines(bias + g.o);
    lists = whole_lines(2 * strip);
    finish();
  }
};

std::shared_ptr<WeightState> prepare_wgrad(const Conv2dPoolGradParams& params, const Specs& specs) {
  return std::make_shared<WeightState>(wgrad_geometry(params, specs));
}

/// What of dy is not zero and where the windows at its positions begin; returns how many they are.
/// A function of its own: inside another the loop's few values would not stay in registers.
[[gnu::noinline]] int64_t list(const int32_t* window, const float* dy, const int32_t* positions,
                               int64_t size, int32_t* offset, float* value) {
  int64_t count = 0;
  for (int64_t i = 0; i < size; ++i) {
    offset[count] = window[positions[i]];
    value[count] = dy[i];
    count += counts(dy[i]) ? 1 : 0;
  }
  return count;
}

/// Adds one image's part to the sums (o, blocks) and those of the bias.
void wgrad_image(const WeightState& s, const float* grid, const float* dy, const int32_t* positions,
                 float* sums, float* lists) {
  auto* const offset = reinterpret_cast<int32_t*>(lists);
  float* const value = lists + s.strip;
  for (int64_t first = 0; first < s.results; first += s.strip) {
    const int64_t size = std::min(s.strip, s.results - first);
    float* out = sums;
    for (int64_t o = 0; o < s.g.o; ++o) {
      const int64_t at = o * s.results + first;
      const int64_t count = list(s.window.data(), dy + at, positions + at, size, offset, value);
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < count; ++i) sum += value[i];
      sums[s.bias + o] += sum;
      for (const auto& block : s.blocks.blocks) {
        block.kernel({.from = grid + block.row * s.x.row() + block.column,
                      .from_row = s.x.row(),
                      .offset = offset,
                      .value = value,
                      .count = count,
                      .mask = block.mask,
                      .out = out,
                      .out_row = block.columns});
        out += s.blocks.size;
      }
    }
  }
}

void run_wgrad(const Conv2dPoolGradParams&, const WeightState& s, const Call& call) {
  const Conv2dGeometry& g = s.g;
  const float* dy = call.in[0].as<float>();
  const int32_t* positions = call.in[1].as<int32_t>();
  for_threads(s, call.workspace, [&](int64_t thread, float* grid) {
    float* const sums = grid + s.grid;
    std::fill_n(grid, s.grid + s.sums, 0.0F);
    for (int64_t n = s.images_before(thread); n < s.images_before(thread + 1); ++n) {
      const int64_t at = n * g.o * s.results;
      check_positions("conv2d_pool_wgrad", s, positions + at);
      direct::put_image(s.x, false, call.in[2].as<float>() + n * g.c * g.h * g.w, grid);
      wgrad_image(s, grid, dy + at, positions + at, sums, sums + s.sums);
    }
  });
  const float* sums = static_cast<const float*>(call.workspace) + s.grid;
  const auto total = [&](int64_t at) {
    float sum = 0;
    for (int64_t t = 0; t < s.threads; ++t) sum += sums[at + t * s.per_thread()];
    return sum;
  };
  const auto blocks = static_cast<int64_t>(s.blocks.blocks.size());
  parallel_for(g.o, std::max<int64_t>(1, 8192 / (g.window() + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      float* dw = call.out[0].as<float>() + o * g.window();
      for (int64_t b = 0; b < blocks; ++b)
        for_weights(g, s.blocks.blocks[static_cast<size_t>(b)], [&](int64_t in_block, int64_t at) {
          dw[at] = total((o * blocks + b) * s.blocks.size + in_block);
        });
    }
  });
  if (call.out.size() > 1)
    for (int64_t o = 0; o < g.o; ++o) call.out[1].as<float>()[o] = total(s.bias + o);
}

// Gradient of x: for each pixel of the convolution's result, the weights of the channels that are
// largest there, scaled.

Conv2dPoolGeometry dgrad_geometry(const Conv2dPoolGradParams& p, const Specs& specs) {
  return conv2d_pool_geometry("conv2d_pool_dgrad", p.conv, p.pool, p.shape, specs.in[2].shape);
}

Support supports_dgrad(const Conv2dPoolGradParams& params, const Specs& specs) {
  if (specs.in[3].defined) return Support::no("a relu's gradient is left to a pass of its own");
  const Conv2dPoolGeometry g = dgrad_geometry(params, specs);
  Support support = supports_geometry(g, specs);
  if (support.kind != Support::Kind::no && g.conv.kw * g.conv.c < kShortRun)
    return Support::no("gains nothing where a window's row is a few numbers");
  return support;
}

std::shared_ptr<State> prepare_dgrad(const Conv2dPoolGradParams& params, const Specs& specs) {
  auto s = std::make_shared<State>(dgrad_geometry(params, specs));
  const Conv2dGeometry& g = s->g;
  s->shared = whole_lines(g.o * static_cast<int64_t>(s->blocks.blocks.size()) * s->blocks.size);
  s->lists = whole_lines(g.pixels() + 1 + 2 * (g.o * s->results + 1));
  s->finish();
  return s;
}

/// The weight as (blocks, o, the block's kh, kw and c).
void arrange(const State& s, const float* weight, float* to) {
  for (const auto& block : s.blocks.blocks)
    for (int64_t o = 0; o < s.g.o; ++o, to += s.blocks.size) {
      std::fill_n(to, s.blocks.size, 0.0F);
      const float* from = weight + o * s.g.window();
      for_weights(s.g, block, [&](int64_t in_block, int64_t at) { to[in_block] = from[at]; });
    }
}

/// What of dy is not zero, by the pixel it goes to.
struct PixelLists {
  int32_t* end;     ///< by pixel
  int32_t* offset;  ///< the channel's weights in those of a block
  float* value;
};

[[gnu::noinline]] void fill(const State& s, const float* dy, const int32_t* positions,
                            const PixelLists& lists) {
  std::fill_n(lists.end, s.g.pixels() + 1, 0);
  const int64_t size = s.g.o * s.results;
  for (int64_t i = 0; i < size; ++i) lists.end[positions[i] + 1] += counts(dy[i]) ? 1 : 0;
  std::partial_sum(lists.end, lists.end + s.g.pixels() + 1, lists.end);
  const auto pitch = static_cast<int32_t>(s.blocks.size);
  for (int64_t o = 0, i = 0; o < s.g.o; ++o)
    for (const int64_t last = i + s.results; i < last; ++i) {
      int32_t& end = lists.end[positions[i]];
      const bool kept = counts(dy[i]);
      const int64_t at = kept ? end : size;  // what is not kept goes past all lists
      lists.offset[at] = static_cast<int32_t>(o) * pitch;
      lists.value[at] = dy[i];
      end += kept ? 1 : 0;
    }
}

void run_dgrad(const Conv2dPoolGradParams&, const State& s, const Call& call) {
  const Conv2dGeometry& g = s.g;
  auto* const weight = static_cast<float*>(call.workspace);
  arrange(s, call.in[2].as<float>(), weight);
  for_threads(s, call.workspace, [&](int64_t thread, float* grid) {
    auto* const end = reinterpret_cast<int32_t*>(grid + s.grid);
    auto* const offset = end + g.pixels() + 1;
    float* const value = grid + s.grid + g.pixels() + 1 + g.o * s.results + 1;
    for (int64_t n = s.images_before(thread); n < s.images_before(thread + 1); ++n) {
      const int64_t at = n * g.o * s.results;
      const int32_t* positions = call.in[1].as<int32_t>() + at;
      check_positions("conv2d_pool_dgrad", s, positions);
      fill(s, call.in[0].as<float>() + at, positions, {end, offset, value});
      std::fill_n(grid, s.grid, 0.0F);
      const float* from = weight;
      for (const auto& block : s.blocks.blocks) {
        float* const to = grid + block.row * s.x.row() + block.column;
        for (int64_t pixel = 0, first = 0; pixel < g.pixels(); first = end[pixel++]) {
          if (end[pixel] == first) continue;
          block.kernel({.from = from,
                        .from_row = block.columns,
                        .offset = offset + first,
                        .value = value + first,
                        .count = end[pixel] - first,
                        .mask = block.mask,
                        .out = to + s.window[static_cast<size_t>(pixel)],
                        .out_row = s.x.row()});
        }
        from += g.o * s.blocks.size;
      }
      float* dx = call.out[0].as<float>() + n * g.c * g.h * g.w;
      const float* image = grid + s.x.top * s.x.row() + s.x.left * g.c;
      if (s.x.left == 0) {
        transpose_matrix(sizeof(float), g.c, g.h * g.w, dx, g.h * g.w, image, g.c, false);
      } else {
        for (int64_t h = 0; h < g.h; ++h)
          transpose_matrix(sizeof(float), g.c, g.w, dx + h * g.w, g.h * g.w, image + h * s.x.row(),
                           g.c, false);
      }
    }
  });
}

}  // namespace

Kernel conv2d_pool_wgrad_sparse_kernel() {
  return kernel<supports_wgrad, prepare_wgrad, run_wgrad>("sparse");
}
Kernel conv2d_pool_dgrad_sparse_kernel() {
  return kernel<supports_dgrad, prepare_dgrad, run_dgrad>("sparse");
}

}  // namespace mica
