#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "mica/core/complex.h"
#include "mica/core/dtype.h"

namespace mica {

/// A number of the host that stands beside tensors, as it was written: a bool, an integer with all
/// its digits, a double, or a complex number of two. A number is weak: it takes the dtype of the
/// tensor it meets, as far as its kind allows.
class Number {
 public:
  enum class Kind : uint8_t { boolean, integer, unsigned_integer, floating, complex };

  constexpr Number() : Number(0) {}
  constexpr Number(bool v) : kind_(Kind::boolean), bits_(v ? 1 : 0) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  constexpr Number(T v)
      : kind_(std::in_range<int64_t>(v) ? Kind::integer : Kind::unsigned_integer),
        bits_(static_cast<uint64_t>(v)) {}
  constexpr Number(double v) : kind_(Kind::floating), bits_(std::bit_cast<uint64_t>(v)) {}
  constexpr Number(Complex<double> v)
      : kind_(Kind::complex),
        bits_(std::bit_cast<uint64_t>(v.re)),
        imag_bits_(std::bit_cast<uint64_t>(v.im)) {}
  template <StdComplex C>
  constexpr Number(const C& v) : Number(Complex<double>(v.real(), v.imag())) {}

  /// `unsigned_integer` only where an int64 cannot hold it.
  constexpr Kind kind() const { return kind_; }
  constexpr bool is_floating() const { return kind_ == Kind::floating; }
  constexpr bool is_bool() const { return kind_ == Kind::boolean; }
  constexpr bool is_complex() const { return kind_ == Kind::complex; }

  /// The nearest value of T; of a fraction the integer towards zero. Only where T can hold it: of a
  /// complex number a real T is the real part.
  template <class T>
  constexpr T as() const {
    if constexpr (kIsComplex<T>) {
      using Real = typename T::value_type;
      return {as<Real>(), static_cast<Real>(imag())};
    } else {
      return real_as<T>();
    }
  }
  constexpr double to_double() const { return as<double>(); }
  constexpr double imag() const { return std::bit_cast<double>(imag_bits_); }
  constexpr Complex<double> to_complex() const { return as<Complex<double>>(); }

  /// Whether an integer type holds it, after a fraction is cut off.
  template <std::integral T>
  bool fits_in() const {
    using Limits = std::numeric_limits<T>;
    if (kind_ == Kind::unsigned_integer) return std::in_range<T>(bits_);
    if (kind_ == Kind::complex) return false;
    if (kind_ != Kind::floating) return std::in_range<T>(static_cast<int64_t>(bits_));
    // The lower limit and one more than the upper are zero or powers of two: doubles.
    const double cut = without_fraction(to_double());
    const double above = 2 * (static_cast<double>(Limits::max() / 2) + 1);
    return cut >= static_cast<double>(Limits::min()) && cut < above;
  }

  /// Whether an integer type, or bool, holds this very number.
  template <std::integral T>
  bool is_exactly() const {
    if constexpr (std::same_as<T, bool>) {
      return !is_complex() && (as<double>() == 0 || as<double>() == 1);
    } else {
      return fits_in<T>() &&
             (kind_ != Kind::floating || without_fraction(to_double()) == to_double());
    }
  }

  /// The same kind and the same bits: 0.0 and -0.0 differ, a NaN equals itself.
  constexpr bool operator==(const Number&) const = default;
  constexpr uint64_t bits() const { return bits_; }
  constexpr uint64_t imag_bits() const { return imag_bits_; }

 private:
  template <class T>
  constexpr T real_as() const {
    if (kind_ == Kind::floating || kind_ == Kind::complex)
      return static_cast<T>(std::bit_cast<double>(bits_));
    if (kind_ == Kind::unsigned_integer) return static_cast<T>(bits_);
    return static_cast<T>(static_cast<int64_t>(bits_));
  }
  static double without_fraction(double value);

  Kind kind_;
  uint64_t bits_;
  uint64_t imag_bits_ = 0;
};

/// "true", "-3", "0.5", "1+2j".
std::string to_string(Number value);
/// Whether a dtype holds a number: an integer dtype its digits but a fraction, others any; a
/// complex number complex dtypes alone.
bool fits(Number value, DType dtype);
/// What an element of a dtype holds of a number that fits it: a bool, an integer, a double or a
/// complex number.
Number held_in(DType dtype, Number value);
/// The bytes of that element, in words from the lowest on.
using ElementWords = std::array<uint64_t, 2>;
ElementWords element_words(Number value, DType dtype);
/// The same of an element of up to eight bytes.
inline uint64_t element_bits(Number value, DType dtype) { return element_words(value, dtype)[0]; }

}  // namespace mica
