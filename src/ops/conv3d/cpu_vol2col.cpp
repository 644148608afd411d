#include <algorithm>
#include <array>

#include "mica/op/settings.h"
#include "mica/ops/conv2d/cpu_strips.h"
#include "mica/ops/conv2d/cpu_windows.h"
#include "mica/ops/conv3d/geometry.h"
#include "mica/ops/matmul/cpu_gemm.h"
#include "mica/runtime/cpu/parallel.h"

// Convolution as matrix products over strips of output rows: the windows of a strip of one output
// plane are copied to a matrix that fits the second-level cache, image by image and group by group.
namespace mica {
namespace {

using namespace strips;

struct State : Workspace {
  Conv3dGeometry g;
  Conv2dGeometry plane;  ///< what happens in one plane of one channel
  int64_t strip = 1;     ///< output rows

  int64_t strips() const { return (g.out.h + strip - 1) / strip; }
  int64_t in_plane() const { return g.in.h * g.in.w; }
  int64_t out_plane() const { return g.out.h * g.out.w; }
  int64_t in_volume() const { return g.in.d * in_plane(); }
  int64_t out_volume() const { return g.out.d * out_plane(); }
};

template <class P>
Support supports(const P&, const Specs& specs) {
  if (specs.out[0].dtype != DType::f32 && specs.out[0].dtype != DType::f64)
    return Support::no("computes f32 and f64 only");
  return Support::yes().with_contiguous(3);
}

enum class Product { forward, dgrad, wgrad };

std::shared_ptr<State> make_state(const Conv3dGeometry& g, DType dtype, Product product) {
  auto state = std::make_shared<State>();
  state->g = g;
  Conv2dGeometry& plane = state->plane;
  plane.n = plane.c = plane.o = 1;
  plane.h = g.in.h;
  plane.w = g.in.w;
  plane.kh = g.kernel.h;
  plane.kw = g.kernel.w;
  plane.oh = g.out.h;
  plane.ow = g.out.w;
  plane.stride = {g.stride.h, g.stride.w};
  plane.padding = {g.padding.h, g.padding.w};
  plane.dilation = {g.dilation.h, g.dilation.w};
  const int64_t work = 2 * g.n * g.o * state->out_volume() * g.window() / kFlopsPerThread;
  state->threads = std::clamp<int64_t>(work, 1, num_threads());
  const int64_t row = std::max<int64_t>(1, g.window() * g.out.w);
  state->strip = std::clamp<int64_t>(kStripElements / row, 1, g.out.h);
  const int64_t p = state->strip * g.out.w;
  switch_dtype(dtype, [&]<class T>() {
    if (product == Product::forward)
      state->group_weight = padded(packed_left_size<T>(g.group_out(), g.window()));
    if (product == Product::dgrad)
      state->group_weight = padded(packed_left_size<T>(g.window(), g.group_out()));
    state->weight = state->group_weight * g.groups;
    state->windows = padded(static_cast<size_t>(g.window() * p));
    if (product == Product::wgrad) state->sum = padded(static_cast<size_t>(g.o * g.window()));
    state->scratch = padded(std::max({gemm_scratch<T>(g.group_out(), p, g.window()),
                                      gemm_scratch<T>(g.window(), p, g.group_out()),
                                      gemm_scratch<T>(g.group_out(), g.window(), p)}));
    state->workspace_bytes = state->elements() * sizeof(T);
  });
  return state;
}

// Rows [row, row + rows) of one output plane of one image.
struct Strip {
  int64_t image, depth, row, rows;

  int64_t pixels(const State& s) const { return rows * s.g.out.w; }
  // First element of the strip in a group's channels of y.
  int64_t y(const State& s, int64_t group) const {
    return (image * s.g.o + group * s.g.group_out()) * s.out_volume() + depth * s.out_plane() +
           row * s.g.out.w;
  }
};

// First element of a group's channels in an image of x.
int64_t image_at(const State& s, int64_t image, int64_t group) {
  return (image * s.g.c + group * s.g.group_in()) * s.in_volume();
}

// Calls f(plane's offset in the group's channels or -1 where it is padding, windows of the plane)
// for each channel and kernel plane.
template <class T, class F>
void each_plane(const State& s, const Strip& strip, T* windows, F&& f) {
  const Conv3dGeometry& g = s.g;
  const int64_t step = g.kernel.h * g.kernel.w * strip.pixels(s);
  for (int64_t c = 0; c < g.group_in(); ++c)
    for (int64_t k = 0; k < g.kernel.d; ++k, windows += step) {
      const int64_t depth = strip.depth * g.stride.d - g.padding.d + k * g.dilation.d;
      const bool inside = depth >= 0 && depth < g.in.d;
      f(inside ? c * s.in_volume() + depth * s.in_plane() : -1, windows);
    }
}

// The windows of a strip as a matrix (window, pixels).
template <class T>
void gather(const State& s, const T* x, const Strip& strip, T* windows) {
  const int64_t size = s.g.kernel.h * s.g.kernel.w * strip.pixels(s);
  each_plane(s, strip, windows, [&](int64_t plane, T* to) {
    if (plane < 0) {
      std::fill_n(to, size, T(0));
    } else {
      gather_planes(s.plane, x + plane, strip.row, strip.rows, to);
    }
  });
}

template <class T>
const T* pack_weight(const State& s, const T* weight, void* workspace, Product product) {
  const Conv3dGeometry& g = s.g;
  T* const packed = static_cast<T*>(workspace);
  for (int64_t group = 0; group < g.groups; ++group, weight += g.group_out() * g.window()) {
    T* to = packed + group * s.group_weight;
    if (product == Product::forward) {
      pack_left<T>(g.group_out(), g.window(), {weight, g.window(), 1}, to);
    } else {
      pack_left<T>(g.window(), g.group_out(), {weight, 1, g.window()}, to);
    }
  }
  return packed;
}

// Calls f(scratch, strip) for every strip of the batch. Which strips share a scratch memory depends
// on the state alone, so that sums kept there always have the same order.
template <class T, class F>
void for_strips(const State& s, void* workspace, F&& f) {
  const int64_t strips = s.strips();
  const int64_t tasks = s.g.n * s.g.out.d * strips;
  parallel_for(s.threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      const Scratch<T> scratch(s, workspace, thread);
      for (int64_t t = tasks * thread / s.threads; t < tasks * (thread + 1) / s.threads; ++t) {
        const int64_t row = t % strips * s.strip;
        const int64_t plane = t / strips;
        f(scratch,
          Strip{plane / s.g.out.d, plane % s.g.out.d, row, std::min(s.strip, s.g.out.h - row)});
      }
    }
  });
}

std::shared_ptr<State> prepare(const Conv3dParams& params, const Specs& specs) {
  return make_state(conv3d_geometry("conv3d", params, specs.in[0].shape, specs.in[1].shape),
                    specs.out[0].dtype, Product::forward);
}

template <class T>
void forward(const State& s, const Call& call) {
  const Conv3dGeometry& g = s.g;
  const T* weight = pack_weight(s, call.in[1].as<T>(), call.workspace, Product::forward);
  const Arg& bias = call.in[2];
  for_strips<T>(s, call.workspace, [&](const Scratch<T>& scratch, const Strip& strip) {
    const int64_t p = strip.pixels(s);
    for (int64_t group = 0; group < g.groups; ++group) {
      gather<T>(s, call.in[0].as<T>() + image_at(s, strip.image, group), strip, scratch.windows);
      T* y = call.out[0].as<T>() + strip.y(s, group);
      if (bias.defined())
        for (int64_t o = 0; o < g.group_out(); ++o)
          std::fill_n(y + o * s.out_volume(), p,
                      bias.as<T>()[(group * g.group_out() + o) * bias.strides()[0]]);
      gemm_packed<T>(g.group_out(), p, g.window(), weight + group * s.group_weight,
                     {scratch.windows, p, 1}, y, s.out_volume(), bias.defined(), scratch.gemm);
    }
  });
}

void run(const Conv3dParams&, const State& state, const Call& call) {
  switch_dtype(call.out[0].dtype(), [&]<class T>() { forward<T>(state, call); });
}

std::shared_ptr<State> prepare_dgrad(const Conv3dGradParams& params, const Specs& specs) {
  return make_state(conv3d_geometry("conv3d_dgrad", params.conv, params.shape, specs.in[1].shape),
                    specs.out[0].dtype, Product::dgrad);
}

// Strips of one image and group add to the same elements, so they belong to one thread.
template <class T>
void dgrad(const State& s, const Call& call) {
  const Conv3dGeometry& g = s.g;
  const T* weight = pack_weight(s, call.in[1].as<T>(), call.workspace, Product::dgrad);
  parallel_for(s.threads, 1, [&](int64_t begin, int64_t end) {
    const Scratch<T> scratch(s, call.workspace, begin);
    const int64_t tasks = g.n * g.groups;
    for (int64_t t = tasks * begin / s.threads; t < tasks * end / s.threads; ++t) {
      const int64_t image = t / g.groups;
      const int64_t group = t % g.groups;
      T* dx = call.out[0].as<T>() + image_at(s, image, group);
      std::fill_n(dx, g.group_in() * s.in_volume(), T(0));
      for (int64_t depth = 0; depth < g.out.d; ++depth)
        for (int64_t row = 0; row < g.out.h; row += s.strip) {
          const Strip strip{image, depth, row, std::min(s.strip, g.out.h - row)};
          const int64_t p = strip.pixels(s);
          gemm_packed<T>(g.window(), p, g.group_out(), weight + group * s.group_weight,
                         {call.in[0].as<T>() + strip.y(s, group), s.out_volume(), 1},
                         scratch.windows, p, false, scratch.gemm);
          each_plane(s, strip, scratch.windows, [&](int64_t plane, const T* from) {
            if (plane >= 0) scatter_planes(s.plane, from, strip.row, strip.rows, dx + plane);
          });
        }
    }
  });
}

void run_dgrad(const Conv3dGradParams&, const State& state, const Call& call) {
  switch_dtype(call.out[0].dtype(), [&]<class T>() { dgrad<T>(state, call); });
}

std::shared_ptr<State> prepare_wgrad(const Conv3dGradParams& params, const Specs& specs) {
  return make_state(conv3d_geometry("conv3d_wgrad", params.conv, specs.in[1].shape, params.shape),
                    specs.out[0].dtype, Product::wgrad);
}

template <class T>
void wgrad(const State& s, const Call& call) {
  const Conv3dGeometry& g = s.g;
  const int64_t size = g.o * g.window();
  for (int64_t t = 0; t < s.threads; ++t)
    std::fill_n(Scratch<T>(s, call.workspace, t).sum, size, T(0));
  for_strips<T>(s, call.workspace, [&](const Scratch<T>& scratch, const Strip& strip) {
    const int64_t p = strip.pixels(s);
    for (int64_t group = 0; group < g.groups; ++group) {
      gather<T>(s, call.in[1].as<T>() + image_at(s, strip.image, group), strip, scratch.windows);
      gemm<T>(g.group_out(), g.window(), p,
              {call.in[0].as<T>() + strip.y(s, group), s.out_volume(), 1}, {scratch.windows, 1, p},
              scratch.sum + group * g.group_out() * g.window(), g.window(), true, scratch.gemm);
    }
  });
  T* dw = call.out[0].as<T>();
  for (int64_t e = 0; e < size; ++e) {
    T sum = 0;
    for (int64_t t = 0; t < s.threads; ++t) sum += Scratch<T>(s, call.workspace, t).sum[e];
    dw[e] = sum;
  }
}

void run_wgrad(const Conv3dGradParams&, const State& state, const Call& call) {
  switch_dtype(call.out[0].dtype(), [&]<class T>() { wgrad<T>(state, call); });
}

}  // namespace

Kernel conv3d_vol2col_kernel() { return kernel<supports<Conv3dParams>, prepare, run>("vol2col"); }
Kernel conv3d_dgrad_vol2col_kernel() {
  return kernel<supports<Conv3dGradParams>, prepare_dgrad, run_dgrad>("vol2col");
}
Kernel conv3d_wgrad_vol2col_kernel() {
  return kernel<supports<Conv3dGradParams>, prepare_wgrad, run_wgrad>("vol2col");
}

}  // namespace mica
