#pragma once

#include <vector>

#include "mica/mica.h"

namespace mica::test {

/// All parameters and buffers of a model, one after the other.
inline std::vector<float> values_of(const nn::Module& model) {
  std::vector<float> all;
  for (const auto& [name, tensor] : model.state_dict()) {
    const auto values = cast(tensor, DType::f32).to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace mica::test
