#pragma once

#include <optional>
#include <span>

#include "mica/graph/capture.h"
#include "mica/graph/index.h"

namespace mica {

/// By value: it depends on nothing but tensors outside that the graph never writes to.
std::vector<bool> constants(const Graph& graph);

/// A view with the axes in another order, and that order; an op that fills a tensor with one
/// number.
bool is_permute(const Node& node);
Dims axis_order(const Node& node);
bool is_full(const Node& node);
/// True when the node writes to an input of it.
bool writes_input(const Node& node);
/// The node whose result a value is; null for one that exists outside, an argument, a version that
/// a write made.
const Node* maker(const Graph& graph, ValueId id);
/// Whether there is a node of which this is so.
bool any_node(const Graph& graph, bool (*is)(const Node& node));
/// The number that every element of a value is, where that is known before it is computed: `full`,
/// a number in the code, a view of one.
std::optional<double> known_number(const Graph& graph, const Index& index, ValueId id);
/// The same where nobody writes to the value.
std::optional<double> unwritten_number(const Graph& graph, ValueId id);
/// Whether a value is read by one node and nobody else sees it.
bool passes_on(const Index& index, ValueId id);
/// The same shape, strides, dtype and device.
bool lie_alike(const TensorSpec& a, const TensorSpec& b);

/// Lets everybody who uses `from` use `to`, which has the same values and is there when `from` is
/// made. Where the difference would be seen it changes nothing and returns false: another layout, a
/// write to either of them, a result that would share memory with a tensor outside.
bool replace(Graph& graph, Index& index, ValueId from, ValueId to);

/// Asks for every node that has one result and writes nothing which earlier value equals that
/// result (kNoValue: none), supposing that nobody writes to the numbers it is computed with, and
/// removes those that could be replaced.
void replace_results(Graph& graph, ValueId (*equal)(const Graph&, const Node&));

/// The node whose result a value is, where one call alone reads that and nobody writes to it; else
/// null.
const Node* sole_maker(const Graph& graph, const Index& index, ValueId id);

/// Whether a node could stand in the place of node `at`: what it reads is there and still what it
/// was.
bool fits_at(const Graph& graph, const Index& index, const Node& node, int at);
/// Puts a node that fits in that place.
void put(Graph& graph, Index& index, Node node, int at);

/// Whether a node that stands for several calls is worth it: a kernel on its device that is not
/// made of those calls (`composed`) prefers its specs, or one that takes them is forced. On the
/// null device it always is.
bool has_joined_kernel(const Graph& graph, const Node& node);

/// Whether a node can be part of a program (ops/fused/program.h), which reads its operands in runs.
bool fits_program(const Graph& graph, const Node& node);

/// Calls that go before nodes, all at once at the end of a pass, so that nodes keep their numbers
/// until then. Those before one node stay in their order.
class Insertions {
 public:
  explicit Insertions(Graph& graph) : graph_(graph) {}
  /// The calls that a function makes of the values `arguments`, which are there; its results. No
  /// node makes these until the calls are put in.
  std::vector<ValueId> add(int place, const TensorFunction& function,
                           const std::vector<ValueId>& arguments);
  /// Puts them in, and removes the nodes that are not to be kept.
  void apply(const std::vector<bool>& keep);

 private:
  struct Calls {
    int place;
    std::vector<Node> nodes;
  };
  Graph& graph_;
  std::vector<Calls> calls_;
};

/// One such insertion.
std::vector<ValueId> insert_before(Graph& graph, int place, const TensorFunction& function,
                                   const std::vector<ValueId>& arguments);

/// Puts a node in the place of several, which are not to be kept at the end of the pass; it makes
/// the values in its `out`.
void join(Graph& graph, Index& index, Node whole, int place, const std::vector<int>& nodes,
          std::vector<bool>& keep);

/// Puts a node that computes what several do, which are given in order, in the place of one of
/// them, where a kernel takes it (has_joined_kernel), at the latest place at which what it reads is
/// what it was, and nobody has needed what it makes. False, and nothing has changed, where there is
/// none.
bool join_calls(Graph& graph, Index& index, const std::vector<int>& nodes, Node whole,
                std::vector<bool>& keep);

/// Removes nodes and counts the others anew.
void remove_nodes(Graph& graph, const std::vector<bool>& keep);

}  // namespace mica
