#include "mica/ops/fft/cpu.h"

#include "mica/core/dtype_switch.h"
#include "mica/ops/fft/cpu_engine.h"

namespace mica {
namespace {

using fft::Engine;

/// How a kernel's lines are shared out: blocks of as many as run at once, each share with memory of
/// its own.
template <class T>
struct State : KernelState {
  State(int64_t length, int64_t count, int64_t signals)
      : engine(length, count / signals),
        lines(count),
        per_block(engine.lanes() * signals),
        blocks((count + per_block - 1) / per_block),
        shares(std::clamp<int64_t>(blocks, 1, omp_get_max_threads())),
        values(engine.data() + engine.scratch()) {
    // One line over several threads shares its memory among them.
    if (engine.lanes() == 1 && blocks < omp_get_max_threads()) shares = 1;
    workspace_bytes = static_cast<size_t>(shares * values) * sizeof(T);
  }

  /// Calls f(first line, lines, data) before and after the transform of each block.
  template <class Load, class Store>
  void run(const Call& c, Load&& load, Store&& store) const {
    auto* workspace = static_cast<T*>(c.workspace);
    const auto share_of = [&](int64_t share) {
      T* data = workspace + share * values;
      for (int64_t b = blocks * share / shares; b < blocks * (share + 1) / shares; ++b) {
        const int64_t first = b * per_block;
        const int64_t n = std::min(per_block, lines - first);
        load(first, n, data);
        engine.run(data, data + engine.data());
        store(first, n, data);
      }
    };
    if (shares == 1) return share_of(0);
    const int64_t grain =
        std::max<int64_t>(1, kGrain * shares / std::max<int64_t>(1, lines * engine.size()));
    parallel_for(shares, grain, [&](int64_t begin, int64_t end) {
      for (int64_t share = begin; share < end; ++share) share_of(share);
    });
  }

  static constexpr int64_t kGrain = 4096;  ///< numbers worth a thread of their own
  Engine<T> engine;
  int64_t lines;
  int64_t per_block;
  int64_t blocks;
  int64_t shares;
  int64_t values;
};

template <class T>
constexpr int64_t kWidth = Engine<T>::kWidth;

/// Number i of lane l.
template <class T>
struct Lanes {
  T* data;
  int64_t lanes;
  T& re(int64_t i, int64_t l) const { return data[2 * i * lanes + l]; }
  T& im(int64_t i, int64_t l) const { return data[(2 * i + 1) * lanes + l]; }
};

/// Exchanges real and imaginary parts of all numbers.
template <class T>
void exchange(T* data, int64_t n, int64_t lanes) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t l = 0; l < lanes; ++l)
      std::swap(data[2 * i * lanes + l], data[(2 * i + 1) * lanes + l]);
}

template <class T>
void run_complex(const FftParams& p, const State<T>& state, const Call& c) {
  const int64_t n = state.engine.size();
  const int64_t lanes = state.engine.lanes();
  const auto scale = static_cast<T>(p.scale);
  const T* in = c.in[0].as<T>();
  T* out = c.out[0].as<T>();
  state.run(
      c,
      [&](int64_t first, int64_t count, T* data) {
        const T* from = in + 2 * first * n;
        const Lanes<T> x{data, lanes};
        int64_t i = 0;
        if (lanes == 1) {
          std::copy(from, from + 2 * n, data);
          i = n;
        }
        for (; count == kWidth<T> && i + kWidth<T> <= n; i += kWidth<T>)
          Engine<T>::load_square(from + 2 * i, 2 * n, data + 2 * i * lanes);
        for (; i < n; ++i)
          for (int64_t l = 0; l < lanes; ++l) {
            x.re(i, l) = l < count ? from[2 * (l * n + i)] : T(0);
            x.im(i, l) = l < count ? from[2 * (l * n + i) + 1] : T(0);
          }
        if (p.inverse) exchange(data, n, lanes);
      },
      [&](int64_t first, int64_t count, T* data) {
        if (p.inverse) exchange(data, n, lanes);
        if (scale != 1)
          for (int64_t i = 0; i < 2 * n * lanes; ++i) data[i] *= scale;
        T* to = out + 2 * first * n;
        const Lanes<T> x{data, lanes};
        int64_t i = 0;
        if (lanes == 1) {
          std::copy(data, data + 2 * n, to);
          i = n;
        }
        for (; count == kWidth<T> && i + kWidth<T> <= n; i += kWidth<T>)
          Engine<T>::store_square(data + 2 * i * lanes, to + 2 * i, 2 * n);
        for (; i < n; ++i)
          for (int64_t l = 0; l < count; ++l) {
            to[2 * (l * n + i)] = x.re(i, l);
            to[2 * (l * n + i) + 1] = x.im(i, l);
          }
      });
}

/// Two real lines are the parts of one complex line; by symmetry their transforms come apart.
template <class T>
void run_to_half(const RealFftParams& p, const State<T>& state, const Call& c) {
  const int64_t n = state.engine.size();
  const int64_t m = n / 2 + 1;
  const int64_t lanes = state.engine.lanes();
  const auto half = static_cast<T>(p.scale / 2);
  const T* in = c.in[0].as<T>();
  T* out = c.out[0].as<T>();
  state.run(
      c,
      [&](int64_t first, int64_t count, T* data) {
        const T* from = in + first * n;
        const Lanes<T> x{data, lanes};
        for (int64_t l = 0; l < lanes; ++l) {
          const T* a = 2 * l < count ? from + 2 * l * n : nullptr;
          const T* b = 2 * l + 1 < count ? from + (2 * l + 1) * n : nullptr;
          for (int64_t i = 0; i < n; ++i) {
            x.re(i, l) = a ? a[i] : T(0);
            x.im(i, l) = b ? b[i] : T(0);
          }
        }
      },
      [&](int64_t first, int64_t count, T* data) {
        T* to = out + 2 * first * m;
        const Lanes<T> z{data, lanes};
        for (int64_t l = 0; 2 * l < count; ++l) {
          T* a = to + 4 * l * m;
          T* b = 2 * l + 1 < count ? a + 2 * m : nullptr;
          for (int64_t i = 0; i < m; ++i) {
            const int64_t j = i == 0 ? 0 : n - i;
            a[2 * i] = half * (z.re(i, l) + z.re(j, l));
            a[2 * i + 1] = half * (z.im(i, l) - z.im(j, l));
            if (!b) continue;
            b[2 * i] = half * (z.im(i, l) + z.im(j, l));
            b[2 * i + 1] = half * (z.re(j, l) - z.re(i, l));
          }
        }
      });
}

/// The other way: two lines that become real are a + bi.
template <class T>
void run_from_half(const RealFftParams& p, const State<T>& state, const Call& c) {
  const int64_t n = state.engine.size();
  const int64_t m = n / 2 + 1;
  const int64_t lanes = state.engine.lanes();
  const auto scale = static_cast<T>(p.scale);
  const T* in = c.in[0].as<T>();
  T* out = c.out[0].as<T>();
  state.run(
      c,
      [&](int64_t first, int64_t count, T* data) {
        const Lanes<T> x{data, lanes};
        for (int64_t l = 0; l < lanes; ++l) {
          const T* a = 2 * l < count ? in + 2 * (first + 2 * l) * m : nullptr;
          const T* b = 2 * l + 1 < count ? in + 2 * (first + 2 * l + 1) * m : nullptr;
          for (int64_t i = 0; i < m; ++i) {
            // Of the first number, and of the middle one, the transform knows the real part alone.
            const bool is_real = i == 0 || 2 * i == n;
            const T are = a ? a[2 * i] : T(0);
            const T aim = a && !is_real ? a[2 * i + 1] : T(0);
            const T bre = b ? b[2 * i] : T(0);
            const T bim = b && !is_real ? b[2 * i + 1] : T(0);
            // Parts exchanged: the forward transform then runs backward.
            x.im(i, l) = are - bim;
            x.re(i, l) = aim + bre;
            if (i == 0 || 2 * i == n) continue;
            x.im(n - i, l) = are + bim;
            x.re(n - i, l) = bre - aim;
          }
        }
      },
      [&](int64_t first, int64_t count, T* data) {
        const Lanes<T> z{data, lanes};
        for (int64_t l = 0; 2 * l < count; ++l) {
          T* a = out + (first + 2 * l) * n;
          T* b = 2 * l + 1 < count ? a + n : nullptr;
          for (int64_t i = 0; i < n; ++i) {
            a[i] = scale * z.im(i, l);
            if (b) b[i] = scale * z.re(i, l);
          }
        }
      });
}

bool is_double(const TensorSpec& s) { return real_dtype(s.dtype) == DType::f64; }

template <class P>
Support dense(const P&, const Specs&) {
  return Support::yes().with_contiguous({0});
}

template <int64_t signals>
std::shared_ptr<KernelState> prepare_lines(const TensorSpec& whole) {
  const int64_t n = whole.shape.back();
  const int64_t lines = n == 0 ? 0 : whole.numel() / n;
  if (is_double(whole)) return std::make_shared<State<double>>(n, lines, signals);
  return std::make_shared<State<float>>(n, lines, signals);
}
std::shared_ptr<KernelState> prepare(const FftParams&, const Specs& s) {
  return prepare_lines<1>(s.in[0]);
}
std::shared_ptr<KernelState> prepare_to_half(const RealFftParams&, const Specs& s) {
  return prepare_lines<2>(s.in[0]);
}
std::shared_ptr<KernelState> prepare_from_half(const RealFftParams&, const Specs& s) {
  return prepare_lines<2>(s.out[0]);
}

/// Calls a function of the type that the state was made for.
template <class P, auto for_float, auto for_double>
void run_typed(const P& p, const KernelState& state, const Call& c) {
  if (c.out[0].numel() == 0) return;
  if (is_double(*c.in[0].spec)) {
    for_double(p, static_cast<const State<double>&>(state), c);
  } else {
    for_float(p, static_cast<const State<float>&>(state), c);
  }
}

Kernel taking_complex(Kernel k) {
  k.takes_complex = true;
  return k;
}

}  // namespace

Kernel fft_stockham_kernel() {
  return taking_complex(
      kernel<dense<FftParams>, prepare,
             run_typed<FftParams, run_complex<float>, run_complex<double>>>("stockham"));
}
Kernel rfft_stockham_kernel() {
  return taking_complex(
      kernel<dense<RealFftParams>, prepare_to_half,
             run_typed<RealFftParams, run_to_half<float>, run_to_half<double>>>("stockham"));
}
Kernel irfft_stockham_kernel() {
  return taking_complex(
      kernel<dense<RealFftParams>, prepare_from_half,
             run_typed<RealFftParams, run_from_half<float>, run_from_half<double>>>("stockham"));
}

}  // namespace mica
