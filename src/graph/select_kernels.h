#pragma once

#include "mica/graph/graph.h"

namespace mica {

/// Chooses the kernel of every node that computes. What a kernel wants in another layout is made by
/// a `copy` node before it, which has the scope of the node that reads it; equal copies become one
/// where keeping it does not raise the peak of memory, those of tensors that the graph never writes
/// to move to the prologue. Nothing is chosen on the null device.
void select_kernels(Graph& graph, Device device);

/// A result that is copied over a whole tensor outside, and that nobody else reads, is computed in
/// that tensor's memory instead, where nobody needs in between what was there.
void compute_in_place(Graph& graph);

}  // namespace mica
