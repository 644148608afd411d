#pragma once

// What the rooms of losses share in describing their functions.
#include "mica/op/function.h"
#include "mica/ops/loss/reduction.h"

namespace mica {

template <>
struct Words<Reduction> {
  static constexpr std::pair<const char*, Reduction> all[] = {
      {"mean", Reduction::mean}, {"sum", Reduction::sum}, {"none", Reduction::none}};
};

inline Function loss_function(const char* name, const char* doc, Signature signature) {
  return {.name = name,
          .doc = doc,
          .signatures = {std::move(signature)},
          .offer = kFunctional,
          .precision = Precision::f32};
}

}  // namespace mica
