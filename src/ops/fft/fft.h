#pragma once

#include <optional>

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

// Discrete Fourier transforms. Names and arguments are NumPy's and PyTorch's: `n` cuts the axis or
// fills it with zeros first; a norm says which direction is divided.
namespace mica {

/// Of the last axis.
struct FftParams {
  bool inverse = false;
  double scale = 1;  ///< what results are multiplied by

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("inverse", self.inverse);
    f("scale", self.scale);
  }
};
/// Of the last axis, between `n` real numbers and n / 2 + 1 complex ones.
struct RealFftParams {
  int64_t n = 0;  ///< of a transform to real numbers
  double scale = 1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("n", self.n);
    f("scale", self.scale);
  }
};

namespace fft {

/// Which transform is divided by n: backward ones, both by its root, forward ones.
enum class Norm : uint8_t { backward, ortho, forward };

using Size = std::optional<int64_t>;

Tensor fft(const Tensor& x, Size n = {}, int64_t axis = -1, Norm norm = Norm::backward);
Tensor ifft(const Tensor& x, Size n = {}, int64_t axis = -1, Norm norm = Norm::backward);
/// Of real numbers, the n / 2 + 1 results that the others follow from.
Tensor rfft(const Tensor& x, Size n = {}, int64_t axis = -1, Norm norm = Norm::backward);
/// Back from those to n real numbers, 2 (m - 1) unless n is given.
Tensor irfft(const Tensor& x, Size n = {}, int64_t axis = -1, Norm norm = Norm::backward);
/// Of x that stands for a signal whose transform is real, and back.
Tensor hfft(const Tensor& x, Size n = {}, int64_t axis = -1, Norm norm = Norm::backward);
Tensor ihfft(const Tensor& x, Size n = {}, int64_t axis = -1, Norm norm = Norm::backward);

/// Over several axes, all unless some are named; `sizes` cuts or fills each.
Tensor fftn(const Tensor& x, const Dims& sizes = {}, const Dims& axes = {},
            Norm norm = Norm::backward);
Tensor ifftn(const Tensor& x, const Dims& sizes = {}, const Dims& axes = {},
             Norm norm = Norm::backward);
/// The last of the axes by rfft and irfft.
Tensor rfftn(const Tensor& x, const Dims& sizes = {}, const Dims& axes = {},
             Norm norm = Norm::backward);
Tensor irfftn(const Tensor& x, const Dims& sizes = {}, const Dims& axes = {},
              Norm norm = Norm::backward);

/// The zero frequency in the middle, and back.
Tensor fftshift(const Tensor& x, const Dims& axes = {});
Tensor ifftshift(const Tensor& x, const Dims& axes = {});
/// The frequencies of the results for samples at distance d.
Tensor fftfreq(int64_t n, double d = 1, TensorOptions options = {});
Tensor rfftfreq(int64_t n, double d = 1, TensorOptions options = {});

}  // namespace fft

struct StftOptions {
  int64_t n_fft = 0;
  std::optional<int64_t> hop_length = {};  ///< n_fft / 4
  std::optional<int64_t> win_length = {};  ///< n_fft
  Tensor window = {};                      ///< ones
  bool center = true;                      ///< frame t is centred at t * hop_length
  bool normalized = false;                 ///< by the root of n_fft
  bool onesided = true;                    ///< half of the frequencies: the signal is real
};
/// Short-time Fourier transform of x (…, T): (…, frequencies, frames).
Tensor stft(const Tensor& x, const StftOptions& options);
/// The signal again, (…, T), by adding up the frames; `length` cuts it, or fills it with zeros.
Tensor istft(const Tensor& x, const StftOptions& options, std::optional<int64_t> length = {},
             bool return_complex = false);

}  // namespace mica
