#include <algorithm>
#include <cmath>

#include "mica/ops/batch_norm/statistics.h"
#include "mica/ops/layouts.h"
#include "mica/runtime/cpu/parallel.h"
#include "mica/runtime/cpu/runs.h"

// Two memory orders. Planes (n, c, size): a channel is a set of contiguous planes and belongs to
// one thread. Rows (n * size, c): loops run over the channels of a row; sums are kept per part of
// the rows. The number of parts depends on the shape alone, so results do not depend on the number
// of threads.
namespace mica {
namespace {

using simd::Vec;

constexpr int64_t kElementsPerThread = 1 << 14;
constexpr int64_t kMostParts = 16;
constexpr int64_t kRowsInFloat = 64;  // rows whose sums S holds before a double takes them
constexpr int64_t kRowsAtOnce = 4;

struct State : KernelState {
  int64_t n = 0, channels = 0, size = 0;
  bool by_rows = false;
  int64_t parts = 1;

  int64_t count() const { return n * size; }
  int64_t grain(int64_t elements) const {
    return std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(1, elements));
  }
};

Support supports(const BatchNormParams&, const Specs& specs) {
  return supports_layouts(specs, 0b1);  // x
}
Support supports_grad(const BatchNormParams&, const Specs& specs) {
  return supports_layouts(specs, 0b11);  // dy and x
}

template <class P>
std::shared_ptr<State> prepare(const P&, const Specs& specs) {
  const TensorSpec& out = specs.out[0];
  auto state = std::make_shared<State>();
  state->n = out.shape[0];
  state->channels = out.shape[1];
  state->size = 1;
  for (int d = 2; d < out.rank(); ++d) state->size *= out.shape[d];
  state->by_rows = out.is_channels_last() || state->size == 1;
  const int64_t elements = state->count() * state->channels;
  state->parts = std::clamp<int64_t>(elements / kElementsPerThread, 1, kMostParts);
  // Two sums per part and channel, as doubles and as S; five numbers per channel.
  const int64_t sums = state->by_rows ? state->parts * 4 : 0;
  state->workspace_bytes = static_cast<size_t>((sums + 5) * state->channels) * sizeof(double);
  return state;
}

// The workspace. `coefficients_of` and `gradient_coefficients` say what the numbers per channel
// mean.
template <class S>
struct Workspace {
  S *mean, *scale, *shift, *slope, *bias;
  double* sums;  ///< of each part, two per channel; then the same in S

  Workspace(const State& s, void* memory)
      : mean(static_cast<S*>(memory)),
        scale(mean + s.channels),
        shift(scale + s.channels),
        slope(shift + s.channels),
        bias(slope + s.channels),
        sums(static_cast<double*>(memory) + 5 * s.channels) {}
};

struct Moments {
  double mean;
  double variance;
};

// From the sums of x - about and of its square, where `about` is near the mean.
Moments moments(double about, Sums sums, double count) {
  const double rest = sums.first / std::max(count, 1.0);
  return {about + rest, std::max(0.0, sums.second / std::max(count, 1.0) - rest * rest)};
}

// What follows the normalisation.
template <bool kResidual, bool kRelu>
struct Ending {
  template <class S>
  Vec<S> operator()(Vec<S> normal, Vec<S> residual) const {
    Vec<S> y = normal;
    if constexpr (kResidual) y = y + residual;
    if constexpr (kRelu) y = select(y < Vec<S>(0), Vec<S>(0), y);  // keeps NaN
    return y;
  }
};

// relu's gradient.
template <class S>
Vec<S> masked(Vec<S> dy, Vec<S> y) {
  return select(y > Vec<S>(0), dy, Vec<S>(0));
}

// The channel's statistics are known: writes them and the coefficients of y = (x - mean) * scale +
// shift.
template <class S>
void coefficients_of(const BatchNormParams& params, const Call& call, const Workspace<S>& w,
                     int64_t c, Moments m) {
  const double invstd = 1 / std::sqrt(m.variance + params.eps);
  call.out[1].as<S>()[c] = static_cast<S>(m.mean);
  call.out[2].as<S>()[c] = static_cast<S>(invstd);
  w.mean[c] = static_cast<S>(m.mean);
  w.scale[c] = static_cast<S>(invstd * static_cast<double>(channel_value<S>(call.in[1], c, 1)));
  w.shift[c] = channel_value<S>(call.in[2], c, 0);
}

template <class S>
Moments running(const Call& call, int64_t c) {
  return {static_cast<double>(channel_value<S>(call.in[3], c, 0)),
          static_cast<double>(channel_value<S>(call.in[4], c, 0))};
}

// What x - mean is multiplied with; the gradient's inputs.
template <class S>
S scale_of(const Call& call, int64_t c) {
  return static_cast<S>(static_cast<double>(channel_value<S>(call.in[4], c, 1)) *
                        static_cast<double>(channel_value<S>(call.in[2], c, 1)));
}

// From the sums of dy and of dy * (x - mean): writes the parameters' gradients and the coefficients
// of dx = dy * scale - shift - (x - mean) * slope.
template <class S>
void gradient_coefficients(const BatchNormParams& params, const State& s, const Call& call,
                           const Workspace<S>& w, int64_t c, Sums sums) {
  const double invstd = static_cast<double>(channel_value<S>(call.in[4], c, 1));
  const double scale = invstd * static_cast<double>(channel_value<S>(call.in[2], c, 1));
  const double share =
      params.training ? 1 / static_cast<double>(std::max<int64_t>(s.count(), 1)) : 0;
  call.out[1].as<S>()[c] = static_cast<S>(sums.second * invstd);
  call.out[2].as<S>()[c] = static_cast<S>(sums.first);
  w.scale[c] = static_cast<S>(scale);
  w.shift[c] = static_cast<S>(scale * sums.first * share);
  w.slope[c] = static_cast<S>(scale * invstd * invstd * sums.second * share);
}

// Calls f(first element) for the planes of a channel.
template <class F>
void for_planes(const State& s, int64_t channel, F&& f) {
  for (int64_t n = 0; n < s.n; ++n) f((n * s.channels + channel) * s.size);
}

template <class T, class End>
void forward_planes(const BatchNormParams& params, const State& s, const Call& call,
                    const Arg& added, End end_of) {
  using S = Compute<T>;
  const Workspace<S> w(s, call.workspace);
  const T* x = call.in[0].as<T>();
  const T* residual = added.defined() ? added.as<T>() : x;
  T* y = call.out[0].as<T>();
  const auto count = static_cast<double>(s.count());
  parallel_for(s.channels, s.grain(s.count()), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      Moments m = running<S>(call, c);
      if (params.training) {
        // The first plane's mean is near enough to that of all for one pass to do.
        const T* first = x + c * s.size;
        double about = 0;
        if (s.count() > 0)
          about = sum_run(first, first, 0, s.size, [](Vec<S> v, Vec<S>) { return v; }) /
                  static_cast<double>(s.size);
        const Vec<S> centre(about);
        about = static_cast<double>(static_cast<S>(about));
        Sums sums;
        for_planes(s, c, [&](int64_t at) {
          const Sums plane = sum_run(x + at, x + at, about, s.size, [&](Vec<S> v, Vec<S>) {
            const Vec<S> d = v - centre;
            return VecPair<S>{d, d * d};
          });
          sums.first += plane.first;
          sums.second += plane.second;
        });
        m = moments(about, sums, count);
        update_running<S>(params, call, c, m.mean, m.variance, count);
      }
      coefficients_of(params, call, w, c, m);
      const Vec<S> mean(w.mean[c]), scale(w.scale[c]), shift(w.shift[c]);
      for_planes(s, c, [&](int64_t at) {
        map_run(x + at, residual + at, y + at, s.size,
                [&](Vec<S> v, Vec<S> r) { return end_of((v - mean) * scale + shift, r); });
      });
    }
  });
}

// With kRecomputed dy counts where what x becomes is positive.
template <class T, bool kRecomputed>
void backward_planes(const BatchNormParams& params, const State& s, const Call& call,
                     const Arg& bias_arg, const Arg& y) {
  using S = Compute<T>;
  const Workspace<S> w(s, call.workspace);
  T* const dz = y.defined() ? call.out[3].as<T>() : nullptr;
  const T* dy = dz ? dz : call.in[0].as<T>();
  const T* x = call.in[1].as<T>();
  T* dx = call.out[0].as<T>();
  parallel_for(s.channels, s.grain(s.count()), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const Vec<S> mean(channel_value<S>(call.in[3], c, 0));
      const Vec<S> bias(channel_value<S>(bias_arg, c, 0));
      const Vec<S> scale(scale_of<S>(call, c));
      const auto slope_of = [&](Vec<S> g, Vec<S> v) {
        return kRecomputed ? masked(g, (v - mean) * scale + bias) : g;
      };
      Sums sums;
      for_planes(s, c, [&](int64_t at) {
        if (dz)
          map_run(call.in[0].as<T>() + at, y.as<T>() + at, dz + at, s.size,
                  [](Vec<S> g, Vec<S> v) { return masked(g, v); });
        const Sums plane = sum_run(dy + at, x + at, 0, s.size, [&](Vec<S> g, Vec<S> v) {
          g = slope_of(g, v);
          return VecPair<S>{g, g * (v - mean)};
        });
        sums.first += plane.first;
        sums.second += plane.second;
      });
      gradient_coefficients(params, s, call, w, c, sums);
      const Vec<S> shift(w.shift[c]), slope(w.slope[c]);
      for_planes(s, c, [&](int64_t at) {
        map_run(dy + at, x + at, dx + at, s.size, [&](Vec<S> g, Vec<S> v) {
          return slope_of(g, v) * scale - shift - (v - mean) * slope;
        });
      });
    }
  });
}

// Sums over the rows, into the first part's, of the pairs f(c, lanes)(a, b), c being the first of
// a vector's channels; b may be a.
template <class T, class F>
void sum_rows(const State& s, const Workspace<Compute<T>>& w, const T* a, const T* b, F&& f) {
  using S = Compute<T>;
  const int64_t channels = s.channels;
  const int64_t rows = s.count();
  auto* partial = reinterpret_cast<S*>(w.sums + s.parts * 2 * channels);
  parallel_for(s.parts, 1, [&](int64_t begin, int64_t end) {
    RunReader<T> read_a[kRowsAtOnce], read_b[kRowsAtOnce];
    for (int64_t part = begin; part < end; ++part) {
      double* total = w.sums + part * 2 * channels;
      S* first = partial + part * 2 * channels;
      S* second = first + channels;
      std::fill_n(total, 2 * channels, 0.0);
      const int64_t last = rows * (part + 1) / s.parts;
      // Adds some rows from `row` on to the sums in S.
      const auto add = [&]<int64_t count>(int64_t row) {
        for_runs<T>(channels, [&](int64_t c, int64_t length) {
          const S *u[count], *v[count];
          for (int64_t k = 0; k < count; ++k) {
            const int64_t at = (row + k) * channels + c;
            u[k] = read_a[k](a + at, length);
            v[k] = a == b ? u[k] : read_b[k](b + at, length);
          }
          for_vectors<S>(length, [&](int64_t i, int64_t lanes) {
            VecPair<S> sum{load_lanes(first + c + i, lanes, S(0)),
                           load_lanes(second + c + i, lanes, S(0))};
            const auto pair = f(c + i, lanes);
            for (int64_t k = 0; k < count; ++k)
              sum += pair(load_lanes(u[k] + i, lanes, S(0)), load_lanes(v[k] + i, lanes, S(0)));
            store_lanes(sum.first, first + c + i, lanes);
            store_lanes(sum.second, second + c + i, lanes);
          });
        });
      };
      for (int64_t row = rows * part / s.parts; row < last; row += kRowsInFloat) {
        const int64_t stop = std::min(last, row + kRowsInFloat);
        std::fill_n(first, 2 * channels, S(0));
        int64_t r = row;
        for (; r + kRowsAtOnce <= stop; r += kRowsAtOnce) add.template operator()<kRowsAtOnce>(r);
        for (; r < stop; ++r) add.template operator()<1>(r);
        for (int64_t i = 0; i < 2 * channels; ++i) total[i] += static_cast<double>(first[i]);
      }
    }
  });
  for (int64_t part = 1; part < s.parts; ++part)
    for (int64_t i = 0; i < 2 * channels; ++i) w.sums[i] += w.sums[part * 2 * channels + i];
}

// to = f(a, b, first index of the vector's channels, lanes) over every row; b may be a.
template <class T, class F>
void map_rows(const State& s, const T* a, const T* b, T* to, F&& f_of) {
  using S = Compute<T>;
  parallel_for(s.count(), s.grain(s.channels), [&](int64_t begin, int64_t end) {
    const auto f = f_of;  // a copy of its own, which no store can change
    RunReader<T> read_a, read_b;
    RunWriter<T> writer;
    for (int64_t row = begin; row < end; ++row)
      for_runs<T>(s.channels, [&](int64_t c, int64_t length) {
        const int64_t at = row * s.channels + c;
        const S* u = read_a(a + at, length);
        const S* v = a == b ? u : read_b(b + at, length);
        S* out = writer.place(to + at);
        for_vectors<S>(length, [&](int64_t i, int64_t lanes) {
          store_lanes(
              f(load_lanes(u + i, lanes, S(0)), load_lanes(v + i, lanes, S(0)), c + i, lanes),
              out + i, lanes);
        });
        writer.finish(to + at, length);
      });
  });
}

// The lanes of a number per channel.
template <class S>
Vec<S> lanes_of(const S* numbers, int64_t c, int64_t lanes) {
  return load_lanes(numbers + c, lanes, S(0));
}

template <class T, class End>
void forward_rows(const BatchNormParams& params, const State& s, const Call& call, const Arg& added,
                  End end_of) {
  using S = Compute<T>;
  const Workspace<S> w(s, call.workspace);
  const T* x = call.in[0].as<T>();
  const T* residual = added.defined() ? added.as<T>() : x;
  const int64_t channels = s.channels;
  const auto count = static_cast<double>(s.count());
  if (params.training) {
    // The mean of some rows is near enough to that of all for one pass to do.
    const int64_t some = std::min<int64_t>(8, s.count());
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (int64_t row = 0; row < some; ++row) sum += static_cast<double>(x[row * channels + c]);
      w.mean[c] = static_cast<S>(sum / static_cast<double>(std::max<int64_t>(some, 1)));
    }
    sum_rows(s, w, x, x, [w](int64_t c, int64_t lanes) {
      return [about = lanes_of(w.mean, c, lanes)](Vec<S> v, Vec<S>) {
        const Vec<S> d = v - about;
        return VecPair<S>{d, d * d};
      };
    });
  }
  for (int64_t c = 0; c < channels; ++c) {
    Moments m = running<S>(call, c);
    if (params.training) {
      m = moments(static_cast<double>(w.mean[c]), {w.sums[c], w.sums[channels + c]}, count);
      update_running<S>(params, call, c, m.mean, m.variance, count);
    }
    coefficients_of(params, call, w, c, m);
  }
  map_rows(s, x, residual, call.out[0].as<T>(),
           [w, end_of](Vec<S> v, Vec<S> r, int64_t c, int64_t lanes) {
             const Vec<S> normal = (v - lanes_of(w.mean, c, lanes)) * lanes_of(w.scale, c, lanes) +
                                   lanes_of(w.shift, c, lanes);
             return end_of(normal, r);
           });
}

template <class T, bool kRecomputed>
void backward_rows(const BatchNormParams& params, const State& s, const Call& call,
                   const Arg& bias_arg, const Arg& y) {
  using S = Compute<T>;
  const Workspace<S> w(s, call.workspace);
  const T* dy = call.in[0].as<T>();
  const T* x = call.in[1].as<T>();
  const int64_t channels = s.channels;
  for (int64_t c = 0; c < channels; ++c) {
    w.mean[c] = channel_value<S>(call.in[3], c, 0);
    w.scale[c] = scale_of<S>(call, c);
    w.bias[c] = channel_value<S>(bias_arg, c, 0);
  }
  if (y.defined()) {
    T* const dz = call.out[3].as<T>();
    map_rows(s, dy, y.as<T>(), dz,
             [](Vec<S> g, Vec<S> v, int64_t, int64_t) { return masked(g, v); });
    dy = dz;
  }
  // The slope and the deviation from the mean.
  const auto parts = [w](Vec<S> g, Vec<S> v, int64_t c, int64_t lanes) {
    const Vec<S> off = v - lanes_of(w.mean, c, lanes);
    if constexpr (kRecomputed)
      g = masked(g, off * lanes_of(w.scale, c, lanes) + lanes_of(w.bias, c, lanes));
    return VecPair<S>{g, off};
  };
  sum_rows(s, w, dy, x, [parts](int64_t c, int64_t lanes) {
    return [=](Vec<S> g, Vec<S> v) {
      const VecPair<S> p = parts(g, v, c, lanes);
      return VecPair<S>{p.first, p.first * p.second};
    };
  });
  for (int64_t c = 0; c < channels; ++c)
    gradient_coefficients(params, s, call, w, c, {w.sums[c], w.sums[channels + c]});
  map_rows(s, dy, x, call.out[0].as<T>(), [w, parts](Vec<S> g, Vec<S> v, int64_t c, int64_t lanes) {
    const VecPair<S> p = parts(g, v, c, lanes);
    return p.first * lanes_of(w.scale, c, lanes) - lanes_of(w.shift, c, lanes) -
           p.second * lanes_of(w.slope, c, lanes);
  });
}

template <bool kResidual, bool kRelu>
void forward(const BatchNormParams& params, const State& s, const Call& call, const Arg& added) {
  switch_float(call.out[0].dtype(), "batch_norm", [&]<class T>() {
    const Ending<kResidual, kRelu> end;
    s.by_rows ? forward_rows<T>(params, s, call, added, end)
              : forward_planes<T>(params, s, call, added, end);
  });
}

void run(const BatchNormParams& params, const State& s, const Call& call) {
  forward<false, false>(params, s, call, no_arg());
}

template <bool kRecomputed>
void backward(const BatchNormParams& params, const State& s, const Call& call, const Arg& bias,
              const Arg& y) {
  switch_float(call.out[0].dtype(), "batch_norm_grad", [&]<class T>() {
    s.by_rows ? backward_rows<T, kRecomputed>(params, s, call, bias, y)
              : backward_planes<T, kRecomputed>(params, s, call, bias, y);
  });
}

void run_grad(const BatchNormParams& params, const State& s, const Call& call) {
  backward<false>(params, s, call, no_arg(), no_arg());
}

Support supports_end(const AnchoredParams& params, const Specs& specs) {
  const auto end = batch_norm_end(params, specs);
  if (!end) return Support::no("it carries a sum and relu after batch_norm");
  return supports_layouts(specs, end->added < 0 ? 0b1 : 0b1 | 1U << end->added);
}

void run_end(const AnchoredParams& params, const State& s, const Call& call) {
  const auto known = known_after(params, *params.call->op);
  const bool relu = known->activation == Activation::relu;
  const auto run = known->added < 0 ? (relu ? forward<false, true> : forward<false, false>)
                                    : (relu ? forward<true, true> : forward<true, false>);
  run(batch_norm_params(params), s, call, input_or_none(call, known->added));
}

Support supports_masked(const AnchoredParams& params, const Specs& specs) {
  const auto mask = batch_norm_mask(params, specs);
  if (!mask || mask->added >= 0) return Support::no("it carries relu_grad before batch_norm_grad");
  return supports_layouts(specs, mask->y < 0 ? 0b11 : 0b11 | 1U << mask->y);
}

struct MaskedState : State {
  explicit MaskedState(const State& state) : State(state) {}
  BatchNormMask mask;
};

std::shared_ptr<MaskedState> prepare_masked(const AnchoredParams& params, const Specs& specs) {
  auto state = std::make_shared<MaskedState>(*prepare(params, specs));
  state->mask = *batch_norm_mask(params, specs);
  return state;
}

void run_masked(const AnchoredParams& params, const MaskedState& s, const Call& call) {
  const auto run = s.mask.recomputed ? backward<true> : backward<false>;
  run(batch_norm_params(params), s, call, input_or_none(call, s.mask.bias),
      input_or_none(call, s.mask.y));
}

}  // namespace

Kernel batch_norm_vectorized_kernel() {
  return kernel<supports, prepare<BatchNormParams>, run>("vectorized");
}
Kernel batch_norm_grad_vectorized_kernel() {
  return kernel<supports_grad, prepare<BatchNormParams>, run_grad>("vectorized");
}
KernelList batch_norm_carrying_kernels() {
  return {kernel<supports_end, prepare<AnchoredParams>, run_end>("batch_norm_vectorized"),
          kernel<supports_masked, prepare_masked, run_masked>("batch_norm_grad_vectorized")};
}

}  // namespace mica
