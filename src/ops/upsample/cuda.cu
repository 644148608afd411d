// Forward, a thread finds the taps of its place in the result and takes it through many planes. The
// gradient gathers: a small launch makes tables of the taps, by which each input finds the results
// it went to.
#include <algorithm>

#include "mica/ops/pool/cuda_planes.cuh"
#include "mica/ops/upsample/cuda_bilinear.cuh"
#include "mica/ops/upsample/cuda_bilinear_channels.cuh"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

using namespace mica::cuda;
using resampling::Axis;
using resampling::Taps;

constexpr int kThreads = 256;
constexpr int kMostTaps = 4;

/// `place` walks the results of one plane; blockIdx.y takes `planes` of them.
template <class T, int V, int K>
__global__ void __launch_bounds__(kThreads)
    resample(const __grid_constant__ PlaneLoop place, const __grid_constant__ Axis rows,
             const __grid_constant__ Axis cols, int64_t all_planes, int64_t planes,
             const Vec<T, V>* x, Vec<T, V>* y) {
  using C = Compute<T>;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= place.count) return;
  const PlaneLoop::Place o = place.place(at);
  const Taps<K> row(rows, o.h);
  const Taps<K> col(cols, o.w);
  int64_t pixel[K][K];
  C weight[K][K];
#pragma unroll
  for (int i = 0; i < K; ++i) {
#pragma unroll
    for (int j = 0; j < K; ++j) {
      pixel[i][j] =
          (static_cast<int64_t>(row.index[i]) * cols.inputs + col.index[j]) * place.inner + o.i;
      weight[i][j] = static_cast<C>(row.weight[i] * col.weight[j]);
    }
  }
  const int64_t image = static_cast<int64_t>(rows.inputs) * cols.inputs * place.inner;
  const int64_t begin = blockIdx.y * planes;
  const int64_t end = min(begin + planes, all_planes);
#pragma unroll(K == 1 ? 4 : K == 2 ? 2 : 1)
  for (int64_t plane = begin; plane < end; ++plane) {
    const Vec<T, V>* from = x + plane * image;
    if constexpr (K == 1) {
      y[plane * place.count + at] = from[pixel[0][0]];
    } else {
      C sum[V] = {};
#pragma unroll
      for (int i = 0; i < K; ++i) {
#pragma unroll
        for (int j = 0; j < K; ++j) {
          const Vec<T, V> v = from[pixel[i][j]];
#pragma unroll
          for (int e = 0; e < V; ++e) sum[e] += weight[i][j] * to_compute(v.v[e]);
        }
      }
      Vec<T, V> result;
#pragma unroll
      for (int e = 0; e < V; ++e) result.v[e] = convert<T>(sum[e]);
      y[plane * place.count + at] = result;
    }
  }
}

/// Of one axis: output o takes weight[o * taps + k] of input first[o] + k; input i went to the
/// outputs over[i], of some with a weight of 0.
template <class C>
struct Table {
  C* weight;
  int* first;
  Range* over;
};

template <class C, int K>
__device__ void fill_table(const Axis& axis, const Table<C>& table, int i) {
  if (i < axis.outputs) {
    const Taps<K> taps(axis, i);
    double sums[K] = {};  // taps beyond an edge are of the pixel at it
#pragma unroll
    for (int k = 0; k < K; ++k) {
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (taps.index[k] == taps.index[0] + j) sums[j] += taps.weight[k];
    }
    table.first[i] = taps.index[0];
#pragma unroll
    for (int k = 0; k < K; ++k) table.weight[i * int64_t{K} + k] = static_cast<C>(sums[k]);
  }
  if (i < axis.inputs) {
    // The first output whose taps begin at or past an input: taps never go back.
    const auto outputs_before = [&](int input) {
      int low = 0;
      int high = axis.outputs;
      while (low < high) {
        const int middle = low + (high - low) / 2;
        if (Taps<K>(axis, middle).index[0] < input) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      return low;
    };
    table.over[i] = {outputs_before(i - K + 1), outputs_before(i + 1)};
  }
}

/// blockIdx.y tells the axis.
template <class C>
__global__ void __launch_bounds__(kThreads)
    make_tables(const __grid_constant__ Axis rows, const __grid_constant__ Axis cols,
                Table<C> row_table, Table<C> col_table) {
  const Axis& axis = blockIdx.y == 0 ? rows : cols;
  const Table<C>& table = blockIdx.y == 0 ? row_table : col_table;
  const auto i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (axis.taps == 1) {
    fill_table<C, 1>(axis, table, i);
  } else if (axis.taps == 2) {
    fill_table<C, 2>(axis, table, i);
  } else {
    fill_table<C, 4>(axis, table, i);
  }
}

/// Planes that a thread has at a time.
template <int V>
inline constexpr int kPlanes = V == 1 ? 4 : 1;

/// `place` walks the inputs of one plane; blockIdx.y takes `planes` of them.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    gather(const __grid_constant__ PlaneLoop place, const __grid_constant__ Axis rows,
           const __grid_constant__ Axis cols, Table<Compute<T>> row_table,
           Table<Compute<T>> col_table, int64_t all_planes, int64_t planes, const Vec<T, V>* dy,
           Vec<T, V>* dx) {
  using C = Compute<T>;
  constexpr int P = kPlanes<V>;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= place.count) return;
  const PlaneLoop::Place in = place.place(at);
  const Range over_rows = row_table.over[in.h];
  const Range over_cols = col_table.over[in.w];
  const int64_t image = static_cast<int64_t>(rows.outputs) * cols.outputs * place.inner;
  const int64_t begin = blockIdx.y * planes;
  const int64_t end = min(begin + planes, all_planes);
  for (int64_t plane = begin; plane < end; plane += P) {
    C sum[P][V] = {};
    for (int oh = over_rows.first; oh < over_rows.last; ++oh) {
      const C of_row = row_table.weight[int64_t{oh} * rows.taps + in.h - row_table.first[oh]];
      for (int ow = over_cols.first; ow < over_cols.last; ++ow) {
        const C weight =
            of_row * col_table.weight[int64_t{ow} * cols.taps + in.w - col_table.first[ow]];
        if (weight == C(0)) continue;
        const int64_t pixel = (int64_t{oh} * cols.outputs + ow) * place.inner + in.i;
#pragma unroll
        for (int p = 0; p < P; ++p) {
          const Vec<T, V> v = dy[min(plane + p, all_planes - 1) * image + pixel];
#pragma unroll
          for (int e = 0; e < V; ++e) sum[p][e] += weight * to_compute(v.v[e]);
        }
      }
    }
#pragma unroll
    for (int p = 0; p < P; ++p) {
      Vec<T, V> result;
#pragma unroll
      for (int e = 0; e < V; ++e) result.v[e] = convert<T>(sum[p][e]);
      if (plane + p < end) dx[(plane + p) * place.count + at] = result;
    }
  }
}

struct ResampleState : KernelState {
  ResampleState(const Upsample2dParams& p, Size2 from, const PlaneLoop& l)
      : rows(p.mode, from.h, p.size.h, p.scale_h, p.align_corners),
        cols(p.mode, from.w, p.size.w, p.scale_w, p.align_corners),
        place(l) {}
  Axis rows, cols;
  PlaneLoop place;     ///< in a plane of the output
  int64_t all_planes;  ///< of a row-major image, or the images of a channels_last one
  int64_t planes;      ///< of a block
  bool vectors;        ///< of channels
  dim3 grid;
};

template <class P>
Support supports(const P&, const Specs& s) {
  return support_for(format_of({&s.in[0], &s.out[0]}), format_of({&s.out[0]}), 0b1);
}

std::shared_ptr<ResampleState> plan(const Upsample2dParams& p, Size2 from, const Specs& s) {
  const TensorSpec& out = s.out[0];
  const bool last = format_of({&s.in[0], &out}) == Format::channels_last;
  const int64_t channels = out.shape[1];
  const auto v = static_cast<int64_t>(16 / size_of(out.dtype));
  const bool vectors = last && channels % v == 0 && s.in[0].aligned && out.aligned;
  const int64_t inner = !last ? 1 : vectors ? channels / v : channels;
  auto state =
      std::make_shared<ResampleState>(p, from, PlaneLoop(1, out.shape[2], out.shape[3], inner));
  state->vectors = vectors;
  state->all_planes = last ? out.shape[0] : out.shape[0] * channels;
  // Enough blocks to fill the device; then the more planes to a thread, the fewer taps are found.
  const int multiprocessors =
      runtime(DeviceKind::cuda).encoder(out.device.index)->multiprocessors();
  const int64_t across = ceil_div<int64_t>(state->place.count, kThreads);
  const int64_t wanted =
      ceil_div<int64_t>(int64_t{multiprocessors} * 16, std::max<int64_t>(across, 1));
  state->planes =
      std::max<int64_t>(ceil_div(state->all_planes, std::clamp<int64_t>(wanted, 1, 65535)), 1);
  if (!vectors) state->planes = ceil_div<int64_t>(state->planes, kPlanes<1>) * kPlanes<1>;
  state->grid = {static_cast<unsigned>(across),
                 static_cast<unsigned>(ceil_div(state->all_planes, state->planes))};
  return state;
}

std::shared_ptr<ResampleState> prepare(const Upsample2dParams& p, const Specs& s) {
  return plan(p, {s.in[0].shape[2], s.in[0].shape[3]}, s);
}

template <class T, int V>
void launch_resample(const ResampleState& s, const Call& c) {
  const auto kernel = s.rows.taps == 1   ? resample<T, V, 1>
                      : s.rows.taps == 2 ? resample<T, V, 2>
                                         : resample<T, V, 4>;
  c.encoder->launch(kernel, s.grid, kThreads, 0, s.place, s.rows, s.cols, s.all_planes, s.planes,
                    c.in[0].as<const Vec<T, V>>(), c.out[0].as<Vec<T, V>>());
}

void run(const Upsample2dParams&, const ResampleState& s, const Call& c) {
  cuda_switch_float(c.out[0].dtype(), "upsample2d", [&]<class T>() {
    s.vectors ? launch_resample<T, kVec16<T>>(s, c) : launch_resample<T, 1>(s, c);
  });
}

size_t table_bytes(const Axis& axis) {
  return (static_cast<size_t>(axis.outputs) * kMostTaps + static_cast<size_t>(axis.outputs) +
          static_cast<size_t>(axis.inputs)) *
         sizeof(double);
}

std::shared_ptr<ResampleState> prepare_grad(const Upsample2dGradParams& p, const Specs& s) {
  auto state = plan(p.upsample, p.input, s);
  state->workspace_bytes = table_bytes(state->rows) + table_bytes(state->cols);
  return state;
}

/// The table of an axis in `space`: weights, then ranges, then first taps.
template <class C>
Table<C> table_at(void* space, const Axis& axis) {
  auto* weight = static_cast<C*>(space);
  auto* over = reinterpret_cast<Range*>(static_cast<double*>(space) +
                                        static_cast<int64_t>(axis.outputs) * kMostTaps);
  return {.weight = weight, .first = reinterpret_cast<int*>(over + axis.inputs), .over = over};
}

void run_grad(const Upsample2dGradParams&, const ResampleState& s, const Call& c) {
  if (c.out[0].numel() == 0) return;
  cuda_switch_float(c.out[0].dtype(), "upsample2d_grad", [&]<class T>() {
    using C = Compute<T>;
    const auto rows = table_at<C>(c.workspace, s.rows);
    const auto cols = table_at<C>(static_cast<char*>(c.workspace) + table_bytes(s.rows), s.cols);
    const int longest = std::max({s.rows.inputs, s.rows.outputs, s.cols.inputs, s.cols.outputs});
    c.encoder->launch(make_tables<C>, dim3(static_cast<unsigned>(ceil_div(longest, kThreads)), 2),
                      kThreads, 0, s.rows, s.cols, rows, cols);
    const auto launch = [&]<int V>() {
      c.encoder->launch(gather<T, V>, s.grid, kThreads, 0, s.place, s.rows, s.cols, rows, cols,
                        s.all_planes, s.planes, c.in[0].as<const Vec<T, V>>(),
                        c.out[0].as<Vec<T, V>>());
    };
    s.vectors ? launch.template operator()<kVec16<T>>() : launch.template operator()<1>();
  });
}

}  // namespace

KernelList upsample2d_cuda_kernels() {
  return {
      kernel<resampling::supports, resampling::prepare, resampling::run>("bilinear"),
      kernel<resampling::supports_channels, resampling::prepare_channels, resampling::run_channels>(
          "bilinear_channels"),
      kernel<supports<Upsample2dParams>, prepare, run>("direct")};
}
KernelList upsample2d_grad_cuda_kernels() {
  return {kernel<supports<Upsample2dGradParams>, prepare_grad, run_grad>("gather")};
}

}  // namespace mica
