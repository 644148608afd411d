// The weight gradient of convolutions of few channels of f32.
#include <algorithm>

#include "mica/op/choices.h"
#include "mica/ops/conv2d/cuda_few_channels.cuh"
#include "mica/ops/conv2d/cuda_kernels.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace few {
namespace {

constexpr int kMostThreads = 384;

/// The gradient's bands: a thread has a row of the windows' taps (c, u), channels `group`,
/// `group` + groups, … of dy, and one of the band's rows.
struct WgradState : KernelState {
  int lines = 0;      ///< pairs of a row of taps and a group of channels
  int plane = 0;      ///< floats of a channel of dy in shared memory
  int64_t units = 0;  ///< bands of all images
  int blocks = 0;
  int threads = 0;
  size_t shared = 0;
};

struct WgradPlan {
  Bands b;
  int lines;
  int plane;
  int64_t units;
  bool vectors;         ///< four pixels of dy are one access
  bool channels_inner;  ///< dy's channels are its innermost axis
};

__device__ void load_dy(const WgradPlan& p, const float* image, int first, float* ds) {
  const Bands& b = p.b;
  const int padded = b.groups * kEach;
  const int total = padded * b.rows * b.quads;
  for (auto i = static_cast<int>(threadIdx.x); i < total; i += static_cast<int>(blockDim.x)) {
    uint32_t line;
    int o;
    int row;
    int quad;
    if (p.channels_inner) {
      line = b.by_out.quotient(static_cast<uint32_t>(i));
      o = i - static_cast<int>(line) * padded;
      row = static_cast<int>(b.by_quads.quotient(line));
      quad = static_cast<int>(line) - row * b.quads;
    } else {
      line = b.by_quads.quotient(static_cast<uint32_t>(i));
      quad = i - static_cast<int>(line) * b.quads;
      o = static_cast<int>(b.by_rows.quotient(line));
      row = static_cast<int>(line) - o * b.rows;
    }
    const int col = quad * kEach;
    float4 v = {0, 0, 0, 0};
    if (o < b.out && first + row < b.oh) {
      const float* at = image + o * b.y[1] + (first + row) * b.y[2] + col * b.y[3];
      if (p.vectors) {
        v = *reinterpret_cast<const float4*>(at);
      } else {
        v.x = at[0];
        if (col + 1 < b.ow) v.y = at[b.y[3]];
        if (col + 2 < b.ow) v.z = at[2 * b.y[3]];
        if (col + 3 < b.ow) v.w = at[3 * b.y[3]];
      }
    }
    *reinterpret_cast<float4*>(ds + o * p.plane + (row * b.quads + quad) * kEach) = v;
  }
}

/// partial (blocks, C_out, C_in, K, K): each block sums its bands.
template <int K>
__global__ void __launch_bounds__(kMostThreads)
    few_wgrad(WgradPlan p, const float* dy, const float* x, float* partial) {
  const Bands& b = p.b;
  float* xs = few_shared;
  float* ds = xs + b.channels * b.x_rows * b.pitch;
  const auto thread = static_cast<int>(threadIdx.x);
  const int my_row = thread / p.lines;
  const int line = thread - my_row * p.lines;
  const int taps = line / b.groups;  // c · K + u
  const int group = line - taps * b.groups;
  const int c = taps / K;
  const int u = taps - c * K;
  const bool active = my_row < b.rows;
  float sum[kEach][K] = {};
  for (int64_t unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
    const int64_t n = unit / b.count;
    const int first = static_cast<int>(unit - n * b.count) * b.rows;
    __syncthreads();  // the band before is done
    load_x(b, x + n * b.x[0], first, xs);
    load_dy(p, dy + n * b.y[0], first, ds);
    __syncthreads();
    if (!active) continue;
    const float* from = xs + (c * b.x_rows + my_row + u) * b.pitch;
    const float* gradient = ds + group * p.plane + my_row * b.quads * kEach;
    float v[2 * kEach];
    load_four(from, v + kEach);
    for (int quad = 0; quad < b.quads; ++quad) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) v[i] = v[i + kEach];
      load_four(from + (quad + 1) * kEach, v + kEach);
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        float g[kEach];
        load_four(gradient + j * b.groups * p.plane + quad * kEach, g);
#pragma unroll
        for (int k = 0; k < K; ++k)
#pragma unroll
          for (int i = 0; i < kEach; ++i) sum[j][k] += g[i] * v[i + k];
      }
    }
  }
  // The rows' sums meet in shared memory and are added in their order.
  const int each = p.lines * kEach * K;
  __syncthreads();
  if (active)
#pragma unroll
    for (int j = 0; j < kEach; ++j)
#pragma unroll
      for (int k = 0; k < K; ++k)
        few_shared[my_row * each + (line * kEach + j) * K + k] = sum[j][k];
  __syncthreads();
  const int64_t total = int64_t{b.out} * b.channels * K * K;
  for (int i = thread; i < each; i += static_cast<int>(blockDim.x)) {
    float all = 0;
    for (int r = 0; r < b.rows; ++r) all += few_shared[r * each + i];
    const int k = i % K;
    const int j = i / K % kEach;
    const int from = i / (K * kEach);
    const int o = j * b.groups + from % b.groups;
    if (o < b.out)
      partial[blockIdx.x * total + (int64_t{o} * b.channels * K + from / b.groups) * K + k] = all;
  }
}

constexpr int kColumns = 32;
constexpr int kRows = 16;

/// dw, row-major, from the blocks' parts: each row of threads takes every sixteenth, then the rows
/// are added in order.
template <class T>
__global__ void add_few_parts(int64_t total, int parts, const float* partial, T* dw) {
  __shared__ float rows[kRows][kColumns];
  const int64_t index = int64_t{blockIdx.x} * kColumns + threadIdx.x;
  float sum = 0;
  if (index < total)
#pragma unroll 8
    for (int s = static_cast<int>(threadIdx.y); s < parts; s += kRows)
      sum += partial[s * total + index];
  rows[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || index >= total) return;
  for (int r = 1; r < kRows; ++r) sum += rows[r][threadIdx.x];
  dw[index] = cuda::convert<T>(sum);
}

/// Pairs of a row of taps and a group of channels.
int64_t wgrad_lines(const Conv2dGeometry& g) {
  return g.c * g.kh * cuda::ceil_div<int64_t>(g.o, kEach);
}

Bands wgrad_bands(const Conv2dGeometry& g) { return bands_of(g, kMostThreads / wgrad_lines(g)); }

/// Floats of a channel of dy: neighbouring channels start four banks apart.
int plane_of(const Bands& b) { return cuda::ceil_div(b.rows * b.quads * kEach, 32) * 32 + kEach; }

size_t wgrad_shared(const Conv2dGeometry& g, const Bands& b) {
  const int bands = b.x_size() + b.groups * kEach * plane_of(b);
  const int sums = b.rows * static_cast<int>(wgrad_lines(g) * g.kw) * kEach;
  return sizeof(float) * static_cast<size_t>(std::max(bands, sums));
}

Support supports_wgrad(const Conv2dGradParams& params, const Specs& specs) {
  if (specs.out[0].dtype != DType::f32) return Support::no("computes f32 only");
  if (!specs.out[0].is_contiguous()) return Support::no("the output is not row-major");
  const auto g = conv2d_geometry("conv2d_wgrad", params.conv, specs.in[1].shape, params.shape);
  const auto reason = refusal(g, specs.out[0]);
  if (!reason.empty()) return Support::no(reason);
  if (wgrad_lines(g) > kMostThreads || wgrad_shared(g, wgrad_bands(g)) > kMostShared)
    return Support::no("a band is too large");
  return Support::yes();
}

std::shared_ptr<WgradState> prepare_wgrad(const Conv2dGradParams& params, const Specs& specs) {
  const auto g = conv2d_geometry("conv2d_wgrad", params.conv, specs.in[1].shape, params.shape);
  const Bands b = wgrad_bands(g);
  const int sms = runtime(DeviceKind::cuda).encoder(specs.out[0].device.index)->multiprocessors();
  auto state = std::make_shared<WgradState>();
  state->lines = static_cast<int>(wgrad_lines(g));
  state->plane = plane_of(b);
  state->units = g.n * b.count;
  state->threads = cuda::ceil_div(state->lines * b.rows, 32) * 32;
  state->shared = wgrad_shared(g, b);
  // As many blocks as run at once, with as many bands each.
  const int64_t rounds = cuda::ceil_div<int64_t>(state->units, int64_t{sms} * 3);
  state->blocks = static_cast<int>(cuda::ceil_div(state->units, rounds));
  state->workspace_bytes = sizeof(float) * static_cast<size_t>(state->blocks) *
                           static_cast<size_t>(specs.out[0].numel());
  return state;
}

void run_wgrad(const Conv2dGradParams& params, const WgradState& state, const Call& call) {
  const Arg& dy = call.in[0];
  const Arg& x = call.in[1];
  const Arg& dw = call.out[0];
  const auto g = conv2d_geometry("conv2d_wgrad", params.conv, x.shape(), params.shape);
  WgradPlan p{wgrad_bands(g), state.lines, state.plane,
              state.units,    false,       dy.strides()[1] < dy.strides()[3]};
  set_strides(p.b, x, dw, dy);
  auto* partial = static_cast<float*>(call.workspace);
  p.vectors = fours_along(3, dy);
  call.encoder->launch(g.kh == 3 ? few_wgrad<3> : few_wgrad<5>, static_cast<unsigned>(state.blocks),
                       static_cast<unsigned>(state.threads), state.shared, p, dy.as<const float>(),
                       x.as<const float>(), partial);
  add_parts(*call.encoder, state.blocks, partial, dw);
}

}  // namespace

void add_parts(Encoder& encoder, int parts, const float* partial, const Arg& dw) {
  cuda::cuda_switch_float(dw.dtype(), "conv2d_wgrad", [&]<class T>() {
    encoder.launch(add_few_parts<T>,
                   static_cast<unsigned>(cuda::ceil_div<int64_t>(dw.numel(), kColumns)),
                   dim3(kColumns, kRows), 0, dw.numel(), parts, partial, dw.as<T>());
  });
}

}  // namespace few

Kernel conv2d_wgrad_few_channels_kernel() {
  return timed_kernel<few::supports_wgrad, few::prepare_wgrad, few::run_wgrad>("few_channels");
}

}  // namespace mica
