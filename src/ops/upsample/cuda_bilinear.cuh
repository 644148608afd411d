#pragma once

// Bilinear resampling of row-major images. A thread makes neighbouring columns of some rows of the
// result, from top to bottom, and keeps the two rows of the image it is between, resampled along
// the width: most rows of the result find them there.
#include <algorithm>

#include "mica/ops/pool/cuda_planes.cuh"
#include "mica/ops/upsample/cuda_taps.cuh"
#include "mica/runtime/cuda/encoder.h"

namespace mica::cuda::resampling {

constexpr int kLineThreads = 256;
constexpr int kMostLines = 32;           ///< rows of the result that a block makes
constexpr int64_t kEnoughBlocks = 2048;  ///< fewer rows to a block where there are not so many

/// Columns of a thread.
template <class T>
inline constexpr int kColumns = sizeof(T) == 8 ? 2 : 4;

/// `place` walks vectors of one row of all planes; blockIdx.y tells which `lines` rows of them.
template <class T>
__global__ void __launch_bounds__(kLineThreads)
    bilinear_lines(const __grid_constant__ PlaneLoop place, const __grid_constant__ Axis rows,
                   const __grid_constant__ Axis cols, int lines, const T* __restrict__ x,
                   T* __restrict__ y) {
  using C = Compute<T>;
  constexpr int V = kColumns<T>;
  struct RowTaps {
    int index[2];
    C weight[2];
  };
  __shared__ RowTaps table[kMostLines];
  const int first = static_cast<int>(blockIdx.y) * lines;
  const int count = min(lines, rows.outputs - first);
  if (static_cast<int>(threadIdx.x) < count) {
    const Taps<2> taps(rows, first + static_cast<int>(threadIdx.x));
    table[threadIdx.x] = {{taps.index[0], taps.index[1]},
                          {static_cast<C>(taps.weight[0]), static_cast<C>(taps.weight[1])}};
  }
  __syncthreads();
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kLineThreads + threadIdx.x;
  if (at >= place.count) return;
  const PlaneLoop::Place o = place.place(at);
  int index[V][2];
  C weight[V][2];
#pragma unroll
  for (int e = 0; e < V; ++e) {
    const Taps<2> taps(cols, o.w * V + e);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      index[e][k] = taps.index[k];
      weight[e][k] = static_cast<C>(taps.weight[k]);
    }
  }
  const T* image = x + o.plane * rows.inputs * cols.inputs;
  T* to = y + (o.plane * rows.outputs + first) * cols.outputs + static_cast<int64_t>(o.w) * V;
  const auto resample_row = [&](int row, C(&line)[V]) {
    const T* from = image + static_cast<int64_t>(row) * cols.inputs;
    T values[V][2];
#pragma unroll
    for (int e = 0; e < V; ++e) {
      values[e][0] = from[index[e][0]];
      values[e][1] = from[index[e][1]];
    }
#pragma unroll
    for (int e = 0; e < V; ++e)
      line[e] = weight[e][0] * to_compute(values[e][0]) + weight[e][1] * to_compute(values[e][1]);
  };
  int held[2] = {-1, -1};
  C line[2][V] = {};
  for (int i = 0; i < count; ++i) {
    const RowTaps taps = table[i];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      if (taps.index[k] == held[k]) continue;
      if (taps.index[k] == held[1 - k]) {
#pragma unroll
        for (int e = 0; e < V; ++e) line[k][e] = line[1 - k][e];
      } else {
        resample_row(taps.index[k], line[k]);
      }
      held[k] = taps.index[k];
    }
    C result[V];
#pragma unroll
    for (int e = 0; e < V; ++e)
      result[e] = taps.weight[0] * line[0][e] + taps.weight[1] * line[1][e];
    store_vec<V>(to + static_cast<int64_t>(i) * cols.outputs, pack<T>(result));
  }
}

struct LinesState : KernelState {
  LinesState(const Upsample2dParams& p, const Shape& x, int64_t columns)
      : rows(p.mode, x[2], p.size.h, p.scale_h, p.align_corners),
        cols(p.mode, x[3], p.size.w, p.scale_w, p.align_corners),
        place(x[0] * x[1], 1, p.size.w / columns, 1) {}
  Axis rows, cols;
  PlaneLoop place;
  int lines = kMostLines;
};

inline int64_t columns_of(DType dtype) { return dtype == DType::f64 ? 2 : 4; }

inline Support supports(const Upsample2dParams& p, const Specs& s) {
  if (p.mode != UpsampleMode::bilinear) return Support::no("the mode is not bilinear");
  if (!s.out[0].is_contiguous()) return Support::no("the result is not row-major");
  if (!s.out[0].aligned || p.size.w % columns_of(s.out[0].dtype) != 0)
    return Support::no("rows of the result are not whole vectors");
  if (p.size.h > int64_t{65535} * 8) return Support::no("there are too many rows");
  return Support::yes().with_contiguous(0b1);
}

inline std::shared_ptr<LinesState> prepare(const Upsample2dParams& p, const Specs& s) {
  auto state = std::make_shared<LinesState>(p, s.in[0].shape, columns_of(s.out[0].dtype));
  const int64_t across = ceil_div<int64_t>(state->place.count, kLineThreads);
  while (state->lines > 8 && across * ceil_div<int64_t>(p.size.h, state->lines) < kEnoughBlocks)
    state->lines /= 2;
  return state;
}

inline void run(const Upsample2dParams&, const LinesState& s, const Call& c) {
  cuda_switch_float(c.out[0].dtype(), "upsample2d", [&]<class T>() {
    const dim3 grid(static_cast<unsigned>(ceil_div<int64_t>(s.place.count, kLineThreads)),
                    static_cast<unsigned>(ceil_div(s.rows.outputs, s.lines)));
    c.encoder->launch(bilinear_lines<T>, grid, kLineThreads, 0, s.place, s.rows, s.cols, s.lines,
                      c.in[0].as<const T>(), c.out[0].as<T>());
  });
}

}  // namespace mica::cuda::resampling
