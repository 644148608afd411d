#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "mica/custom/kernel.h"

namespace mica::cuda {

class ElementwiseOp;
class ReductionOp;

struct ElementwiseOptions {
  std::string outputs = {};         ///< "y, z"; else what the last statement assigns to
  std::optional<DType> dtype = {};  ///< of the results; else the inputs' promoted
  std::string name = "elementwise";
};

/// A function of elements, from statements in CUDA C++:
///
///     cuda::Elementwise saxpy("y = a * x + b", "a, x, b");
///     Tensor y = saxpy(2.0, x, b)[0];
///
/// Inputs are tensors, which are broadcast, or numbers, which take the tensors' kind. Elements are
/// computed in float (also f16 and bf16), double or 64-bit integers, as the result is.
class Elementwise {
 public:
  Elementwise(const std::string& body, const std::string& inputs,
              const ElementwiseOptions& options = {});
  Tensors apply(std::span<const KernelArgument> arguments) const;
  /// The CUDA source that is compiled for such arguments.
  std::string source(std::span<const KernelArgument> arguments) const;
  template <class... A>
  Tensors operator()(A&&... arguments) const {
    const std::array<KernelArgument, sizeof...(A)> all = {
        KernelArgument(std::forward<A>(arguments))...};
    return apply(all);
  }

 private:
  const ElementwiseOp* op_;
};

struct ReductionOptions {
  std::string inputs = "x";
  std::string post = "a";  ///< what becomes of the combined value a
  std::optional<DType> dtype = {};
  std::string name = "reduction";
};

/// A reduction, from expressions in CUDA C++: `map` of the inputs' elements, `combine` of two such
/// values a and b, whose neutral value is `identity`:
///
///     cuda::Reduction norm("x * x", "a + b", "0", {.post = "sqrt(a)"});
///     Tensor y = norm({x}, {-1});
///
/// `combine` must be associative and commutative up to rounding; the order is the same every time.
class Reduction {
 public:
  Reduction(const std::string& map, const std::string& combine, const std::string& identity,
            const ReductionOptions& options = {});
  /// Over some axes, or all of them.
  Tensor operator()(const Tensors& inputs, const std::optional<Dims>& axes = {},
                    bool keepdim = false) const;
  /// The CUDA source that is compiled for inputs of these dtypes.
  std::string source(std::span<const DType> dtypes) const;

 private:
  const ReductionOp* op_;
};

}  // namespace mica::cuda
