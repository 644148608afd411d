#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mica/core/values.h"
#include "mica/op/op_def.h"

namespace mica::inference {

/// The values that dynamic sizes have, in the order of Network::symbols.
using SymbolValues = std::vector<int64_t>;

/// A size or another whole number that may depend on dynamic sizes, linearly in each of them:
/// `batch * 3 + 1`, `batch * length`.
class Size {
 public:
  static constexpr int kMostSymbols = 4;

  Size(int64_t value = 0) : coefficients_{value} {}
  /// By set of symbols, one bit each: the number the product of these symbols is taken times. As
  /// many as there are sets.
  explicit Size(std::vector<int64_t> coefficients);
  /// The symbol itself.
  static Size symbol(size_t which, size_t count);

  bool is_fixed() const { return coefficients_.size() == 1; }
  /// Raises ShapeError where it is more than an int64 holds.
  int64_t at(const SymbolValues& symbols) const;
  const std::vector<int64_t>& coefficients() const { return coefficients_; }
  /// "2*batch + 1".
  std::string print(const std::vector<std::string>& symbols) const;
  bool operator==(const Size&) const = default;

 private:
  std::vector<int64_t> coefficients_;  ///< one where it is fixed
};

/// A call of an operator.
struct Call {
  const OpDef* op;
  AnyParams params;
  /// Fields of `params` that depend on dynamic sizes: every number of such a field.
  std::vector<std::pair<std::string, std::vector<Size>>> sizes = {};
  std::vector<int> in = {};  ///< -1: left out
  int outputs = 1;
  std::string scope = {};  ///< where the network calls it: "features.0"
};

/// What a network computes, without its code: calls of operators, in an order in which they can
/// run, none of which writes to memory that another one sees. Values are numbered: inputs,
/// constants, then the results of each call.
struct Network {
  struct Input {
    std::string name;
    DType dtype = DType::f32;
    std::vector<Size> shape = {};
  };
  struct Constant {
    std::string name;
    Tensor tensor;
  };

  std::vector<std::string> symbols;  ///< names of dynamic sizes
  std::vector<Input> inputs;
  std::vector<Constant> constants;
  std::vector<Call> calls;
  std::vector<int> outputs;
  std::vector<std::string> output_names;
  Values input_form;  ///< how its inputs are structured, and its results
  Values output_form;

  /// The number of the first result of call i; of as many as there are, the number of values.
  std::vector<int> first_results() const;
  /// The dynamic sizes that inputs of these shapes have. Raises ShapeError or DTypeError that names
  /// the input where they are not the network's.
  SymbolValues symbols_of(std::span<const Tensor> given) const;
  /// Calls the operators, now or as part of a capture, and gives the outputs. Devices among the
  /// parameters are replaced by the inputs'.
  Tensors run(std::span<const Tensor> given) const;
  /// The same, with what looks at each value as it is made.
  using Look = std::function<void(int value, const Tensor& tensor)>;
  Tensors run(std::span<const Tensor> given, const Look& look) const;
  /// Bytes of all constants.
  size_t constant_bytes() const;
  /// With its constants on a device.
  Network on(Device device) const;
  /// One line per call: `%5 = relu(%4)  features.1`.
  std::string dump() const;
};

/// Removes calls and constants that no output depends on.
void remove_unused(Network& network);

}  // namespace mica::inference
