#pragma once

#include "mica/graph/graph.h"

namespace mica {

/// Removes nodes whose results nobody uses. A node that writes to memory outside the graph stays,
/// and so does one that draws random numbers, since it advances the generator's state.
void remove_dead_nodes(Graph& graph);

}  // namespace mica
