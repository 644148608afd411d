#include "mica/ops/flip/cuda_axis_map.h"
#include "mica/ops/pad/maps.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/strided.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;

std::shared_ptr<MappedCopyState> prepare(const PadParams& p, const Specs& s) {
  return std::make_shared<MappedCopyState>(s.out[0], s.in[0], pad_maps(p, s.in[0].shape));
}

void run(const PadParams& p, const MappedCopyState& state, const Call& c) {
  state.run(c, pad_value(p, c.out[0].dtype()));
}

/// Indices [begin, end) of dy's axis.
struct Span {
  int64_t begin, end;
};

/// Where an index of x's axis went to: before the axis, into it, behind it.
struct Places {
  Span before, within, behind;
};
__device__ Places places_of(const PadGradParams& p, int64_t i) {
  const int64_t n = p.size;
  const int64_t behind = p.before + n;
  const int64_t end = behind + p.after;
  const auto one = [](bool there, int64_t at, int64_t from, int64_t to) {
    return there && at >= from && at < to ? Span{at, at + 1} : Span{0, 0};
  };
  Places places{{0, 0}, {p.before + i, p.before + i + 1}, {0, 0}};
  switch (p.mode) {
    case PadMode::reflect:
      places.before = one(i > 0, p.before - i, 0, p.before);
      places.behind = one(i < n - 1, behind + n - 2 - i, behind, end);
      break;
    case PadMode::replicate:
      if (i == 0) places.before = {0, p.before};
      if (i == n - 1) places.behind = {behind, end};
      break;
    default:
      places.before = one(true, p.before + i - n, 0, p.before);
      places.behind = one(true, behind + i, behind, end);
  }
  return places;
}

/// Operands of the loop: out, dy without the padded axis, the index along it. Each element gathers
/// what came from it, in order.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_up(const __grid_constant__ StridedLoop<3> loop, PadGradParams p, int64_t stride, T* out,
           const T* dy) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t k = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; k < loop.count;
       k += step) {
    int64_t at[3];
    loop.offsets(k, at);
    const Places places = places_of(p, at[2]);
    Compute<T> sum = 0;
    const auto add = [&](const Span& span) {
      for (int64_t i = span.begin; i < span.end; ++i) sum += to_compute(dy[at[1] + i * stride]);
    };
    add(places.before);
    add(places.within);
    add(places.behind);
    out[at[0]] = convert<T>(sum);
  }
}

struct GradState : KernelState {
  StridedLoop<3> loop;
};

std::shared_ptr<GradState> prepare_grad(const PadGradParams& p, const Specs& s) {
  auto state = std::make_shared<GradState>();
  const auto axis = static_cast<int>(p.axis);
  Strides rest = s.in[0].strides;
  Strides index = Dims::filled(s.out[0].rank(), 0);
  rest[axis] = 0;
  index[axis] = 1;
  state->loop = strided_loop<3>(s.out[0].shape, {s.out[0].strides, rest, index});
  return state;
}

void run_grad(const PadGradParams& p, const GradState& state, const Call& c) {
  const unsigned grid = grid_for(state.loop.count, kThreads, c.encoder->multiprocessors());
  cuda_switch_float(c.out[0].dtype(), "pad_grad", [&]<class T>() {
    c.encoder->launch(add_up<T>, grid, kThreads, 0, state.loop, p,
                      c.in[0].strides()[static_cast<int>(p.axis)], c.out[0].as<T>(),
                      c.in[0].as<const T>());
  });
}

}  // namespace

KernelList pad_cuda_kernels() { return {kernel<supports_all<PadParams>, prepare, run>("mapped")}; }
KernelList pad_grad_cuda_kernels() {
  return {kernel<supports_all<PadGradParams>, prepare_grad, run_grad>("gathered")};
}

}  // namespace mica
