#include <algorithm>
#include <cstring>

#include "mica/op/settings.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/conv2d/direct.h"
#include "mica/ops/copy/cpu_transpose.h"
#include "mica/runtime/cpu/cpu_features.h"

namespace mica {
namespace direct {

Columns::Columns(int64_t channels) {
  const auto& kernels = kAvx512Files && has_full_rate_avx512() ? avx512::kTiles : avx2::kTiles;
  const int64_t vectors = (channels + kernels.width - 1) / kernels.width;
  const int64_t count = (vectors + kernels.most_vectors - 1) / kernels.most_vectors;
  for (int64_t i = 0; i < count; ++i) {  // of nearly equal width
    const int64_t size = vectors * (i + 1) / count - vectors * i / count;
    blocks.push_back({padded, &kernels.of[size - 1]});
    padded += size * kernels.width;
  }
}

State::State(const Conv2dGeometry& geometry, bool last, int64_t channels, const Grid& grid)
    : g(geometry), channels_last(last), columns(channels), in(grid) {
  threads = std::clamp<int64_t>(g.n, 1, num_threads());
}

Support supports_geometry(const Conv2dGeometry& g, DType dtype, const Columns& columns,
                          const Grid& grid, int64_t pixels, bool weight_gradient) {
  if (dtype != DType::f32) return Support::no("computes f32 only");
  if (g.groups != 1 || g.dilation != Size2(1))
    return Support::no("takes no groups and no dilation");
  if (g.o == 0 || g.window() == 0 || g.pixels() == 0 || g.h * g.w == 0)
    return Support::no("takes no empty images and weights");
  if (g.pointwise()) return Support::no("leaves 1x1 to matrix products");
  const int64_t scratch = grid.size() + result_size(pixels, columns);
  if (scratch > kMostScratch || columns.padded * g.window() > kMostScratch)
    return Support::no("keeps whole images in the cache, and these are too large");
  return prefers_direct(g, weight_gradient) ? Support::yes() : Support::possible();
}

void put_image(const Grid& grid, bool channels_last, const float* image, float* to) {
  to += grid.top * grid.row() + grid.left * grid.channels;
  if (channels_last || grid.channels == 1) {
    for (int64_t h = 0; h < grid.h; ++h, to += grid.row(), image += grid.w * grid.channels)
      std::memcpy(to, image, static_cast<size_t>(grid.w * grid.channels) * sizeof(float));
  } else if (grid.w == grid.columns) {
    transpose_matrix(sizeof(float), grid.h * grid.w, grid.channels, to, grid.channels, image,
                     grid.h * grid.w, false);
  } else {
    for (int64_t h = 0; h < grid.h; ++h, to += grid.row(), image += grid.w)
      transpose_matrix(sizeof(float), grid.w, grid.channels, to, grid.channels, image,
                       grid.h * grid.w, false);
  }
}

void arrange_forward(const State& s, const float* weight, const float* bias, float* to) {
  const Conv2dGeometry& g = s.g;
  arrange(s, g.c, g.o, to, [&](int64_t tap, int64_t c, int64_t o) {
    return weight[(o * g.c + c) * g.kh * g.kw + tap];
  });
  to += s.columns.padded * g.window();
  std::fill_n(to, s.columns.padded, 0.0F);
  if (bias != nullptr) std::copy_n(bias, g.o, to);
}

namespace {

/// Rows of the window that are summed at a time, so that their operand stays in the cache.
int64_t chunk_rows(const State& s, const TileKernel& kernel) {
  const int64_t row = s.g.kw * s.in.channels * kernel.columns * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(kPanelBytes / row, 1, s.g.kh);
}

}  // namespace

void forward_image(const State& s, const float* grid, const float* weight, const float* bias,
                   float* out) {
  const Conv2dGeometry& g = s.g;
  for (const auto& [first, kernel_at] : s.columns.blocks) {
    const TileKernel& kernel = *kernel_at;
    const int64_t chunk = chunk_rows(s, kernel);
    const int64_t operand_row = g.kw * g.c * kernel.columns;
    const float* b = weight + first * g.window();
    for (int64_t i = 0; i < g.kh; i += chunk, b += chunk * operand_row) {
      Tile tile{.b = b,
                .runs = std::min(chunk, g.kh - i),
                .length = g.kw * g.c,
                .a_run = s.in.row(),
                .a_step = 1,
                .b_run = operand_row,
                .b_step = kernel.columns,
                .out_row = s.columns.padded};
      const float* rows = grid + i * s.in.row();
      int64_t h = 0, w = 0;
      for (int64_t p = 0; p < g.pixels(); p += kernel.rows) {
        for (int m = 0; m < kernel.rows; ++m) {
          tile.a[m] = rows + h * g.stride.h * s.in.row() + w * g.stride.w * g.c;
          if (p + m + 1 < g.pixels() && ++w == g.ow) {
            w = 0;
            ++h;
          }
        }
        tile.out = out + p * s.columns.padded + first;
        tile.start = i == 0 ? bias + first : tile.out;
        tile.start_row = i == 0 ? 0 : s.columns.padded;
        kernel.run(tile);
      }
    }
  }
}

}  // namespace direct

namespace {

using namespace direct;

/// dx with the padding around it, which takes what falls outside; and what a row's last tile, which
/// may be longer than the row, adds zeros to.
int64_t dx_pixels(const Conv2dGeometry& g) {
  const Grid grid = x_grid(g);
  return grid.rows * grid.columns + Tile::kMostRows * g.stride.w;
}

/// Rows of `w` pixels, each `pitch` pixels of padded channels after the one before, to an image
/// (channels, rows, w), or (rows, w, channels).
void take_image(const float* from, int64_t padded, int64_t pitch, int64_t rows, int64_t w,
                int64_t channels, bool channels_last, float* to) {
  if (pitch == w) {  // one long row
    w *= rows;
    rows = 1;
  }
  for (int64_t h = 0; h < rows; ++h, from += pitch * padded) {
    if (!channels_last) {
      transpose_matrix(sizeof(float), channels, w, to + h * w, rows * w, from, padded, false);
      continue;
    }
    for (int64_t p = 0; p < w; ++p)
      std::memcpy(to + (h * w + p) * channels, from + p * padded,
                  static_cast<size_t>(channels) * sizeof(float));
  }
}

// Forward: the result's pixels times (kh, kw, c) against (kh, kw, c; o).

Support supports(const Conv2dParams& params, const Specs& specs) {
  const auto g = conv2d_geometry("conv2d", params, specs.in[0].shape, specs.in[1].shape);
  Support support = supports_geometry(g, specs.out[0].dtype, Columns(g.o), x_grid(g), g.pixels());
  if (support.kind == Support::Kind::no) return support;
  if (works_channels_last(specs.out[0], specs.in[0]))
    return std::move(support).with_contiguous(6).with_channels_last(1);
  if (specs.out[0].is_contiguous()) return std::move(support).with_contiguous(7);
  return Support::no("writes row-major and channels_last results only");
}

std::shared_ptr<State> prepare(const Conv2dParams& params, const Specs& specs) {
  const auto g = conv2d_geometry("conv2d", params, specs.in[0].shape, specs.in[1].shape);
  auto s =
      std::make_shared<State>(g, works_channels_last(specs.out[0], specs.in[0]), g.o, x_grid(g));
  s->operand = s->columns.padded * (g.window() + 1);  // and the bias
  s->pixels = result_size(g.pixels(), s->columns);
  s->finish();
  s->kept_bytes = static_cast<size_t>(s->operand) * sizeof(float);
  s->kept_of = {1, 2};
  return s;
}

void keep(const Conv2dParams&, const State& s, const Call& call) {
  arrange_forward(s, call.in[1].as<float>(), call.in[2].as<float>(),
                  static_cast<float*>(call.kept));
}

void run(const Conv2dParams&, const State& s, const Call& call) {
  const Conv2dGeometry& g = s.g;
  float* const weight = static_cast<float*>(call.kept != nullptr ? call.kept : call.workspace);
  float* const bias = weight + s.columns.padded * g.window();
  if (call.kept == nullptr)
    arrange_forward(s, call.in[1].as<float>(), call.in[2].as<float>(), weight);
  for_images(s, call.workspace, [&](int64_t n, float* grid, float* pixels, float*) {
    put_image(s.in, s.channels_last, call.in[0].as<float>() + n * g.c * g.h * g.w, grid);
    forward_image(s, grid, weight, bias, pixels);
    take_image(pixels, s.columns.padded, 0, 1, g.pixels(), g.o, s.channels_last,
               call.out[0].as<float>() + n * g.o * g.pixels());
  });
}

// Gradient of x: for each tap, dy's pixels times o against (o; c), added to the pixels of dx that
// the tap reads.

Support supports_dgrad(const Conv2dGradParams& params, const Specs& specs) {
  const auto g = conv2d_geometry("conv2d_dgrad", params.conv, params.shape, specs.in[1].shape);
  Support support =
      supports_geometry(g, specs.out[0].dtype, Columns(g.c), dy_grid(g), dx_pixels(g));
  if (support.kind == Support::Kind::no) return support;
  if (g.c < 8) support = Support::possible();  // most of a vector would be empty
  if (works_channels_last(specs.out[0], specs.in[0]))
    return std::move(support).with_contiguous(2).with_channels_last(1);
  if (specs.out[0].is_contiguous()) return std::move(support).with_contiguous(3);
  return Support::no("writes row-major and channels_last results only");
}

std::shared_ptr<State> prepare_dgrad(const Conv2dGradParams& params, const Specs& specs) {
  const auto g = conv2d_geometry("conv2d_dgrad", params.conv, params.shape, specs.in[1].shape);
  auto s =
      std::make_shared<State>(g, works_channels_last(specs.out[0], specs.in[0]), g.c, dy_grid(g));
  s->operand = s->columns.padded * g.o * g.kh * g.kw + g.o;  // and zeros
  s->pixels = dx_pixels(g) * s->columns.padded;
  s->finish();
  return s;
}

/// Adds one image's part to dx, whose rows have `pitch` pixels.
void dgrad_image(const State& s, const float* dy, const float* weight, const float* zeros,
                 int64_t pitch, float* dx) {
  const Conv2dGeometry& g = s.g;
  const int64_t padded = s.columns.padded;
  const float* b = weight;
  for (const auto& [first, kernel_at] : s.columns.blocks) {
    const TileKernel& kernel = *kernel_at;
    for (int64_t tap = 0; tap < g.kh * g.kw; ++tap, b += g.o * kernel.columns) {
      Tile tile{.b = b,
                .runs = 1,
                .length = g.o,
                .b_step = kernel.columns,
                .start_row = g.stride.w * padded,
                .out_row = g.stride.w * padded};
      float* const at = dx + (tap / g.kw * pitch + tap % g.kw) * padded + first;
      for (int64_t h = 0; h < g.oh; ++h)
        for (int64_t w = 0; w < g.ow; w += kernel.rows) {
          for (int m = 0; m < kernel.rows; ++m)
            tile.a[m] = w + m < g.ow ? dy + (h * g.ow + w + m) * g.o : zeros;
          tile.out = at + (h * g.stride.h * pitch + w * g.stride.w) * padded;
          tile.start = tile.out;
          kernel.run(tile);
        }
    }
  }
}

void run_dgrad(const Conv2dGradParams&, const State& s, const Call& call) {
  const Conv2dGeometry& g = s.g;
  const Grid grid = x_grid(g);
  const int64_t padded = s.columns.padded;
  const int64_t taps = g.kh * g.kw;
  float* const weight = static_cast<float*>(call.workspace);
  float* const zeros = weight + padded * g.o * taps;
  const float* w = call.in[1].as<float>();
  arrange(s, g.o, g.c, weight,
          [&](int64_t tap, int64_t o, int64_t c) { return w[(o * g.c + c) * taps + tap]; });
  std::fill_n(zeros, g.o, 0.0F);
  for_images(s, call.workspace, [&](int64_t n, float* dy, float* dx, float*) {
    put_image(s.in, s.channels_last, call.in[0].as<float>() + n * g.o * g.pixels(), dy);
    std::fill_n(dx, s.pixels, 0.0F);
    dgrad_image(s, dy, weight, zeros, grid.columns, dx);
    take_image(dx + (grid.top * grid.columns + grid.left) * padded, padded, grid.columns, g.h, g.w,
               g.c, s.channels_last, call.out[0].as<float>() + n * g.c * g.h * g.w);
  });
}

// Gradient of the weight: (kh, kw, c) times pixels against (pixels; o).

Support supports_wgrad(const Conv2dGradParams& params, const Specs& specs) {
  const auto g = conv2d_geometry("conv2d_wgrad", params.conv, specs.in[1].shape, params.shape);
  Support support =
      supports_geometry(g, specs.out[0].dtype, Columns(g.o), x_grid(g), g.pixels(), true);
  if (support.kind == Support::Kind::no) return support;
  if (!specs.out[0].is_contiguous()) return Support::no("writes a row-major gradient only");
  if (wgrad_channels_last(specs)) return std::move(support).with_channels_last(3);
  return std::move(support).with_contiguous(3);
}

std::shared_ptr<State> prepare_wgrad(const Conv2dGradParams& params, const Specs& specs) {
  const auto g = conv2d_geometry("conv2d_wgrad", params.conv, specs.in[1].shape, params.shape);
  auto s = std::make_shared<State>(g, wgrad_channels_last(specs), g.o, x_grid(g));
  s->pixels = result_size(g.pixels(), s->columns);
  s->sums = result_size(g.window(), s->columns);
  s->finish();
  return s;
}

/// Adds one image's part to the sums (kh, kw, c; padded o).
void wgrad_image(const State& s, const float* grid, const float* dy, float* sums) {
  const Conv2dGeometry& g = s.g;
  const int64_t run = g.kw * g.c;
  const int64_t dy_row = g.ow * s.columns.padded;
  const int64_t strip =
      std::clamp<int64_t>(kPanelBytes / (dy_row * static_cast<int64_t>(sizeof(float))), 1, g.oh);
  for (int64_t h = 0; h < g.oh; h += strip)
    for (const auto& [first, kernel_at] : s.columns.blocks) {
      const TileKernel& kernel = *kernel_at;
      Tile tile{.b = dy + h * dy_row + first,
                .runs = std::min(strip, g.oh - h),
                .length = g.ow,
                .a_run = g.stride.h * s.in.row(),
                .a_step = g.stride.w * g.c,
                .b_run = dy_row,
                .b_step = s.columns.padded,
                .start_row = s.columns.padded,
                .out_row = s.columns.padded};
      const float* rows = grid + h * g.stride.h * s.in.row();
      int64_t i = 0, at = 0;  // of a tap: its row, and where in the row
      for (int64_t k = 0; k < g.window(); k += kernel.rows) {
        for (int m = 0; m < kernel.rows; ++m) {
          tile.a[m] = rows + i * s.in.row() + at;
          if (k + m + 1 < g.window() && ++at == run) {
            at = 0;
            ++i;
          }
        }
        tile.out = sums + k * s.columns.padded + first;
        tile.start = tile.out;
        kernel.run(tile);
      }
    }
}

void run_wgrad(const Conv2dGradParams&, const State& s, const Call& call) {
  const Conv2dGeometry& g = s.g;
  for_images(s, call.workspace, [&](int64_t n, float* grid, float* pixels, float* sums) {
    put_image(s.in, s.channels_last, call.in[1].as<float>() + n * g.c * g.h * g.w, grid);
    const float* from = call.in[0].as<float>() + n * g.o * g.pixels();
    // dy's pixels, with room for whole vectors.
    if (s.channels_last) {
      for (int64_t p = 0; p < g.pixels(); ++p)
        std::copy_n(from + p * g.o, g.o, pixels + p * s.columns.padded);
    } else {
      transpose_matrix(sizeof(float), g.pixels(), g.o, pixels, s.columns.padded, from, g.pixels(),
                       false);
    }
    wgrad_image(s, grid, pixels, sums);
  });
  const int64_t taps = g.kh * g.kw;
  float* dw = call.out[0].as<float>();
  parallel_for(g.o, std::max<int64_t>(1, 8192 / (g.window() + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o)
      for (int64_t c = 0; c < g.c; ++c)
        for (int64_t tap = 0; tap < taps; ++tap) {
          const float* at = static_cast<const float*>(call.workspace) + s.in.size() + s.pixels +
                            (tap * g.c + c) * s.columns.padded + o;
          float sum = 0;
          for (int64_t t = 0; t < s.threads; ++t) sum += at[t * s.per_thread()];
          dw[(o * g.c + c) * taps + tap] = sum;
        }
  });
}

}  // namespace

bool prefers_direct(const Conv2dGeometry& g, bool weight_gradient) {
  using namespace direct;
  return g.n >= num_threads() && g.groups == 1 && g.dilation == Size2(1) && !g.pointwise() &&
         x_grid(g).size() + result_size(g.pixels(), Columns(g.o)) <= kMostScratch / 2 &&
         (!weight_gradient || g.window() < 1024);
}

Kernel conv2d_cpu_direct_kernel() { return kernel<supports, prepare, run, keep>("direct"); }
Kernel conv2d_dgrad_cpu_direct_kernel() {
  return kernel<supports_dgrad, prepare_dgrad, run_dgrad>("direct");
}
Kernel conv2d_wgrad_cpu_direct_kernel() {
  return kernel<supports_wgrad, prepare_wgrad, run_wgrad>("direct");
}

}  // namespace mica
