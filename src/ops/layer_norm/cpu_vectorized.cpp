#include <cmath>

#include "mica/ops/layer_norm/cpu.h"
#include "mica/ops/layer_norm/parameter.h"
#include "mica/runtime/cpu/parallel.h"
#include "mica/runtime/cpu/runs.h"

namespace mica {
namespace {

using simd::Vec;

constexpr int64_t kElementsPerThread = 1 << 14;
constexpr int64_t kMostParts = 32;
constexpr int64_t kRowsInFloat = 64;  // rows whose sums C holds before a double takes them

// The parameters' gradients are sums over the rows, which are kept per part of the rows. The number
// of parts depends on the shape alone, so results do not depend on the number of threads.
struct State : KernelState {
  int64_t rows = 0, n = 0, parts = 1;
  int64_t grain() const {
    return std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(1, n));
  }
};

std::shared_ptr<State> prepare_rows(const Shape& x, const Shape& normalized) {
  const NormRows shape(x, normalized);
  auto state = std::make_shared<State>();
  state->rows = shape.rows;
  state->n = shape.n;
  const int64_t most = std::min(kMostParts, std::max<int64_t>(1, shape.rows));
  state->parts = std::clamp<int64_t>(shape.rows * shape.n / kElementsPerThread, 1, most);
  return state;
}

// The workspace holds weight and bias as C.
std::shared_ptr<State> prepare(const LayerNormParams& p, const Specs& specs) {
  auto state = prepare_rows(specs.in[0].shape, p.normalized_shape);
  state->workspace_bytes = static_cast<size_t>(2 * state->n) * sizeof(double);
  return state;
}

// The weight; for each part, two sums of doubles and two of C per column.
std::shared_ptr<State> prepare_grad(const LayerNormGradParams& p, const Specs& specs) {
  auto state = prepare_rows(specs.in[1].shape, p.normalized_shape);
  const int64_t sums = p.parameters ? 4 * state->parts : 0;
  state->workspace_bytes = static_cast<size_t>((sums + 1) * state->n) * sizeof(double);
  return state;
}

Support supports(const LayerNormParams&, const Specs&) {
  return Support::yes().with_contiguous(0b111);
}
Support supports_grad(const LayerNormGradParams&, const Specs&) {
  return Support::yes().with_contiguous(0b11111);
}

template <bool centred, class T>
void forward(const LayerNormParams& p, const State& s, const Call& call) {
  using C = Compute<T>;
  const int64_t n = s.n;
  auto* space = static_cast<C*>(call.workspace);
  const C* weight = parameter_as(call.in[1], 1, n, space);
  const C* bias = nullptr;
  if constexpr (centred) bias = parameter_as(call.in[2], 0, n, space + n);
  parallel_for(s.rows, s.grain(), [&](int64_t begin, int64_t end) {
    RunReader<T> reader;
    RunWriter<T> writer;
    for (int64_t row = begin; row < end; ++row) {
      const T* x = call.in[0].as<T>() + row * n;
      T* y = call.out[0].as<T>() + row * n;
      double mean = 0;
      if constexpr (centred) {
        for_runs<T>(n, [&](int64_t i, int64_t count) {
          const C* from = reader(x + i, count);
          mean += sum_vectors<C>(
              count, [&](int64_t k, int64_t lanes) { return load_lanes(from + k, lanes, C(0)); });
        });
        mean /= static_cast<double>(n);
      }
      const Vec<C> centre(mean);
      double squares = 0;
      for_runs<T>(n, [&](int64_t i, int64_t count) {
        const C* from = reader(x + i, count);
        squares += sum_vectors<C>(count, [&](int64_t k, int64_t lanes) {
          const Vec<C> d = load_lanes(from + k, lanes, static_cast<C>(mean)) - centre;
          return d * d;
        });
      });
      const double rstd = 1 / std::sqrt(squares / static_cast<double>(n) + p.eps);
      const Vec<C> factor(rstd);
      for_runs<T>(n, [&](int64_t i, int64_t count) {
        const C* from = reader(x + i, count);
        C* to = writer.place(y + i);
        for_vectors<C>(count, [&](int64_t k, int64_t lanes) {
          Vec<C> v = (load_lanes(from + k, lanes, C(0)) - centre) * factor *
                     load_lanes(weight + i + k, lanes, C(0));
          if constexpr (centred) v += load_lanes(bias + i + k, lanes, C(0));
          store_lanes(v, to + k, lanes);
        });
        writer.finish(y + i, count);
      });
      if constexpr (centred) call.out[1].as<C>()[row] = static_cast<C>(mean);
      call.out[centred ? 2 : 1].template as<C>()[row] = static_cast<C>(rstd);
    }
  });
}

template <bool centred>
void run(const LayerNormParams& p, const State& s, const Call& call) {
  switch_float(call.in[0].dtype(), "layer_norm",
               [&]<class T>() { forward<centred, T>(p, s, call); });
}

/// dx of one row; adds dy * x^ and dy to `dweight` and `dbias` where these are given.
template <bool centred, class T>
class RowGradient {
 public:
  using C = Compute<T>;

  void operator()(const T* dy, const T* x, const C* weight, C mean, C rstd, int64_t n, T* dx,
                  C* dweight, C* dbias) {
    const Vec<C> centre(mean);
    Sums sums;  // of dy * weight and of dy * weight * (x - mean)
    for_runs<T>(n, [&](int64_t i, int64_t count) {
      const C* g = read_dy_(dy + i, count);
      const C* v = read_x_(x + i, count);
      const Sums more = sum_vectors<C>(count, [&](int64_t k, int64_t lanes) {
        const Vec<C> weighted =
            load_lanes(g + k, lanes, C(0)) * load_lanes(weight + i + k, lanes, C(0));
        return VecPair<C>{weighted, weighted * (load_lanes(v + k, lanes, C(0)) - centre)};
      });
      sums.first += more.first;
      sums.second += more.second;
    });
    const double scale = static_cast<double>(rstd);
    const Vec<C> shift(sums.first / static_cast<double>(n) * scale);
    const Vec<C> slope(sums.second / static_cast<double>(n) * scale * scale * scale);
    const Vec<C> factor(rstd);
    for_runs<T>(n, [&](int64_t i, int64_t count) {
      const C* g = read_dy_(dy + i, count);
      const C* v = read_x_(x + i, count);
      C* to = writer_.place(dx + i);
      for_vectors<C>(count, [&](int64_t k, int64_t lanes) {
        const Vec<C> d = load_lanes(g + k, lanes, C(0));
        const Vec<C> off = load_lanes(v + k, lanes, C(0)) - centre;
        Vec<C> result = d * load_lanes(weight + i + k, lanes, C(0)) * factor - off * slope;
        if constexpr (centred) result = result - shift;
        store_lanes(result, to + k, lanes);
        if (dweight == nullptr) return;
        C* w = dweight + i + k;
        store_lanes(load_lanes(w, lanes, C(0)) + d * off * factor, w, lanes);
        if constexpr (centred) {
          C* b = dbias + i + k;
          store_lanes(load_lanes(b, lanes, C(0)) + d, b, lanes);
        }
      });
      writer_.finish(dx + i, count);
    });
  }

 private:
  RunReader<T> read_dy_, read_x_;
  RunWriter<T> writer_;
};

template <bool centred, class T>
void backward(const LayerNormGradParams& p, const State& s, const Call& call) {
  using C = Compute<T>;
  const int64_t n = s.n;
  auto* totals = static_cast<double*>(call.workspace);  // of each part: dweight, dbias
  auto* space = reinterpret_cast<C*>(totals + (p.parameters ? 2 * s.parts * n : 0));
  const C* weight = parameter_as(call.in[2], 1, n, space);
  C* partial = space + n;
  const C* means = call.in[3].as<C>();
  const C* rstds = call.in[centred ? 4 : 3].template as<C>();
  parallel_for(s.parts, 1, [&](int64_t begin, int64_t end) {
    RowGradient<centred, T> gradient;
    for (int64_t part = begin; part < end; ++part) {
      const int64_t last = s.rows * (part + 1) / s.parts;
      double* total = p.parameters ? totals + part * 2 * n : nullptr;
      C* sums = p.parameters ? partial + part * 2 * n : nullptr;
      if (total) std::fill_n(total, 2 * n, 0.0);
      for (int64_t row = s.rows * part / s.parts; row < last; row += kRowsInFloat) {
        const int64_t stop = std::min(last, row + kRowsInFloat);
        if (sums) std::fill_n(sums, 2 * n, C(0));
        for (int64_t r = row; r < stop; ++r)
          gradient(call.in[0].as<T>() + r * n, call.in[1].as<T>() + r * n, weight,
                   centred ? means[r] : C(0), rstds[r], n, call.out[0].as<T>() + r * n, sums,
                   sums ? sums + n : nullptr);
        for (int64_t i = 0; total && i < 2 * n; ++i) total[i] += static_cast<double>(sums[i]);
      }
    }
  });
  for (int64_t part = 1; p.parameters && part < s.parts; ++part)
    for (int64_t i = 0; i < 2 * n; ++i) totals[i] += totals[part * 2 * n + i];
  for (int64_t i = 0; p.parameters && i < n; ++i) {
    call.out[1].as<C>()[i] = static_cast<C>(totals[i]);
    if constexpr (centred) call.out[2].as<C>()[i] = static_cast<C>(totals[n + i]);
  }
}

template <bool centred>
void run_grad(const LayerNormGradParams& p, const State& s, const Call& call) {
  switch_float(call.in[1].dtype(), "layer_norm_grad",
               [&]<class T>() { backward<centred, T>(p, s, call); });
}

}  // namespace

Kernel layer_norm_vectorized_kernel() { return kernel<supports, prepare, run<true>>("vectorized"); }
Kernel rms_norm_vectorized_kernel() { return kernel<supports, prepare, run<false>>("vectorized"); }
Kernel layer_norm_grad_vectorized_kernel() {
  return kernel<supports_grad, prepare_grad, run_grad<true>>("vectorized");
}
Kernel rms_norm_grad_vectorized_kernel() {
  return kernel<supports_grad, prepare_grad, run_grad<false>>("vectorized");
}

}  // namespace mica
