#include "mica/graph/graph.h"

#include "mica/core/check.h"
#include "mica/op/select.h"
#include "mica/ops/linalg/error.h"

namespace mica {
namespace {

template <class E, class... Others>
[[noreturn]] void throw_like(const Error& error, const std::string& text) {
  if (dynamic_cast<const E*>(&error)) throw E(text);
  if constexpr (sizeof...(Others) > 0) throw_like<Others...>(error, text);
  throw Error(text);
}

}  // namespace

void rethrow_at(const Error& error, const Scope* scope) {
  throw_like<IndexError, ShapeError, DTypeError, DeviceError, OutOfMemory, IoError, LinAlgError,
             Unsupported>(
      error, scope ? fmt::format("{} (in {})", error.what(), to_string(*scope)) : error.what());
}

ValueId Graph::root(ValueId id) const {
  while ((*this)[id].base != kNoValue) id = (*this)[id].base;
  return id;
}

std::span<const ValueId> Graph::results_of(const Node& node) const {
  size_t count = 0;
  while (count < node.out.size() &&
         ((*this)[node.out[count]].base == kNoValue || (*this)[node.out[count]].in_place))
    ++count;
  return {node.out.data(), count};
}

bool Graph::has_effect(const Node& node) const {
  for (const ValueId id : node.out)
    if ((*this)[id].in_place) return true;
  const auto n = static_cast<int>(node.in.size());
  for (int i = 0; i < n; ++i) {
    const ValueId id = node.in[static_cast<size_t>(i)];
    if (id == kNoValue || !node.op->writes(node.params.ref().data, i, n)) continue;
    if ((*this)[root(id)].kind == Value::Kind::external) return true;
  }
  return false;
}

std::string Graph::dump() const {
  std::string s;
  const auto list = [](const std::vector<ValueId>& ids) {
    std::string text;
    for (const ValueId id : ids)
      text +=
          fmt::format("{}{}", text.empty() ? "" : ", ", id < 0 ? "none" : fmt::format("%{}", id));
    return text;
  };
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& v = values[i];
    if (v.kind == Value::Kind::input) s += fmt::format("%{} = input  {}\n", i, to_string(v.spec));
    if (v.kind == Value::Kind::external && v.base == kNoValue)
      s += fmt::format("%{} = external  {}\n", i, to_string(v.spec));
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    s += fmt::format("{} = {}({}) {}", list(node.out), node.op->name, list(node.in),
                     node.params.print());
    for (size_t k = 0; k < node.out.size(); ++k)
      s += fmt::format("{} {}", k == 0 ? " " : ",", to_string((*this)[node.out[k]].spec));
    if (node.is_view()) s += fmt::format("  view of %{}", root(node.out[0]));
    if (has_effect(node)) s += "  writes outside";
    if (static_cast<int>(i) < prologue) s += "  kept";
    if (node.kernel) s += fmt::format("  by {}", node.kernel->kernel->name);
    if (node.scope) s += fmt::format("  #{} {}", node.id, to_string(*node.scope));
    s += '\n';
  }
  return s + fmt::format("return {}\n", list(outputs));
}

}  // namespace mica
