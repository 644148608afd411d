#pragma once

#include <string>
#include <vector>

#include "mica/graph/graph.h"
#include "mica/ops/anchored/anchored.h"

namespace mica {

/// "conv2d+add+relu" for an op and the calls it carries; "(kept)" after a result that is kept.
inline std::string name_of(const Node& node) {
  if (node.op != &anchored_op()) return node.op->name;
  const Anchored& a = *node.params.as<AnchoredParams>().call;
  std::string name;
  if (a.before.program)
    for (const Instruction& one : a.before->instructions) name += std::string(one.op->name) + "+";
  if (a.keeps_operand) name.insert(name.size() - 1, "(kept)");
  name += std::string(a.op->name) + (a.keeps_result ? "(kept)" : "");
  if (a.after.program)
    for (const Instruction& one : a.after->instructions) name += std::string("+") + one.op->name;
  return name;
}

/// The names of a graph's calls, in order.
inline std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(name_of(node));
  return names;
}

}  // namespace mica
