#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>

#include "mica/autograd/autograd.h"
#include "mica/core/error.h"
#include "mica/core/index_set.h"

namespace mica {

class FunctionNode;

/// What a function with a gradient of its own keeps between forward and backward.
class FunctionContext {
 public:
  /// Keeps tensors for backward: inputs and outputs with their place in the graph, so that the
  /// gradient can be differentiated again; others as constants. Forward calls it once.
  void save(const Tensors& tensors);
  /// What was saved. Raises when one of them was written to since, or freed.
  Tensors saved() const;
  /// Keeps a value that is no tensor: `c.set(k)`, then `c.get<double>()`.
  template <class T>
  void set(T value) {
    value_ = std::make_shared<T>(std::move(value));
    type_ = &typeid(T);
  }
  template <class T>
  const T& get() const {
    check_type(typeid(T));
    return *static_cast<const T*>(value_.get());
  }
  /// False when nobody asks for the gradient of input i: backward may leave it undefined.
  bool needs(int i) const { return needed_.contains(i); }

 private:
  friend class FunctionNode;
  friend Tensors call_function(const std::string&, const Tensors&,
                               const std::function<Tensors(FunctionContext&)>&,
                               const std::function<Tensors(FunctionContext&, const Tensors&)>&);
  void check_type(const std::type_info& type) const;

  Tensors to_save_;
  FunctionNode* node_ = nullptr;
  std::shared_ptr<const void> value_;
  const std::type_info* type_ = nullptr;  ///< of the value
  IndexSet needed_;
};

using FunctionBackward = std::function<Tensors(FunctionContext& c, const Tensors& cotangents)>;

/// Runs `forward` without recording it, and makes its results depend on `inputs` by `backward`: one
/// gradient per input, undefined for none, from one cotangent per result (zeros where none came).
/// A backward written with ops can be differentiated again. `name` stands in messages.
Tensors call_function(const std::string& name, const Tensors& inputs,
                      const std::function<Tensors(FunctionContext& c)>& forward,
                      const FunctionBackward& backward);

/// A function with a gradient of its own, from a pair of lambdas:
///   const CustomFunction cube("cube",
///       [](FunctionContext& c, const Tensors& in) -> Tensors { c.save(in); return {…}; },
///       [](FunctionContext& c, const Tensors& g) -> Tensors { const Tensor x = c.saved()[0]; … });
///   const Tensor y = cube({x})[0];
class CustomFunction {
 public:
  CustomFunction(std::string name,
                 std::function<Tensors(FunctionContext&, const Tensors& inputs)> forward,
                 FunctionBackward backward);

  Tensors operator()(const Tensors& inputs) const;

 private:
  std::string name_;
  std::function<Tensors(FunctionContext&, const Tensors&)> forward_;
  FunctionBackward backward_;
};

/// The same from a struct, called as `apply_function<Scaled>(x, 3.0)`:
///   struct Scaled {
///     static constexpr const char* kName = "scaled";
///     static Tensor forward(FunctionContext& c, const Tensor& x, double k);
///     static Tensors backward(FunctionContext& c, const Tensors& cotangents);
///   };
/// The inputs are those arguments that are tensors; forward returns a Tensor or Tensors.
template <class F, class... Arguments>
auto apply_function(const Arguments&... arguments) {
  using Result = decltype(F::forward(std::declval<FunctionContext&>(), arguments...));
  Tensors inputs;
  const auto collect = [&](const auto& argument) {
    if constexpr (std::derived_from<std::remove_cvref_t<decltype(argument)>, Tensor>)
      inputs.push_back(argument);
  };
  (collect(arguments), ...);
  Tensors results = call_function(
      F::kName, inputs,
      [&](FunctionContext& c) -> Tensors { return {F::forward(c, arguments...)}; },
      [](FunctionContext& c, const Tensors& g) -> Tensors { return {F::backward(c, g)}; });
  if constexpr (std::is_same_v<Result, Tensor>) {
    return results[0];
  } else {
    return results;
  }
}

}  // namespace mica
