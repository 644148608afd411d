// Complex numbers go in and out as pairs of real ones along the last axis.
#include <cmath>
#include <complex>
#include <numbers>

#include "mica/ops/fft/lines.h"
#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

using Number = std::complex<double>;

const std::vector<DType> kParts = {DType::f64, DType::f32};
constexpr Tolerances kRoundings = {{1e-14, 1e-6, 0, 0}, {1e-13, 4e-6, 0, 0}};

Number root(int64_t k, int64_t n, bool inverse) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n);
  return {std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle)};
}

/// Sums of all lines of n numbers, of which the first m are wanted.
template <class F>
std::vector<Number> sums(int64_t lines, int64_t n, int64_t m, bool inverse, F&& value) {
  std::vector<Number> out;
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t k = 0; k < m; ++k) {
      Number sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += value(line, j) * root(j * k, n, inverse);
      out.push_back(sum);
    }
  return out;
}

HostArray pairs_of(const Shape& shape, const std::vector<Number>& numbers) {
  HostArray a{shape, {}};
  for (const Number v : numbers) a.values.insert(a.values.end(), {v.real(), v.imag()});
  return a;
}

Sample whole(const std::string& name, int64_t lines, int64_t n, bool inverse) {
  return {.name = name,
          .in = {x({lines, n, 2})},
          .call = [inverse](const Args& a) -> Tensors {
            const Tensor z = view_as_complex(a[0]);
            return {view_as_real(inverse ? fft::ifft(z, {}, -1, fft::Norm::forward) : fft::fft(z))};
          },
          .oracle =
              [=](const HostArgs& in) {
                const auto value = [&](int64_t line, int64_t j) {
                  const auto at = static_cast<size_t>(2 * (line * n + j));
                  return Number(in[0].values[at], in[0].values[at + 1]);
                };
                return std::vector{pairs_of({lines, n, 2}, sums(lines, n, n, inverse, value))};
              },
          .dtypes = kParts,
          .gradient = n* lines <= 300,
          .layouts = n < 20};
}
Sample to_half(const std::string& name, int64_t lines, int64_t n) {
  return {.name = name,
          .in = {x({lines, n})},
          .call = [](const Args& a) -> Tensors { return {view_as_real(fft::rfft(a[0]))}; },
          .oracle =
              [=](const HostArgs& in) {
                const auto value = [&](int64_t line, int64_t j) {
                  return Number(in[0].values[static_cast<size_t>(line * n + j)]);
                };
                const int64_t m = n / 2 + 1;
                return std::vector{pairs_of({lines, m, 2}, sums(lines, n, m, false, value))};
              },
          .dtypes = kParts,
          .gradient = n* lines <= 300,
          .layouts = n < 20};
}
Sample from_half(const std::string& name, int64_t lines, int64_t n) {
  const int64_t m = n / 2 + 1;
  return {.name = name,
          .in = {x({lines, m, 2})},
          .call = [n](const Args& a) -> Tensors {
            return {fft::irfft(view_as_complex(a[0]), n, -1, fft::Norm::forward)};
          },
          .oracle =
              [=](const HostArgs& in) {
                const auto value = [&](int64_t line, int64_t j) {
                  const int64_t i = j < m ? j : n - j;
                  const auto at = static_cast<size_t>(2 * (line * m + i));
                  const bool is_real = j == 0 || 2 * j == n;
                  const double imag = is_real ? 0 : in[0].values[at + 1];
                  return Number(in[0].values[at], j < m ? imag : -imag);
                };
                HostArray out{{lines, n}, {}};
                for (const Number v : sums(lines, n, n, true, value))
                  out.values.push_back(v.real());
                return std::vector{out};
              },
          .dtypes = kParts,
          .gradient = n* lines <= 300,
          .layouts = n < 20};
}

/// Lengths of every butterfly, of their products, of primes, one more and one less than powers of
/// two, and long ones that run in two steps.
std::vector<Sample> lengths(
    const std::function<Sample(const std::string&, int64_t, int64_t)>& make) {
  std::vector<Sample> samples = {make("one element", 1, 1), make("empty", 0, 4)};
  for (const int64_t n :
       {2, 3, 4, 5, 7, 8, 11, 12, 13, 15, 16, 17, 31, 33, 60, 63, 64, 77, 127, 210})
    samples.push_back(make("length " + std::to_string(n), n < 20 ? 9 : 2, n));
  for (const int64_t n : {1021, 1100, 2048})
    samples.push_back(make("length " + std::to_string(n), 1, n));
  return samples;
}

Sample other(const char* name, std::vector<Input> in, std::function<Tensors(const Args&)> call,
             std::function<std::vector<HostArray>(const HostArgs&)> oracle) {
  return {.name = name,
          .in = std::move(in),
          .call = std::move(call),
          .oracle = std::move(oracle),
          .dtypes = kParts,
          .layouts = false};
}

/// The last axes at once, of complex numbers or of real ones.
Sample plane(const char* name, bool of_real, bool inverse, int64_t blocks, int64_t rows,
             int64_t columns, const std::function<Tensor(const Tensor&)>& transform) {
  const int64_t m = of_real ? columns / 2 + 1 : columns;
  Sample sample = other(
      name, {x(of_real ? Shape{blocks, rows, columns} : Shape{blocks, rows, columns, 2})},
      [=](const Args& a) -> Tensors {
        return {view_as_real(transform(of_real ? a[0] : view_as_complex(a[0])))};
      },
      [=](const HostArgs& in) {
        const auto value = [&](int64_t at) {
          const auto i = static_cast<size_t>(at);
          return of_real ? Number(in[0].values[i])
                         : Number(in[0].values[2 * i], in[0].values[2 * i + 1]);
        };
        std::vector<Number> out;
        for (int64_t b = 0; b < blocks; ++b)
          for (int64_t k = 0; k < rows; ++k)
            for (int64_t l = 0; l < m; ++l) {
              Number sum = 0;
              for (int64_t i = 0; i < rows; ++i)
                for (int64_t j = 0; j < columns; ++j)
                  sum += value((b * rows + i) * columns + j) * root(i * k, rows, inverse) *
                         root(j * l, columns, inverse);
              out.push_back(sum);
            }
        return std::vector{pairs_of({blocks, rows, m, 2}, out)};
      });
  sample.layouts = true;
  return sample;
}

OpCase block_case() {
  const auto by = [](int64_t axes, bool inverse) {
    return [=](const Tensor& t) {
      return call_op("fft_block", BlockFftParams{.axes = axes, .inverse = inverse}, {t})[0];
    };
  };
  const auto functions = [](bool inverse) {
    return [=](const Tensor& t) {
      const Dims axes{-2, -1};
      if (!is_complex(t.dtype())) return fft::rfftn(t, {}, axes);
      return inverse ? fft::ifftn(t, {}, axes, fft::Norm::forward) : fft::fftn(t, {}, axes);
    };
  };
  return {.op = "fft_block",
          .samples = {plane("two axes", false, false, 2, 3, 4, by(2, false)),
                      plane("two axes backwards", false, true, 2, 5, 3, by(2, true)),
                      plane("of real numbers", true, false, 2, 3, 4, by(2, false)),
                      plane("of real numbers, odd", true, false, 1, 4, 5, by(2, false)),
                      plane("one block of three axes", false, false, 1, 4, 6, by(3, false)),
                      plane("fftn", false, false, 3, 4, 2, functions(false)),
                      plane("ifftn", false, true, 2, 3, 7, functions(true)),
                      plane("rfftn", true, false, 2, 5, 6, functions(false)),
                      plane("one element", true, false, 1, 1, 1, by(2, false)),
                      plane("empty", false, false, 0, 2, 3, by(2, false))},
          .bad = {bad<Unsupported>("fft_block: real numbers are transformed forwards",
                                   [by](Device d) { by(2, true)(zeros({2, 2}, {.device = d})); }),
                  bad<ShapeError>("fft_block: 3 of the axes of [2, 2]",
                                  [by](Device d) { by(3, false)(zeros({2, 2}, {.device = d})); })},
          .tolerance = kRoundings};
}

const Room kRoom([] {
  OpCase forward{
      .op = "fft",
      .samples = lengths([](const std::string& name, int64_t lines, int64_t n) {
        return whole(name, lines, n, false);
      }),
      .bad = {bad<ShapeError>("fft: expected at least one element to transform, got n = 0",
                              [](Device d) { fft::fft(zeros({0}, {DType::c64, d})); }),
              bad<DTypeError>("rfft: expected real numbers, got c64",
                              [](Device d) { fft::rfft(zeros({4}, {DType::c64, d})); })},
      .tolerance = kRoundings};
  forward.samples.push_back(whole("backwards", 3, 12, true));
  forward.samples.push_back(whole("backwards by convolution", 2, 17, true));
  const auto same = [](const HostArgs& in) { return std::vector{in[0]}; };
  forward.samples.push_back(other(
      "there and back over two axes", {x({3, 4, 5})},
      [](const Args& a) -> Tensors { return {fft::irfftn(fft::rfftn(a[0]), {3, 4, 5})}; }, same));
  forward.samples.push_back(other(
      "shifted there and back", {x({3, 4})},
      [](const Args& a) -> Tensors { return {fft::ifftshift(fft::fftshift(a[0]))}; }, same));
  forward.samples.push_back(other(
      "hfft and back", {x({3, 6})},
      [](const Args& a) -> Tensors {
        return {fft::hfft(fft::ihfft(a[0], {}, 1, fft::Norm::ortho), 6, 1, fft::Norm::ortho)};
      },
      same));
  forward.samples.push_back(other(
      "stft there and back", {x({2, 40})},
      [](const Args& a) -> Tensors {
        const StftOptions options{.n_fft = 8, .hop_length = 2};
        return {istft(stft(a[0], options), options, 40)};
      },
      same));
  OpCase half{.op = "rfft", .samples = lengths(to_half), .tolerance = kRoundings};
  half.bad = {bad<DTypeError>("rfft: expected real numbers, got c64",
                              [](Device d) { fft::rfft(zeros({2}, {DType::c64, d})); })};
  forward.no_single = "a number has two parts";
  OpCase back{.op = "irfft", .samples = lengths(from_half), .tolerance = kRoundings};
  back.bad = {bad<ShapeError>("irfft: expected at least one real number, got n = 0",
                              [](Device d) { fft::irfft(zeros({1}, {DType::c64, d})); })};
  back.no_single = "a number has two parts";
  return std::vector<OpCase>{forward, half, back, block_case()};
});

}  // namespace
}  // namespace mica::cases
