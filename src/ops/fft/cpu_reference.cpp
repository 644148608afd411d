#include "mica/ops/fft/cpu.h"
#include "mica/ops/fft/cpu_lanes.h"

namespace mica {
namespace {

template <class P>
Support dense(const P&, const Specs& s) {
  if (!s.out[0].is_contiguous()) return Support::no("results are written line after line");
  return Support::possible().with_contiguous({0});
}

/// Numbers of a tensor, by their place.
class Numbers {
 public:
  explicit Numbers(const Arg& a) : arg_(a), wide_(real_dtype(a.dtype()) == DType::f64) {}
  Complex<double> operator[](int64_t i) const {
    if (!is_complex(arg_.dtype())) return wide_ ? at<double>()[i] : double{at<float>()[i]};
    return wide_ ? at<Complex<double>>()[i] : Complex<double>(at<Complex<float>>()[i]);
  }
  void set(int64_t i, Complex<double> v) const {
    if (is_complex(arg_.dtype())) {
      wide_ ? void(at<Complex<double>>()[i] = v)
            : void(at<Complex<float>>()[i] = Complex<float>(v));
    } else {
      wide_ ? void(at<double>()[i] = v.re) : void(at<float>()[i] = static_cast<float>(v.re));
    }
  }

 private:
  template <class T>
  T* at() const {
    return arg_.as<T>();
  }
  const Arg& arg_;
  bool wide_;
};

/// y[k] = scale * sum over the n numbers of x[j] exp(-+2 pi i j k / n), for the k that y has;
/// `value(line, j)` gives x.
template <class F>
void transform(int64_t n, bool inverse, double scale, const Arg& out, F&& value) {
  if (out.numel() == 0) return;
  const int64_t m = out.shape().back();
  std::vector<Complex<double>> roots;
  for (int64_t k = 0; k < n; ++k) {
    const Complex<double> w = fft::root_of_unity(k, n);
    roots.push_back(inverse ? conj(w) : w);
  }
  const Numbers y(out);
  std::vector<Complex<double>> x(static_cast<size_t>(n));  // y may lie where x did
  for (int64_t line = 0; line < out.numel() / m; ++line) {
    for (int64_t j = 0; j < n; ++j) x[static_cast<size_t>(j)] = value(line, j);
    for (int64_t k = 0; k < m; ++k) {
      Complex<double> sum;
      for (int64_t j = 0; j < n; ++j) {
        const auto angle = static_cast<int64_t>(static_cast<__int128>(j) * k % n);
        sum = sum + x[static_cast<size_t>(j)] * roots[static_cast<size_t>(angle)];
      }
      y.set(line * m + k, sum * scale);
    }
  }
}

void run(const FftParams& p, const Call& c) {
  const int64_t n = c.in[0].shape().back();
  const Numbers x(c.in[0]);
  transform(n, p.inverse, p.scale, c.out[0],
            [&](int64_t line, int64_t j) { return x[line * n + j]; });
}
void run_to_half(const RealFftParams& p, const Call& c) {
  const int64_t n = c.in[0].shape().back();
  const Numbers x(c.in[0]);
  transform(n, false, p.scale, c.out[0], [&](int64_t line, int64_t j) { return x[line * n + j]; });
}
void run_from_half(const RealFftParams& p, const Call& c) {
  const int64_t m = p.n / 2 + 1;
  const Numbers x(c.in[0]);
  transform(p.n, true, p.scale, c.out[0], [&](int64_t line, int64_t j) {
    const bool mirrored = j >= m;
    const Complex<double> v = x[line * m + (mirrored ? p.n - j : j)];
    if (j == 0 || 2 * j == p.n) return Complex<double>(v.re);
    return mirrored ? conj(v) : v;
  });
}

template <auto supports, auto run>
Kernel reference() {
  Kernel k = kernel<supports, run>("reference");
  k.takes_complex = true;
  return k;
}

}  // namespace

Kernel fft_reference_kernel() { return reference<dense<FftParams>, run>(); }
Kernel rfft_reference_kernel() { return reference<dense<RealFftParams>, run_to_half>(); }
Kernel irfft_reference_kernel() { return reference<dense<RealFftParams>, run_from_half>(); }

}  // namespace mica
