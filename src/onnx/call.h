#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/core/values.h"
#include "mica/onnx/model.h"
#include "mica/op/dispatch.h"

namespace mica::onnx {

/// What passes between nodes: a tensor, a sequence (a list), or an optional (nothing, or either).
/// It is *known* where it follows from the model and from shapes alone: then it lies on the CPU,
/// and a graph that is captured may depend on its values.
struct Value {
  Values value;
  bool known = false;
};

/// What an operator gives.
struct Results : std::vector<Values> {
  Results(Tensor t) { emplace_back(std::move(t)); }  // NOLINT(google-explicit-constructor)
  Results(Values v) { push_back(std::move(v)); }     // NOLINT(google-explicit-constructor)
  Results(std::initializer_list<Values> several) : vector(several) {}
  Results(const Tensors& several) {  // NOLINT(google-explicit-constructor)
    for (const Tensor& t : several) push_back(t);
  }
  Results() = default;

  bool known = false;  ///< whatever the inputs are
};

/// Runs on the host what follows from known values, also while a graph is captured.
class HostSection {
 public:
  HostSection() : recorder_(exchange_recorder(nullptr)) {}
  ~HostSection() { exchange_recorder(recorder_); }
  HostSection(const HostSection&) = delete;
  HostSection& operator=(const HostSection&) = delete;

 private:
  NoGrad no_grad_;
  Recorder* recorder_;
};

class Call;
struct Operator;

/// Nodes in order, with the places of values in place of their names.
struct NamedProgram;
struct Step {
  const Operator* op = nullptr;
  std::string name;                                     ///< of the node, for errors
  int64_t opset = 0;                                    ///< version of its domain
  std::vector<int> inputs;                              ///< -1: left out
  std::vector<int> outputs;                             ///< likewise
  std::vector<AttributeProto> attributes;               ///< without tensors and graphs
  std::vector<std::pair<std::string, Tensor>> tensors;  ///< attributes that are
  std::vector<NamedProgram> graphs;                     ///< likewise
  std::vector<int> last_used;                           ///< values that nobody reads afterwards
};
struct Program {
  std::vector<int> inputs;
  std::vector<int> outputs;
  std::vector<Step> steps;
};
struct NamedProgram {
  std::string name;
  Program program;
};

/// One node while it runs: its inputs and attributes. Whatever is wrong raises with the node's
/// name.
class Call {
 public:
  using RunGraph = std::function<std::vector<Value>(const Program&, const std::vector<Value>&)>;

  struct Setting {
    Device device;  ///< where results go
    bool training = false;
    /// What needs a value that is not known may raise: it is called again outside of the capture.
    bool may_cut = false;
  };

  Call(const Step& step, std::vector<Value> inputs, const Setting& setting, const RunGraph& run)
      : step_(step), inputs_(std::move(inputs)), setting_(setting), run_(run) {}

  int64_t opset() const { return step_.opset; }
  Device device() const { return setting_.device; }
  bool training() const { return setting_.training; }
  bool may_cut() const { return setting_.may_cut; }
  int inputs() const { return static_cast<int>(inputs_.size()); }
  int outputs() const { return static_cast<int>(step_.outputs.size()); }
  bool wants(int output) const { return output < outputs() && output_of(output) >= 0; }

  /// Input i is there.
  bool has(int i) const;
  /// Input i, which must be a tensor.
  Tensor operator[](int i) const;
  /// Undefined where it is left out.
  Tensor maybe(int i) const { return has(i) ? (*this)[i] : Tensor(); }
  /// All inputs, which are tensors.
  Tensors all(int from = 0) const;
  const Value& value(int i) const;
  const Values& sequence(int i) const;

  // Values of an input that have to be known before the node runs: sizes, axes, conditions. While a
  // graph is captured those that depend on its inputs raise.
  std::vector<int64_t> ints(int i) const;
  std::vector<double> numbers(int i) const;
  int64_t integer(int i) const;
  double number(int i) const;
  bool truth(const Value& value) const;

  // Attributes, and what they are where they are left out.
  const AttributeProto* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) || tensor_attribute(name).defined(); }
  int64_t integer(std::string_view name, int64_t otherwise) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise = {}) const;
  std::vector<int64_t> ints(std::string_view name, std::vector<int64_t> otherwise = {}) const;
  std::vector<double> numbers(std::string_view name) const;
  const std::vector<std::string>& texts(std::string_view name) const;
  Tensor tensor_attribute(std::string_view name) const;
  /// A dtype by its number; raises Unsupported for one that mica has not.
  DType dtype(std::string_view name, DType otherwise) const;
  DType dtype(int64_t data_type) const;

  /// Runs the graph that an attribute is.
  std::vector<Value> run(std::string_view graph, const std::vector<Value>& inputs) const;
  bool has_graph(std::string_view name) const;

  template <class E = Error, class... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) [[unlikely]]
      fail(fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  int output_of(int i) const { return step_.outputs[static_cast<size_t>(i)]; }
  const Program& graph_of(std::string_view name) const;
  void check_known(const Value& value, std::string_view what) const;
  Tensor host_tensor(int i) const;

  const Step& step_;
  std::vector<Value> inputs_;
  Setting setting_;
  const RunGraph& run_;
};

/// An operator of ONNX in terms of mica's functions.
struct Operator {
  std::string_view name;
  Results (*run)(const Call& call);
  /// What follows from known values is known, unless it is drawn or runs other nodes.
  bool folds = true;
  /// In place of `run`, for control flow: results that say each whether they are known.
  std::vector<Value> (*control)(const Call& call) = nullptr;
};
using Operators = std::vector<Operator>;

// One list for each file of operators.
Operators math_operators();
Operators comparison_operators();
Operators activation_operators();
Operators reduction_operators();
Operators shape_operators();
Operators index_operators();
Operators convolution_operators();
Operators pooling_operators();
Operators normalization_operators();
Operators recurrent_operators();
Operators product_operators();
Operators quantization_operators();
Operators image_operators();
Operators random_operators();
Operators signal_operators();
Operators loss_operators();
Operators attention_operators();
Operators sequence_operators();
Operators control_operators();
Operators selection_operators();
Operators ml_operators();         ///< of the domain ai.onnx.ml
Operators training_operators();   ///< of ai.onnx.preview.training
Operators preview_operators();    ///< of ai.onnx.preview
Operators microsoft_operators();  ///< of com.microsoft, which onnxruntime's tools write

/// The operator of a domain; null where there is none.
const Operator* find_operator(std::string_view domain, std::string_view name);

}  // namespace mica::onnx
