#include "mica/onnx/export.h"

#include <algorithm>
#include <cstring>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/core/version.h"
#include "mica/graph/capture.h"
#include "mica/inference/engine.h"
#include "mica/inference/network.h"
#include "mica/onnx/exporter.h"
#include "mica/onnx/to_model.h"
#include "mica/onnx/write_model.h"
#include "mica/ops/copy/copy.h"

namespace mica::onnx {
namespace {

constexpr int64_t kIrVersion = 8;  ///< of opset 17 and later: what readers of that time know

/// A call that has no operators in ONNX.
struct Refused : Unsupported {
  using Unsupported::Unsupported;
};

AttributeProto attribute(const char* name, AttributeType type) {
  AttributeProto a;
  a.name = name;
  a.type = type;
  return a;
}

/// The specs of all values for inputs of some size.
std::vector<TensorSpec> specs_of(const Network& network) {
  // No size that is 1 or like another, where a dynamic one can be chosen.
  inference::SymbolValues sizes;
  for (size_t i = 0; i < network.symbols.size(); ++i) sizes.push_back(static_cast<int64_t>(64 + i));
  std::vector<TensorSpec> inputs;
  for (const Network::Input& input : network.inputs) {
    Shape shape;
    for (const inference::Size& size : input.shape) shape.push_back(size.at(sizes));
    inputs.push_back(TensorSpec::contiguous(shape, input.dtype));
    inputs.back().defined = true;
  }
  std::vector<TensorSpec> all;
  const NoGrad guard;
  capture(
      [&](std::span<const Tensor> in) {
        all.clear();
        return network.run(in, [&](int, const Tensor& t) { all.push_back(t.spec()); });
      },
      inputs);
  return all;
}

const ExportFunction* find(const char* op) {
  for (const ExportTable* table :
       {&elementwise_exports(), &shape_exports(), &layer_exports(), &sequence_exports()})
    if (const auto at = table->find(op); at != table->end()) return &at->second;
  return nullptr;
}

}  // namespace

Attribute::Attribute(const char* n, int64_t v) : proto(attribute(n, AttributeType::int_)) {
  proto.i = v;
}
Attribute::Attribute(const char* n, double v) : proto(attribute(n, AttributeType::float_)) {
  proto.f = static_cast<float>(v);
}
Attribute::Attribute(const char* n, const char* v) : proto(attribute(n, AttributeType::string)) {
  proto.s = v;
}
Attribute::Attribute(const char* n, std::vector<int64_t> v)
    : proto(attribute(n, AttributeType::ints)) {
  proto.ints = std::move(v);
}

Exporter::Exporter(const Network& network, int64_t opset) : network_(network), opset_(opset) {
  check<Unsupported>(opset >= ExportOptions::kFirstOpset && opset <= ExportOptions::kLastOpset,
                     "onnx: opsets {} to {} can be written, not {}", ExportOptions::kFirstOpset,
                     ExportOptions::kLastOpset, opset);
}

void Exporter::emit(const char* op, const Names& in, const Names& out, Attributes attributes) {
  NodeProto n;
  n.op_type = op;
  n.name = fmt::format("{}{}{}", scope_, scope_.empty() ? "" : "/", op);
  while (!taken_.insert("node " + n.name).second) n.name = fmt::format("{}_{}", n.name, next_++);
  n.input = in;
  while (!n.input.empty() && n.input.back().empty()) n.input.pop_back();
  n.output = out;
  for (const Attribute& a : attributes) n.attribute.push_back(a.proto);
  graph_.node.push_back(std::move(n));
}

std::string Exporter::fresh(const char* hint) {
  std::string name;
  do name = fmt::format("{}{}{}_{}", scope_, scope_.empty() ? "" : "/", hint, next_++);
  while (!taken_.insert(name).second);
  return name;
}

std::string Exporter::node(const char* op, const Names& in, Attributes attributes) {
  std::string name = fresh(op);
  emit(op, in, {name}, attributes);
  return name;
}

std::string Exporter::constant(const Tensor& given) {
  const Tensor t = to(contiguous(given.detach()), Device::cpu());
  const size_t bytes = static_cast<size_t>(t.numel()) * size_of(t.dtype());
  TensorProto proto;
  proto.data_type = info_of(t.dtype()).onnx;
  check<Unsupported>(proto.data_type > 0, "onnx: there is no {} in ONNX", t.dtype());
  proto.dims = {t.shape().begin(), t.shape().end()};
  proto.raw_data = {static_cast<const std::byte*>(t.data()), bytes};
  std::string key;
  if (bytes <= 256) {  // small ones are often the same
    key = fmt::format("{} {} ", proto.data_type, t.shape());
    key.append(reinterpret_cast<const char*>(proto.raw_data.data()), bytes);
    if (const auto at = kept_.find(key); at != kept_.end()) return at->second;
  }
  const std::string scope = std::exchange(scope_, "");
  proto.name = fresh("constant");
  scope_ = scope;
  if (!key.empty()) kept_[key] = proto.name;
  tensors_.push_back(t);
  graph_.initializer.push_back(proto);
  return proto.name;
}

std::string Exporter::numbers(const std::vector<int64_t>& values) {
  return constant(tensor(std::span<const int64_t>(values), {static_cast<int64_t>(values.size())}));
}

std::string Exporter::number(double value, DType dtype) {
  return constant(scalar(value, {.dtype = dtype}));
}

std::string Exporter::cast(const std::string& value, DType from, DType to) {
  if (from == to || value.empty()) return value;
  return node("Cast", {value}, {{"to", int64_t{info_of(to).onnx}}});
}

std::string Exporter::symbol(size_t which) {
  if (const auto at = symbols_.find(which); at != symbols_.end()) return at->second;
  for (size_t i = 0; i < network_.inputs.size(); ++i)
    for (size_t axis = 0; axis < network_.inputs[i].shape.size(); ++axis)
      if (network_.inputs[i].shape[axis] ==
          inference::Size::symbol(which, network_.symbols.size())) {
        const std::string shape = node("Shape", {names_[i]});
        return symbols_[which] =
                   node("Gather", {shape, numbers({static_cast<int64_t>(axis)})}, {{"axis", 0}});
      }
  fail("onnx: no input has the size {}", network_.symbols[which]);
}

std::string Exporter::sizes(const std::vector<inference::Size>& values) {
  if (std::ranges::all_of(values, &inference::Size::is_fixed)) {
    std::vector<int64_t> fixed;
    for (const inference::Size& size : values) fixed.push_back(size.at({}));
    return numbers(fixed);
  }
  Names parts;
  for (const inference::Size& size : values) {
    std::string sum;
    for (size_t set = 0; set < size.coefficients().size(); ++set) {
      const int64_t c = size.coefficients()[set];
      if (c == 0 && (set > 0 || !size.is_fixed())) continue;
      std::string term = c != 1 || set == 0 ? numbers({c}) : "";
      for (size_t s = 0; s < network_.symbols.size(); ++s)
        if (set >> s & 1) term = term.empty() ? symbol(s) : node("Mul", {term, symbol(s)});
      sum = sum.empty() ? term : node("Add", {sum, term});
    }
    parts.push_back(sum);
  }
  return parts.size() == 1 ? parts[0] : node("Concat", parts, {{"axis", 0}});
}

void Exported::refuse(const std::string& why) const {
  throw Refused(fmt::format("{}{}: {}", call.op->name,
                            call.scope.empty() ? "" : fmt::format(" ({})", call.scope), why));
}

std::vector<inference::Size> Exported::dynamic_sizes(const char* field) const {
  for (const auto& [name, sizes] : call.sizes)
    if (name == field) return sizes;
  const FieldValue value = call.params.get(field);
  if (const auto* d = std::get_if<Dims>(&value)) return {d->begin(), d->end()};
  if (const auto* n = std::get_if<int64_t>(&value)) return {*n};
  if (const auto* s = std::get_if<Size2>(&value)) return {s->h, s->w};
  const Size3 s = std::get<Size3>(value);
  return {s.d, s.h, s.w};
}

std::vector<int64_t> Exported::ints(const char* field) const {
  std::vector<int64_t> all;
  for (const inference::Size& size : dynamic_sizes(field)) {
    if (!size.is_fixed())
      refuse(fmt::format("'{}' depends on dynamic sizes, which ONNX has no form for", field));
    all.push_back(size.at({}));
  }
  return all;
}

Names Exported::in_dtype(DType dtype) const {
  Names all;
  for (size_t i = 0; i < in.size(); ++i) all.push_back(to.cast(in[i], in_spec[i].dtype, dtype));
  return all;
}

void Exported::only_first() const {
  for (size_t i = 1; i < used.size(); ++i)
    if (used[i]) refuse(fmt::format("its result '{}' has no form in ONNX", call.op->out[i].name));
}

void Exporter::add_call(size_t index, const std::vector<TensorSpec>& specs, int first) {
  const Call& call = network_.calls[index];
  Names in;
  std::vector<TensorSpec> in_spec;
  std::vector<const Tensor*> constants;
  const auto inputs = static_cast<int>(network_.inputs.size());
  const auto known = inputs + static_cast<int>(network_.constants.size());
  for (const int id : call.in) {
    in.push_back(id < 0 ? "" : names_[static_cast<size_t>(id)]);
    in_spec.push_back(id < 0 ? TensorSpec{} : specs[static_cast<size_t>(id)]);
    constants.push_back(id >= inputs && id < known
                            ? &network_.constants[static_cast<size_t>(id - inputs)].tensor
                            : nullptr);
  }
  Names out;
  std::vector<bool> used;
  for (int k = 0; k < call.outputs; ++k) {
    out.push_back(names_[static_cast<size_t>(first + k)]);
    used.push_back(used_.contains(first + k));
  }
  scope_ = call.scope;
  const Exported exported{
      *this,     call,    in,
      out,       in_spec, std::span(specs).subspan(static_cast<size_t>(first), out.size()),
      constants, used};
  const ExportFunction* function = find(call.op->name);
  if (!function) exported.refuse("mica does not write it");
  (*function)(exported);
}

std::string Exporter::dimension(const inference::Size& size) const {
  return size.print(network_.symbols);
}

ModelProto Exporter::run() {
  const std::vector<TensorSpec> specs = specs_of(network_);
  const std::vector<int> first = network_.first_results();
  for (const Call& call : network_.calls) used_.insert(call.in.begin(), call.in.end());
  used_.insert(network_.outputs.begin(), network_.outputs.end());
  const auto info = [&](const std::string& name, DType dtype, std::vector<Dimension> shape) {
    ValueInfoProto value;
    value.name = name;
    value.type.kind = TypeProto::Kind::tensor;
    value.type.elem_type = info_of(dtype).onnx;
    value.type.shape = std::move(shape);
    return value;
  };
  for (const Network::Input& input : network_.inputs) {
    std::vector<Dimension> shape;
    for (const inference::Size& size : input.shape) {
      Dimension& d = shape.emplace_back();
      if (size.is_fixed()) {
        d.value = size.at({});
      } else {
        d.param = dimension(size);
      }
    }
    taken_.insert(input.name);
    names_.push_back(input.name);
    graph_.input.push_back(info(input.name, input.dtype, std::move(shape)));
  }
  taken_.insert(network_.output_names.begin(), network_.output_names.end());
  for (const Network::Constant& c : network_.constants) {
    const Tensor t = to(contiguous(c.tensor.detach()), Device::cpu());
    TensorProto proto;
    proto.name = c.name;
    while (!taken_.insert(proto.name).second) proto.name += "_";
    proto.data_type = info_of(t.dtype()).onnx;
    proto.dims = {t.shape().begin(), t.shape().end()};
    proto.raw_data = {static_cast<const std::byte*>(t.data()),
                      static_cast<size_t>(t.numel()) * size_of(t.dtype())};
    tensors_.push_back(t);
    names_.push_back(proto.name);
    graph_.initializer.push_back(std::move(proto));
  }
  for (size_t i = 0; i < network_.calls.size(); ++i) {
    scope_ = network_.calls[i].scope;
    for (int k = 0; k < network_.calls[i].outputs; ++k)
      names_.push_back(fresh(network_.calls[i].op->name));
  }
  // A result that is made by one call, and is one output, has its name from the start.
  std::vector<bool> named(network_.outputs.size());
  for (size_t i = 0; i < network_.outputs.size(); ++i) {
    const int id = network_.outputs[i];
    named[i] = id >= first.front() && std::ranges::count(network_.outputs, id) == 1;
    if (named[i]) names_[static_cast<size_t>(id)] = network_.output_names[i];
  }
  std::string refused;
  for (size_t i = 0; i < network_.calls.size(); ++i) try {
      add_call(i, specs, first[i]);
    } catch (const Refused& e) {
      refused += fmt::format("\n  {}", e.what());
    }
  check<Unsupported>(refused.empty(), "onnx: calls that cannot be written as ONNX:{}", refused);
  scope_.clear();
  for (size_t i = 0; i < network_.outputs.size(); ++i) {
    const auto id = static_cast<size_t>(network_.outputs[i]);
    if (!named[i]) emit("Identity", {names_[id]}, {network_.output_names[i]});
    std::vector<Dimension> shape;
    for (const int64_t n : specs[id].shape) {
      Dimension& d = shape.emplace_back();
      if (network_.symbols.empty()) d.value = n;
    }
    graph_.output.push_back(info(network_.output_names[i], specs[id].dtype, std::move(shape)));
  }
  // Constants that no node reads any more, such as weights that were put in another order.
  std::set<std::string> read;
  for (const NodeProto& n : graph_.node) read.insert(n.input.begin(), n.input.end());
  std::erase_if(graph_.initializer, [&](const TensorProto& t) { return !read.contains(t.name); });
  graph_.name = "mica";
  ModelProto model;
  model.ir_version = kIrVersion;
  model.opset_import.push_back({"", opset_});
  model.producer_name = "mica";
  model.producer_version = version();
  model.graph = std::move(graph_);
  model.memory = std::make_shared<const Tensors>(std::move(tensors_));
  return model;
}

ModelProto to_model(const Network& network, int64_t opset) {
  return Exporter(network, opset).run();
}

void export_model(const nn::Module& module, const Values& example, const std::string& path,
                  const ExportOptions& options) {
  const Network network = inference::network_of(module, example,
                                                {.input_names = options.input_names,
                                                 .output_names = options.output_names,
                                                 .dynamic = options.dynamic});
  write_model(path, to_model(network, options.opset));
}

}  // namespace mica::onnx
