#include <algorithm>
#include <array>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/fused/fused.h"
#include "mica/ops/fused/fused_reduce.h"

namespace mica {

const OpDef& div_op();

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
int division_of(const Graph& g, const Index& index, ValueId sum, int place) {
  if (!passes_on(index, sum) || index.is_result(sum)) return -1;
  const int number = index.readers(sum)[0];
  const Node& reader = g.nodes[static_cast<size_t>(number)];
  if (reader.op != &div_op() || reader.in[0] != sum) return -1;
  const ValueId by = reader.in[1];
  if (g[by].spec.numel() != 1 || !known_number(g, index, by) || g[by].node >= place ||
      !lie_alike(g[reader.out[0]].spec, g[sum].spec))
    return -1;
  return number;
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
  program.instructions.push_back(
      {&div_op(), AnyParams(ParamsRef::of(NoParams{})), {program.inputs + program.outputs[0], by}});
  program.outputs[0] = static_cast<int>(program.instructions.size()) - 1;
  return true;
}

/// Fuses the reduction at a node with what it reduces, where that stands.
void fuse(Graph& g, Index& index, int at, std::vector<bool>& keep) {
  const Node reduction = g.nodes[static_cast<size_t>(at)];
  const std::optional<Fold> fold = fold_of(reduction);
  if (!fold) return;
  const ValueId whole = reduction.in[0];
  const TensorSpec& spec = g[whole].spec;
  const ReduceParams& params = reduction.params.as<ReduceParams>();
  const std::optional<ReducedRows> rows = rows_of(spec.shape, params.axes);
  if (!rows || rows->columns < 2 || spec.numel() == 0 || !spec.is_contiguous() ||
      !is_floating(spec.dtype))
    return;
  const Node* before = maker(g, whole);
  if (!before || !passes_on(index, whole)) return;
  std::optional<Program> program = program_of(g, *before);
  if (!program) return;
  const int place = g[whole].node;
  Node joined{&fused_reduce_op(), before->params, before->in, reduction.out};
  std::vector<int> nodes = {place, at};
  const int division = *fold == Fold::sum ? division_of(g, index, reduction.out[0], place) : -1;
  if (division >= 0 && divide(*program)) {
    joined.in.push_back(g.nodes[static_cast<size_t>(division)].in[1]);
    joined.out = g.nodes[static_cast<size_t>(division)].out;
    nodes.push_back(division);
  }
  joined.params =
      AnyParams(ParamsRef::of(FusedReduceParams{intern(std::move(*program)), *fold, params}));
  join(g, index, std::move(joined), place, nodes, keep);
}

}  // namespace

void fuse_reductions(Graph& graph) {
  Index index(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i)
    if (keep[static_cast<size_t>(i)]) fuse(graph, index, i, keep);
  remove_nodes(graph, keep);
}

}  // namespace mica
