#include <type_traits>

#include "mica/ops/conv/shape.h"
#include "mica/ops/conv2d/direct.h"
#include "mica/ops/conv2d_pool/kernels.h"
#include "mica/ops/copy/cpu_transpose.h"
#include "mica/ops/max_pool2d/cpu_vector.h"

// conv2d's direct kernel. An image's results are pooled where they lie, by pixels, before they
// leave the cache.
namespace mica {
namespace {

using max_pool::Largest;
using max_pool::load;

constexpr int kLanes = 8;

Conv2dPoolGeometry geometry(const Conv2dPoolParams& params, const Specs& specs) {
  return conv2d_pool_geometry("conv2d_pool", params.conv, params.pool, specs.in[0].shape,
                              specs.in[1].shape);
}

Support supports(const Conv2dPoolParams& params, const Specs& specs) {
  const Conv2dGeometry g = geometry(params, specs).conv;
  Support support = direct::supports_geometry(g, specs.out[0].dtype, direct::Columns(g.o),
                                              direct::x_grid(g), g.pixels());
  if (support.kind == Support::Kind::no) return support;
  if (!specs.out[0].is_contiguous() || !specs.out[1].is_contiguous())
    return Support::no("writes row-major results only");
  // Larger images are not for direct kernels, but they still gain from what is not written.
  return Support::yes().with_contiguous(7);
}

struct State : direct::State {
  Pool2dGeometry pool;
  int64_t results = 0;  ///< of one channel of an image

  explicit State(const Conv2dPoolGeometry& both)
      : direct::State(both.conv, false, both.conv.o, direct::x_grid(both.conv)),
        pool(both.pool),
        results(pool.oh * pool.ow) {
    operand = columns.padded * (g.window() + 1);  // and the bias
    pixels = direct::result_size(g.pixels() + 2 * results, columns);
    finish();
  }
};

std::shared_ptr<State> prepare(const Conv2dPoolParams& params, const Specs& specs) {
  return std::make_shared<State>(geometry(params, specs));
}

/// y and positions (results, padded channels) from the pixels (h, w, padded channels).
template <bool kRelu>
void pool_pixels(const State& s, const float* pixels, float* y, int32_t* positions) {
  using Values = Largest<float, kLanes>::V;
  using Indices = Largest<float, kLanes>::I;
  const Pool2dGeometry& g = s.pool;
  const int64_t padded = s.columns.padded;
  for (int64_t oh = 0; oh < g.oh; ++oh) {
    const PoolRange rows = g.rows(oh);
    for (int64_t ow = 0; ow < g.ow; ++ow) {
      const PoolRange cols = g.cols(ow);
      const int64_t first = rows.first * g.w + cols.first;
      // Windows of 2x2 are counted before the program runs.
      const auto pool = [&](auto height, auto width) {
        for (int64_t v = 0; v < padded; v += kLanes, y += kLanes, positions += kLanes) {
          const auto start = Indices{} + static_cast<int32_t>(first);
          Largest<float, kLanes> largest{load<Values>(pixels + first * padded + v), start};
          for (int64_t i = 0; i < height; ++i)
            for (int64_t j = i == 0 ? 1 : 0; j < width; ++j) {
              const int64_t at = first + i * rows.step * g.w + j * cols.step;
              largest.take(load<Values>(pixels + at * padded + v),
                           Indices{} + static_cast<int32_t>(at));
            }
          if constexpr (kRelu) {  // what is not positive is 0, of which the first counts; keeps NaN
            const Indices none = largest.value <= 0;
            largest.value = none ? Values{} : largest.value;
            largest.position = none ? start : largest.position;
          }
          largest.store(y, positions);
        }
      };
      const int64_t height = (rows.last - rows.first + rows.step - 1) / rows.step;
      const int64_t width = (cols.last - cols.first + cols.step - 1) / cols.step;
      if (height == 2 && width == 2) {
        pool(std::integral_constant<int64_t, 2>(), std::integral_constant<int64_t, 2>());
      } else {
        pool(height, width);
      }
    }
  }
}

void run(const Conv2dPoolParams& params, const State& s, const Call& call) {
  const Conv2dGeometry& g = s.g;
  const int64_t padded = s.columns.padded;
  float* const weight = static_cast<float*>(call.workspace);
  float* const bias = weight + padded * g.window();
  direct::arrange_forward(s, call.in[1].as<float>(), call.in[2].as<float>(), weight);
  direct::for_images(s, call.workspace, [&](int64_t n, float* grid, float* pixels, float*) {
    float* const y = pixels + direct::result_size(g.pixels(), s.columns);
    float* const at = y + s.results * padded;
    auto* const positions = reinterpret_cast<int32_t*>(at);
    direct::put_image(s.in, false, call.in[0].as<float>() + n * g.c * g.h * g.w, grid);
    direct::forward_image(s, grid, weight, bias, pixels);
    (params.relu ? pool_pixels<true> : pool_pixels<false>)(s, pixels, y, positions);
    const int64_t first = n * g.o * s.results;
    transpose_matrix(sizeof(float), g.o, s.results, call.out[0].as<float>() + first, s.results, y,
                     padded, false);
    transpose_matrix(sizeof(int32_t), g.o, s.results, call.out[1].as<int32_t>() + first, s.results,
                     positions, padded, false);
  });
}

}  // namespace

Kernel conv2d_pool_direct_kernel() { return kernel<supports, prepare, run>("direct"); }

}  // namespace mica
