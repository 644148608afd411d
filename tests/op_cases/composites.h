#pragma once

// What the cases of functions that are made of others share.
#include "tests/op_cases/elementwise_samples.h"

namespace mica::cases {

using Oracle = std::function<std::vector<HostArray>(const HostArgs&)>;
using TensorCall = std::function<Tensor(const Args&)>;

/// Several ops one after the other, each of which rounds.
inline const std::vector<DType> kWide = {DType::f64, DType::f32};

inline Sample composite_sample(std::string name, std::vector<Input> in, const TensorCall& call,
                               Oracle oracle, bool gradient = true) {
  return {.name = std::move(name),
          .in = std::move(in),
          .call = [call](const Args& a) -> Tensors { return {call(a)}; },
          .oracle = std::move(oracle),
          .dtypes = kWide,
          .gradient = gradient};
}

inline BadCall refuses_undefined(std::function<void(const Tensor&)> call) {
  return bad<Error>("undefined", [call = std::move(call)](Device) { call(Tensor()); });
}

/// Element (i, j, …) of an array, row-major.
inline double at(const HostArray& a, std::initializer_list<int64_t> index) {
  int64_t flat = 0;
  int axis = 0;
  for (const int64_t i : index) flat = flat * a.shape[axis++] + i;
  return a.values[static_cast<size_t>(flat)];
}

}  // namespace mica::cases
