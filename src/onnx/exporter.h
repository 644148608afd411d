#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mica/inference/network.h"
#include "mica/onnx/model.h"

// How calls of operators become nodes of ONNX. Each file export_*.cpp has a table of some
// operators.
namespace mica::onnx {

using inference::Call;
using inference::Network;
using Names = std::vector<std::string>;

/// An attribute of a node.
struct Attribute {
  Attribute(const char* n, int64_t v);
  Attribute(const char* n, int v) : Attribute(n, int64_t{v}) {}
  Attribute(const char* n, bool v) : Attribute(n, int64_t{v}) {}
  Attribute(const char* n, double v);
  Attribute(const char* n, const char* v);
  Attribute(const char* n, std::vector<int64_t> v);
  AttributeProto proto;
};
using Attributes = std::initializer_list<Attribute>;

/// Puts a graph together.
class Exporter {
 public:
  Exporter(const Network& network, int64_t opset);
  ModelProto run();

  int64_t opset() const { return opset_; }
  const Network& network() const { return network_; }

  /// A node with these results.
  void emit(const char* op, const Names& in, const Names& out, Attributes attributes = {});
  /// A node with one result, whose name it gives.
  std::string node(const char* op, const Names& in, Attributes attributes = {});
  /// A name that nothing has.
  std::string fresh(const char* hint);
  /// A constant of these numbers, of one axis or none.
  std::string numbers(const std::vector<int64_t>& values);
  std::string number(double value, DType dtype);
  /// A tensor that the model keeps, row-major on the CPU.
  std::string constant(const Tensor& tensor);
  std::string cast(const std::string& value, DType from, DType to);
  /// Whole numbers that may depend on dynamic sizes, as a tensor of one axis.
  std::string sizes(const std::vector<inference::Size>& values);

 private:
  void add_call(size_t index, const std::vector<TensorSpec>& specs, int first);
  std::string symbol(size_t which);
  std::string dimension(const inference::Size& size) const;

  const Network& network_;
  int64_t opset_;
  GraphProto graph_;
  Names names_;                              ///< by value
  std::set<int> used_;                       ///< values that somebody reads
  std::string scope_;                        ///< of the call that is exported
  std::map<std::string, std::string> kept_;  ///< constants by what they hold
  Tensors tensors_;                          ///< whose memory the model refers to
  std::map<size_t, std::string> symbols_;
  std::set<std::string> taken_;
  int next_ = 0;
};

/// A call, as the functions of the tables see it.
struct Exported {
  Exporter& to;
  const Call& call;
  Names in;  ///< empty: left out
  Names out;
  std::span<const TensorSpec> in_spec;
  std::span<const TensorSpec> out_spec;
  const std::vector<const Tensor*>& constants;  ///< of each input; null for one that is computed
  const std::vector<bool>& used;                ///< of each output

  /// Raises Unsupported, which the exporter collects.
  [[noreturn]] void refuse(const std::string& why) const;
  void expect(bool good, const char* why) const {
    if (!good) refuse(why);
  }
  /// Parameters. `ints` are fixed numbers; `sizes` may be dynamic, and are a tensor.
  template <class T>
  T param(const char* field) const {
    return std::get<T>(call.params.get(field));
  }
  std::vector<int64_t> ints(const char* field) const;
  std::vector<inference::Size> dynamic_sizes(const char* field) const;
  std::string sizes(const char* field) const { return to.sizes(dynamic_sizes(field)); }
  /// The inputs in one dtype.
  Names in_dtype(DType dtype) const;
  std::string number(double value) const { return to.number(value, out_spec[0].dtype); }
  /// The first output alone is used.
  void only_first() const;
  void emit(const char* op, const Names& inputs, Attributes attributes = {}) const {
    to.emit(op, inputs, {out[0]}, attributes);
  }
};

using ExportFunction = void (*)(const Exported&);
using ExportTable = std::map<std::string_view, ExportFunction>;
const ExportTable& elementwise_exports();
const ExportTable& shape_exports();
const ExportTable& layer_exports();
const ExportTable& sequence_exports();

}  // namespace mica::onnx
