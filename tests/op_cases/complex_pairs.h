#pragma once

// Complex numbers go in and out of samples as pairs of real ones along a last axis.
#include <complex>

#include "tests/op_cases/op_case.h"

namespace mica::cases {

using Number = std::complex<double>;
using Numbers = std::vector<Number>;

/// The dtypes of pairs.
inline const std::vector<DType> kParts = {DType::f64, DType::f32};

inline Shape with_pairs(Shape shape) {
  shape.push_back(2);
  return shape;
}
inline Shape without_pairs(const Shape& shape) {
  Shape s;
  for (int i = 0; i + 1 < shape.rank(); ++i) s.push_back(shape[i]);
  return s;
}
inline Numbers numbers_of(const HostArray& a) {
  Numbers numbers;
  for (size_t i = 0; i < a.values.size(); i += 2)
    numbers.emplace_back(a.values[i], a.values[i + 1]);
  return numbers;
}
inline HostArray pairs_of(const Shape& shape, const Numbers& numbers) {
  HostArray a{with_pairs(shape), {}};
  for (const Number v : numbers) a.values.insert(a.values.end(), {v.real(), v.imag()});
  return a;
}

inline Tensor numbers(const Tensor& pairs) { return view_as_complex(pairs); }
/// A result as pairs, or as it is where it is real.
inline Tensor shown(const Tensor& x) { return is_complex(x.dtype()) ? view_as_real(x) : x; }

/// A sample's call with complex numbers in the place of its inputs, and no oracle.
inline Sample of_complex(Sample sample) {
  sample.name += ", complex";
  for (Input& in : sample.in) in.shape = with_pairs(in.shape);
  sample.oracle = nullptr;
  sample.dtypes = kParts;
  sample.call = [call = sample.call](const Args& a) {
    Args given{{}, a.dtype, a.device};
    for (const Tensor& t : a.in) given.in.push_back(numbers(t));
    Tensors results;
    for (const Tensor& t : call(given)) results.push_back(shown(t));
    return results;
  };
  return sample;
}

/// A sample of an op whose case is elsewhere, with a tolerance of its own.
struct MoreSample {
  const char* op;
  Sample sample;
  Tolerances tolerance;
};
/// Adds samples to cases: `const MoreSamples kMore([] { return std::vector<MoreSample>{…}; });`.
class MoreSamples {
 public:
  explicit MoreSamples(std::vector<MoreSample> (*samples)());
};
/// The tolerance that a sample brought along; null where it is its case's.
const Tolerances* own_tolerance(const OpCase& c, const Sample& s);

}  // namespace mica::cases
