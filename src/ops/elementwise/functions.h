#pragma once

// What rooms of elementwise ops share in describing their functions.
#include "mica/op/function.h"

namespace mica::elementwise {

/// A function of two tensors, or of a tensor and a number.
template <Tensor (*tensors)(const Tensor&, const Tensor&), Tensor (*number)(const Tensor&, Number)>
mica::Function arithmetic(const char* name, const char* doc, Offer offer = kModuleAndMethod,
                          std::vector<const char*> second_names = {}) {
  return {.name = name,
          .doc = doc,
          .signatures = {{tensors, {"input", "other"}}, {number, {"input", "other"}}},
          .offer = offer,
          .second_names = std::move(second_names)};
}
/// The same where the number may stand first as well.
template <Tensor (*tensors)(const Tensor&, const Tensor&), Tensor (*number)(const Tensor&, Number),
          Tensor (*first)(Number, const Tensor&)>
mica::Function arithmetic(const char* name, const char* doc, Offer offer = kModuleAndMethod,
                          std::vector<const char*> second_names = {}) {
  mica::Function f = arithmetic<tensors, number>(name, doc, offer, std::move(second_names));
  f.signatures.push_back({first, {"input", "other"}});
  return f;
}

}  // namespace mica::elementwise
