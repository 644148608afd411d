#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "mica/core/device.h"

namespace mica {

struct Graph;  // graph/graph.h

/// A rewriting of a graph that computes the same.
struct Pass {
  const char* name;
  void (*run)(Graph& graph);
  bool changes_rounding;  ///< results may differ in their last bits: left out in deterministic mode
  bool joins_ops = false;  ///< left out in anomaly mode, which names the op
};

/// Every pass, in the order they run. One that others make work for stands there twice.
std::span<const Pass> passes();

/// Runs the passes that are on.
void run_passes(Graph& graph);
/// Runs these, in this order, where they are on.
void run_passes(Graph& graph, std::initializer_list<std::string_view> names);

/// Turns a pass off or on again, as MICA_PASSES=-common_subexpressions,-views does; all are on at
/// first. Functions that are compiled already are captured again at their next call.
void set_pass(const std::string& name, bool on);
bool pass_is_on(const std::string& name);

/// Removes nodes whose results nobody uses. A node that writes to memory outside the graph stays,
/// and so does one that draws random numbers, since it advances the generator's state.
void remove_dead_nodes(Graph& graph);

/// Sums, differences, products, quotients and casts of tensors of one number become such tensors.
void fold_constants(Graph& graph);

/// A tensor of one number that meets only tensors it could be broadcast to becomes 0-d.
void shrink_constants(Graph& graph);

/// A cast of a cast becomes one where the first kept every value. Copies to another layout count
/// as casts to the same dtype.
void merge_casts(Graph& graph);

/// Views of views: one that sees what its input's input shows is that; permutations become one, and
/// what a view of the first base can show is taken from there.
void collapse_views(Graph& graph);

/// Elementwise calls between a permutation and its inverse are made on what was permuted, and both
/// permutations go.
void cancel_permutations(Graph& graph);

/// Casts go where they move fewer bytes: after a view of less than there is and a joining of what
/// is narrower, before a view of more and a joining of what gets narrower.
void move_casts(Graph& graph);

/// What leaves every bit of its operand alone: x * 1, x / 1, x - 0, x + 0 of integers, copies that
/// nobody writes to; -(-x); the relu of a relu.
void remove_identities(Graph& graph);

/// x + 0 of floats: of -0 it would be 0.
void remove_added_zeros(Graph& graph);

/// What is computed twice is computed once, unless keeping the first result would raise the peak of
/// memory: a checkpoint computes again on purpose.
void merge_common_subexpressions(Graph& graph);

/// A batch norm by running statistics after a convolution or a linear layer becomes part of its
/// weight and bias, where the graph writes to none of them.
void fold_batch_norm(Graph& graph);

/// On CUDA convolutions of f16 and bf16, and of f32 where TF32 is allowed, on the CPU those of f32,
/// run in channels_last, with what lies between them and their gradients, where that converts fewer
/// images than it spares.
void choose_layout(Graph& graph);
/// The same for a graph as if it were to run on such a device.
void choose_layout_on(DeviceKind kind, Graph& graph);

/// What depends on nothing but tensors outside that the graph never writes to, and takes little
/// memory to keep, moves to the prologue: layouts and casts of weights, folded weights, constants.
void hoist(Graph& graph);

/// Makes elementwise calls whose results have one shape, and are needed by each other, one `fused`
/// node. On CUDA its generated kernel rounds as the compiler joins operations: there it is off in
/// deterministic mode.
void fuse_elementwise(Graph& graph);

/// Makes calls that a room declares a pattern of (op/pattern.h) one: a convolution and a pooling, a
/// loss and its gradient, an update and the gradients of linear layers, … Where a kernel does so in
/// one pass (has_joined_kernel), and nobody else reads what is between them. Or puts two in the
/// place of two: the gradient of an activation before a max-pooling is taken after it.
void join_patterns(Graph& graph);

/// Makes an op that does the heavy work (OpDef::carries_before, carries_after) and elementwise
/// calls that make its operand or read its result, one after the other, one `anchored` call,
/// likewise: as many of the calls as a kernel takes.
void carry_programs(Graph& graph);

/// Copies of one kind, such as the casts of all weights at the start of a step and those of their
/// gradients at its end, become one call where a kernel makes them in one launch.
void join_copies(Graph& graph);

/// A `fused` node or an elementwise one whose result is summed over its last axes, or of which the
/// largest or smallest is taken there, becomes one node with that; so does the division that makes
/// a mean of a sum.
void fuse_reductions(Graph& graph);

}  // namespace mica
