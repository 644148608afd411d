#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mica/core/error.h"
#include "mica/core/scope.h"
#include "mica/op/op_def.h"

namespace mica {

struct Prepared;  // op/select.h

using ValueId = int;
inline constexpr ValueId kNoValue = -1;

/// A tensor of a graph.
struct Value {
  enum class Kind {
    input,     ///< a slot that every replay copies an argument into
    external,  ///< a tensor that exists outside: a parameter, a constant
    computed,  ///< an output of a node
  };

  TensorSpec spec;
  Kind kind = Kind::computed;
  Tensor tensor;  ///< external: the tensor itself
  int node = -1;  ///< the node that computes it, or last wrote it
  ValueId base =
      kNoValue;  ///< the value whose memory this one shares: a view's input, a version's forerunner
  int64_t offset = 0;       ///< elements it starts after that value
  bool superseded = false;  ///< a later node wrote over it
  bool in_place = false;    ///< a result that is computed in the memory of its base, over all of it
  bool changes = false;     ///< external: somebody writes to it between runs, unseen
};

/// A call. Written inputs appear again, as new versions, after the results in `out`.
struct Node {
  const OpDef* op;
  AnyParams params;
  std::vector<ValueId> in;
  std::vector<ValueId> out;
  /// Its number when it was captured, and where it was called; a node that a pass puts in the place
  /// of others has those of one of them.
  int id = -1;
  std::shared_ptr<const Scope> scope = {};
  std::shared_ptr<const Prepared> kernel = {};  ///< once it is selected
  bool is_view() const { return op->view != nullptr; }
};
static_assert(std::is_nothrow_move_constructible_v<Node> &&
                  std::is_nothrow_move_constructible_v<Value>,
              "vectors of them move when they grow");

/// A captured computation, in an order in which it can run.
struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  /// Nodes at the front that depend on nothing but tensors outside which the graph never writes to.
  /// A plan keeps their results, and runs them again after somebody wrote to such a tensor.
  int prologue = 0;

  Value& operator[](ValueId id) { return values[static_cast<size_t>(id)]; }
  const Value& operator[](ValueId id) const { return values[static_cast<size_t>(id)]; }

  /// The value whose memory `id` lies in.
  ValueId root(ValueId id) const;
  /// What the node computes; after it in `out` come new versions of what it writes to.
  std::span<const ValueId> results_of(const Node& node) const;
  /// True when the node writes to memory outside the graph.
  bool has_effect(const Node& node) const;
  /// One line per node: `%5 = relu(%4)  f32[64, 500]`, with the memory it writes to or shares, its
  /// kernel where that is selected, its number and where it was called.
  std::string dump() const;
  /// A picture: calls as boxes from top to bottom, each below what it reads. Complete in itself.
  std::string svg() const;
};

/// Throws an error again, as what it is, with the place of the call that met it.
[[noreturn]] void rethrow_at(const Error& error, const Scope* scope);

}  // namespace mica
