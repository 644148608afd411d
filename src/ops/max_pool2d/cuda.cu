#include "mica/op/kernel.h"
#include "mica/ops/max_pool2d/geometry.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/strided.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;

/// Sizes along one axis.
struct Axis {
  int size, outputs, kernel, stride, padding;
  Divider by_stride;

  Axis(int64_t in, int64_t out, int64_t k, int64_t s, int64_t p)
      : size(static_cast<int>(in)),
        outputs(static_cast<int>(out)),
        kernel(static_cast<int>(k)),
        stride(static_cast<int>(s)),
        padding(static_cast<int>(p)),
        by_stride(static_cast<uint32_t>(s)) {}
};

struct Axes {
  Axis h, w;
  explicit Axes(const Pool2dGeometry& g)
      : h(g.h, g.oh, g.kernel.h, g.stride.h, g.padding.h),
        w(g.w, g.ow, g.kernel.w, g.stride.w, g.padding.w) {}
};

struct Range {
  int first, last;  ///< [first, last)
};

/// Inputs of output o.
__device__ Range window(const Axis& a, int o) {
  const int start = o * a.stride - a.padding;
  return {max(start, 0), min(start + a.kernel, a.size)};
}
/// Outputs whose window holds input i.
__device__ Range windows_over(const Axis& a, int i) {
  const int end = i + a.padding;
  const int first =
      end < a.kernel
          ? 0
          : static_cast<int>(a.by_stride.quotient(static_cast<uint32_t>(end - a.kernel))) + 1;
  return {first,
          min(static_cast<int>(a.by_stride.quotient(static_cast<uint32_t>(end))) + 1, a.outputs)};
}

/// Strides along height and width.
struct Step2 {
  int64_t h, w;
};

// A loop over (N, C, H, W) yields the place of the element written, its h and w, and the first
// element of its plane in what is read.
enum Operand { kPlace, kH, kW, kPlane };
using PlaneLoop = StridedLoop<4>;

PlaneLoop plane_loop(const TensorSpec& written, const TensorSpec& read) {
  return strided_loop<4>(written.shape, {written.strides, Strides{0, 0, 1, 0}, Strides{0, 0, 0, 1},
                                         Strides{read.strides[0], read.strides[1], 0, 0}});
}

/// y and positions have one layout.
template <class T>
__global__ void __launch_bounds__(kThreads)
    pool_windows(const __grid_constant__ PlaneLoop loop, Axes axes, const T* x, Step2 step, T* y,
                 int* positions) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < loop.count;
       i += stride) {
    int64_t at[4];
    loop.offsets(i, at);
    const Range rows = window(axes.h, static_cast<int>(at[kH]));
    const Range columns = window(axes.w, static_cast<int>(at[kW]));
    const T* plane = x + at[kPlane];
    Compute<T> largest = to_compute(plane[rows.first * step.h + columns.first * step.w]);
    int position = rows.first * axes.w.size + columns.first;
    for (int h = rows.first; h < rows.last; ++h) {
      for (int w = columns.first; w < columns.last; ++w) {
        const Compute<T> value = to_compute(plane[h * step.h + w * step.w]);
        if (!(value <= largest) &&
            !isnan(largest)) {  // NaN is the largest, the first of equals stays
          largest = value;
          position = h * axes.w.size + w;
        }
      }
    }
    y[at[kPlace]] = convert<T>(largest);
    positions[at[kPlace]] = position;
  }
}

/// Each input gathers from the windows over it, in a fixed order. dy and positions have one layout.
template <class T>
__global__ void __launch_bounds__(kThreads)
    gather_windows(const __grid_constant__ PlaneLoop loop, Axes axes, const T* dy,
                   const int* positions, Step2 step, T* dx) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < loop.count;
       i += stride) {
    int64_t at[4];
    loop.offsets(i, at);
    const int h = static_cast<int>(at[kH]);
    const int w = static_cast<int>(at[kW]);
    const Range rows = windows_over(axes.h, h);
    const Range columns = windows_over(axes.w, w);
    const int here = h * axes.w.size + w;
    Compute<T> sum = 0;
    for (int oh = rows.first; oh < rows.last; ++oh) {
      for (int ow = columns.first; ow < columns.last; ++ow) {
        const int64_t from = at[kPlane] + oh * step.h + ow * step.w;
        if (positions[from] == here) sum += to_compute(dy[from]);
      }
    }
    dx[at[kPlace]] = convert<T>(sum);
  }
}

struct PoolState : KernelState {
  PoolState(const PlaneLoop& l, const Axes& a) : loop(l), axes(a) {}
  PlaneLoop loop;
  Axes axes;
};

Support supports(const MaxPool2dParams&, const Specs& s) {
  if (s.out[0].strides != s.out[1].strides) return Support::no("the outputs differ in layout");
  return Support::yes();
}

std::shared_ptr<PoolState> prepare(const MaxPool2dParams& p, const Specs& s) {
  return std::make_shared<PoolState>(plane_loop(s.out[0], s.in[0]),
                                     Axes(pool2d_geometry("max_pool2d", p, s.in[0].shape)));
}

void run(const MaxPool2dParams&, const PoolState& state, const Call& c) {
  const Strides& strides = c.in[0].strides();
  const unsigned grid = grid_for(state.loop.count, kThreads, c.encoder->multiprocessors());
  cuda_switch_float(c.in[0].dtype(), "max_pool2d", [&]<class T>() {
    c.encoder->launch(pool_windows<T>, grid, kThreads, 0, state.loop, state.axes,
                      c.in[0].as<const T>(), Step2{strides[2], strides[3]}, c.out[0].as<T>(),
                      c.out[1].as<int>());
  });
}

/// dy and positions are read with one set of strides.
Support supports_grad(const MaxPool2dGradParams&, const Specs& s) {
  if (s.in[0].strides == s.in[1].strides) return Support::yes();
  return Support::yes().with_contiguous(0b11);
}

std::shared_ptr<PoolState> prepare_grad(const MaxPool2dGradParams& p, const Specs& s) {
  return std::make_shared<PoolState>(plane_loop(s.out[0], s.in[0]),
                                     Axes(pool2d_geometry("max_pool2d_grad", p.pool, p.shape)));
}

void run_grad(const MaxPool2dGradParams&, const PoolState& state, const Call& c) {
  const Strides& strides = c.in[0].strides();
  const unsigned grid = grid_for(state.loop.count, kThreads, c.encoder->multiprocessors());
  cuda_switch_float(c.out[0].dtype(), "max_pool2d_grad", [&]<class T>() {
    c.encoder->launch(gather_windows<T>, grid, kThreads, 0, state.loop, state.axes,
                      c.in[0].as<const T>(), c.in[1].as<const int>(), Step2{strides[2], strides[3]},
                      c.out[0].as<T>());
  });
}

}  // namespace

KernelList max_pool2d_cuda_kernels() { return {kernel<supports, prepare, run>("direct")}; }
KernelList max_pool2d_grad_cuda_kernels() {
  return {kernel<supports_grad, prepare_grad, run_grad>("gather")};
}

}  // namespace mica
