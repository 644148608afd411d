#pragma once

// Transforms of one length: what is prepared once, and how it runs.
#include <memory>

#include "mica/ops/fft/cpu_squares.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica::fft {

/// Lengths up to which several lines are transformed side by side.
inline constexpr int64_t kLongestLane = 2048;

/// The forward transform of length n. A length of small factors is done by lanes, a long one in two
/// steps of about its root, any other by a convolution of a length that has small factors
/// (Bluestein).
template <class T>
class Engine {
 public:
  using Lanes = LaneTransform<T>;
  static constexpr int64_t kWidth = Lanes::kWidth;

  /// `side_by_side`: there are lines enough for the lanes, and they lie well for them.
  Engine(int64_t n, bool side_by_side) : n_(n) {
    if (!is_smooth(n)) {
      prepare_convolution(side_by_side);
      return;
    }
    if ((side_by_side && n <= kLongestLane) || !takes_line(n)) {
      lanes_ = kWidth;
      first_ = Lanes(n);
      return;
    }
    const int64_t rows = middle_factor(n);
    first_ = Lanes(rows);
    second_ = Lanes(n / rows);
    // By blocks of columns, as the first step takes them.
    const int64_t columns = n / rows;
    for (int64_t c = 0; c < columns; c += kWidth)
      for (int64_t k = 0; k < rows; ++k) {
        T lanes[Lanes::kStep] = {};
        for (int64_t l = 0; l < std::min(kWidth, columns - c); ++l) {
          const Complex<T> w(root_of_unity(k * (c + l), n));
          lanes[lane_of<T>(l)] = w.re;
          lanes[kWidth + lane_of<T>(l)] = w.im;
        }
        twiddles_.insert(twiddles_.end(), lanes, lanes + Lanes::kStep);
      }
  }

  int64_t size() const { return n_; }
  /// How many lines run at once: those of a vector, or one.
  int64_t lanes() const { return lanes_; }
  /// Values of a buffer for all numbers of the lines that run at once; number i of a single line
  /// lies at 2 i.
  int64_t data() const { return 2 * lanes_ * n_; }
  /// Values that one caller needs.
  int64_t scratch() const {
    if (inner_) return data() + inner_->data() + inner_->scratch();
    if (lanes_ > 1) return 2 * first_.buffer();
    return 2 * n_ + threads_ * 2 * std::max(first_.buffer(), second_.buffer());
  }

  /// Whether one line of a length is done in two steps.
  static bool takes_line(int64_t n) {
    constexpr int64_t kFewestRows = 4;
    return is_smooth(n) && middle_factor(n) >= kFewestRows;
  }
  /// One line of complex numbers, backward where `inverse`, times `scale`.
  void run_line(const T* from, T* to, bool inverse, T scale, T* scratch) const {
    if (inner_) return convolve_line(from, to, inverse, scale, scratch);
    inverse ? two_steps<true>(from, to, scale, scratch)
            : two_steps<false>(from, to, scale, scratch);
  }
  /// As many lines as there are lanes, from a source to a sink.
  template <class Source, class Sink>
  void run_lanes(const Source& source, const Sink& sink, T* scratch) const {
    if (!inner_) return first_.run(source, sink, scratch, scratch + first_.buffer());
    const Side<T> side{scratch};
    Lanes::move(n_, source, side);
    convolve<kWidth>(side.data, scratch + data());
    Lanes::move(n_, side, sink);
  }

  /// Lanes or a line, in place.
  void run(T* x, T* scratch) const {
    if (lanes_ == 1) return run_line(x, x, false, T(1), scratch);
    run_lanes(Side<T>{x}, Side<T>{x}, scratch);
  }

 private:
  /// The divisor of n that is nearest to its root.
  static int64_t middle_factor(int64_t n) {
    auto divisor = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
    while (n % divisor != 0) --divisor;
    return divisor;
  }

  void prepare_convolution(bool side_by_side) {
    int64_t m = 1;
    while (m < 2 * n_ - 1) m *= 2;
    inner_ = std::make_unique<Engine>(m, side_by_side);
    lanes_ = inner_->lanes();
    // Squares are taken modulo 2 n: their angles come again.
    for (int64_t i = 0; i < n_; ++i) {
      const auto square = static_cast<int64_t>(static_cast<__int128>(i) * i % (2 * n_));
      chirp_.emplace_back(root_of_unity(square, 2 * n_));
    }
    std::vector<Complex<double>> filter(static_cast<size_t>(m));
    const double scale = 1 / static_cast<double>(m);
    for (int64_t i = 0; i < n_; ++i) {
      const Complex<double> w = conj(
          root_of_unity(static_cast<int64_t>(static_cast<__int128>(i) * i % (2 * n_)), 2 * n_));
      filter[static_cast<size_t>(i)] = w * scale;
      if (i > 0) filter[static_cast<size_t>(m - i)] = w * scale;
    }
    const Engine<double> wide(m, false);
    std::vector<double> data(static_cast<size_t>(wide.data()));
    std::vector<double> scratch(static_cast<size_t>(wide.scratch()));
    const int64_t lanes = wide.lanes();
    for (int64_t i = 0; i < m; ++i) {
      data[static_cast<size_t>(2 * i * lanes)] = filter[static_cast<size_t>(i)].re;
      data[static_cast<size_t>((2 * i + 1) * lanes)] = filter[static_cast<size_t>(i)].im;
    }
    wide.run(data.data(), scratch.data());
    for (int64_t i = 0; i < m; ++i)
      filter_.emplace_back(Complex<double>(data[static_cast<size_t>(2 * i * lanes)],
                                           data[static_cast<size_t>((2 * i + 1) * lanes)]));
  }

  /// The results of the first step times what belongs between the steps, transposed, so that the
  /// second one reads and writes whole vectors too.
  template <bool full>
  struct Between {
    static constexpr bool kSingle = false;
    static constexpr bool kJoins = full;
    const T* twiddles;
    LineSink<T, false, full> lines;

    LanePair<T> turned(int64_t i, LanePair<T> x) const {
      const auto w = LanePair<T>::load(twiddles + i * Lanes::kStep);
      return {x.re * w.re - x.im * w.im, x.re * w.im + x.im * w.re};
    }
    void put(int64_t i, LanePair<T> x) const { lines.put(i, turned(i, x)); }
    [[gnu::always_inline]] void put_square(int64_t i, const T* from) const {
      alignas(simd::kBytes) T x[kSquare<T> * Lanes::kStep];
#pragma GCC unroll 16
      for (int64_t k = 0; k < kSquare<T>; ++k)
        turned(i + k, LanePair<T>::load(from + k * Lanes::kStep)).store(x + k * Lanes::kStep);
      lines.put_square(i, x);
    }
  };

  /// Columns of a matrix, as many at once as there are lanes, then its rows. `exchanged` parts make
  /// the transform run backward.
  template <bool exchanged>
  void two_steps(const T* from, T* to, T scale, T* scratch) const {
    const int64_t rows = first_.size();
    const int64_t columns = second_.size();
    T* between = scratch;
    T* buffers = scratch + 2 * n_;
    const int64_t each = 2 * std::max(first_.buffer(), second_.buffer());
    in_blocks(columns, buffers, each, [&]<class Full>(Full, int64_t c, int64_t lanes, T* x) {
      first_.run(ColumnSource<T, exchanged, Full::value>{from + 2 * c, 2 * columns, lanes},
                 Between<Full::value>{twiddles_.data() + 2 * c * rows,
                                      {between + 2 * c * rows, 2 * rows, lanes, T(1)}},
                 x, x + first_.buffer());
    });
    in_blocks(rows, buffers, each, [&]<class Full>(Full, int64_t r, int64_t lanes, T* x) {
      second_.run(ColumnSource<T, false, Full::value>{between + 2 * r, 2 * rows, lanes},
                  ColumnSink<T, exchanged, Full::value>{to + 2 * r, 2 * rows, lanes, scale}, x,
                  x + second_.buffer());
    });
  }

  /// Calls f(first, lanes, buffer) for all blocks of lanes.
  template <class F>
  void in_blocks(int64_t n, T* buffers, int64_t each, F&& f) const {
    const int64_t blocks = (n + kWidth - 1) / kWidth;
    const int64_t shares = std::min(blocks, threads_);
    parallel_for(shares, 1, [&](int64_t begin, int64_t end) {
      for (int64_t share = begin; share < end; ++share)
        for (int64_t b = blocks * share / shares; b < blocks * (share + 1) / shares; ++b)
          if (const int64_t left = n - b * kWidth; left < kWidth)
            f(std::false_type(), b * kWidth, left, buffers + share * each);
          else
            f(std::true_type(), b * kWidth, kWidth, buffers + share * each);
    });
  }

  void convolve_line(const T* from, T* to, bool inverse, T scale, T* scratch) const {
    T* x = scratch;
    for (int64_t i = 0; i < n_; ++i) {
      x[2 * i] = from[2 * i + (inverse ? 1 : 0)];
      x[2 * i + 1] = from[2 * i + (inverse ? 0 : 1)];
    }
    convolve<1>(x, scratch + data());
    for (int64_t i = 0; i < n_; ++i) {
      to[2 * i] = scale * x[2 * i + (inverse ? 1 : 0)];
      to[2 * i + 1] = scale * x[2 * i + (inverse ? 0 : 1)];
    }
  }
  template <int64_t lanes>
  void convolve(T* data, T* scratch) const {
    T* x = scratch;
    T* rest = scratch + inner_->data();
    const int64_t m = inner_->size();
    multiply<lanes, false, false>(data, chirp_, x);
    std::fill(x + 2 * n_ * lanes, x + 2 * m * lanes, T(0));
    inner_->run(x, rest);
    multiply<lanes, false, true>(x, filter_, x);  // with the parts exchanged it runs backward
    inner_->run(x, rest);
    multiply<lanes, true, false>(x, chirp_, data);
  }
  /// All lanes of each element by its factor; parts may come and go exchanged.
  template <int64_t lanes, bool exchanged, bool exchange>
  static void multiply(const T* x, const std::vector<Complex<T>>& factors, T* y) {
    for (const Complex<T> w : factors) {
      for (int64_t l = 0; l < lanes; ++l) {
        const Complex<T> v(x[exchanged ? lanes + l : l], x[exchanged ? l : lanes + l]);
        const Complex<T> product = v * w;
        y[exchange ? lanes + l : l] = product.re;
        y[exchange ? l : lanes + l] = product.im;
      }
      x += 2 * lanes;
      y += 2 * lanes;
    }
  }

  int64_t n_;
  int64_t lanes_ = 1;
  int64_t threads_ = omp_get_max_threads();  ///< that the scratch has room for
  Lanes first_;
  Lanes second_;
  std::vector<T> twiddles_;        ///< between the steps, lane by lane
  std::unique_ptr<Engine> inner_;  ///< of the convolution
  std::vector<Complex<T>> chirp_;
  std::vector<Complex<T>> filter_;
};

}  // namespace mica::fft
