#pragma once

#include <concepts>

#include "mica/runtime/portable.h"

namespace mica {

/// `std::complex<float>` and `<double>`, known by their shape: `<complex>` would take a tenth of
/// the time in which a program compiles that includes mica.h.
template <class C>
concept StdComplex = std::floating_point<typename C::value_type> &&
                     sizeof(C) == 2 * sizeof(typename C::value_type) && requires(const C& c) {
                       { c.real() } -> std::same_as<typename C::value_type>;
                       { c.imag() } -> std::same_as<typename C::value_type>;
                     };

/// A complex number as tensors hold it: the real part, then the imaginary one. It lies in memory as
/// std::complex does and converts to and from it. Products are the four plain ones: no time goes
/// into what becomes of infinities.
template <class T>
struct Complex {
  using value_type = T;
  T re = 0;
  T im = 0;

  Complex() = default;
  MICA_PORTABLE constexpr Complex(T real, T imag = 0) : re(real), im(imag) {}
  template <StdComplex C>
    requires std::same_as<typename C::value_type, T>
  constexpr Complex(const C& c) : re(c.real()), im(c.imag()) {}
  template <class U>
  MICA_PORTABLE constexpr explicit Complex(const Complex<U>& c)
      : re(static_cast<T>(c.re)), im(static_cast<T>(c.im)) {}
  template <StdComplex C>
    requires std::same_as<typename C::value_type, T>
  constexpr operator C() const {
    return {re, im};
  }

  MICA_PORTABLE friend constexpr Complex operator+(Complex a, Complex b) {
    return {a.re + b.re, a.im + b.im};
  }
  MICA_PORTABLE friend constexpr Complex operator-(Complex a, Complex b) {
    return {a.re - b.re, a.im - b.im};
  }
  MICA_PORTABLE friend constexpr Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  MICA_PORTABLE friend constexpr Complex operator*(Complex a, T b) { return {a.re * b, a.im * b}; }
  MICA_PORTABLE friend constexpr Complex operator-(Complex a) { return {-a.re, -a.im}; }
  MICA_PORTABLE friend constexpr bool operator==(Complex a, Complex b) {
    return a.re == b.re && a.im == b.im;
  }
};

template <class T>
MICA_PORTABLE constexpr Complex<T> conj(Complex<T> x) {
  return {x.re, -x.im};
}

template <class T>
inline constexpr bool kIsComplex = false;
template <class T>
inline constexpr bool kIsComplex<Complex<T>> = true;
template <StdComplex C>
inline constexpr bool kIsComplex<C> = true;

}  // namespace mica
