#pragma once

#include <string>
#include <vector>

#include "mica/graph/graph.h"

namespace mica {

/// The names of a graph's calls, in order.
inline std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.emplace_back(node.op->name);
  return names;
}

}  // namespace mica
