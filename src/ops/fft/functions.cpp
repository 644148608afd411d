// Frequencies, shifts, short-time transforms, and what users call.
#include <cmath>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/complex/complex.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fft/fft.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/flip/flip.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/pad/pad.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {
namespace fft {
namespace {

Tensor shifted(const char* op, const Tensor& x, const Dims& axes, bool forward) {
  Dims all = axes;
  if (axes.empty())
    for (int i = 0; i < x.rank(); ++i) all.push_back(i);
  Dims by;
  for (const int64_t axis : all) {
    const int64_t n = x.shape()[normalize_axis(axis, x.rank(), op)];
    by.push_back(forward ? n / 2 : -(n / 2));
  }
  return all.empty() ? x : roll(x, by, all);
}

}  // namespace

Tensor fftshift(const Tensor& x, const Dims& axes) { return shifted("fftshift", x, axes, true); }
Tensor ifftshift(const Tensor& x, const Dims& axes) { return shifted("ifftshift", x, axes, false); }

Tensor fftfreq(int64_t n, double d, TensorOptions options) {
  check<ShapeError>(n >= 1, "fftfreq: expected at least one frequency, got n = {}", n);
  const TensorOptions wide{DType::f64, options.device};
  const Tensor i = arange(n, wide);
  const Tensor whole =
      where(ge(i, static_cast<double>((n + 1) / 2)), sub(i, static_cast<double>(n)), i);
  return cast(div(whole, static_cast<double>(n) * d), options.dtype);
}
Tensor rfftfreq(int64_t n, double d, TensorOptions options) {
  check<ShapeError>(n >= 1, "rfftfreq: expected at least one frequency, got n = {}", n);
  const Tensor i = arange(n / 2 + 1, TensorOptions{DType::f64, options.device});
  return cast(div(i, static_cast<double>(n) * d), options.dtype);
}

}  // namespace fft

namespace {

struct Frames {
  int64_t hop;
  Tensor window;  ///< (n_fft)
};

Frames frames_of(const char* op, const StftOptions& o, DType dtype, Device device) {
  check<ShapeError>(o.n_fft > 0, "{}: n_fft must be at least 1, got {}", op, o.n_fft);
  const int64_t hop = o.hop_length.value_or(o.n_fft / 4);
  const int64_t length = o.win_length.value_or(o.n_fft);
  check<ShapeError>(hop > 0, "{}: hop_length must be at least 1, got {}", op, hop);
  check<ShapeError>(length > 0 && length <= o.n_fft, "{}: win_length must be in [1, {}], got {}",
                    op, o.n_fft, length);
  Tensor window = o.window.defined() ? o.window : ones({length}, {dtype, device});
  check<ShapeError>(window.rank() == 1 && window.size(0) == length,
                    "{}: window must have {} elements, got {}", op, length, window.shape());
  if (length < o.n_fft) {
    PadParams around{{(o.n_fft - length) / 2}, {o.n_fft - length - (o.n_fft - length) / 2}};
    window = pad(window, around);
  }
  return {hop, window};
}

/// The place of element i of frame t in the signal: (frames, n_fft).
Tensor places(int64_t frames, int64_t hop, int64_t n, Device device) {
  const TensorOptions options{DType::i64, device};
  return add(reshape(mul(arange(frames, options), hop), {frames, 1}), arange(n, options));
}

}  // namespace

Tensor stft(const Tensor& x, const StftOptions& o) {
  check<ShapeError>(x.rank() == 1 || x.rank() == 2, "stft: expected (T) or (B, T), got {}",
                    x.shape());
  check<DTypeError>(is_differentiable(x.dtype()),
                    "stft: expected a floating or complex dtype, got {}", x.dtype());
  const Frames f = frames_of("stft", o, real_dtype(x.dtype()), x.device());
  check<DTypeError>(!o.onesided || (!is_complex(x.dtype()) && !is_complex(f.window.dtype())),
                    "stft: a complex signal has no symmetric spectrum; pass onesided=False");
  const int64_t batch = x.rank() == 2 ? x.size(0) : 1;
  Tensor signal = reshape(x, {batch, x.shape().back()});
  if (o.center)
    signal =
        pad(signal, {.before = {o.n_fft / 2}, .after = {o.n_fft / 2}, .mode = PadMode::reflect});
  const int64_t length = signal.size(1);
  check<ShapeError>(length >= o.n_fft, "stft: a signal of {} elements has no frame of n_fft = {}",
                    length, o.n_fft);
  const int64_t frames = 1 + (length - o.n_fft) / f.hop;
  const Tensor at = reshape(places(frames, f.hop, o.n_fft, x.device()), {-1});
  const Tensor cut = reshape(index_select(signal, 1, at), {batch, frames, o.n_fft});
  const Tensor windowed = mul(cut, f.window);
  const auto norm = o.normalized ? fft::Norm::ortho : fft::Norm::backward;
  const Tensor spectrum =
      o.onesided ? fft::rfft(windowed, {}, -1, norm) : fft::fft(windowed, {}, -1, norm);
  const Tensor result = transpose(spectrum, 1, 2);
  return x.rank() == 2 ? result : reshape(result, {result.size(1), result.size(2)});
}

Tensor istft(const Tensor& x, const StftOptions& o, std::optional<int64_t> length,
             bool return_complex) {
  check<ShapeError>(x.rank() == 2 || x.rank() == 3,
                    "istft: expected (frequencies, frames) or (B, frequencies, frames), got {}",
                    x.shape());
  check<DTypeError>(is_complex(x.dtype()), "istft: expected a complex dtype, got {}", x.dtype());
  const Frames f = frames_of("istft", o, real_dtype(x.dtype()), x.device());
  check<DTypeError>(!(o.onesided && return_complex),
                    "istft: half of the frequencies give a real signal; pass onesided=False");
  const int64_t wanted = o.onesided ? o.n_fft / 2 + 1 : o.n_fft;
  check<ShapeError>(x.size(-2) == wanted, "istft: expected {} frequencies for n_fft = {}, got {}",
                    wanted, o.n_fft, x.size(-2));
  const int64_t frames = x.size(-1);
  check<ShapeError>(frames > 0, "istft: expected at least one frame");
  const int64_t batch = x.rank() == 3 ? x.size(0) : 1;
  const Tensor spectrum = transpose(reshape(x, {batch, wanted, frames}), 1, 2);
  const auto norm = o.normalized ? fft::Norm::ortho : fft::Norm::backward;
  Tensor cut =
      o.onesided ? fft::irfft(spectrum, o.n_fft, -1, norm) : fft::ifft(spectrum, {}, -1, norm);
  if (!return_complex) cut = real(cut);
  cut = mul(cut, f.window);
  // Frames are added up where they overlap, and divided by what the windows add up to.
  const int64_t whole = o.n_fft + (frames - 1) * f.hop;
  const Tensor at = reshape(places(frames, f.hop, o.n_fft, x.device()), {-1});
  const Tensor sums = index_add(zeros({batch, whole}, {cut.dtype(), x.device()}), 1, at,
                                reshape(cut, {batch, frames * o.n_fft}));
  const Tensor weight = index_add(zeros({whole}, {f.window.dtype(), x.device()}), 0, at,
                                  reshape(expand(square(f.window), {frames, o.n_fft}), {-1}));
  const int64_t first = o.center ? o.n_fft / 2 : 0;
  const int64_t last = length ? std::min(whole, first + *length) : whole - first;
  const Tensor seen = narrow(weight, 0, first, last - first);
  check(current_recorder() || min(abs(seen)).item() > 1e-11,
        "istft: the windows add up to 0 somewhere: frames do not overlap enough");
  Tensor signal = div(narrow(sums, 1, first, last - first), seen);
  if (length && *length > last - first) {
    signal = pad(signal, {.before = {0}, .after = {*length - (last - first)}});
  }
  return x.rank() == 3 ? signal : reshape(signal, {signal.size(1)});
}

template <>
struct Words<fft::Norm> {
  static constexpr std::pair<const char*, fft::Norm> all[] = {{"backward", fft::Norm::backward},
                                                              {"ortho", fft::Norm::ortho},
                                                              {"forward", fft::Norm::forward}};
};

namespace {

using Line = Tensor (*)(const Tensor&, fft::Size, int64_t, fft::Norm);
using Block = Tensor (*)(const Tensor&, const Dims&, const Dims&, fft::Norm);

Function line(const char* name, Line f, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{f, {"input", {"n", kNone}, {"dim", -1}, {"norm", "backward"}}}},
          .offer = kModule,
          .op = "fft"};
}
Function block(const char* name, Block f, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{f, {"input", {"s", kNone}, {"dim", kNone}, {"norm", "backward"}}}},
          .offer = kModule,
          .op = "fft"};
}
/// The last two axes unless others are named.
template <Block f>
Function plane(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{[](const Tensor& x, const Dims& s, const Dims& dim, fft::Norm norm) {
                            return f(x, s, dim, norm);
                          },
                          {"input", {"s", kNone}, {"dim", Dims{-2, -1}}, {"norm", "backward"}}}},
          .offer = kModule,
          .op = "fft"};
}
template <Tensor (*f)(int64_t, double, TensorOptions)>
Function frequencies(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{[](int64_t n, double d, std::optional<DType> dtype,
                             std::optional<Device> device) {
                            return f(n, d, {dtype.value_or(DType::f32), device.value_or(Device())});
                          },
                          {"n", {"d", 1.0}, kKeywordOnly, {"dtype", kNone}, {"device", kNone}}}},
          .offer = kModule,
          .op = "fft"};
}

}  // namespace

Functions fft_functions() {
  using MaybeInt = std::optional<int64_t>;
  return {
      line("fft.fft", fft::fft,
           "The discrete Fourier transform along dim, complex. n cuts the axis or fills it with "
           "zeros first; norm: 'backward' leaves it as it is, 'ortho' divides by the root of n, "
           "'forward' by n."),
      line("fft.ifft", fft::ifft,
           "The inverse of fft along dim, complex: with norm 'backward' divided by n, with 'ortho' "
           "by its root."),
      line("fft.rfft", fft::rfft,
           "The transform of real numbers along dim: the n // 2 + 1 complex results that the "
           "others follow from."),
      line("fft.irfft", fft::irfft,
           "The inverse of rfft along dim: n real numbers, 2 * (m - 1) of m unless n is given."),
      line("fft.hfft", fft::hfft,
           "The transform, which is real, of a signal that is its own mirrored conjugate, from "
           "the half of it that input is: n results, 2 * (m - 1) unless n is given."),
      line("fft.ihfft", fft::ihfft,
           "The inverse of hfft along dim: the first n // 2 + 1 elements of a signal that is its "
           "own mirrored conjugate."),
      block("fft.fftn", fft::fftn,
            "fft over several axes, all unless dim names some; s cuts each or fills it with "
            "zeros."),
      block("fft.ifftn", fft::ifftn, "The inverse of fftn."),
      block("fft.rfftn", fft::rfftn,
            "fftn of real numbers: the last axis of dim by rfft, the others by fft."),
      block("fft.irfftn", fft::irfftn, "The inverse of rfftn, real."),
      plane<fft::fftn>("fft.fft2", "fftn over two axes, the last ones unless dim names others."),
      plane<fft::ifftn>("fft.ifft2", "The inverse of fft2."),
      plane<fft::rfftn>("fft.rfft2", "rfftn over two axes, the last ones unless dim names others."),
      plane<fft::irfftn>("fft.irfft2", "The inverse of rfft2, real."),
      {.name = "fft.fftshift",
       .doc = "Results of a transform with the zero frequency in the middle of each axis of dim, "
              "of all unless some are named.",
       .signatures = {{fft::fftshift, {"input", {"dim", kNone}}}},
       .offer = kModule,
       .op = "fft"},
      {.name = "fft.ifftshift",
       .doc = "The inverse of fftshift.",
       .signatures = {{fft::ifftshift, {"input", {"dim", kNone}}}},
       .offer = kModule,
       .op = "fft"},
      frequencies<fft::fftfreq>("fft.fftfreq",
                                "(n): the frequencies that the results of fft stand for, in cycles "
                                "per unit of d, the distance of two samples."),
      frequencies<fft::rfftfreq>("fft.rfftfreq", "(n // 2 + 1): the same for rfft."),
      {.name = "stft",
       .doc = "Short-time Fourier transform of a signal (T) or (B, T): frames of n_fft samples, "
              "hop_length apart and multiplied by window, transformed: (B, frequencies, frames). "
              "With center the signal is mirrored at its ends, so that frame t is centred at t * "
              "hop_length.",
       .signatures = {{[](const Tensor& x, int64_t n_fft, MaybeInt hop, MaybeInt win,
                          const Tensor& window, bool center, bool normalized, bool onesided) {
                         return stft(x, {n_fft, hop, win, window, center, normalized, onesided});
                       },
                       {"input",
                        "n_fft",
                        {"hop_length", kNone},
                        {"win_length", kNone},
                        {"window", kNone},
                        {"center", true},
                        {"normalized", false},
                        {"onesided", true}}}},
       .offer = kModule,
       .op = "fft"},
      {.name = "istft",
       .doc = "The signal of a short-time Fourier transform, with the arguments that made it: "
              "frames are transformed back, added up and divided by what the windows add up to.",
       .signatures = {{[](const Tensor& x, int64_t n_fft, MaybeInt hop, MaybeInt win,
                          const Tensor& window, bool center, bool normalized, bool onesided,
                          MaybeInt length, bool return_complex) {
                         return istft(x, {n_fft, hop, win, window, center, normalized, onesided},
                                      length, return_complex);
                       },
                       {"input",
                        "n_fft",
                        {"hop_length", kNone},
                        {"win_length", kNone},
                        {"window", kNone},
                        {"center", true},
                        {"normalized", false},
                        {"onesided", true},
                        {"length", kNone},
                        {"return_complex", false}}}},
       .offer = kModule,
       .op = "fft"},
  };
}

}  // namespace mica
