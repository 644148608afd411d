#include "mica/onnx/build.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>

#include "mica/core/check.h"
#include "mica/core/make_tensor.h"
#include "mica/ops/elementwise/known_number.h"

namespace mica::onnx {
namespace {

/// Nodes of a model, those of its functions at each call of them included.
constexpr int64_t kMostSteps = 1'000'000;
constexpr int kDeepestCall = 64;

/// Inputs of floating dtype that say how to compute rather than what a network has learned.
struct ConstantInput {
  std::string_view op;
  int first, last;
};
constexpr std::array<ConstantInput, 17> kConstantInputs = {{
    {"Clip", 1, 2},
    {"Pad", 2, 2},
    {"Resize", 1, 2},
    {"Upsample", 1, 1},
    {"Range", 0, 2},
    {"OneHot", 2, 2},
    {"QuantizeLinear", 1, 1},
    {"DequantizeLinear", 1, 1},
    {"QLinearConv", 1, 6},
    {"QLinearMatMul", 1, 6},
    {"NonMaxSuppression", 3, 4},
    {"Dropout", 1, 1},
    {"Pow", 1, 1},
    {"RoiAlign", 1, 1},
    {"MelWeightMatrix", 3, 4},
    {"ConstantOfShape", 0, 0},
    {"STFT", 2, 2},
}};

bool is_standard(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

/// Names of values, those of graphs around it included.
struct Scope {
  std::unordered_map<std::string, int> places;
  const Scope* outer = nullptr;

  const int* find(const std::string& name) const {
    for (const Scope* s = this; s; s = s->outer)
      if (const auto at = s->places.find(name); at != s->places.end()) return &at->second;
    return nullptr;
  }
};

/// What the nodes of a graph, or of a function, are read with.
struct Context {
  const std::vector<OperatorSetIdProto>* opsets;
  /// Of a function: the attributes of the call.
  const std::map<std::string, AttributeProto>* attributes = nullptr;
  int depth = 0;
};

class Builder {
 public:
  Builder(const ModelProto& model, const ModelFile& file) : model_(model), file_(file) {
    for (const FunctionProto& f : model.functions) functions_[{f.domain, f.name, f.overload}] = &f;
  }

  Built build() {
    note_uses(model_.graph.node);
    Scope scope;
    add_initializers(model_.graph, scope, true);
    for (const ValueInfoProto& input : model_.graph.input) {
      const auto known = scope.places.find(input.name);
      const bool required = known == scope.places.end();
      const int slot = required ? place(scope, input.name) : known->second;
      built_.inputs.push_back({input.name, slot, required, input.type});
    }
    const Context context{&model_.opset_import};
    add_nodes(model_.graph.node, scope, context, built_.program.steps);
    raise_unsupported();
    for (const ValueInfoProto& output : model_.graph.output) {
      built_.program.outputs.push_back(slot_of(output.name, scope, "the model gives"));
      built_.outputs.push_back(output.name);
    }
    for (const Built::Input& input : built_.inputs) built_.program.inputs.push_back(input.slot);
    mark_last_uses(built_.program);
    return std::move(built_);
  }

 private:
  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition)
      fail<IoError>("onnx: {}: {}", file_.name, fmt::format(format, std::forward<Args>(args)...));
  }

  int new_place() {
    built_.begin.emplace_back();
    return static_cast<int>(built_.begin.size()) - 1;
  }
  int place(Scope& scope, const std::string& name) { return scope.places[name] = new_place(); }
  int slot_of(const std::string& name, const Scope& scope, std::string_view who) const {
    const int* slot = scope.find(name);
    require(slot != nullptr, "{} '{}', which is no input, initializer or earlier result", who,
            name);
    return *slot;
  }

  /// Which initializers are constants of the computation, and which are running statistics.
  void note_uses(const std::vector<NodeProto>& nodes) {
    for (const NodeProto& node : nodes) {
      for (int i = 0; i < static_cast<int>(node.input.size()); ++i) {
        const std::string& name = node.input[static_cast<size_t>(i)];
        if (is_standard(node.domain))
          for (const ConstantInput& c : kConstantInputs)
            if (node.op_type == c.op && i >= c.first && i <= c.last) constants_.insert(name);
        if (node.op_type == "BatchNormalization" && (i == 3 || i == 4)) statistics_.insert(name);
      }
      for (const AttributeProto& a : node.attribute)
        for (const GraphProto& g : a.graphs) note_uses(g.node);
    }
  }

  std::optional<Tensor> tensor_of(const TensorProto& proto, std::string_view where) {
    if (!dtype_of_onnx(proto.data_type)) {
      unsupported_[fmt::format("dtype {}", onnx_type_name(proto.data_type))].emplace_back(where);
      return {};
    }
    return to_tensor(proto, file_);
  }

  void add_constant(int slot, const Tensor& tensor) {
    built_.begin[static_cast<size_t>(slot)] = {elementwise::with_known_number(tensor), true};
  }

  void add_initializers(const GraphProto& graph, Scope& scope, bool outermost) {
    for (const TensorProto& t : graph.initializer) {
      const int slot = place(scope, t.name);
      const std::optional<Tensor> tensor = tensor_of(t, fmt::format("initializer '{}'", t.name));
      if (!tensor) continue;
      const bool statistic = statistics_.contains(t.name);
      if (outermost && is_floating(tensor->dtype()) && info_of(tensor->dtype()).computes &&
          (statistic || (tensor->rank() > 0 && !constants_.contains(t.name)))) {
        built_.weights.push_back({t.name, slot, *tensor, !statistic});
      } else {
        add_constant(slot, *tensor);
      }
    }
    for (const SparseTensorProto& t : graph.sparse_initializer) {
      const int slot = place(scope, t.values.name);
      if (tensor_of(t.values, fmt::format("initializer '{}'", t.values.name)))
        add_constant(slot, to_tensor(t, file_));
    }
  }

  Program add_graph(const GraphProto& graph, const Scope& outer, const Context& context) {
    Program program;
    Scope scope;
    scope.outer = &outer;
    add_initializers(graph, scope, false);
    for (const ValueInfoProto& input : graph.input)
      program.inputs.push_back(place(scope, input.name));
    add_nodes(graph.node, scope, context, program.steps);
    if (!unsupported_.empty()) return program;  // names that nothing gives follow from it
    for (const ValueInfoProto& output : graph.output)
      program.outputs.push_back(
          slot_of(output.name, scope, fmt::format("graph '{}' gives", graph.name)));
    mark_last_uses(program);
    return program;
  }

  static std::string name_of(const NodeProto& node) {
    if (!node.name.empty()) return node.name;
    for (const std::string& output : node.output)
      if (!output.empty()) return fmt::format("that gives {}", output);
    return "without a name";
  }

  void add_nodes(const std::vector<NodeProto>& nodes, Scope& scope, const Context& context,
                 std::vector<Step>& steps) {
    for (const NodeProto& node : nodes) {
      if (const FunctionProto* f = function_of(node)) {
        add_call(*f, node, scope, context, steps);
      } else {
        add_node(node, scope, context, steps);
      }
    }
  }

  const FunctionProto* function_of(const NodeProto& node) const {
    const auto at = functions_.find({node.domain, node.op_type, node.overload});
    if (at == functions_.end()) return nullptr;
    return find_operator(node.domain, node.op_type) && is_standard(node.domain) ? nullptr
                                                                                : at->second;
  }

  static int64_t opset_of(const NodeProto& node, const std::vector<OperatorSetIdProto>& opsets) {
    for (const OperatorSetIdProto& o : opsets)
      if (o.domain == node.domain || (is_standard(o.domain) && is_standard(node.domain)))
        return o.version;
    return 1;
  }

  /// The attributes of a node; in a function those that refer to the call's have its values.
  std::vector<AttributeProto> attributes_of(const NodeProto& node, const Context& context) const {
    std::vector<AttributeProto> resolved;
    for (const AttributeProto& a : node.attribute) {
      if (a.ref_attr_name.empty()) {
        resolved.push_back(a);
        continue;
      }
      require(context.attributes != nullptr, "node {}: '{}' refers to an attribute of a function",
              name_of(node), a.name);
      const auto given = context.attributes->find(a.ref_attr_name);
      if (given == context.attributes->end()) continue;  // left out there, left out here
      resolved.push_back(given->second);
      resolved.back().name = a.name;
    }
    return resolved;
  }

  void add_call(const FunctionProto& f, const NodeProto& node, Scope& scope, const Context& context,
                std::vector<Step>& steps) {
    require(context.depth < kDeepestCall,
            "function {} calls itself, or calls are nested deeper "
            "than {}",
            f.name, kDeepestCall);
    require(node.input.size() <= f.input.size() && node.output.size() <= f.output.size(),
            "node {}: function {} takes {} inputs and gives {}, got {} and {}", name_of(node),
            f.name, f.input.size(), f.output.size(), node.input.size(), node.output.size());
    Scope inner;
    for (size_t i = 0; i < f.input.size(); ++i) {
      const bool given = i < node.input.size() && !node.input[i].empty();
      inner.places[f.input[i]] =
          given ? slot_of(node.input[i], scope, fmt::format("node {} reads", name_of(node))) : -1;
    }
    std::map<std::string, AttributeProto> attributes;
    for (const AttributeProto& a : f.attribute_proto) attributes[a.name] = a;
    for (AttributeProto& a : attributes_of(node, context)) attributes[a.name] = std::move(a);
    add_nodes(
        f.node, inner,
        {f.opset_import.empty() ? context.opsets : &f.opset_import, &attributes, context.depth + 1},
        steps);
    if (!unsupported_.empty()) {
      for (const std::string& output : node.output) place(scope, output);
      return;
    }
    for (size_t i = 0; i < node.output.size(); ++i)
      if (!node.output[i].empty())
        scope.places[node.output[i]] =
            slot_of(f.output[i], inner, fmt::format("function {} gives", f.name));
  }

  void add_node(const NodeProto& node, Scope& scope, const Context& context,
                std::vector<Step>& steps) {
    require(++steps_ <= kMostSteps, "has more than {} nodes, its functions' included", kMostSteps);
    if (node.op_type == "Constant" && is_standard(node.domain)) {
      add_constant_node(node, attributes_of(node, context), scope);
      return;
    }
    const Operator* const op = find_operator(node.domain, node.op_type);
    if (!op) {
      const std::string domain = is_standard(node.domain) ? "" : node.domain + "::";
      unsupported_[domain + node.op_type].push_back(name_of(node));
    }
    Step step;
    step.op = op;
    step.name = fmt::format("{} ({})", name_of(node), node.op_type);
    step.opset = opset_of(node, *context.opsets);
    for (const std::string& input : node.input)
      step.inputs.push_back(
          input.empty() ? -1 : slot_of(input, scope, fmt::format("node {} reads", name_of(node))));
    step.attributes = attributes_of(node, context);
    for (AttributeProto& a : step.attributes) {
      for (const TensorProto& t : a.tensors)
        if (const auto tensor = tensor_of(t, fmt::format("node {}", name_of(node))))
          step.tensors.emplace_back(a.name, *tensor);
      for (const GraphProto& g : a.graphs)
        step.graphs.push_back({a.name, add_graph(g, scope, context)});
      a.tensors.clear();
      a.graphs.clear();
      a.sparse_tensors.clear();
    }
    for (const std::string& output : node.output)
      step.outputs.push_back(output.empty() ? -1 : place(scope, output));
    steps.push_back(std::move(step));
  }

  void add_constant_node(const NodeProto& node, const std::vector<AttributeProto>& attributes,
                         Scope& scope) {
    require(node.output.size() == 1 && attributes.size() == 1,
            "node {}: a Constant has one value and one result", name_of(node));
    const int slot = place(scope, node.output[0]);
    const AttributeProto& a = attributes[0];
    const auto where = fmt::format("node {}", name_of(node));
    switch (a.type) {
      case AttributeType::tensor:
        require(!a.tensors.empty(), "{}: a Constant without a tensor", where);
        if (const auto t = tensor_of(a.tensors[0], where)) add_constant(slot, *t);
        return;
      case AttributeType::sparse_tensor:
        require(!a.sparse_tensors.empty(), "{}: a Constant without a tensor", where);
        if (tensor_of(a.sparse_tensors[0].values, where))
          add_constant(slot, to_tensor(a.sparse_tensors[0], file_));
        return;
      case AttributeType::float_:
        return add_constant(slot, scalar(static_cast<double>(a.f)));
      case AttributeType::int_:
        return add_constant(slot, scalar(a.i, {.dtype = DType::i64}));
      case AttributeType::floats:
        return add_constant(slot, tensor(a.floats));
      case AttributeType::ints:
        return add_constant(slot, tensor(a.ints));
      default:
        unsupported_["dtype STRING"].push_back(where);
    }
  }

  void raise_unsupported() const {
    if (unsupported_.empty()) return;
    std::string list;
    for (const auto& [what, where] : unsupported_) {
      list += fmt::format("\n  {}: ", what);
      constexpr size_t kShown = 8;
      for (size_t i = 0; i < std::min(where.size(), kShown); ++i)
        list += (i > 0 ? ", " : "") + where[i];
      if (where.size() > kShown) list += fmt::format(" and {} more", where.size() - kShown);
    }
    fail<Unsupported>("onnx: {}: has what mica does not support:{}", file_.name, list);
  }

  static void add_uses(const Program& program, std::vector<int>& uses) {
    for (const Step& step : program.steps) {
      uses.insert(uses.end(), step.inputs.begin(), step.inputs.end());
      for (const auto& [name, graph] : step.graphs) add_uses(graph, uses);
    }
    uses.insert(uses.end(), program.outputs.begin(), program.outputs.end());
  }
  /// A value that a step of this program made is let go after the last step that reads it.
  static void mark_last_uses(Program& program) {
    std::unordered_map<int, size_t> last;
    for (size_t i = 0; i < program.steps.size(); ++i) {
      for (const int slot : program.steps[i].outputs) last[slot] = i;
      std::vector<int> uses = program.steps[i].inputs;
      for (const auto& [name, graph] : program.steps[i].graphs) add_uses(graph, uses);
      for (const int slot : uses)
        if (const auto made = last.find(slot); made != last.end()) made->second = i;
    }
    last.erase(-1);
    for (const int slot : program.outputs) last.erase(slot);
    for (const auto& [slot, step] : last) program.steps[step].last_used.push_back(slot);
  }

  const ModelProto& model_;
  const ModelFile& file_;
  std::map<std::array<std::string, 3>, const FunctionProto*> functions_;
  std::set<std::string> constants_, statistics_;
  std::map<std::string, std::vector<std::string>> unsupported_;
  int64_t steps_ = 0;
  Built built_;
};

}  // namespace

Built build(const ModelProto& model, const ModelFile& file) { return Builder(model, file).build(); }

}  // namespace mica::onnx
