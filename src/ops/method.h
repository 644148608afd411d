#pragma once

#include <array>
#include <optional>

#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/sort/sort.h"

namespace mica {

/// A method of Tensor: one signature of a Function, called with C++ values.
template <class Result>
class Method {
 public:
  Method(const char* name, size_t signature) {
    const Function* function = find_function(name);
    check(function && signature < function->signatures.size(), "there is no method {}", name);
    signature_ = &function->signatures[signature];
  }

  template <class... T>
  Result operator()(const T&... values) const {
    const std::array<Argument, sizeof...(T)> given = {argument(values)...};
    std::array<const Argument*, BoundCall::kMaxParameters> places{};
    size_t next = 0;
    const std::vector<Parameter>& parameters = signature_->parameters;
    for (size_t i = 0; i < parameters.size(); ++i)
      places[i] = parameters[i].ignored ? &parameters[i].fallback : &given[next++];
    return result(signature_->invoke(signature_->target, places.data()));
  }

 private:
  static Argument argument(const Tensor& value) {
    return value.defined() ? Argument(value) : kNone;
  }
  template <class T>
  static Argument argument(const T& value) {
    return Argument(value);
  }
  template <class T>
  static Argument argument(const std::optional<T>& value) {
    return value ? Argument(*value) : kNone;
  }
  static Result result(Argument made) {
    if constexpr (std::is_same_v<Result, Sorted>) {
      const Tensors& both = *made.get<Tensors>();
      return {both[0], both[1]};
    } else if constexpr (std::is_same_v<Result, bool>) {
      return made.get<Number>()->template as<bool>();
    } else {
      return std::get<Result>(std::move(made));
    }
  }

  const Signature* signature_;
};

/// Gives a tensor the values of a result in its place, as Python's methods in place do.
inline const Tensor& overwrite(const Tensor& destination, const Tensor& result) {
  check<DTypeError>(promote(destination.dtype(), result.dtype()) == destination.dtype() ||
                        is_differentiable(destination.dtype()) == is_differentiable(result.dtype()),
                    "{} values cannot be written to a {} tensor in place", result.dtype(),
                    destination.dtype());
  check<ShapeError>(result.shape() == destination.shape(),
                    "a result of shape {} cannot be written to a tensor of shape {} in place",
                    result.shape(), destination.shape());
  copy_(destination, result);
  return destination;
}

}  // namespace mica
