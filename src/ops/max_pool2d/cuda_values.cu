// Max pooling of f16 and bf16 in channels_last without positions: a thread has eight channels of a
// result, and takes the larger of two pairs at once.
#include "mica/ops/max_pool2d/geometry.h"
#include "mica/ops/pool/cuda_planes.cuh"
#include "mica/runtime/cuda/encoder.h"

namespace mica {

Kernel max_pool2d_values_composed_kernel();

namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int kChannels = 8;  // 16 bytes
constexpr int kPairs = kChannels / 2;

struct Windows {
  int h, w;
  int kernel_h, kernel_w;
  int stride_h, stride_w;
  int padding_h, padding_w;
};

struct State : KernelState {
  State(const PlaneLoop& l, const Windows& w) : loop(l), windows(w) {}
  PlaneLoop loop;
  Windows windows;
};

template <class Pair>
struct alignas(16) Vector {
  Pair pairs[kPairs];
};

/// K by K, or of any size where K is 0. Places beyond the edge are read at the edge, which belongs
/// to the window too.
template <class Pair, int K>
__global__ void __launch_bounds__(kThreads)
    largest_of_windows(const __grid_constant__ PlaneLoop outputs, Windows p,
                       const Vector<Pair>* __restrict__ x, Vector<Pair>* __restrict__ y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= outputs.count) return;
  const PlaneLoop::Place o = outputs.place(i);
  const Vector<Pair>* image = x + o.plane * p.h * p.w * outputs.inner + o.i;
  const int rows = K > 0 ? K : p.kernel_h;
  const int columns = K > 0 ? K : p.kernel_w;
  const auto at = [&](int r, int c) {
    const int h = min(max(o.h * p.stride_h - p.padding_h + r, 0), p.h - 1);
    const int w = min(max(o.w * p.stride_w - p.padding_w + c, 0), p.w - 1);
    return image[(static_cast<int64_t>(h) * p.w + w) * outputs.inner];
  };
  Vector<Pair> largest = at(0, 0);
#pragma unroll
  for (int r = 0; r < rows; ++r)
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      if (r + c == 0) continue;
      const Vector<Pair> here = at(r, c);
#pragma unroll
      for (int j = 0; j < kPairs; ++j)
        largest.pairs[j] = __hmax2_nan(largest.pairs[j], here.pairs[j]);
    }
  y[i] = largest;
}

Support supports(const MaxPool2dParams& p, const Specs& s) {
  const TensorSpec& x = s.in[0];
  if (x.dtype != DType::f16 && x.dtype != DType::bf16) return Support::no("computes f16 and bf16");
  if (!s.out[0].is_channels_last_dense() || s.out[0].numel() == 0)
    return Support::no("the result is not channels_last");
  const Pool2dGeometry g = pool2d_geometry("max_pool2d", p, x.shape);
  if (g.dilation.h != 1 || g.dilation.w != 1) return Support::no("windows are not dense");
  if (g.c % kChannels != 0 || !x.aligned || !s.out[0].aligned)
    return Support::no("channels that are not whole vectors");
  if (numel(x.shape) >= kNarrowLimit) return Support::no("the image is too large");
  return Support::yes().with_channels_last(0b1);
}

std::shared_ptr<State> prepare(const MaxPool2dParams& p, const Specs& s) {
  const Pool2dGeometry g = pool2d_geometry("max_pool2d", p, s.in[0].shape);
  const auto narrow = [](int64_t size) { return static_cast<int>(size); };
  const Windows windows{narrow(g.h),         narrow(g.w),        narrow(g.kernel.h),
                        narrow(g.kernel.w),  narrow(g.stride.h), narrow(g.stride.w),
                        narrow(g.padding.h), narrow(g.padding.w)};
  return std::make_shared<State>(PlaneLoop(g.n, g.oh, g.ow, g.c / kChannels), windows);
}

template <class Pair>
void launch(const State& s, const Call& c) {
  const Windows& p = s.windows;
  const auto kernel = p.kernel_h == 3 && p.kernel_w == 3   ? largest_of_windows<Pair, 3>
                      : p.kernel_h == 2 && p.kernel_w == 2 ? largest_of_windows<Pair, 2>
                                                           : largest_of_windows<Pair, 0>;
  c.encoder->launch(kernel, static_cast<unsigned>(ceil_div<int64_t>(s.loop.count, kThreads)),
                    kThreads, 0, s.loop, p, c.in[0].as<const Vector<Pair>>(),
                    c.out[0].as<Vector<Pair>>());
}

void run(const MaxPool2dParams&, const State& state, const Call& c) {
  c.in[0].dtype() == DType::f16 ? launch<__half2>(state, c) : launch<__nv_bfloat162>(state, c);
}

}  // namespace

KernelList max_pool2d_values_cuda_kernels() {
  return {kernel<supports, prepare, run>("channels"), max_pool2d_values_composed_kernel()};
}

}  // namespace mica
