#include "mica/onnx/call.h"

#include <unordered_map>

#include "mica/onnx/tensors.h"
#include "mica/ops/copy/copy.h"

namespace mica::onnx {

void Call::fail(const std::string& what) const {
  throw Error(fmt::format("onnx: node {}: {}", step_.name, what));
}

bool Call::has(int i) const {
  return i < inputs() && !inputs_[static_cast<size_t>(i)].value.is_nothing();
}

const Value& Call::value(int i) const {
  check(i < inputs(), "input {} is missing", i);
  return inputs_[static_cast<size_t>(i)];
}

const Values& Call::sequence(int i) const {
  check(value(i).value.is_list(), "input {} must be a sequence", i);
  return value(i).value;
}

Tensor Call::operator[](int i) const {
  const Value& v = value(i);
  check(v.value.is_tensor(), "input {} must be a tensor", i);
  const Tensor& t = v.value.tensor();
  if (!v.known || t.device() == device()) return t;
  const HostSection host;
  return to(t, device());
}

Tensors Call::all(int from) const {
  Tensors tensors;
  for (int i = from; i < inputs(); ++i) tensors.push_back((*this)[i]);
  return tensors;
}

void Call::check_known(const Value& value, std::string_view what) const {
  // A tensor from outside could be written to before the graph runs again.
  if (value.known || !(value.value.tensor().is_traced() || current_recorder())) return;
  mica::fail<Unsupported>(
      "onnx: node {}: {} is not known while a graph is captured: it depends on the inputs",
      step_.name, what);
}

Tensor Call::host_tensor(int i) const {
  check(has(i) && value(i).value.is_tensor(), "input {} must be a tensor", i);
  check_known(value(i), fmt::format("input {}", i));
  return value(i).value.tensor();
}

std::vector<int64_t> Call::ints(int i) const {
  const Tensor t = host_tensor(i);
  const HostSection host;
  return cast(t.detach(), DType::i64).to_vector<int64_t>();
}

std::vector<double> Call::numbers(int i) const {
  const Tensor t = host_tensor(i);
  const HostSection host;
  return cast(t.detach(), DType::f64).to_vector<double>();
}

int64_t Call::integer(int i) const {
  const std::vector<int64_t> v = ints(i);
  check(v.size() == 1, "input {} must have one element, got {}", i, v.size());
  return v[0];
}

double Call::number(int i) const {
  const std::vector<double> v = numbers(i);
  check(v.size() == 1, "input {} must have one element, got {}", i, v.size());
  return v[0];
}

bool Call::truth(const Value& value) const {
  check(value.value.is_tensor() && value.value.tensor().numel() == 1,
        "a condition must be a tensor of one element");
  check_known(value, "its condition");
  const HostSection host;
  return value.value.tensor().detach().item() != 0;
}

const AttributeProto* Call::find(std::string_view name) const {
  for (const AttributeProto& a : step_.attributes)
    if (a.name == name) return &a;
  return nullptr;
}

int64_t Call::integer(std::string_view name, int64_t otherwise) const {
  const AttributeProto* a = find(name);
  if (!a) return otherwise;
  check(a->type == AttributeType::int_, "attribute '{}' must be an integer", name);
  return a->i;
}
int64_t Call::integer(std::string_view name) const {
  check(find(name) != nullptr, "attribute '{}' is missing", name);
  return integer(name, 0);
}

double Call::number(std::string_view name, double otherwise) const {
  const AttributeProto* a = find(name);
  if (!a) return otherwise;
  check(a->type == AttributeType::float_, "attribute '{}' must be a number", name);
  return static_cast<double>(a->f);
}

std::string Call::text(std::string_view name, std::string_view otherwise) const {
  const AttributeProto* a = find(name);
  if (!a) return std::string(otherwise);
  check(a->type == AttributeType::string, "attribute '{}' must be a string", name);
  return a->s;
}

std::vector<int64_t> Call::ints(std::string_view name, std::vector<int64_t> otherwise) const {
  const AttributeProto* a = find(name);
  if (!a) return otherwise;
  check(a->type == AttributeType::ints, "attribute '{}' must be integers", name);
  return a->ints;
}

std::vector<double> Call::numbers(std::string_view name) const {
  const AttributeProto* a = find(name);
  if (!a) return {};
  check(a->type == AttributeType::floats, "attribute '{}' must be numbers", name);
  return {a->floats.begin(), a->floats.end()};
}

const std::vector<std::string>& Call::texts(std::string_view name) const {
  static const std::vector<std::string> none;
  const AttributeProto* a = find(name);
  return a ? a->strings : none;
}

Tensor Call::tensor_attribute(std::string_view name) const {
  for (const auto& [key, tensor] : step_.tensors)
    if (key == name) return tensor;
  return {};
}

DType Call::dtype(int64_t data_type) const {
  const std::optional<DType> t = dtype_of_onnx(data_type);
  if (!t)
    mica::fail<Unsupported>("onnx: node {}: mica has no dtype for {}", step_.name,
                            onnx_type_name(data_type));
  return *t;
}
DType Call::dtype(std::string_view name, DType otherwise) const {
  return find(name) ? dtype(integer(name)) : otherwise;
}

const Program& Call::graph_of(std::string_view name) const {
  for (const auto& [key, graph] : step_.graphs)
    if (key == name) return graph;
  fail(fmt::format("attribute '{}' must be a graph", name));
}

std::vector<Value> Call::run(std::string_view name, const std::vector<Value>& inputs) const {
  const Program& graph = graph_of(name);
  check(inputs.size() == graph.inputs.size(), "its graph '{}' takes {} inputs, got {}", name,
        graph.inputs.size(), inputs.size());
  return run_(graph, inputs);
}

bool Call::has_graph(std::string_view name) const {
  for (const auto& [key, graph] : step_.graphs)
    if (key == name) return true;
  return false;
}

const Operator* find_operator(std::string_view domain, std::string_view name) {
  using Table = std::unordered_map<std::string_view, Operator>;
  const auto table = [](std::initializer_list<Operators (*)()> lists) {
    Table made;
    for (const auto list : lists)
      for (const Operator& op : list()) made.emplace(op.name, op);
    return made;
  };
  static const Table standard = table(
      {math_operators,          comparison_operators, activation_operators,  reduction_operators,
       shape_operators,         index_operators,      convolution_operators, pooling_operators,
       normalization_operators, recurrent_operators,  product_operators,     quantization_operators,
       image_operators,         random_operators,     signal_operators,      loss_operators,
       attention_operators,     sequence_operators,   control_operators,     selection_operators});
  static const Table ml = table({ml_operators});
  static const Table training = table({training_operators});
  static const Table preview = table({preview_operators});
  static const Table microsoft = table({microsoft_operators});
  const Table* in = nullptr;
  if (domain.empty() || domain == "ai.onnx") in = &standard;
  if (domain == "ai.onnx.ml") in = &ml;
  if (domain == "ai.onnx.preview.training") in = &training;
  if (domain == "ai.onnx.preview") in = &preview;
  if (domain == "com.microsoft") in = &microsoft;
  if (!in) return nullptr;
  const auto at = in->find(name);
  return at == in->end() ? nullptr : &at->second;
}

}  // namespace mica::onnx
