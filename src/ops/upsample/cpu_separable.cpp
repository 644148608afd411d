#include <algorithm>
#include <type_traits>

#include "mica/core/dtype_switch.h"
#include "mica/op/settings.h"
#include "mica/ops/layouts.h"
#include "mica/ops/upsample/taps.h"
#include "mica/runtime/cpu/parallel.h"

// One axis after the other. An image is rows of pixels of `inner` values each: a row-major tensor
// is N * C images with one value per pixel, a channels_last one N images with C. Forward resamples
// the columns of the few input rows a result needs, which neighbouring results share, then sums
// these rows; the gradient goes the other way.
namespace mica {
namespace {

constexpr int64_t kElementsPerThread = 1 << 14;

struct State : KernelState {
  State(const Upsample2dParams& p, Size2 from)
      : rows(p.mode, from.h, p.size.h, p.scale_h, p.align_corners),
        cols(p.mode, from.w, p.size.w, p.scale_w, p.align_corners) {}

  AxisTaps rows, cols;
  int64_t images = 0;
  int64_t inner = 1;
  int64_t threads = 1;
  size_t scratch = 0;  ///< values per thread

  int64_t width() const { return cols.outputs * inner; }
  int64_t input_width() const { return cols.inputs * inner; }

  /// Calls f(first row, last row, scratch) for shares of the images' `height` rows.
  template <class C, class F>
  void each_share(const Call& call, int64_t height, F&& f) const {
    parallel_for(threads, 1, [&](int64_t first, int64_t last) {
      const int64_t total = images * height;
      f(total * first / threads, total * last / threads,
        static_cast<C*>(call.workspace) + first * static_cast<int64_t>(scratch));
    });
  }
};

struct GradState : State {
  GradState(const Upsample2dParams& p, Size2 from) : State(p, from), to_rows(rows), to_cols(cols) {}
  AxisScatter to_rows, to_cols;
};

void plan(State& state, const TensorSpec& out, int64_t scratch) {
  const bool channels_last = out.is_channels_last();
  state.images = channels_last ? out.shape[0] : out.shape[0] * out.shape[1];
  state.inner = channels_last ? out.shape[1] : 1;
  const int64_t work =
      state.images * state.inner *
      std::max(state.rows.outputs * state.cols.outputs, state.rows.inputs * state.cols.inputs);
  state.threads = std::clamp<int64_t>(work / kElementsPerThread, 1, num_threads());
  // A whole number of cache lines, so that threads share none.
  state.scratch = static_cast<size_t>((scratch * state.inner + 15) / 16 * 16);
  state.workspace_bytes = static_cast<size_t>(state.threads) * state.scratch *
                          (out.dtype == DType::f64 ? sizeof(double) : sizeof(float));
}

template <class P>
Support supports(const P&, const Specs& specs) {
  return supports_layouts(specs, 1);
}

std::shared_ptr<State> prepare(const Upsample2dParams& p, const Specs& specs) {
  const Shape& x = specs.in[0].shape;
  auto state = std::make_shared<State>(p, Size2(x[2], x[3]));
  plan(*state, specs.out[0], state->cols.inputs + state->cols.per_output * state->cols.outputs);
  return state;
}

template <class C, class T>
const C* widened(const T* from, int64_t n, C* scratch) {
  if constexpr (std::is_same_v<C, T>) {
    return from;
  } else {
    for (int64_t i = 0; i < n; ++i) scratch[i] = static_cast<C>(from[i]);
    return scratch;
  }
}

// The columns of one row: to (outputs, inner) from (inputs, inner).
template <int K, bool kSingle, class C>
void resample_row(const State& s, const C* from, C* to) {
  const int32_t* index = s.cols.index.data();
  const C* weight = s.cols.weight.as<C>();
  const int64_t inner = kSingle ? 1 : s.inner;
  for (int64_t j = 0; j < s.cols.outputs; ++j, index += K, weight += K, to += inner) {
    const C* pixel[K];
    for (int k = 0; k < K; ++k) pixel[k] = from + index[k] * inner;
    for (int64_t c = 0; c < inner; ++c) {
      C sum = weight[0] * pixel[0][c];
      for (int k = 1; k < K; ++k) sum += weight[k] * pixel[k][c];
      to[c] = sum;
    }
  }
}

template <class T, int K>
void resample(const State& s, const Call& call) {
  using C = Compute<T>;
  const int64_t height = s.rows.outputs;
  const int64_t width = s.width();
  s.each_share<C>(call, height, [&](int64_t begin, int64_t end, C* scratch) {
    // Input row r, resampled, lies in slot r % K: the rows a result needs are neighbours.
    C* slots = scratch + s.input_width();
    int64_t held[K];
    std::fill_n(held, K, -1);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t image = row / height;
      const auto tap = static_cast<size_t>(row % height * K);
      C w[K];
      const C* from[K];
      for (int k = 0; k < K; ++k) {
        const int64_t r = image * s.rows.inputs + s.rows.index[tap + static_cast<size_t>(k)];
        const int64_t slot = s.rows.index[tap + static_cast<size_t>(k)] % K;
        if (held[slot] != r) {
          const T* x = call.in[0].as<T>() + r * s.input_width();
          const C* wide = widened(x, s.input_width(), scratch);
          if (s.inner == 1) {
            resample_row<K, true>(s, wide, slots + slot * width);
          } else {
            resample_row<K, false>(s, wide, slots + slot * width);
          }
          held[slot] = r;
        }
        w[k] = s.rows.weight.as<C>()[tap + static_cast<size_t>(k)];
        from[k] = slots + slot * width;
      }
      T* y = call.out[0].as<T>() + row * width;
      for (int64_t j = 0; j < width; ++j) {
        C sum = w[0] * from[0][j];
        for (int k = 1; k < K; ++k) sum += w[k] * from[k][j];
        y[j] = static_cast<T>(sum);
      }
    }
  });
}

void run(const Upsample2dParams&, const State& s, const Call& call) {
  if (call.out[0].numel() == 0) return;
  switch_float(call.out[0].dtype(), "upsample2d", [&]<class T>() {
    if (s.rows.per_output == 1) return resample<T, 1>(s, call);
    if (s.rows.per_output == 2) return resample<T, 2>(s, call);
    resample<T, 4>(s, call);
  });
}

std::shared_ptr<GradState> prepare_grad(const Upsample2dGradParams& p, const Specs& specs) {
  auto state = std::make_shared<GradState>(p.upsample, p.input);
  plan(*state, specs.out[0], state->cols.inputs + state->cols.outputs);
  return state;
}

// The columns of one row: to (inputs, inner) from sums (outputs, inner).
template <bool kSingle, class C>
void scatter_row(const GradState& s, const C* sums, C* to) {
  const int32_t* index = s.to_cols.index.data();
  const C* weight = s.to_cols.weight.as<C>();
  const int64_t* start = s.to_cols.start.data();
  for (int64_t col = 0; col < s.cols.inputs; ++col) {
    if constexpr (kSingle) {
      C sum = 0;
      for (int64_t i = start[col]; i < start[col + 1]; ++i) sum += weight[i] * sums[index[i]];
      to[col] = sum;
    } else {
      C* pixel = to + col * s.inner;
      std::fill_n(pixel, s.inner, C(0));
      for (int64_t i = start[col]; i < start[col + 1]; ++i) {
        const C* from = sums + index[i] * s.inner;
        for (int64_t c = 0; c < s.inner; ++c) pixel[c] += weight[i] * from[c];
      }
    }
  }
}

template <class T>
void scatter(const GradState& s, const Call& call) {
  using C = Compute<T>;
  const int64_t height = s.rows.inputs;
  const int64_t width = s.width();
  s.each_share<C>(call, height, [&](int64_t begin, int64_t end, C* scratch) {
    C* sums = scratch + s.input_width();  // (outputs, inner)
    for (int64_t row = begin; row < end; ++row) {
      const int64_t h = row % height;
      const T* dy = call.in[0].as<T>() + row / height * s.rows.outputs * width;
      std::fill_n(sums, width, C(0));
      for (int64_t i = s.to_rows.start[static_cast<size_t>(h)];
           i < s.to_rows.start[static_cast<size_t>(h) + 1]; ++i) {
        const C w = s.to_rows.weight.as<C>()[i];
        const T* from = dy + s.to_rows.index[static_cast<size_t>(i)] * width;
        for (int64_t j = 0; j < width; ++j) sums[j] += w * static_cast<C>(from[j]);
      }
      if (s.inner == 1) {
        scatter_row<true>(s, sums, scratch);
      } else {
        scatter_row<false>(s, sums, scratch);
      }
      T* dx = call.out[0].as<T>() + row * s.input_width();
      for (int64_t j = 0; j < s.input_width(); ++j) dx[j] = static_cast<T>(scratch[j]);
    }
  });
}

void run_grad(const Upsample2dGradParams&, const GradState& s, const Call& call) {
  if (call.out[0].numel() == 0) return;
  switch_float(call.out[0].dtype(), "upsample2d_grad", [&]<class T>() { scatter<T>(s, call); });
}

}  // namespace

Kernel upsample2d_separable_kernel() {
  return kernel<supports<Upsample2dParams>, prepare, run>("separable");
}
Kernel upsample2d_grad_separable_kernel() {
  return kernel<supports<Upsample2dGradParams>, prepare_grad, run_grad>("separable");
}

}  // namespace mica
