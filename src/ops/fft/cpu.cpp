#include "mica/ops/fft/cpu.h"

#include "mica/ops/fft/cpu_engine.h"
#include "mica/ops/fft/cpu_halves.h"

namespace mica {
namespace {

using fft::Engine;

template <class T>
constexpr int64_t kWidth = Engine<T>::kWidth;

/// Where the lines of a tensor are: `columns` of them side by side, so that their numbers are
/// `columns` apart, or, where that is 1, one after the other.
struct Layout {
  int64_t lines = 0;
  int64_t columns = 1;
};

/// Whether lines are worth being brought into lanes, of which an engine's line takes `signals`.
/// Lines that begin at the same place of a page push each other out of the cache.
template <class T>
bool suits_lanes(int64_t n, const Layout& layout, int64_t signals) {
  constexpr int64_t kPage = 4096;
  const int64_t bytes = n * (3 - signals) * static_cast<int64_t>(sizeof(T));  // of a line
  if (layout.lines / signals < kWidth<T> / 2 || n > fft::kLongestLane) return false;
  return layout.columns > 1 || signals * bytes < 2 * kPage || bytes % kPage != 0 ||
         !Engine<T>::takes_line(n);
}

/// How a kernel's lines are shared out: blocks of as many as run at once, each share with memory of
/// its own.
template <class T>
struct State : KernelState {
  /// `signals` lines are one of the engine's.
  State(int64_t length, Layout layout, int64_t signals, bool side_by_side)
      : engine(length, side_by_side),
        lines(layout.lines),
        columns(layout.columns),
        per_block(engine.lanes() * signals),
        in_group(columns > 1 ? columns : lines),
        blocks(lines == 0 ? 0 : lines / in_group * ((in_group + per_block - 1) / per_block)),
        shares(std::clamp<int64_t>(blocks, 1, omp_get_max_threads())),
        values(engine.data() + engine.scratch()) {
    // One line over several threads shares its memory among them.
    if (engine.lanes() == 1 && blocks < omp_get_max_threads()) shares = 1;
    workspace_bytes = static_cast<size_t>(shares * values) * sizeof(T);
  }
  /// Of real lines, each by itself as half as many complex numbers.
  static std::shared_ptr<State> fold(int64_t length, int64_t count) {
    auto state = std::make_shared<State>(length / 2, Layout{count}, 1, false);
    for (int64_t i = 0; i < length / 2; ++i)
      state->roots.emplace_back(fft::root_of_unity(i, length));
    return state;
  }
  bool folded() const { return !roots.empty(); }
  bool singly() const { return engine.lanes() == 1; }

  /// Calls f(first line, lines, room for data, scratch of the engine) for each block.
  template <class F>
  void run(const Call& c, F&& f) const {
    auto* workspace = static_cast<T*>(c.workspace);
    const int64_t per_group = (in_group + per_block - 1) / per_block;
    in_shares([&](int64_t share) {
      T* data = workspace + share * values;
      for (int64_t b = blocks * share / shares; b < blocks * (share + 1) / shares; ++b) {
        const int64_t first = b % per_group * per_block;
        f(b / per_group * in_group + first, std::min(per_block, in_group - first), data,
          data + engine.data());
      }
    });
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
  int64_t columns;
  int64_t per_block;
  int64_t in_group;  ///< lines that may be in a block together
  int64_t blocks;
  int64_t shares;
  int64_t values;
  std::vector<Complex<T>> roots = {};  ///< of unity, of a folded line
};

template <bool inverse, bool full, class T>
void run_complex_block(const State<T>& state, const Call& c, T scale, int64_t first, int64_t count,
                       T* scratch) {
  const int64_t n = state.engine.size();
  const T* in = c.in[0].as<T>();
  T* out = c.out[0].as<T>();
  if (const int64_t columns = state.columns; columns > 1) {
    const int64_t at = 2 * (first / columns * columns * n + first % columns);
    state.engine.run_lanes(fft::ColumnSource<T, inverse, full>{in + at, 2 * columns, count},
                           fft::ColumnSink<T, inverse, full>{out + at, 2 * columns, count, scale},
                           scratch);
  } else {
    const int64_t at = 2 * first * n;
    state.engine.run_lanes(fft::LineSource<T, inverse, full>{in + at, 2 * n, count},
                           fft::LineSink<T, inverse, full>{out + at, 2 * n, count, scale}, scratch);
  }
}
template <bool inverse, class T>
void run_complex_lanes(const State<T>& state, const Call& c, T scale) {
  state.run(c, [&](int64_t first, int64_t count, T*, T* scratch) {
    count == kWidth<T> ? run_complex_block<inverse, true>(state, c, scale, first, count, scratch)
                       : run_complex_block<inverse, false>(state, c, scale, first, count, scratch);
  });
}
template <class T>
void run_complex(const FftParams& p, const State<T>& state, const Call& c) {
  const auto scale = static_cast<T>(p.scale);
  if (!state.singly())
    return p.inverse ? run_complex_lanes<true>(state, c, scale)
                     : run_complex_lanes<false>(state, c, scale);
  const int64_t n = state.engine.size();
  state.run(c, [&](int64_t line, int64_t, T*, T* scratch) {
    state.engine.run_line(c.in[0].as<T>() + 2 * line * n, c.out[0].as<T>() + 2 * line * n,
                          p.inverse, scale, scratch);
  });
}

/// Two real lines are the parts of one complex line.
template <bool full, class T>
void to_half_block(const State<T>& state, const Call& c, T half, int64_t first, int64_t count,
                   T* data, T* scratch) {
  const int64_t n = state.engine.size();
  state.engine.run_lanes(fft::RealLineSource<T, full>{c.in[0].as<T>() + first * n, n, count},
                         fft::Side<T>{data}, scratch);
  fft::part_lanes<full>(data, n, half, c.out[0].as<T>() + 2 * first * (n / 2 + 1), count);
}
template <bool full, class T>
void from_half_block(const State<T>& state, const Call& c, T scale, int64_t first, int64_t count,
                     T* data, T* scratch) {
  const int64_t n = state.engine.size();
  fft::join_lanes<full>(c.in[0].as<T>() + 2 * first * (n / 2 + 1), n, count, data);
  state.engine.run_lanes(fft::Side<T>{data},
                         fft::RealLineSink<T, full>{c.out[0].as<T>() + first * n, n, count, scale},
                         scratch);
}

/// One or two lines alone.
template <class T>
void to_half_line(const State<T>& state, const Call& c, T half, int64_t first, int64_t count, T* z,
                  T* scratch) {
  const int64_t n = state.engine.size();
  const int64_t m = n / 2 + 1;
  const T* from = c.in[0].as<T>() + first * n;
  T* a = c.out[0].as<T>() + 2 * first * m;
  T* b = count > 1 ? a + 2 * m : nullptr;
  for (int64_t i = 0; i < n; ++i) {
    z[2 * i] = from[i];
    z[2 * i + 1] = b ? from[n + i] : T(0);
  }
  state.engine.run(z, scratch);
  for (int64_t i = 0; i < m; ++i) {
    const int64_t j = i == 0 ? 0 : n - i;
    a[2 * i] = half * (z[2 * i] + z[2 * j]);
    a[2 * i + 1] = half * (z[2 * i + 1] - z[2 * j + 1]);
    if (!b) continue;
    b[2 * i] = half * (z[2 * i + 1] + z[2 * j + 1]);
    b[2 * i + 1] = half * (z[2 * j] - z[2 * i]);
  }
}
template <class T>
void from_half_line(const State<T>& state, const Call& c, T scale, int64_t first, int64_t count,
                    T* z, T* scratch) {
  const int64_t n = state.engine.size();
  const int64_t m = n / 2 + 1;
  const T* a = c.in[0].as<T>() + 2 * first * m;
  const T* b = count > 1 ? a + 2 * m : nullptr;
  for (int64_t i = 0; i < m; ++i) {
    const bool is_real = i == 0 || 2 * i == n;
    const T are = a[2 * i];
    const T aim = is_real ? T(0) : a[2 * i + 1];
    const T bre = b ? b[2 * i] : T(0);
    const T bim = b && !is_real ? b[2 * i + 1] : T(0);
    z[2 * i] = aim + bre;
    z[2 * i + 1] = are - bim;
    if (is_real) continue;
    z[2 * (n - i)] = bre - aim;
    z[2 * (n - i) + 1] = are + bim;
  }
  state.engine.run(z, scratch);
  T* to = c.out[0].as<T>() + first * n;
  for (int64_t i = 0; i < n; ++i) {
    to[i] = scale * z[2 * i + 1];
    if (b) to[n + i] = scale * z[2 * i];
  }
}

template <class T>
void run_to_half(const RealFftParams& p, const State<T>& state, const Call& c) {
  const auto scale = static_cast<T>(p.scale);
  const int64_t n = state.engine.size();
  state.run(c, [&](int64_t first, int64_t count, T* data, T* scratch) {
    if (state.folded()) {
      T* to = c.out[0].as<T>() + 2 * first * (n + 1);
      state.engine.run_line(c.in[0].as<T>() + 2 * first * n, to, false, T(1), scratch);
      fft::unfold(state.roots, scale, to);
    } else if (state.singly()) {
      to_half_line(state, c, scale / 2, first, count, data, scratch);
    } else if (count == 2 * kWidth<T>) {
      to_half_block<true>(state, c, scale / 2, first, count, data, scratch);
    } else {
      to_half_block<false>(state, c, scale / 2, first, count, data, scratch);
    }
  });
}
/// The other way: two lines that become real are a + bi.
template <class T>
void run_from_half(const RealFftParams& p, const State<T>& state, const Call& c) {
  const auto scale = static_cast<T>(p.scale);
  const int64_t n = state.engine.size();
  state.run(c, [&](int64_t first, int64_t count, T* data, T* scratch) {
    if (state.folded()) {
      fft::fold(state.roots, c.in[0].as<T>() + 2 * first * (n + 1), data);
      state.engine.run_line(data, c.out[0].as<T>() + 2 * first * n, true, scale, scratch);
    } else if (state.singly()) {
      from_half_line(state, c, scale, first, count, data, scratch);
    } else if (count == 2 * kWidth<T>) {
      from_half_block<true>(state, c, scale, first, count, data, scratch);
    } else {
      from_half_block<false>(state, c, scale, first, count, data, scratch);
    }
  });
}

bool is_double(const TensorSpec& s) { return real_dtype(s.dtype) == DType::f64; }

/// How many lines lie side by side, so that the numbers of each are as many apart: the axes before
/// the last fill the memory between two numbers of a line, and what is around that. 0 where they
/// do not, and where lines are one after the other.
int64_t columns_of(const TensorSpec& s) {
  const int last = s.rank() - 1;
  const int64_t columns = s.strides[last];
  if (columns < 2) return 0;
  std::vector<int> axes;
  for (int i = 0; i < last; ++i)
    if (s.shape[i] != 1) axes.push_back(i);
  std::ranges::sort(axes, {}, [&](int i) { return s.strides[i]; });
  int64_t filled = 1;
  bool found = false;
  for (const int i : axes) {
    if (filled == columns) {
      found = true;
      filled *= s.shape[last];
    }
    if (s.strides[i] != filled) return 0;
    filled *= s.shape[i];
  }
  return found || filled == columns ? columns : 0;
}
bool side_by_side(const Specs& s) {
  return s.in[0].strides == s.out[0].strides && columns_of(s.in[0]) > 0;
}

Support dense(const RealFftParams&, const Specs&) { return Support::yes().with_contiguous({0}); }
Support supports(const FftParams&, const Specs& s) {
  if (side_by_side(s)) return Support::yes();
  if (!s.out[0].is_contiguous()) return Support::no("results are written line after line");
  return Support::yes().with_contiguous({0});
}

template <class T, int64_t signals>
std::shared_ptr<KernelState> state_for(int64_t n, Layout layout) {
  const bool side_by_side = suits_lanes<T>(n, layout, signals);
  if (signals == 2 && !side_by_side && n % 2 == 0 && Engine<T>::takes_line(n / 2))
    return State<T>::fold(n, layout.lines);
  return std::make_shared<State<T>>(n, layout, signals, side_by_side);
}
template <int64_t signals>
std::shared_ptr<KernelState> prepare_lines(const TensorSpec& whole, int64_t columns = 1) {
  const int64_t n = whole.shape.back();
  const Layout layout{n == 0 ? 0 : whole.numel() / n, columns};
  return is_double(whole) ? state_for<double, signals>(n, layout)
                          : state_for<float, signals>(n, layout);
}
std::shared_ptr<KernelState> prepare(const FftParams&, const Specs& s) {
  return prepare_lines<1>(s.in[0], side_by_side(s) ? columns_of(s.in[0]) : 1);
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
      kernel<supports, prepare, run_typed<FftParams, run_complex<float>, run_complex<double>>>(
          "stockham"));
}
Kernel rfft_stockham_kernel() {
  return taking_complex(
      kernel<dense, prepare_to_half,
             run_typed<RealFftParams, run_to_half<float>, run_to_half<double>>>("stockham"));
}
Kernel irfft_stockham_kernel() {
  return taking_complex(
      kernel<dense, prepare_from_half,
             run_typed<RealFftParams, run_from_half<float>, run_from_half<double>>>("stockham"));
}

}  // namespace mica
