#include <cmath>

#include "mica/ops/group_norm/cpu.h"
#include "mica/ops/layer_norm/parameter.h"
#include "mica/ops/layouts.h"
#include "mica/runtime/cpu/parallel.h"
#include "mica/runtime/cpu/runs.h"

// Two memory orders. Planes (n, c, size): a channel of an image is contiguous, and a thread has
// whole groups. Rows (n, size, c): loops run over the channels of a position, and a thread has
// whole images. Sums are doubles.
namespace mica {
namespace {

using simd::Vec;

constexpr int64_t kElementsPerThread = 1 << 14;
constexpr int64_t kPerChannel = 6;  // numbers of the workspace per image and channel

struct State : KernelState {
  GroupShape shape;
  bool by_rows;

  State(const TensorSpec& x, int64_t groups)
      : shape(x.shape, groups), by_rows(x.is_channels_last() || shape.size == 1) {
    const int64_t numbers = (kPerChannel * shape.n + 2) * shape.channels();
    workspace_bytes = static_cast<size_t>(numbers) * sizeof(double);
  }
  /// Calls f(image, group) for every group, in parallel.
  template <class F>
  void for_groups(F&& f) const {
    const int64_t grain = kElementsPerThread / std::max<int64_t>(1, shape.count());
    parallel_for(shape.n * shape.groups, std::max<int64_t>(1, grain),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) f(i / shape.groups, i % shape.groups);
                 });
  }
  /// Calls f(image) for every image, in parallel.
  template <class F>
  void for_images(F&& f) const {
    const int64_t values = std::max<int64_t>(1, shape.channels() * shape.size);
    parallel_for(shape.n, std::max<int64_t>(1, kElementsPerThread / values),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) f(i);
                 });
  }
};

Support supports(const GroupNormParams&, const Specs& specs) {
  return supports_layouts(specs, 0b1, 0b110);
}
Support supports_grad(const GroupNormGradParams&, const Specs& specs) {
  return supports_layouts(specs, 0b11, 0b11100);
}

std::shared_ptr<State> prepare(const GroupNormParams& p, const Specs& specs) {
  return std::make_shared<State>(specs.out[0], p.groups);
}
std::shared_ptr<State> prepare_grad(const GroupNormGradParams& p, const Specs& specs) {
  return std::make_shared<State>(specs.out[0], p.groups);
}

template <class T>
void forward_planes(const GroupNormParams& p, const State& s, const Call& call,
                    const Compute<T>* weight, const Compute<T>* bias) {
  using C = Compute<T>;
  const int64_t size = s.shape.size;
  const int64_t count = s.shape.count();
  s.for_groups([&](int64_t image, int64_t group) {
    const int64_t at = (image * s.shape.groups + group) * count;
    const T* x = call.in[0].as<T>() + at;
    T* y = call.out[0].as<T>() + at;
    const double mean =
        sum_run(x, x, 0, count, [](Vec<C> v, Vec<C>) { return v; }) / static_cast<double>(count);
    const Vec<C> centre(mean);
    const double squares =
        sum_run(x, x, mean, count, [&](Vec<C> v, Vec<C>) { return (v - centre) * (v - centre); });
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(count) + p.eps);
    for (int64_t k = 0; k < s.shape.width; ++k) {
      const int64_t channel = group * s.shape.width + k;
      const Vec<C> scale(rstd * static_cast<double>(weight[channel]));
      const Vec<C> shift(bias[channel]);
      map_run(x + k * size, x + k * size, y + k * size, size,
              [&](Vec<C> v, Vec<C>) { return (v - centre) * scale + shift; });
    }
    call.out[1].as<C>()[image * s.shape.groups + group] = static_cast<C>(mean);
    call.out[2].as<C>()[image * s.shape.groups + group] = static_cast<C>(rstd);
  });
}

/// Calls f(first channel, position's offset in the image, values, …) for the positions of an image,
/// by runs of channels.
template <class T, class F>
void for_positions(const State& s, F&& f) {
  const int64_t channels = s.shape.channels();
  for_runs<T>(channels, [&](int64_t c, int64_t count) {
    for (int64_t position = 0; position < s.shape.size; ++position)
      f(c, position * channels + c, count);
  });
}

/// Sums over each group of a number per channel.
template <class F>
double sum_group(const State& s, int64_t group, F&& f) {
  double sum = 0;
  for (int64_t c = group * s.shape.width; c < (group + 1) * s.shape.width; ++c) sum += f(c);
  return sum;
}

template <class T>
void forward_rows(const GroupNormParams& p, const State& s, const Call& call,
                  const Compute<T>* weight, const Compute<T>* bias, double* space) {
  using C = Compute<T>;
  const int64_t channels = s.shape.channels();
  const auto count = static_cast<double>(s.shape.count());
  s.for_images([&](int64_t image) {
    RunReader<T> reader;
    RunWriter<T> writer;
    const T* x = call.in[0].as<T>() + image * channels * s.shape.size;
    T* y = call.out[0].as<T>() + image * channels * s.shape.size;
    double* sums = space + image * kPerChannel * channels;
    C* centre = reinterpret_cast<C*>(sums + channels);
    C* scale = centre + channels;
    std::fill_n(sums, channels, 0.0);
    for_positions<T>(s, [&](int64_t c, int64_t at, int64_t n) {
      const C* v = reader(x + at, n);
      double* sum = sums + c;
      for (int64_t k = 0; k < n; ++k) sum[k] += static_cast<double>(v[k]);
    });
    for (int64_t group = 0; group < s.shape.groups; ++group) {
      const double mean = sum_group(s, group, [&](int64_t c) { return sums[c]; }) / count;
      std::fill_n(centre + group * s.shape.width, s.shape.width, static_cast<C>(mean));
      call.out[1].as<C>()[image * s.shape.groups + group] = static_cast<C>(mean);
    }
    std::fill_n(sums, channels, 0.0);
    for_positions<T>(s, [&](int64_t c, int64_t at, int64_t n) {
      const C* v = reader(x + at, n);
      const C* mean = centre + c;
      double* sum = sums + c;
      for (int64_t k = 0; k < n; ++k) {
        const auto d = static_cast<double>(v[k] - mean[k]);
        sum[k] += d * d;
      }
    });
    for (int64_t group = 0; group < s.shape.groups; ++group) {
      const double squares = sum_group(s, group, [&](int64_t c) { return sums[c]; });
      const double rstd = 1 / std::sqrt(squares / count + p.eps);
      for (int64_t c = group * s.shape.width; c < (group + 1) * s.shape.width; ++c)
        scale[c] = static_cast<C>(rstd * static_cast<double>(weight[c]));
      call.out[2].as<C>()[image * s.shape.groups + group] = static_cast<C>(rstd);
    }
    for_positions<T>(s, [&](int64_t c, int64_t at, int64_t n) {
      const C* v = reader(x + at, n);
      C* to = writer.place(y + at);
      const C *a = centre + c, *b = scale + c, *d = bias + c;
      for (int64_t k = 0; k < n; ++k) to[k] = (v[k] - a[k]) * b[k] + d[k];
      writer.finish(y + at, n);
    });
  });
}

void run(const GroupNormParams& p, const State& s, const Call& call) {
  switch_float(call.in[0].dtype(), "group_norm", [&]<class T>() {
    using C = Compute<T>;
    const int64_t channels = s.shape.channels();
    auto* space = static_cast<C*>(call.workspace);
    const C* weight = parameter_as(call.in[1], 1, channels, space);
    const C* bias = parameter_as(call.in[2], 0, channels, space + channels);
    auto* rest = static_cast<double*>(call.workspace) + 2 * channels;
    if (s.by_rows) {
      forward_rows<T>(p, s, call, weight, bias, rest);
    } else {
      forward_planes<T>(p, s, call, weight, bias);
    }
  });
}

/// Sums over a channel of an image: of dy, and of dy * (x - mean).
struct ChannelSums {
  double* dy;
  double* product;

  ChannelSums(const State& s, double* space, int64_t image)
      : dy(space + image * kPerChannel * s.shape.channels()), product(dy + s.shape.channels()) {}
};

/// dx = dy * weight * rstd - shift - (x - mean) * slope.
struct GroupCoefficients {
  double mean, rstd, shift, slope;

  template <class C>
  GroupCoefficients(const State& s, const Call& call, const C* weight, const ChannelSums& sums,
                    int64_t image, int64_t group)
      : mean(static_cast<double>(call.in[3].as<C>()[image * s.shape.groups + group])),
        rstd(static_cast<double>(call.in[4].as<C>()[image * s.shape.groups + group])) {
    const auto weighted = [&](const double* of) {
      return sum_group(s, group, [&](int64_t c) { return static_cast<double>(weight[c]) * of[c]; });
    };
    const auto count = static_cast<double>(s.shape.count());
    shift = weighted(sums.dy) * rstd / count;
    slope = weighted(sums.product) * rstd * rstd * rstd / count;
  }
};

template <class T>
void backward_planes(const State& s, const Call& call, const Compute<T>* weight, double* space) {
  using C = Compute<T>;
  const int64_t size = s.shape.size;
  s.for_groups([&](int64_t image, int64_t group) {
    const ChannelSums sums(s, space, image);
    const int64_t first = image * s.shape.channels() * size;
    const T* dy = call.in[0].as<T>() + first;
    const T* x = call.in[1].as<T>() + first;
    T* dx = call.out[0].as<T>() + first;
    const Vec<C> centre(call.in[3].as<C>()[image * s.shape.groups + group]);
    const int64_t begin = group * s.shape.width;
    for (int64_t c = begin; c < begin + s.shape.width; ++c) {
      const Sums sum = sum_run(dy + c * size, x + c * size, 0, size,
                               [&](Vec<C> g, Vec<C> v) { return VecPair<C>{g, g * (v - centre)}; });
      sums.dy[c] = sum.first;
      sums.product[c] = sum.second;
    }
    const GroupCoefficients k(s, call, weight, sums, image, group);
    const Vec<C> shift(k.shift), slope(k.slope);
    for (int64_t c = begin; c < begin + s.shape.width; ++c) {
      const Vec<C> scale(k.rstd * static_cast<double>(weight[c]));
      map_run(dy + c * size, x + c * size, dx + c * size, size,
              [&](Vec<C> v, Vec<C> of) { return v * scale - shift - (of - centre) * slope; });
    }
  });
}

template <class T>
void backward_rows(const State& s, const Call& call, const Compute<T>* weight, double* space) {
  using C = Compute<T>;
  const int64_t channels = s.shape.channels();
  s.for_images([&](int64_t image) {
    RunReader<T> read_dy, read_x;
    RunWriter<T> writer;
    const int64_t first = image * channels * s.shape.size;
    const T* dy = call.in[0].as<T>() + first;
    const T* x = call.in[1].as<T>() + first;
    T* dx = call.out[0].as<T>() + first;
    const ChannelSums sums(s, space, image);
    C* centre = reinterpret_cast<C*>(sums.product + channels);
    C* scale = centre + channels;
    C* shift = scale + channels;
    C* slope = shift + channels;
    for (int64_t c = 0; c < channels; ++c)
      centre[c] = call.in[3].as<C>()[image * s.shape.groups + c / s.shape.width];
    std::fill_n(sums.dy, 2 * channels, 0.0);
    for_positions<T>(s, [&](int64_t c, int64_t at, int64_t n) {
      const C* g = read_dy(dy + at, n);
      const C* v = read_x(x + at, n);
      const C* mean = centre + c;
      double *sum = sums.dy + c, *product = sums.product + c;
      for (int64_t k = 0; k < n; ++k) {
        sum[k] += static_cast<double>(g[k]);
        product[k] += static_cast<double>(g[k]) * static_cast<double>(v[k] - mean[k]);
      }
    });
    for (int64_t group = 0; group < s.shape.groups; ++group) {
      const GroupCoefficients k(s, call, weight, sums, image, group);
      for (int64_t c = group * s.shape.width; c < (group + 1) * s.shape.width; ++c) {
        scale[c] = static_cast<C>(k.rstd * static_cast<double>(weight[c]));
        shift[c] = static_cast<C>(k.shift);
        slope[c] = static_cast<C>(k.slope);
      }
    }
    for_positions<T>(s, [&](int64_t c, int64_t at, int64_t n) {
      const C* g = read_dy(dy + at, n);
      const C* v = read_x(x + at, n);
      C* to = writer.place(dx + at);
      const C *a = centre + c, *b = scale + c, *d = shift + c, *e = slope + c;
      for (int64_t k = 0; k < n; ++k) to[k] = g[k] * b[k] - d[k] - (v[k] - a[k]) * e[k];
      writer.finish(dx + at, n);
    });
  });
}

void run_grad(const GroupNormGradParams& p, const State& s, const Call& call) {
  switch_float(call.in[1].dtype(), "group_norm_grad", [&]<class T>() {
    using C = Compute<T>;
    const int64_t channels = s.shape.channels();
    const C* weight = parameter_as(call.in[2], 1, channels, static_cast<C*>(call.workspace));
    auto* space = static_cast<double*>(call.workspace) + 2 * channels;
    if (s.by_rows) {
      backward_rows<T>(s, call, weight, space);
    } else {
      backward_planes<T>(s, call, weight, space);
    }
    for (int64_t c = 0; p.parameters && c < channels; ++c) {
      double dweight = 0;
      double dbias = 0;
      for (int64_t image = 0; image < s.shape.n; ++image) {
        const ChannelSums sums(s, space, image);
        const C rstd = call.in[4].as<C>()[image * s.shape.groups + c / s.shape.width];
        dweight += sums.product[c] * static_cast<double>(rstd);
        dbias += sums.dy[c];
      }
      call.out[1].as<C>()[c] = static_cast<C>(dweight);
      call.out[2].as<C>()[c] = static_cast<C>(dbias);
    }
  });
}

}  // namespace

Kernel group_norm_vectorized_kernel() { return kernel<supports, prepare, run>("vectorized"); }
Kernel group_norm_grad_vectorized_kernel() {
  return kernel<supports_grad, prepare_grad, run_grad>("vectorized");
}

}  // namespace mica
