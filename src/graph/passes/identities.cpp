#include <bit>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"

namespace mica {
namespace {

/// Whether a known number is an op's identity element: of floats to the bit, since the sign of a
/// zero is seen.
bool is_identity(std::optional<double> number, std::optional<double> identity, DType dtype) {
  if (!number || !identity) return false;
  return is_floating(dtype) ? std::bit_cast<uint64_t>(*number) == std::bit_cast<uint64_t>(*identity)
                            : *number == *identity;
}

ValueId equal(const Graph& g, const Node& node) {
  const Algebra& algebra = node.op->algebra;
  if (node.op->copies) return node.in[0];  // replaced where it lies alike
  if (node.in.size() == 2) {
    const DType dtype = g[node.out[0]].spec.dtype;
    if (algebra.right_identity &&
        is_identity(unwritten_number(g, node.in[1]), algebra.right_identity, dtype))
      return node.in[0];
    if (algebra.left_identity &&
        is_identity(unwritten_number(g, node.in[0]), algebra.left_identity, dtype))
      return node.in[1];
  }
  const Node* inner = node.in.size() == 1 ? maker(g, node.in[0]) : nullptr;
  if (!inner || inner->op != node.op) return kNoValue;
  if (algebra.involution) return inner->in[0];
  return algebra.idempotent ? node.in[0] : kNoValue;
}

}  // namespace

void remove_identities(Graph& graph) { replace_results(graph, equal); }

}  // namespace mica
