#include "mica/ops/fft/cpu.h"

#include "mica/core/dtype_switch.h"
#include "mica/ops/fft/cpu_engine.h"

namespace mica {
namespace {

using fft::Engine;
using fft::kSquare;

/// How a kernel's lines are shared out: blocks of as many as run at once, each share with memory of
/// its own.
template <class T>
struct State : KernelState {
  /// `signals` lines are one of the engine's, which has `at_once` of its own to do.
  State(int64_t length, int64_t count, int64_t signals, int64_t at_once)
      : engine(length, at_once),
        lines(count),
        per_block(engine.lanes() * signals),
        blocks((count + per_block - 1) / per_block),
        shares(std::clamp<int64_t>(blocks, 1, omp_get_max_threads())),
        values(engine.data() + engine.scratch()) {
    // One line over several threads shares its memory among them.
    if (engine.lanes() == 1 && blocks < omp_get_max_threads()) shares = 1;
    workspace_bytes = static_cast<size_t>(shares * values) * sizeof(T);
  }
  /// Of real lines, each by itself as half as many complex numbers.
  static std::shared_ptr<State> fold(int64_t length, int64_t count) {
    auto state = std::make_shared<State>(length / 2, count, 1, 1);
    for (int64_t i = 0; i < length / 2; ++i)
      state->roots.emplace_back(fft::root_of_unity(i, length));
    return state;
  }
  bool folded() const { return !roots.empty(); }

  /// Calls f(line, scratch) for lines that the engine transforms singly; after the scratch is room
  /// for a line.
  template <class F>
  void run_lines(const Call& c, F&& f) const {
    auto* workspace = static_cast<T*>(c.workspace);
    in_shares([&](int64_t share) {
      for (int64_t line = lines * share / shares; line < lines * (share + 1) / shares; ++line)
        f(line, workspace + share * values);
    });
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
    in_shares(share_of);
  }

  template <class F>
  void in_shares(F&& f) const {
    if (shares == 1) return f(0);
    const int64_t grain =
        std::max<int64_t>(1, kGrain * shares / std::max<int64_t>(1, lines * engine.size()));
    parallel_for(shares, grain, [&](int64_t begin, int64_t end) {
      for (int64_t share = begin; share < end; ++share) f(share);
    });
  }

  static constexpr int64_t kGrain = 4096;  ///< numbers worth a thread of their own
  Engine<T> engine;
  int64_t lines;
  int64_t per_block;
  int64_t blocks;
  int64_t shares;
  int64_t values;
  std::vector<Complex<T>> roots = {};  ///< of unity, of a folded line
};

template <class T>
constexpr int64_t kWidth = Engine<T>::kWidth;

/// Number i of line l.
template <class T>
struct Lanes {
  T* data;
  int64_t lanes;
  T& re(int64_t i, int64_t l) const { return data[2 * i * lanes + lane(l)]; }
  T& im(int64_t i, int64_t l) const { return data[(2 * i + 1) * lanes + lane(l)]; }
  int64_t lane(int64_t l) const { return lanes == 1 ? 0 : fft::lane_of<T>(l); }
};

/// Lanes of complex lines, from and to where they lie.
template <bool inverse, class T>
void run_complex_lanes(const State<T>& state, const Call& c, T scale) {
  const int64_t n = state.engine.size();
  const int64_t lanes = state.engine.lanes();
  state.run(
      c,
      [&](int64_t first, int64_t count, T* data) {
        const T* from = c.in[0].as<T>() + 2 * first * n;
        const Lanes<T> x{data, lanes};
        int64_t i = 0;
        for (; count == kWidth<T> && i + kSquare<T> <= n; i += kSquare<T>)
          fft::load_square<inverse>(from + 2 * i, 2 * n, data + 2 * i * lanes);
        for (; i < n; ++i)
          for (int64_t l = 0; l < lanes; ++l) {
            const T* number = from + 2 * (l * n + i);
            (inverse ? x.im(i, l) : x.re(i, l)) = l < count ? number[0] : T(0);
            (inverse ? x.re(i, l) : x.im(i, l)) = l < count ? number[1] : T(0);
          }
      },
      [&](int64_t first, int64_t count, T* data) {
        T* to = c.out[0].as<T>() + 2 * first * n;
        const Lanes<T> x{data, lanes};
        int64_t i = 0;
        for (; count == kWidth<T> && i + kSquare<T> <= n; i += kSquare<T>)
          fft::store_square<inverse>(data + 2 * i * lanes, to + 2 * i, 2 * n, scale);
        for (; i < n; ++i)
          for (int64_t l = 0; l < count; ++l) {
            to[2 * (l * n + i)] = scale * (inverse ? x.im(i, l) : x.re(i, l));
            to[2 * (l * n + i) + 1] = scale * (inverse ? x.re(i, l) : x.im(i, l));
          }
      });
}

/// The two lines in each lane of `data` (n numbers) come apart, numbers [i, i + kSquare) of each,
/// which go to lines of m numbers.
template <class T>
void part_square(const T* data, int64_t n, int64_t i, T half, T* to, int64_t m) {
  constexpr int64_t kStep = 2 * kWidth<T>;
  alignas(simd::kBytes) T a[kSquare<T> * kStep];
  alignas(simd::kBytes) T b[kSquare<T> * kStep];
  for (int64_t k = 0; k < kSquare<T>; ++k) {
    const auto x = fft::LanePair<T>::load(data + (i + k) * kStep);
    const auto y = fft::LanePair<T>::load(data + (i + k == 0 ? 0 : n - i - k) * kStep);
    fft::LanePair<T>{x.re + y.re, x.im - y.im}.store(a + k * kStep);
    fft::LanePair<T>{x.im + y.im, y.re - x.re}.store(b + k * kStep);
  }
  fft::store_square<false>(a, to, 4 * m, half);
  fft::store_square<false>(b, to + 2 * m, 4 * m, half);
}
/// The other way, with the parts exchanged.
template <class T>
void join_square(const T* from, int64_t m, int64_t n, int64_t i, T* data) {
  constexpr int64_t kStep = 2 * kWidth<T>;
  alignas(simd::kBytes) T first[kSquare<T> * kStep];
  alignas(simd::kBytes) T second[kSquare<T> * kStep];
  fft::load_square<false>(from, 4 * m, first);
  fft::load_square<false>(from + 2 * m, 4 * m, second);
  for (int64_t k = 0; k < kSquare<T>; ++k) {
    auto a = fft::LanePair<T>::load(first + k * kStep);
    auto b = fft::LanePair<T>::load(second + k * kStep);
    // Of the first number, and of the middle one, the transform knows the real part alone.
    const int64_t at = i + k;
    const bool is_real = at == 0 || 2 * at == n;
    if (is_real) a.im = b.im = simd::Vec<T>(0);
    fft::LanePair<T>{a.im + b.re, a.re - b.im}.store(data + at * kStep);
    if (!is_real) fft::LanePair<T>{b.re - a.im, a.re + b.im}.store(data + (n - at) * kStep);
  }
}

template <class T>
void run_complex(const FftParams& p, const State<T>& state, const Call& c) {
  const auto scale = static_cast<T>(p.scale);
  if (state.engine.takes_lines()) {
    const int64_t n = state.engine.size();
    state.run_lines(c, [&](int64_t line, T* scratch) {
      state.engine.run_line(c.in[0].as<T>() + 2 * line * n, c.out[0].as<T>() + 2 * line * n,
                            p.inverse, scale, scratch);
    });
  } else if (p.inverse) {
    run_complex_lanes<true>(state, c, scale);
  } else {
    run_complex_lanes<false>(state, c, scale);
  }
}

/// Of one real line as n / 2 complex numbers z: X(i) = (z(i) + z̄(j)) / 2 - i w(i) (z(i) - z̄(j)) / 2
/// with j = n / 2 - i, in the place of z.
template <class T>
void unfold(const std::vector<Complex<T>>& w, T half, T* x) {
  const auto m = static_cast<int64_t>(w.size());  // n / 2
  const T re = x[0];
  const T im = x[1];
  for (int64_t i = 1; 2 * i <= m; ++i) {
    const int64_t j = m - i;
    const Complex<T> a(x[2 * i], x[2 * i + 1]);
    const Complex<T> b(x[2 * j], -x[2 * j + 1]);
    const Complex<T> sum = (a + b) * half;
    const Complex<T> turned = (a - b) * w[static_cast<size_t>(i)] * half;
    x[2 * i] = sum.re + turned.im;
    x[2 * i + 1] = sum.im - turned.re;
    x[2 * j] = sum.re - turned.im;
    x[2 * j + 1] = -sum.im - turned.re;
  }
  x[0] = 2 * half * (re + im);
  x[1] = 0;
  x[2 * m] = 2 * half * (re - im);
  x[2 * m + 1] = 0;
}
/// The other way, to numbers whose backward transform are pairs of the real line.
template <class T>
void fold(const std::vector<Complex<T>>& w, const T* x, T* z) {
  const auto m = static_cast<int64_t>(w.size());
  z[0] = x[0] + x[2 * m];
  z[1] = x[0] - x[2 * m];
  for (int64_t i = 1; 2 * i <= m; ++i) {
    const int64_t j = m - i;
    const Complex<T> a(x[2 * i], x[2 * i + 1]);
    const Complex<T> b(x[2 * j], -x[2 * j + 1]);
    const Complex<T> sum = a + b;
    const Complex<T> turned = (a - b) * conj(w[static_cast<size_t>(i)]);
    z[2 * i] = sum.re - turned.im;
    z[2 * i + 1] = sum.im + turned.re;
    z[2 * j] = sum.re + turned.im;
    z[2 * j + 1] = turned.re - sum.im;
  }
}

/// Two real lines are the parts of one complex line; by symmetry their transforms come apart.
template <class T>
void run_to_half(const RealFftParams& p, const State<T>& state, const Call& c) {
  if (state.folded()) {
    const int64_t half = state.engine.size();
    state.run_lines(c, [&](int64_t line, T* scratch) {
      T* to = c.out[0].as<T>() + 2 * line * (half + 1);
      state.engine.run_line(c.in[0].as<T>() + 2 * line * half, to, false, T(1), scratch);
      unfold(state.roots, static_cast<T>(p.scale / 2), to);
    });
    return;
  }
  const int64_t n = state.engine.size();
  const int64_t m = n / 2 + 1;
  const int64_t lanes = state.engine.lanes();
  const auto half = static_cast<T>(p.scale / 2);
  state.run(
      c,
      [&](int64_t first, int64_t count, T* data) {
        const T* from = c.in[0].as<T>() + first * n;
        const Lanes<T> x{data, lanes};
        int64_t done = 0;
        for (; count == 2 * kWidth<T> && done + kWidth<T> <= n; done += kWidth<T>)
          fft::load_real_square(from + done, n, data + 2 * done * lanes);
        for (int64_t l = 0; l < lanes; ++l) {
          const T* a = 2 * l < count ? from + 2 * l * n : nullptr;
          const T* b = 2 * l + 1 < count ? from + (2 * l + 1) * n : nullptr;
          for (int64_t i = done; i < n; ++i) {
            x.re(i, l) = a ? a[i] : T(0);
            x.im(i, l) = b ? b[i] : T(0);
          }
        }
      },
      [&](int64_t first, int64_t count, T* data) {
        T* to = c.out[0].as<T>() + 2 * first * m;
        const Lanes<T> z{data, lanes};
        int64_t done = 0;
        for (; count == 2 * kWidth<T> && done + kSquare<T> <= m; done += kSquare<T>)
          part_square(data, n, done, half, to + 2 * done, m);
        for (int64_t l = 0; 2 * l < count; ++l) {
          T* a = to + 4 * l * m;
          T* b = 2 * l + 1 < count ? a + 2 * m : nullptr;
          for (int64_t i = done; i < m; ++i) {
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
  const auto scale = static_cast<T>(p.scale);
  if (state.folded()) {
    const int64_t half = state.engine.size();
    state.run_lines(c, [&](int64_t line, T* scratch) {
      T* z = scratch + state.engine.scratch();
      fold(state.roots, c.in[0].as<T>() + 2 * line * (half + 1), z);
      state.engine.run_line(z, c.out[0].as<T>() + 2 * line * half, true, scale, scratch);
    });
    return;
  }
  const int64_t n = state.engine.size();
  const int64_t m = n / 2 + 1;
  const int64_t lanes = state.engine.lanes();
  state.run(
      c,
      [&](int64_t first, int64_t count, T* data) {
        const T* in = c.in[0].as<T>() + 2 * first * m;
        const Lanes<T> x{data, lanes};
        int64_t done = 0;
        for (; count == 2 * kWidth<T> && done + kSquare<T> <= m; done += kSquare<T>)
          join_square(in + 2 * done, m, n, done, data);
        for (int64_t l = 0; l < lanes; ++l) {
          const T* a = 2 * l < count ? in + 4 * l * m : nullptr;
          const T* b = 2 * l + 1 < count ? in + 2 * (2 * l + 1) * m : nullptr;
          for (int64_t i = done; i < m; ++i) {
            // Of the first number, and of the middle one, the transform knows the real part alone.
            const bool is_real = i == 0 || 2 * i == n;
            const T are = a ? a[2 * i] : T(0);
            const T aim = a && !is_real ? a[2 * i + 1] : T(0);
            const T bre = b ? b[2 * i] : T(0);
            const T bim = b && !is_real ? b[2 * i + 1] : T(0);
            // Parts exchanged: the forward transform then runs backward.
            x.im(i, l) = are - bim;
            x.re(i, l) = aim + bre;
            if (is_real) continue;
            x.im(n - i, l) = are + bim;
            x.re(n - i, l) = bre - aim;
          }
        }
      },
      [&](int64_t first, int64_t count, T* data) {
        T* to = c.out[0].as<T>() + first * n;
        const Lanes<T> z{data, lanes};
        int64_t done = 0;
        for (; count == 2 * kWidth<T> && done + kWidth<T> <= n; done += kWidth<T>)
          fft::store_real_square<true>(data + 2 * done * lanes, to + done, n, scale);
        for (int64_t l = 0; 2 * l < count; ++l) {
          T* a = to + 2 * l * n;
          T* b = 2 * l + 1 < count ? a + n : nullptr;
          for (int64_t i = done; i < n; ++i) {
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

template <class T, int64_t signals>
std::shared_ptr<KernelState> state_for(int64_t n, int64_t lines) {
  const bool singly = lines == 1 || n > fft::kLongestLane;
  if (signals == 2 && singly && n % 2 == 0 && fft::Engine<T>::takes_line(n / 2))
    return State<T>::fold(n, lines);
  return std::make_shared<State<T>>(n, lines, signals, lines / signals);
}
template <int64_t signals>
std::shared_ptr<KernelState> prepare_lines(const TensorSpec& whole) {
  const int64_t n = whole.shape.back();
  const int64_t lines = n == 0 ? 0 : whole.numel() / n;
  return is_double(whole) ? state_for<double, signals>(n, lines)
                          : state_for<float, signals>(n, lines);
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
