#include <algorithm>
#include <array>

#include "mica/core/dtype_switch.h"
#include "mica/op/settings.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/conv2d/cpu_strips.h"
#include "mica/ops/conv2d/cpu_windows.h"
#include "mica/ops/matmul/cpu_gemm.h"
#include "mica/runtime/cpu/parallel.h"

// Convolution as matrix products over strips of output rows: the windows of a strip are copied to a
// matrix that fits the second-level cache, image by image and group by group.
namespace mica {
namespace {

using namespace strips;

struct State : Workspace {
  Conv2dGeometry g;
  bool channels_last = false;
  int64_t strip = 1;  ///< output rows

  int64_t strips() const { return (g.oh + strip - 1) / strip; }
};

Support supports_dtype(DType dtype) {
  if (dtype != DType::f32 && dtype != DType::f64) return Support::no("computes f32 and f64 only");
  return Support::yes();
}

// The first input in the format of the output, which dispatch made the input's where it is dense.
Support supports_like_output(const Specs& specs) {
  Support support = supports_dtype(specs.out[0].dtype);
  if (support.kind == Support::Kind::no) return support;
  const TensorSpec& out = specs.out[0];
  if (works_channels_last(out, specs.in[0]))
    return std::move(support).with_contiguous(2).with_channels_last(1);
  if (out.is_contiguous()) return std::move(support).with_contiguous(3);
  return Support::no("writes row-major and channels_last results only");
}

std::shared_ptr<State> make_state(const Conv2dGeometry& g, bool channels_last, DType dtype,
                                  bool weight_gradient) {
  auto state = std::make_shared<State>();
  state->g = g;
  state->channels_last = channels_last;
  const int64_t work = 2 * g.n * g.o * g.pixels() * g.window() / kFlopsPerThread;
  state->threads = std::clamp<int64_t>(work, 1, num_threads());
  const int64_t row = std::max<int64_t>(1, g.window() * g.ow);
  const int64_t per_image = std::max<int64_t>(1, state->threads / std::max<int64_t>(1, g.n));
  const int64_t most = std::max<int64_t>(1, (g.oh + per_image - 1) / per_image);
  state->strip = std::clamp<int64_t>(kStripElements / row, 1, most);
  const int64_t p = state->strip * g.ow;
  switch_dtype(dtype, [&]<class T>() {
    if (!weight_gradient) {
      state->group_weight = padded(std::max(packed_left_size<T>(g.group_out(), g.window()),
                                            packed_left_size<T>(g.window(), g.group_out())));
      state->weight = state->group_weight * g.groups;
    }
    if (!g.pointwise()) state->windows = padded(static_cast<size_t>(g.window() * p));
    if (weight_gradient) state->sum = padded(static_cast<size_t>(g.o * g.window()));
    // Every product has these three sizes in some order.
    const auto [m, n, k] = std::array{g.window(), p, g.group_out()};
    state->scratch = padded(
        std::max({gemm_scratch<T>(m, n, k), gemm_scratch<T>(n, m, k), gemm_scratch<T>(n, k, m),
                  gemm_scratch<T>(k, n, m), gemm_scratch<T>(k, m, n)}));
    state->workspace_bytes = state->elements() * sizeof(T);
    state->kept_bytes = static_cast<size_t>(state->weight) * sizeof(T);
    state->kept_of.insert(1);
  });
  return state;
}

// A strip of one image: the address of its windows' pixels in x and of its rows in y.
struct Strip {
  int64_t image, row, rows;

  int64_t pixels(const Conv2dGeometry& g) const { return rows * g.ow; }
  // First element of a group's windows in a pointwise x, which has y's sizes.
  int64_t x(const State& s, int64_t group) const { return at(s, group * s.g.group_in(), s.g.c); }
  int64_t y(const State& s, int64_t group) const { return at(s, group * s.g.group_out(), s.g.o); }

 private:
  int64_t at(const State& s, int64_t channel, int64_t channels) const {
    const int64_t pixel = row * s.g.ow;
    return s.channels_last ? (image * s.g.pixels() + pixel) * channels + channel
                           : (image * channels + channel) * s.g.pixels() + pixel;
  }
};

// First element of a group in an image of x.
int64_t image_at(const State& s, int64_t image, int64_t group) {
  const int64_t start = image * s.g.c * s.g.h * s.g.w;
  return start + group * s.g.group_in() * (s.channels_last ? 1 : s.g.h * s.g.w);
}

// The windows of a strip as a matrix (p, window): copied, or x itself.
template <class T>
MatrixView<const T> gather(const State& s, const T* x, const Strip& strip, int64_t group,
                           T* windows) {
  const Conv2dGeometry& g = s.g;
  if (g.pointwise()) {
    const T* start = x + strip.x(s, group);
    if (s.channels_last) return {start, g.c, 1};
    return {start, 1, g.pixels()};
  }
  const T* image = x + image_at(s, strip.image, group);
  if (s.channels_last) {
    gather_pixels(g, image, strip.row, strip.rows, windows);
    return {windows, g.window(), 1};
  }
  gather_planes(g, image, strip.row, strip.rows, windows);
  return {windows, 1, strip.pixels(g)};
}

// A group's rows of a strip of y as a matrix (p, group_out).
template <class T>
MatrixView<T> outputs(const State& s, T* y, const Strip& strip, int64_t group) {
  T* start = y + strip.y(s, group);
  if (s.channels_last) return {start, s.g.o, 1};
  return {start, 1, s.g.pixels()};
}

template <class T>
MatrixView<T> transposed(MatrixView<T> m) {
  return {m.data, m.col, m.row};
}

template <class T>
MatrixView<const T> constant(MatrixView<T> m) {
  return {m.data, m.row, m.col};
}

enum class Product { forward, dgrad };

// Copies the weight (o, c, kh, kw) to `result` as the products want it, group by group. For
// planes it is their packed left operand: (group_out, window), or transposed for dgrad. The windows
// of channels_last data run over (kh, kw, c), so the right operand of its products is (kh, kw, c,
// group_out), or (group_out, kh, kw, c) for dgrad.
template <class T>
void arrange_weight(const State& s, const T* weight, T* result, Product product) {
  const Conv2dGeometry& g = s.g;
  const int64_t taps = g.kh * g.kw;
  for (int64_t group = 0; group < g.groups; ++group, weight += g.group_out() * g.window()) {
    T* to = result + group * s.group_weight;
    if (!s.channels_last && product == Product::forward) {
      pack_left<T>(g.group_out(), g.window(), {weight, g.window(), 1}, to);
    } else if (!s.channels_last) {
      pack_left<T>(g.window(), g.group_out(), {weight, 1, g.window()}, to);
    } else {
      for (int64_t o = 0; o < g.group_out(); ++o)
        for (int64_t c = 0; c < g.group_in(); ++c)
          for (int64_t tap = 0; tap < taps; ++tap) {
            const int64_t at = tap * g.group_in() + c;
            to[product == Product::forward ? at * g.group_out() + o : o * g.window() + at] =
                weight[o * g.window() + c * taps + tap];
          }
    }
  }
}

// The weight as it was kept, else arranged in the workspace.
template <class T>
const T* arranged(const State& s, const Call& call, Product product) {
  if (call.kept != nullptr) return static_cast<const T*>(call.kept);
  T* const to = static_cast<T*>(call.workspace);
  arrange_weight(s, call.in[1].as<T>(), to, product);
  return to;
}

void keep(const State& s, const Call& call, Product product) {
  switch_dtype(call.out[0].dtype(), [&]<class T>() {
    arrange_weight(s, call.in[1].as<T>(), static_cast<T*>(call.kept), product);
  });
}

// Calls f(scratch, strip) for every strip of the batch. Which strips share a scratch memory depends
// on the state alone, so that sums kept there always have the same order.
template <class T, class F>
void for_strips(const State& s, void* workspace, F&& f) {
  const int64_t strips = s.strips();
  const int64_t tasks = s.g.n * strips;
  parallel_for(s.threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      const Scratch<T> scratch(s, workspace, thread);
      for (int64_t t = tasks * thread / s.threads; t < tasks * (thread + 1) / s.threads; ++t) {
        const int64_t row = t % strips * s.strip;
        f(scratch, Strip{t / strips, row, std::min(s.strip, s.g.oh - row)});
      }
    }
  });
}

Support supports(const Conv2dParams&, const Specs& specs) { return supports_like_output(specs); }

std::shared_ptr<State> prepare(const Conv2dParams& params, const Specs& specs) {
  return make_state(conv2d_geometry("conv2d", params, specs.in[0].shape, specs.in[1].shape),
                    works_channels_last(specs.out[0], specs.in[0]), specs.out[0].dtype, false);
}

template <class T>
void forward(const State& s, const Call& call) {
  const Conv2dGeometry& g = s.g;
  const T* weight = arranged<T>(s, call, Product::forward);
  const Arg& bias = call.in[2];
  for_strips<T>(s, call.workspace, [&](const Scratch<T>& scratch, const Strip& strip) {
    const int64_t p = strip.pixels(g);
    for (int64_t group = 0; group < g.groups; ++group) {
      const auto windows = gather(s, call.in[0].as<T>(), strip, group, scratch.windows);
      const auto y = outputs(s, call.out[0].as<T>(), strip, group);
      const T* w = weight + group * s.group_weight;
      if (bias.defined()) {
        const int64_t stride = bias.strides()[0];
        const T* b = bias.as<T>() + group * g.group_out() * stride;
        if (s.channels_last) {
          fill_rows(y.data, p, y.row, g.group_out(), b, stride);
        } else {
          for (int64_t o = 0; o < g.group_out(); ++o)
            std::fill_n(y.data + o * y.col, p, b[o * stride]);
        }
      }
      if (s.channels_last) {
        gemm<T>(p, g.group_out(), g.window(), windows, {w, g.group_out(), 1}, y.data, y.row,
                bias.defined(), scratch.gemm);
      } else {
        gemm_packed<T>(g.group_out(), p, g.window(), w, transposed(windows), y.data, y.col,
                       bias.defined(), scratch.gemm);
      }
    }
  });
}

void run(const Conv2dParams&, const State& state, const Call& call) {
  switch_dtype(call.out[0].dtype(), [&]<class T>() { forward<T>(state, call); });
}

void keep_forward(const Conv2dParams&, const State& state, const Call& call) {
  keep(state, call, Product::forward);
}

Support supports_dgrad(const Conv2dGradParams&, const Specs& specs) {
  return supports_like_output(specs);
}

std::shared_ptr<State> prepare_dgrad(const Conv2dGradParams& params, const Specs& specs) {
  return make_state(conv2d_geometry("conv2d_dgrad", params.conv, params.shape, specs.in[1].shape),
                    works_channels_last(specs.out[0], specs.in[0]), specs.out[0].dtype, false);
}

template <class T>
void dgrad(const State& s, const Call& call) {
  const Conv2dGeometry& g = s.g;
  const T* weight = arranged<T>(s, call, Product::dgrad);
  // Strips of one image add to the same elements, so an image belongs to one thread.
  const int64_t image_size = g.c * g.h * g.w;
  parallel_for(s.threads, 1, [&](int64_t begin, int64_t end) {
    const Scratch<T> scratch(s, call.workspace, begin);
    for (int64_t n = g.n * begin / s.threads; n < g.n * end / s.threads; ++n) {
      T* dx = call.out[0].as<T>();
      if (!g.pointwise()) std::fill_n(dx + n * image_size, image_size, T(0));
      for (int64_t row = 0; row < g.oh; row += s.strip) {
        const Strip strip{n, row, std::min(s.strip, g.oh - row)};
        const int64_t p = strip.pixels(g);
        for (int64_t group = 0; group < g.groups; ++group) {
          const auto dy = constant(outputs(s, call.in[0].as<T>(), strip, group));
          const T* w = weight + group * s.group_weight;
          T* windows = g.pointwise() ? dx + strip.x(s, group) : scratch.windows;
          if (s.channels_last) {
            const int64_t ldc = g.pointwise() ? g.c : g.window();
            gemm<T>(p, g.window(), g.group_out(), dy, {w, g.window(), 1}, windows, ldc, false,
                    scratch.gemm);
            if (!g.pointwise())
              scatter_pixels(g, windows, row, strip.rows, dx + image_at(s, n, group));
          } else {
            const int64_t ldc = g.pointwise() ? g.pixels() : p;
            gemm_packed<T>(g.window(), p, g.group_out(), w, transposed(dy), windows, ldc, false,
                           scratch.gemm);
            if (!g.pointwise())
              scatter_planes(g, windows, row, strip.rows, dx + image_at(s, n, group));
          }
        }
      }
    }
  });
}

void run_dgrad(const Conv2dGradParams&, const State& state, const Call& call) {
  switch_dtype(call.out[0].dtype(), [&]<class T>() { dgrad<T>(state, call); });
}

void keep_dgrad(const Conv2dGradParams&, const State& state, const Call& call) {
  keep(state, call, Product::dgrad);
}

Support supports_wgrad(const Conv2dGradParams&, const Specs& specs) {
  Support support = supports_dtype(specs.out[0].dtype);
  if (support.kind == Support::Kind::no) return support;
  if (!specs.out[0].is_contiguous()) return Support::no("writes a row-major gradient only");
  if (wgrad_channels_last(specs)) return std::move(support).with_channels_last(3);
  return std::move(support).with_contiguous(3);
}

std::shared_ptr<State> prepare_wgrad(const Conv2dGradParams& params, const Specs& specs) {
  return make_state(conv2d_geometry("conv2d_wgrad", params.conv, specs.in[1].shape, params.shape),
                    wgrad_channels_last(specs), specs.out[0].dtype, true);
}

template <class T>
void wgrad(const State& s, const Call& call) {
  const Conv2dGeometry& g = s.g;
  const int64_t size = g.o * g.window();
  for (int64_t t = 0; t < s.threads; ++t)
    std::fill_n(Scratch<T>(s, call.workspace, t).sum, size, T(0));
  for_strips<T>(s, call.workspace, [&](const Scratch<T>& scratch, const Strip& strip) {
    for (int64_t group = 0; group < g.groups; ++group) {
      const auto windows = gather(s, call.in[1].as<T>(), strip, group, scratch.windows);
      const auto dy = constant(outputs(s, call.in[0].as<T>(), strip, group));
      gemm<T>(g.group_out(), g.window(), strip.pixels(g), transposed(dy), windows,
              scratch.sum + group * g.group_out() * g.window(), g.window(), true, scratch.gemm);
    }
  });
  T* dw = call.out[0].as<T>();
  const int64_t taps = g.kh * g.kw;
  for (int64_t e = 0; e < size; ++e) {
    // (o, c, tap) from (o, c, tap), or from (o, tap, c).
    const int64_t c = e / taps % g.group_in();
    const int64_t at =
        s.channels_last ? e / g.window() * g.window() + e % taps * g.group_in() + c : e;
    T sum = 0;
    for (int64_t t = 0; t < s.threads; ++t) sum += Scratch<T>(s, call.workspace, t).sum[at];
    dw[e] = sum;
  }
}

void run_wgrad(const Conv2dGradParams&, const State& state, const Call& call) {
  switch_dtype(call.out[0].dtype(), [&]<class T>() { wgrad<T>(state, call); });
}

}  // namespace

Kernel conv2d_im2col_kernel() { return kernel<supports, prepare, run, keep_forward>("im2col"); }
Kernel conv2d_dgrad_im2col_kernel() {
  return kernel<supports_dgrad, prepare_dgrad, run_dgrad, keep_dgrad>("im2col");
}
Kernel conv2d_wgrad_im2col_kernel() {
  return kernel<supports_wgrad, prepare_wgrad, run_wgrad>("im2col");
}

}  // namespace mica
