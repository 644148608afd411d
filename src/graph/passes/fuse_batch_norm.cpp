#include <algorithm>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/batch_norm/batch_norm.h"

namespace mica {

const OpDef& batch_norm_act_op();
const OpDef& batch_norm_act_grad_op();

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

/// The node whose first result a value is, if it is a call of that op; -1 otherwise.
int made_by(const Graph& g, ValueId id, std::string_view op) {
  const int i = id == kNoValue ? -1 : g[id].node;
  if (i < 0 || !is(g.nodes[at(i)], op) || g.nodes[at(i)].out[0] != id) return -1;
  return i;
}

bool same_memory(const Graph& g, ValueId a, ValueId b) {
  const ValueId root_a = g.root(a);
  const ValueId root_b = g.root(b);
  const bool outside =
      g[root_a].kind == Value::Kind::external && g[root_b].kind == Value::Kind::external;
  return outside ? g[root_a].tensor.storage() == g[root_b].tensor.storage() : root_a == root_b;
}

/// Whether a batch norm can run at node `to` instead of its own place: what it reads is the same
/// there, and nobody needs in between what it writes.
bool can_wait(const Graph& g, const Index& index, int from, int to) {
  const Node& norm = g.nodes[at(from)];
  const int count = static_cast<int>(norm.in.size());
  for (int k = 0; k < count; ++k)
    if (norm.in[at(k)] != kNoValue && index.between(norm.in[at(k)], from + 1, to)) return false;
  for (int i = from + 1; i <= to; ++i)
    for (const ValueId id : g.nodes[at(i)].in) {
      if (id == kNoValue) continue;
      if (std::find(norm.out.begin() + 1, norm.out.end(), id) != norm.out.end()) return false;
      for (int k = 0; k < count; ++k)
        if (norm.in[at(k)] != kNoValue && norm.op->writes(norm.params.ref().data, k, count) &&
            same_memory(g, id, norm.in[at(k)]))
          return false;
    }
  return true;
}

/// The batch norm whose result is an operand of a sum, the later one of two; -1 if none is.
int norm_of_sum(const Graph& g, const Index& index, const Node& sum) {
  int norm = -1;
  for (const ValueId id : sum.in)
    if (passes_on(index, id)) norm = std::max(norm, made_by(g, id, "batch_norm"));
  if (norm < 0) return -1;
  const bool alike = std::all_of(sum.in.begin(), sum.in.end(), [&](ValueId id) {
    return lie_alike(g[id].spec, g[sum.out[0]].spec);
  });
  return alike ? norm : -1;
}

/// Fuses what ends at a node: relu, or a sum that no relu follows.
void fuse_forward(Graph& g, Index& index, int last, Gone& gone) {
  const Node& end = g.nodes[at(last)];
  const bool relu = is(end, "relu");
  if (!relu && !is(end, "add")) return;
  const ValueId before = end.in[0];
  if (relu && !passes_on(index, before)) return;
  const int sum = relu ? made_by(g, before, "add") : last;
  const int norm =
      sum >= 0 ? norm_of_sum(g, index, g.nodes[at(sum)]) : made_by(g, before, "batch_norm");
  if (norm < 0 || !can_wait(g, index, norm, last)) return;
  const auto readers = index.readers(end.out[0]);
  if (!relu && index.uses(end.out[0]) == 1 && readers.size() == 1 &&
      is(g.nodes[at(readers[0])], "relu"))
    return;
  Node whole = g.nodes[at(norm)];
  ValueId residual = kNoValue;
  std::vector<int> nodes = {norm, last};
  if (sum >= 0) {
    const Node& s = g.nodes[at(sum)];
    residual = s.in[0] == whole.out[0] ? s.in[1] : s.in[0];
    nodes.push_back(sum);
    // Where the sum ran, nobody wrote to it yet.
    if (index.between(residual, sum, last)) return;
  }
  whole.op = &batch_norm_act_op();
  whole.params = AnyParams(
      ParamsRef::of(BatchNormActParams{g.nodes[at(norm)].params.as<BatchNormParams>(), relu}));
  whole.in.push_back(residual);
  whole.out[0] = end.out[0];
  join(g, index, std::move(whole), last, nodes, gone);
}

/// The bias of the batch norm that y is the relu of, and nothing was added to; none where x and the
/// statistics are not those of the gradient, or it was written to since.
std::optional<ValueId> bias_of(const Graph& g, const Index& index, const Node& grad, ValueId y,
                               int place) {
  const int i = made_by(g, y, "batch_norm_act");
  if (i < 0) return std::nullopt;
  const Node& norm = g.nodes[at(i)];
  const bool same = norm.in[0] == grad.in[1] && norm.in[1] == grad.in[2] &&
                    norm.out[1] == grad.in[3] && norm.out[2] == grad.in[4];
  const ValueId bias = norm.in[2];
  if (!same || norm.in[5] != kNoValue || !norm.params.as<BatchNormActParams>().relu ||
      (bias != kNoValue && index.between(bias, i, place)))
    return std::nullopt;
  return bias;
}

/// Fuses a batch norm's gradient with the relu_grad before it, where that one stands.
void fuse_backward(Graph& g, Index& index, int last, Gone& gone) {
  const Node& grad = g.nodes[at(last)];
  if (!is(grad, "batch_norm_grad")) return;
  const ValueId dz = grad.in[0];
  const int place = made_by(g, dz, "relu_grad");
  if (place < 0) return;
  const ValueId dy = g.nodes[at(place)].in[0];
  const ValueId y = g.nodes[at(place)].in[1];
  if (!lie_alike(g[dy].spec, g[dz].spec) || !lie_alike(g[y].spec, g[dz].spec) || index.ever(dz))
    return;
  for (size_t k = 1; k < grad.in.size(); ++k) {
    const ValueId id = grad.in[k];
    if (id != kNoValue && (g[id].node >= place || index.between(id, place, last))) return;
  }
  Node whole = grad;
  whole.op = &batch_norm_act_grad_op();
  whole.in[0] = dy;
  const std::optional<ValueId> bias =
      index.uses(dz) == 1 ? bias_of(g, index, grad, y, place) : std::nullopt;
  if (bias) {
    whole.in.insert(whole.in.end(), {*bias, kNoValue});
  } else {
    whole.in.insert(whole.in.end(), {kNoValue, y});
    whole.out.push_back(dz);
  }
  join(g, index, std::move(whole), place, {place, last}, gone);
}

}  // namespace

void fuse_batch_norm(Graph& graph) {
  for (auto* fuse : {fuse_forward, fuse_backward}) {
    Index index(graph);
    Gone gone(graph);
    for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i)
      if (gone.keep[at(i)]) fuse(graph, index, i, gone);
    remove_nodes(graph, gone);
  }
}

}  // namespace mica
