// Convolutions of stride 2 over few channels, such as the first of an image network, for which the
// library has no fast kernels: the four pixels of each square become channels (space to depth), and
// it computes one of stride 1 with a window half as large.
#include "mica/ops/conv/cuda_cudnn.h"
#include "mica/ops/conv2d/cuda_carrying.h"
#include "mica/ops/conv2d/cuda_kernels.h"
#include "mica/ops/conv2d/geometry.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

constexpr int kChannels = 16;  // of an image that was packed: four times 1 to 4, and zeros
constexpr int kThreads = 256;
constexpr size_t kAlignment = 256;

/// Sizes or strides.
struct Four {
  int64_t n, c, h, w;
};

Four four(const Dims& d) { return {d[0], d[1], d[2], d[3]}; }

/// Channel (2·a + b)·C + c of pixel (i, j) is pixel (2·i + a, 2·j + b) of channel c. A thread makes
/// all channels of a pixel; what lies outside the image is 0.
template <int C>
__global__ void __launch_bounds__(kThreads)
    pack_image(Four x, Four step, int64_t height, int64_t width, int64_t before_h, int64_t before_w,
               const uint16_t* __restrict__ from, cuda::Vec<uint16_t, 8>* __restrict__ to) {
  const int64_t pixel = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (pixel >= x.n * height * width) return;
  const int64_t j = pixel % width;
  const int64_t i = pixel / width % height;
  const uint16_t* image = from + pixel / width / height * step.n;
  cuda::Vec<uint16_t, 8> packed[2] = {};
#pragma unroll
  for (int part = 0; part < 4; ++part) {
    const int64_t h = 2 * i + part / 2 - before_h;
    const int64_t w = 2 * j + part % 2 - before_w;
    if (h < 0 || h >= x.h || w < 0 || w >= x.w) continue;
    const uint16_t* value = image + h * step.h + w * step.w;
#pragma unroll
    for (int c = 0; c < C; ++c)
      packed[(part * C + c) / 8].v[(part * C + c) % 8] = value[c * step.c];
  }
  to[2 * pixel] = packed[0];
  to[2 * pixel + 1] = packed[1];
}

/// The weight (O, C, kH, kW) and the packed one, (O, ⌈kH/2⌉, ⌈kW/2⌉, 16), from one to the other.
template <bool kPack>
__global__ void __launch_bounds__(kThreads)
    move_weight(Four w, Four step, int64_t height, int64_t width, uint16_t* plain,
                uint16_t* packed) {
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= w.n * height * width * kChannels) return;
  const int64_t channel = at % kChannels;
  const int64_t part = channel / w.c;
  const int64_t c = channel % w.c;
  const int64_t s = 2 * (at / kChannels % width) + part % 2;
  const int64_t r = 2 * (at / kChannels / width % height) + part / 2;
  const int64_t o = at / kChannels / width / height;
  const bool inside = part < 4 && r < w.h && s < w.w;
  uint16_t* const from = plain + o * step.n + c * step.c + r * step.h + s * step.w;
  if (kPack) {
    packed[at] = inside ? *from : uint16_t{0};
  } else if (inside) {
    *from = packed[at];
  }
}

/// The convolution that is left, and where its operands lie in the workspace.
struct PackedState : KernelState {
  TensorSpec x, weight;
  size_t weight_at = 0;
  size_t rest_at = 0;
  int64_t before_h = 0, before_w = 0;
  std::shared_ptr<const KernelState> inner;
};

TensorSpec channels_last_spec(const Shape& shape, DType dtype, Device device) {
  return {.shape = shape,
          .strides = channels_last_strides(shape),
          .device = device,
          .dtype = dtype,
          .defined = true};
}

size_t padded(int64_t elements) {
  const size_t bytes = static_cast<size_t>(elements) * sizeof(uint16_t);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Support supports(const Conv2dParams& p, const TensorSpec& x, const Shape& weight,
                 const TensorSpec& y, const TensorSpec& out) {
  if (out.dtype != DType::f16 && out.dtype != DType::bf16)
    return Support::no("it has 16-bit kernels");
  if (p.stride.h != 2 || p.stride.w != 2 || p.dilation.h != 1 || p.dilation.w != 1)
    return Support::no("it has a stride of 2 and no dilation");
  if (p.groups != 1 || x.shape[1] * 4 > kChannels) return Support::no("it has 1 to 4 channels");
  if (weight[2] < 2 || weight[3] < 2)
    return Support::no("a window of one row or column reads little");
  if (!y.is_channels_last_dense() || !y.aligned || !out.aligned)
    return Support::no("the larger side is not channels_last");
  if (x.numel() == 0 || out.numel() == 0 || y.numel() == 0) return Support::no("a tensor is empty");
  // Smaller ones are done before the image would be packed.
  return y.numel() >= int64_t{1} << 22 ? Support::yes() : Support::possible();
}

std::vector<Candidate> candidates(ConvPass pass, const Conv2dParams& p, const TensorSpec& x,
                                  const Shape& weight, const Shape& y, bool bias,
                                  const std::optional<KnownAfter>& end,
                                  const CandidateRequest& request) {
  const int64_t window_h = (weight[2] + 1) / 2;
  const int64_t window_w = (weight[3] + 1) / 2;
  PackedState state;
  state.x = channels_last_spec({x.shape[0], kChannels, y[2] + window_h - 1, y[3] + window_w - 1},
                               x.dtype, x.device);
  state.weight = channels_last_spec({weight[0], kChannels, window_h, window_w}, x.dtype, x.device);
  state.before_h = p.padding.h;
  state.before_w = p.padding.w;
  state.weight_at = padded(state.x.numel());
  state.rest_at = state.weight_at + padded(state.weight.numel());
  ConvProblem left = conv_problem(pass, Conv2dParams{}, state.x.shape, state.weight.shape, y, x);
  left.channels_last = true;
  left.bias = bias;
  left.joined = end.has_value();
  left.residual = end && end->added >= 0;
  left.activation = end ? end->activation : Activation::none;
  std::vector<Candidate> found;
  for (Candidate& inner : cudnn_candidates(left, request)) {
    auto one = std::make_shared<PackedState>(state);
    one->workspace_bytes = one->rest_at + inner.state->workspace_bytes;
    one->inner = std::move(inner.state);
    found.push_back({std::move(inner.name), inner.estimate, std::move(one)});
  }
  return found;
}

unsigned blocks(int64_t count) {
  return static_cast<unsigned>(cuda::ceil_div<int64_t>(count, kThreads));
}

void run_pack_image(const PackedState& state, const Arg& x, const Call& call) {
  const Shape& to = state.x.shape;
  const auto launch = [&]<int C>() {
    call.encoder->launch(pack_image<C>, blocks(to[0] * to[2] * to[3]), kThreads, 0, four(x.shape()),
                         four(x.strides()), to[2], to[3], state.before_h, state.before_w,
                         x.as<const uint16_t>(),
                         static_cast<cuda::Vec<uint16_t, 8>*>(call.workspace));
  };
  switch (x.shape()[1]) {
    case 1:
      return launch.operator()<1>();
    case 2:
      return launch.operator()<2>();
    case 3:
      return launch.operator()<3>();
    default:
      return launch.operator()<4>();
  }
}

template <bool kPack>
void run_move_weight(const PackedState& state, const Arg& weight, uint16_t* packed,
                     const Call& call) {
  const Shape& to = state.weight.shape;
  call.encoder->launch(move_weight<kPack>, blocks(state.weight.numel()), kThreads, 0,
                       four(weight.shape()), four(weight.strides()), to[2], to[3],
                       weight.as<uint16_t>(), packed);
}

Support supports_forward(const Conv2dParams& p, const Specs& s) {
  return supports(p, s.in[0], s.in[1].shape, s.out[0], s.out[0]);
}
std::vector<Candidate> forward_candidates(const Conv2dParams& p, const Specs& s,
                                          const CandidateRequest& request) {
  return candidates(ConvPass::forward, p, s.in[0], s.in[1].shape, s.out[0].shape, s.in[2].defined,
                    std::nullopt, request);
}
template <class P>
void run_forward(const P&, const KernelState& kernel_state, const Call& call) {
  const auto& state = static_cast<const PackedState&>(kernel_state);
  auto* const room = static_cast<std::byte*>(call.workspace);
  auto* const weight = reinterpret_cast<uint16_t*>(room + state.weight_at);
  run_pack_image(state, call.in[0], call);
  run_move_weight<true>(state, call.in[1], weight, call);
  static constexpr TensorSpec kNone;
  const Arg added = call.in.size() > 3 ? call.in[3] : Arg{nullptr, &kNone};
  const Arg in[] = {{room, &state.x}, {weight, &state.weight}, call.in[2], added};
  run_cudnn_forward(*state.inner, {in, call.out, room + state.rest_at, call.encoder});
}

Support supports_carrying(const AnchoredParams& params, const Specs& s) {
  const auto end = conv2d_end(params, s);
  if (!end) return Support::no("it carries a sum and an activation after conv2d");
  Support support = supports_forward(params.call->params.as<Conv2dParams>(), s);
  if (end->added >= 0) support.channels_last |= 0b1000;
  if (s.in[2].defined) support.contiguous |= 0b100;
  return support;
}
std::vector<Candidate> carrying_candidates(const AnchoredParams& params, const Specs& s,
                                           const CandidateRequest& request) {
  return candidates(ConvPass::forward, params.call->params.as<Conv2dParams>(), s.in[0],
                    s.in[1].shape, s.out[0].shape, s.in[2].defined, conv2d_end(params, s), request);
}

Support supports_wgrad(const Conv2dGradParams& p, const Specs& s) {
  return supports(p.conv, s.in[1], p.shape, s.in[0], s.out[0]);
}
std::vector<Candidate> wgrad_candidates(const Conv2dGradParams& p, const Specs& s,
                                        const CandidateRequest& request) {
  return candidates(ConvPass::wgrad, p.conv, s.in[1], p.shape, s.in[0].shape, false, std::nullopt,
                    request);
}
void run_wgrad(const Conv2dGradParams&, const KernelState& kernel_state, const Call& call) {
  const auto& state = static_cast<const PackedState&>(kernel_state);
  auto* const room = static_cast<std::byte*>(call.workspace);
  auto* const weight = reinterpret_cast<uint16_t*>(room + state.weight_at);
  run_pack_image(state, call.in[1], call);
  const Arg in[] = {call.in[0], {room, &state.x}};
  const Arg out[] = {{weight, &state.weight}};
  run_cudnn_gradient(*state.inner, {in, out, room + state.rest_at, call.encoder});
  run_move_weight<false>(state, call.out[0], weight, call);
}

}  // namespace

Kernel conv2d_space_to_depth_kernel() {
  return kernel_with_candidates<supports_forward, forward_candidates, run_forward<Conv2dParams>>(
      "space_to_depth");
}
Kernel conv2d_carrying_space_to_depth_kernel() {
  return kernel_with_candidates<supports_carrying, carrying_candidates,
                                run_forward<AnchoredParams>>("conv2d_space_to_depth");
}
Kernel conv2d_wgrad_space_to_depth_kernel() {
  return kernel_with_candidates<supports_wgrad, wgrad_candidates, run_wgrad>("space_to_depth");
}

}  // namespace mica
