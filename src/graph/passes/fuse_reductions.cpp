#include <algorithm>
#include <array>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/fused/fused.h"
#include "mica/ops/fused/fused_reduce.h"

namespace mica {
namespace {

std::optional<Fold> fold_of(const Node& node) {
  for (const Fold fold : {Fold::sum, Fold::max, Fold::min})
    if (node.op == &reduction_op(fold)) return fold;
  return std::nullopt;
}

/// What a node computes element by element, where that is one result; it reads dense operands or
/// single values.
std::optional<Program> program_of(const Graph& g, const Node& node) {
  if (node.out.size() != 1) return std::nullopt;
  if (node.op == &fused_op()) return *node.params.as<FusedParams>().program;
  if (node.op->elementwise == 0 || node.op->elementwise > Program::kMostOperands ||
      node.op->mutates || node.is_view())
    return std::nullopt;
  const auto simple = [&](ValueId id) {
    return id != kNoValue && (g[id].spec.is_contiguous() || g[id].spec.numel() == 1);
  };
  if (!std::all_of(node.in.begin(), node.in.end(), simple)) return std::nullopt;
  Instruction one{node.op, node.params, {}};
  for (int i = 0; i < static_cast<int>(node.in.size()); ++i) one.operands.push_back(i);
  return Program{static_cast<int>(node.in.size()), {std::move(one)}, {0}};
}

/// The node that divides a sum by a number, which is there at `place`; -1 if none does.
int division_of(const Graph& g, const Writes& writes, ValueId sum, int place) {
  if (!passes_on(g, writes, sum)) return -1;
  const auto reader = std::find_if(g.nodes.begin(), g.nodes.end(), [&](const Node& n) {
    return std::find(n.in.begin(), n.in.end(), sum) != n.in.end();
  });
  if (reader == g.nodes.end() || !is(*reader, "div") || reader->in[0] != sum) return -1;
  const ValueId by = reader->in[1];
  if (g[by].spec.numel() != 1 || !known_number(g, writes, by) || g[by].node >= place ||
      !lie_alike(g[reader->out[0]].spec, g[sum].spec))
    return -1;
  return static_cast<int>(reader - g.nodes.begin());
}

/// Adds a division of the result to a program: of all elements, so that their sum is a mean.
bool divide(Program& program) {
  if (program.inputs == Program::kMostInputs ||
      program.instructions.size() == Program::kMostInstructions)
    return false;
  // The new input comes after the others: results count on from it.
  for (Instruction& one : program.instructions)
    for (int& v : one.operands)
      if (v >= program.inputs) ++v;
  const int by = program.inputs++;
  program.instructions.push_back({&find_op("div"),
                                  AnyParams(ParamsRef::of(NoParams{})),
                                  {program.inputs + program.outputs[0], by}});
  program.outputs[0] = static_cast<int>(program.instructions.size()) - 1;
  return true;
}

/// Fuses the reduction at a node with what it reduces, where that stands. Returns how many nodes
/// are fewer.
int fuse(Graph& g, int at) {
  const Node& reduction = g.nodes[static_cast<size_t>(at)];
  const std::optional<Fold> fold = fold_of(reduction);
  if (!fold) return 0;
  const ValueId whole = reduction.in[0];
  const TensorSpec& spec = g[whole].spec;
  const ReduceParams& params = reduction.params.as<ReduceParams>();
  const std::optional<Rows> rows = rows_of(spec.shape, params.axes);
  if (!rows || rows->columns < 2 || spec.numel() == 0 || !spec.is_contiguous() ||
      !is_floating(spec.dtype))
    return 0;
  const Node* before = maker(g, whole);
  const Writes writes(g);
  if (!before || !passes_on(g, writes, whole)) return 0;
  std::optional<Program> program = program_of(g, *before);
  if (!program) return 0;
  const int place = g[whole].node;
  Node joined{&fused_reduce_op(), before->params, before->in, reduction.out, {}};
  std::vector<int> gone = {place, at};
  const int division = *fold == Fold::sum ? division_of(g, writes, reduction.out[0], place) : -1;
  if (division >= 0 && divide(*program)) {
    joined.in.push_back(g.nodes[static_cast<size_t>(division)].in[1]);
    joined.out = g.nodes[static_cast<size_t>(division)].out;
    gone.push_back(division);
  }
  joined.params =
      AnyParams(ParamsRef::of(FusedReduceParams{intern(std::move(*program)), *fold, params}));
  return join_nodes(g, std::move(joined), place, std::move(gone));
}

}  // namespace

void fuse_reductions(Graph& graph) {
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) i -= fuse(graph, i) > 0 ? 1 : 0;
}

}  // namespace mica
