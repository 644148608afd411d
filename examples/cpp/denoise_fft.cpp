// Takes a pattern of stripes off a drawn photo by its Fourier transform: a photo's own spectrum
// falls off smoothly, and stripes are a few frequencies that stand out of it.
#include <mica/mica.h>

#include <cmath>
#include <cstdio>
#include <numbers>

using namespace mica;

namespace {

constexpr int64_t kSide = 128;

Tensor column() { return arange(kSide, DType::f32).reshape({kSide, 1}) / double{kSide}; }
Tensor row() { return arange(kSide, DType::f32).reshape({1, kSide}) / double{kSide}; }

Tensor drawn() {
  const Tensor x = row() * 2 - 1;
  const Tensor y = column() * 2 - 1;
  return ((x - 0.2).square() + y.square()).mul(-3).exp() * 0.8 + 0.1;
}

Tensor striped(const Tensor& photo) {
  constexpr double kTurn = 2 * std::numbers::pi;
  const Tensor waves =
      ((row() * 19 + column() * 11) * kTurn).sin() + ((column() * 30 - row() * 7) * kTurn).sin();
  return photo + waves * 0.1;
}

/// Frequencies that stand out of those around them are taken away.
Tensor denoised(const Tensor& photo) {
  const Tensor spectrum = fft::fftn(photo);
  const Tensor size = fft::fftshift(abs(spectrum));
  const Tensor around = avg_pool2d(size.reshape({1, 1, kSide, kSide}),
                                   {.kernel = {9, 9}, .stride = {1, 1}, .padding = {4, 4}})
                            .reshape({kSide, kSide});
  const Tensor x = row() * double{kSide} - double{kSide / 2};
  const Tensor y = column() * double{kSide} - double{kSide / 2};
  const Tensor stands_out = logical_and(size > around * 6, x.square() + y.square() > 64);
  const Tensor kept = cast(logical_not(fft::ifftshift(stands_out)), DType::f32);
  return real(fft::ifftn(spectrum * kept));
}

double error(const Tensor& a, const Tensor& b) { return std::sqrt((a - b).square().mean().item()); }

}  // namespace

int main() try {
  const Tensor photo = drawn();
  const Tensor noisy = striped(photo);
  const double before = error(noisy, photo);
  const double after = error(denoised(noisy), photo);
  std::printf("root mean square error %.4f with stripes, %.4f without\n", before, after);
  return after < before / 4 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
