#pragma once

// Transforms of one length: what is prepared once, and how it runs.
#include <memory>

#include "mica/ops/fft/cpu_lanes.h"
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

  explicit Engine(int64_t n, int64_t lines) : n_(n) {
    if (!is_smooth(n)) {
      prepare_convolution(lines);
      return;
    }
    const bool enough_lines = lines >= kWidth / 2 && n <= kLongestLane;
    if (enough_lines || !takes_line(n)) {
      lanes_ = kWidth;
      first_ = Lanes(n);
      return;
    }
    const int64_t rows = middle_factor(n);
    first_ = Lanes(rows);
    second_ = Lanes(n / rows);
    for (int64_t k = 0; k < rows; ++k)
      for (int64_t c = 0; c < n / rows; ++c) twiddles_.emplace_back(root_of_unity(k * c, n));
  }

  int64_t size() const { return n_; }
  /// How many lines run at once: those of a vector, or one.
  int64_t lanes() const { return lanes_; }
  /// Values of the data that `run` takes, in which number i of a line lies at 2 i, lane by lane.
  int64_t data() const { return 2 * lanes_ * n_; }
  /// Values that one caller needs beside the data.
  int64_t scratch() const {
    if (inner_) return inner_->data() + inner_->scratch();
    if (lanes_ > 1) return first_.buffer();
    return 2 * n_ + threads_ * 2 * std::max(first_.buffer(), second_.buffer());
  }

  /// Whether one line of a length is done in two steps.
  static bool takes_line(int64_t n) {
    constexpr int64_t kFewestRows = 4;
    return is_smooth(n) && middle_factor(n) >= kFewestRows;
  }
  /// Whether single lines are transformed from where they lie to where they go.
  bool takes_lines() const { return lanes_ == 1 && !inner_; }
  /// One line of complex numbers, backward where `inverse`, times `scale`.
  void run_line(const T* from, T* to, bool inverse, T scale, T* scratch) const {
    inverse ? two_steps<true>(from, to, scale, scratch)
            : two_steps<false>(from, to, scale, scratch);
  }

  void run(T* data, T* scratch) const {
    if (n_ == 1) return;
    if (inner_) return convolve(data, scratch);
    if (lanes_ == 1) return two_steps<false>(data, data, T(1), scratch);
    const T* made = first_.run(data, scratch);
    if (made != data) std::copy(made, made + first_.buffer(), data);
  }

 private:
  /// The divisor of n that is nearest to its root.
  static int64_t middle_factor(int64_t n) {
    auto divisor = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
    while (n % divisor != 0) --divisor;
    return divisor;
  }

  void prepare_convolution(int64_t lines) {
    int64_t m = 1;
    while (m < 2 * n_ - 1) m *= 2;
    inner_ = std::make_unique<Engine>(m, lines);
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
    const Engine<double> wide(m, 1);
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

  /// Columns of a matrix, as many at once as there are lanes, then its rows: what the first step
  /// leaves is transposed, so that both steps read and write whole vectors. `exchanged` parts make
  /// the transform run backward.
  template <bool exchanged>
  void two_steps(const T* from, T* to, T scale, T* scratch) const {
    const int64_t rows = first_.size();
    const int64_t columns = second_.size();
    T* between = scratch;
    T* buffers = scratch + 2 * n_;
    const int64_t each = 2 * std::max(first_.buffer(), second_.buffer());
    in_blocks(columns, buffers, each, [&](int64_t c, int64_t lanes, T* x) {
      for (int64_t r = 0; r < rows; ++r)
        load_lanes<exchanged>(from + 2 * (r * columns + c), lanes, x + r * Lanes::kStep);
      T* made = first_.run(x, x + first_.buffer());
      for (int64_t r = 1; r < rows; ++r) {
        T* at = made + r * Lanes::kStep;
        const LanePair<T> w = lanes_of(twiddles_.data() + r * columns + c, lanes);
        const LanePair<T> v = LanePair<T>::load(at);
        LanePair<T>{v.re * w.re - v.im * w.im, v.re * w.im + v.im * w.re}.store(at);
      }
      int64_t r = 0;
      for (; lanes == kWidth && r + kSquare<T> <= rows; r += kSquare<T>)
        store_square<false>(made + r * Lanes::kStep, between + 2 * (c * rows + r), 2 * rows, T(1));
      for (; r < rows; ++r)
        for (int64_t l = 0; l < lanes; ++l)
          for (int64_t part = 0; part < 2; ++part)
            between[2 * ((c + l) * rows + r) + part] =
                made[r * Lanes::kStep + part * kWidth + (lanes == kWidth ? lane_of<T>(l) : l)];
    });
    in_blocks(rows, buffers, each, [&](int64_t r, int64_t lanes, T* x) {
      for (int64_t c = 0; c < columns; ++c)
        load_lanes<false>(between + 2 * (c * rows + r), lanes, x + c * Lanes::kStep);
      const T* made = second_.run(x, x + second_.buffer());
      for (int64_t k = 0; k < columns; ++k)
        store_lanes<exchanged>(made + k * Lanes::kStep, lanes, scale, to + 2 * (k * rows + r));
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
          f(b * kWidth, std::min(kWidth, n - b * kWidth), buffers + share * each);
    });
  }

  template <bool exchanged>
  static void load_lanes(const T* numbers, int64_t lanes, T* to) {
    if (lanes == kWidth) return exchanged_if<exchanged>(load_numbers(numbers)).store(to);
    for (int64_t l = 0; l < kWidth; ++l) {
      to[exchanged ? kWidth + l : l] = l < lanes ? numbers[2 * l] : T(0);
      to[exchanged ? l : kWidth + l] = l < lanes ? numbers[2 * l + 1] : T(0);
    }
  }
  template <bool exchanged>
  static void store_lanes(const T* from, int64_t lanes, T scale, T* numbers) {
    if (lanes == kWidth) {
      const LanePair<T> x = exchanged_if<exchanged>(LanePair<T>::load(from));
      return store_numbers(scale == T(1) ? x : x * scale, numbers);
    }
    for (int64_t l = 0; l < lanes; ++l) {
      numbers[2 * l] = scale * from[exchanged ? kWidth + l : l];
      numbers[2 * l + 1] = scale * from[exchanged ? l : kWidth + l];
    }
  }
  static LanePair<T> lanes_of(const Complex<T>* numbers, int64_t lanes) {
    alignas(simd::kBytes) T parts[Lanes::kStep];
    load_lanes<false>(&numbers->re, lanes, parts);
    return LanePair<T>::load(parts);
  }

  void convolve(T* data, T* scratch) const {
    lanes_ == 1 ? convolve_lanes<1>(data, scratch) : convolve_lanes<kWidth>(data, scratch);
  }
  template <int64_t lanes>
  void convolve_lanes(T* data, T* scratch) const {
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
  std::vector<Complex<T>> twiddles_;  ///< between the steps
  std::unique_ptr<Engine> inner_;     ///< of the convolution
  std::vector<Complex<T>> chirp_;
  std::vector<Complex<T>> filter_;
};

}  // namespace mica::fft
