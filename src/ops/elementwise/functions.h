#pragma once

// What rooms of elementwise ops share in describing their functions.
#include "mica/op/function.h"
#include "mica/ops/copy/copy.h"

namespace mica::elementwise {

/// The tensor beside a number: a float makes integers f32.
inline Tensor beside(const Tensor& x, Number y) {
  return y.is_floating() && !is_floating(x.dtype()) ? cast(x, DType::f32) : x;
}
template <Tensor (*f)(const Tensor&, double)>
Tensor with_number(const Tensor& x, Number y) {
  return f(beside(x, y), y.to_double());
}
template <Tensor (*f)(double, const Tensor&)>
Tensor number_first(Number x, const Tensor& y) {
  return f(x.to_double(), beside(y, x));
}

/// A function of two tensors, or of a tensor and a number.
template <Tensor (*tensors)(const Tensor&, const Tensor&), Tensor (*number)(const Tensor&, double)>
mica::Function arithmetic(const char* name, const char* doc, Offer offer = kModuleAndMethod,
                          std::vector<const char*> second_names = {}) {
  return {.name = name,
          .doc = doc,
          .signatures = {{tensors, {"input", "other"}}, {with_number<number>, {"input", "other"}}},
          .offer = offer,
          .second_names = std::move(second_names)};
}
/// The same where the number may stand first as well.
template <Tensor (*tensors)(const Tensor&, const Tensor&), Tensor (*number)(const Tensor&, double),
          Tensor (*first)(double, const Tensor&)>
mica::Function arithmetic(const char* name, const char* doc, Offer offer = kModuleAndMethod,
                          std::vector<const char*> second_names = {}) {
  mica::Function f = arithmetic<tensors, number>(name, doc, offer, std::move(second_names));
  f.signatures.push_back({number_first<first>, {"input", "other"}});
  return f;
}

}  // namespace mica::elementwise
