#include "mica/core/dtype_switch.h"
#include "mica/op/settings.h"
#include "mica/ops/im2col/windows.h"
#include "mica/runtime/cpu/parallel.h"

// Whole rows of pixels at a time: a row of windows meets a row of the image at equal steps, and
// which windows lie inside it is known beforehand.
namespace mica {
namespace {

constexpr int64_t kElementsPerThread = 1 << 14;

int64_t grain(int64_t elements) {
  return std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(elements, 1));
}

Support supports(const Im2colParams&, const Specs& specs) {
  if (!specs.out[0].is_contiguous()) return Support::no("writes row-major results only");
  return Support::yes().with_contiguous(1);
}

// One row of a column matrix from a channel (h, w).
template <class T>
void unfold(const Windows& g, const T* x, int64_t i, int64_t j, T* y) {
  const Size2 stride = g.params.stride;
  const WindowRange rows(g.first_row(i), stride.h, g.h, g.oh);
  const WindowRange cols(g.first_col(j), stride.w, g.w, g.ow);
  if (cols.begin >= cols.end) {  // also where the image has no pixels, and no memory
    std::fill_n(y, g.oh * g.ow, T(0));
    return;
  }
  std::fill_n(y, rows.begin * g.ow, T(0));
  std::fill_n(y + rows.end * g.ow, (g.oh - rows.end) * g.ow, T(0));
  for (int64_t oh = rows.begin; oh < rows.end; ++oh) {
    T* to = y + oh * g.ow;
    const T* from = x + (oh * stride.h + g.first_row(i)) * g.w + g.first_col(j);
    std::fill_n(to, cols.begin, T(0));
    if (stride.w == 1) {
      std::copy(from + cols.begin, from + cols.end, to + cols.begin);
    } else {
      for (int64_t ow = cols.begin; ow < cols.end; ++ow) to[ow] = from[ow * stride.w];
    }
    std::fill_n(to + cols.end, g.ow - cols.end, T(0));
  }
}

void run(const Im2colParams& p, const Call& call) {
  const Shape& s = call.in[0].shape();
  const Windows g = im2col_windows("im2col", p, s[0], s[1], s[2], s[3]);
  switch_float(call.out[0].dtype(), "im2col", [&]<class T>() {
    parallel_for(g.n * g.rows(), grain(g.windows()), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t j = row % p.kernel.w;
        const int64_t i = row / p.kernel.w % p.kernel.h;
        const int64_t plane = row / (p.kernel.h * p.kernel.w);
        unfold(g, call.in[0].as<T>() + plane * g.h * g.w, i, j,
               call.out[0].as<T>() + row * g.windows());
      }
    });
  });
}

// f16 and bf16 are added up in float, one channel per thread at a time.
struct State : KernelState {
  int64_t threads = 1;
};

Support supports_col2im(const Col2imParams&, const Specs& specs) {
  if (!specs.out[0].is_contiguous()) return Support::no("writes row-major results only");
  return Support::yes();
}

std::shared_ptr<State> prepare_col2im(const Col2imParams& p, const Specs& specs) {
  auto state = std::make_shared<State>();
  const TensorSpec& in = specs.in[0];
  state->threads = std::clamp<int64_t>(in.numel() / kElementsPerThread, 1, num_threads());
  if (size_of(in.dtype) == 2)
    state->workspace_bytes =
        static_cast<size_t>(state->threads * p.size.h * p.size.w) * sizeof(float);
  return state;
}

// One channel from its rows of the column matrix, `line` apart, whose windows are `step` apart.
template <class C, class T>
void fold(const Windows& g, const T* cols_of_channel, int64_t line, int64_t step, C* sums) {
  const Im2colParams& p = g.params;
  std::fill_n(sums, g.h * g.w, C(0));
  if (g.h * g.w == 0) return;  // nothing to add to, and no memory
  for (int64_t i = 0; i < p.kernel.h; ++i)
    for (int64_t j = 0; j < p.kernel.w; ++j, cols_of_channel += line) {
      const WindowRange rows(g.first_row(i), p.stride.h, g.h, g.oh);
      const WindowRange cols(g.first_col(j), p.stride.w, g.w, g.ow);
      for (int64_t oh = rows.begin; oh < rows.end; ++oh) {
        const T* from = cols_of_channel + oh * g.ow * step;
        C* to = sums + (oh * p.stride.h + g.first_row(i)) * g.w + g.first_col(j);
        if (p.stride.w == 1 && step == 1) {
          for (int64_t ow = cols.begin; ow < cols.end; ++ow) to[ow] += static_cast<C>(from[ow]);
        } else {
          for (int64_t ow = cols.begin; ow < cols.end; ++ow)
            to[ow * p.stride.w] += static_cast<C>(from[ow * step]);
        }
      }
    }
}

void run_col2im(const Col2imParams& p, const State& state, const Call& call) {
  const Shape& s = call.out[0].shape();
  const Windows g = im2col_windows("col2im", p.im2col, s[0], s[1], s[2], s[3]);
  const Strides& from = call.in[0].strides();
  const int64_t area = p.im2col.kernel.h * p.im2col.kernel.w;
  const int64_t pixels = g.h * g.w;
  switch_float(call.out[0].dtype(), "col2im", [&]<class T>() {
    using C = Compute<T>;
    parallel_for(state.threads, 1, [&](int64_t first, int64_t last) {
      const int64_t planes = g.n * g.c;
      for (int64_t plane = planes * first / state.threads; plane < planes * last / state.threads;
           ++plane) {
        const T* cols = call.in[0].as<T>() + plane / g.c * from[0] + plane % g.c * area * from[1];
        T* image = call.out[0].as<T>() + plane * pixels;
        if constexpr (std::is_same_v<C, T>) {
          fold(g, cols, from[1], from[2], image);
        } else {
          C* sums = static_cast<C*>(call.workspace) + first * pixels;
          fold(g, cols, from[1], from[2], sums);
          for (int64_t i = 0; i < pixels; ++i) image[i] = static_cast<T>(sums[i]);
        }
      }
    });
  });
}

}  // namespace

Kernel im2col_rows_kernel() { return kernel<supports, run>("rows"); }
Kernel col2im_rows_kernel() { return kernel<supports_col2im, prepare_col2im, run_col2im>("rows"); }

}  // namespace mica
