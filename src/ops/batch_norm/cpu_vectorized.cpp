#include <algorithm>
#include <cmath>

#include "mica/ops/batch_norm/statistics.h"
#include "mica/runtime/cpu/parallel.h"

// Two memory orders. Planes (n, c, size): a channel is a set of contiguous planes and belongs to
// one thread. Rows (n * size, c): loops run over the channels of a row; sums are kept per part of
// the rows. The number of parts depends on the shape alone, so results do not depend on the number
// of threads.
namespace mica {
namespace {

constexpr int64_t kElementsPerThread = 1 << 14;
constexpr int64_t kMostParts = 16;

struct State : KernelState {
  int64_t n = 0, channels = 0, size = 0;
  bool by_rows = false;
  int64_t parts = 1;

  int64_t count() const { return n * size; }
  int64_t grain(int64_t elements) const {
    return std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(1, elements));
  }
};

// The large inputs in the order of the large output.
Support supports_layouts(const Specs& specs, uint32_t inputs) {
  const TensorSpec& out = specs.out[0];
  if (out.dtype != DType::f32 && out.dtype != DType::f64)
    return Support::no("computes f32 and f64 only");
  if (out.is_channels_last()) return Support::yes().with_channels_last(inputs);
  if (out.is_contiguous()) return Support::yes().with_contiguous(inputs);
  return Support::no("writes row-major and channels_last results only");
}

std::shared_ptr<State> prepare(const BatchNormParams&, const Specs& specs) {
  const TensorSpec& out = specs.out[0];
  auto state = std::make_shared<State>();
  state->n = out.shape[0];
  state->channels = out.shape[1];
  state->size = 1;
  for (int d = 2; d < out.rank(); ++d) state->size *= out.shape[d];
  state->by_rows = out.is_channels_last() || state->size == 1;
  const int64_t elements = state->count() * state->channels;
  state->parts = std::clamp<int64_t>(elements / kElementsPerThread, 1, kMostParts);
  // Two sums per part and channel, then four numbers per channel.
  const int64_t sums = state->by_rows ? state->parts * 2 * state->channels : 0;
  state->workspace_bytes = static_cast<size_t>(sums + 4 * state->channels) * sizeof(double);
  return state;
}

// One number per channel each, behind the sums in the workspace; `finish_channel` and `finish_grad`
// say what they mean.
template <class T>
struct Coefficients {
  T *mean, *scale, *shift, *slope;

  Coefficients(const State& s, void* workspace) {
    const int64_t sums = s.by_rows ? s.parts * 2 * s.channels : 0;
    mean = reinterpret_cast<T*>(static_cast<double*>(workspace) + sums);
    scale = mean + s.channels;
    shift = scale + s.channels;
    slope = shift + s.channels;
  }
};

struct Sums {
  double first = 0;
  double second = 0;
};

// Over one plane: the sums of a and of a * (b - mean).
template <class T>
Sums sum_plane(const T* a, const T* b, T mean, int64_t size) {
  double first = 0;
  double second = 0;
#pragma omp simd reduction(+ : first, second)
  for (int64_t i = 0; i < size; ++i) {
    first += static_cast<double>(a[i]);
    second += static_cast<double>(a[i]) * static_cast<double>(b[i] - mean);
  }
  return {first, second};
}

// Over one plane: the sums of x - mean and of its square.
template <class T>
Sums sum_plane(const T* x, T mean, int64_t size) {
  double first = 0;
  double second = 0;
#pragma omp simd reduction(+ : first, second)
  for (int64_t i = 0; i < size; ++i) {
    const double d = static_cast<double>(x[i]) - static_cast<double>(mean);
    first += d;
    second += d * d;
  }
  return {first, second};
}

// Adds f(start of plane) over the planes of a channel.
template <class F>
Sums sum_planes(const State& s, int64_t channel, F&& f) {
  Sums sums;
  for (int64_t n = 0; n < s.n; ++n) {
    const Sums plane = f((n * s.channels + channel) * s.size);
    sums.first += plane.first;
    sums.second += plane.second;
  }
  return sums;
}

struct Moments {
  double mean;
  double variance;
};

// From the sums of x - about and of its square, where `about` is near the mean.
Moments moments(double about, Sums sums, double count) {
  const double rest = sums.first / std::max(count, 1.0);
  return {about + rest, std::max(0.0, sums.second / std::max(count, 1.0) - rest * rest)};
}

// Sums over rows: add(row, first, second) adds one row to two arrays of `channels` numbers; the
// totals end in the first part's.
template <class F>
void sum_rows(const State& s, double* sums, F&& add) {
  const int64_t c = s.channels;
  const int64_t rows = s.count();
  std::fill_n(sums, s.parts * 2 * c, 0.0);
  parallel_for(s.parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      for (int64_t row = rows * part / s.parts; row < rows * (part + 1) / s.parts; ++row)
        add(row, sums + part * 2 * c, sums + (part * 2 + 1) * c);
  });
  for (int64_t part = 1; part < s.parts; ++part)
    for (int64_t i = 0; i < 2 * c; ++i) sums[i] += sums[part * 2 * c + i];
}

// The channel's statistics are known: writes them and the coefficients of y = (x - mean) * scale +
// shift.
template <class T>
void finish_channel(const BatchNormParams& params, const Call& call, const Coefficients<T>& k,
                    int64_t c, double mean, double variance) {
  const double invstd = 1 / std::sqrt(variance + params.eps);
  call.out[1].as<T>()[c] = static_cast<T>(mean);
  call.out[2].as<T>()[c] = static_cast<T>(invstd);
  k.mean[c] = static_cast<T>(mean);
  k.scale[c] = static_cast<T>(invstd * static_cast<double>(channel_value<T>(call.in[1], c, 1)));
  k.shift[c] = channel_value<T>(call.in[2], c, 0);
}

template <class T>
void use_running(const BatchNormParams& params, const Call& call, const Coefficients<T>& k,
                 int64_t c) {
  finish_channel(params, call, k, c, static_cast<double>(channel_value<T>(call.in[3], c, 0)),
                 static_cast<double>(channel_value<T>(call.in[4], c, 0)));
}

template <class T>
void forward_planes(const BatchNormParams& params, const State& s, const Call& call) {
  const Coefficients<T> k(s, call.workspace);
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  const auto count = static_cast<double>(s.count());
  parallel_for(s.channels, s.grain(s.count()), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      if (params.training) {
        // The first value is near enough to the mean for one pass to do.
        const T about = s.count() > 0 ? x[c * s.size] : T(0);
        const Sums sums =
            sum_planes(s, c, [&](int64_t at) { return sum_plane(x + at, about, s.size); });
        const auto [mean, variance] = moments(static_cast<double>(about), sums, count);
        finish_channel(params, call, k, c, mean, variance);
        update_running<T>(params, call, c, mean, variance, count);
      } else {
        use_running(params, call, k, c);
      }
      const T mean = k.mean[c], scale = k.scale[c], shift = k.shift[c];
      for (int64_t n = 0; n < s.n; ++n) {
        const int64_t plane = (n * s.channels + c) * s.size;
        for (int64_t i = plane; i < plane + s.size; ++i) y[i] = (x[i] - mean) * scale + shift;
      }
    }
  });
}

template <class T>
void forward_rows(const BatchNormParams& params, const State& s, const Call& call) {
  const Coefficients<T> k(s, call.workspace);
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  const int64_t channels = s.channels;
  const auto count = static_cast<double>(s.count());
  if (params.training) {
    auto* sums = static_cast<double*>(call.workspace);
    // The first row's values are near enough to the means for one pass to do.
    for (int64_t c = 0; c < channels; ++c) k.mean[c] = s.count() > 0 ? x[c] : T(0);
    sum_rows(s, sums, [&](int64_t row, double* sum, double* squares) {
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) {
        const double d =
            static_cast<double>(x[row * channels + c]) - static_cast<double>(k.mean[c]);
        sum[c] += d;
        squares[c] += d * d;
      }
    });
    for (int64_t c = 0; c < channels; ++c) {
      const auto [mean, variance] =
          moments(static_cast<double>(k.mean[c]), {sums[c], sums[channels + c]}, count);
      finish_channel(params, call, k, c, mean, variance);
      update_running<T>(params, call, c, mean, variance, count);
    }
  } else {
    for (int64_t c = 0; c < channels; ++c) use_running(params, call, k, c);
  }
  parallel_for(s.count(), s.grain(channels), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c)
        y[row * channels + c] = (x[row * channels + c] - k.mean[c]) * k.scale[c] + k.shift[c];
  });
}

Support supports(const BatchNormParams&, const Specs& specs) { return supports_layouts(specs, 1); }

void run(const BatchNormParams& params, const State& s, const Call& call) {
  if (call.out[0].dtype() == DType::f64)
    return s.by_rows ? forward_rows<double>(params, s, call)
                     : forward_planes<double>(params, s, call);
  s.by_rows ? forward_rows<float>(params, s, call) : forward_planes<float>(params, s, call);
}

// From the sums of dy and of dy * (x - mean): writes the parameters' gradients and the coefficients
// of dx = dy * scale - shift - (x - mean) * slope.
template <class T>
void finish_grad(const BatchNormParams& params, const State& s, const Call& call,
                 const Coefficients<T>& k, int64_t c, const Sums& sums) {
  const double invstd = static_cast<double>(channel_value<T>(call.in[4], c, 1));
  const double scale = invstd * static_cast<double>(channel_value<T>(call.in[2], c, 1));
  const double share =
      params.training ? 1 / static_cast<double>(std::max<int64_t>(s.count(), 1)) : 0;
  call.out[1].as<T>()[c] = static_cast<T>(sums.second * invstd);
  call.out[2].as<T>()[c] = static_cast<T>(sums.first);
  k.scale[c] = static_cast<T>(scale);
  k.shift[c] = static_cast<T>(scale * sums.first * share);
  k.slope[c] = static_cast<T>(scale * invstd * invstd * sums.second * share);
}

template <class T>
void backward_planes(const BatchNormParams& params, const State& s, const Call& call) {
  const Coefficients<T> k(s, call.workspace);
  const T* dy = call.in[0].as<T>();
  const T* x = call.in[1].as<T>();
  T* dx = call.out[0].as<T>();
  parallel_for(s.channels, s.grain(s.count()), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const T mean = channel_value<T>(call.in[3], c, 0);
      const Sums sums =
          sum_planes(s, c, [&](int64_t at) { return sum_plane(dy + at, x + at, mean, s.size); });
      finish_grad(params, s, call, k, c, sums);
      const T scale = k.scale[c], shift = k.shift[c], slope = k.slope[c];
      for (int64_t n = 0; n < s.n; ++n) {
        const int64_t plane = (n * s.channels + c) * s.size;
        for (int64_t i = plane; i < plane + s.size; ++i)
          dx[i] = dy[i] * scale - shift - (x[i] - mean) * slope;
      }
    }
  });
}

template <class T>
void backward_rows(const BatchNormParams& params, const State& s, const Call& call) {
  const Coefficients<T> k(s, call.workspace);
  const T* dy = call.in[0].as<T>();
  const T* x = call.in[1].as<T>();
  T* dx = call.out[0].as<T>();
  const int64_t channels = s.channels;
  auto* sums = static_cast<double*>(call.workspace);
  for (int64_t c = 0; c < channels; ++c) k.mean[c] = channel_value<T>(call.in[3], c, 0);
  sum_rows(s, sums, [&](int64_t row, double* sum, double* product) {
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      const auto g = static_cast<double>(dy[row * channels + c]);
      sum[c] += g;
      product[c] += g * static_cast<double>(x[row * channels + c] - k.mean[c]);
    }
  });
  for (int64_t c = 0; c < channels; ++c)
    finish_grad(params, s, call, k, c, {sums[c], sums[channels + c]});
  parallel_for(s.count(), s.grain(channels), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t i = row * channels + c;
        dx[i] = dy[i] * k.scale[c] - k.shift[c] - (x[i] - k.mean[c]) * k.slope[c];
      }
  });
}

Support supports_grad(const BatchNormParams&, const Specs& specs) {
  return supports_layouts(specs, 3);
}

void run_grad(const BatchNormParams& params, const State& s, const Call& call) {
  if (call.out[0].dtype() == DType::f64)
    return s.by_rows ? backward_rows<double>(params, s, call)
                     : backward_planes<double>(params, s, call);
  s.by_rows ? backward_rows<float>(params, s, call) : backward_planes<float>(params, s, call);
}

}  // namespace

Kernel batch_norm_vectorized_kernel() { return kernel<supports, prepare, run>("vectorized"); }
Kernel batch_norm_grad_vectorized_kernel() {
  return kernel<supports_grad, prepare, run_grad>("vectorized");
}

}  // namespace mica
