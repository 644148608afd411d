#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <unordered_map>

#include "mica/runtime/device_trace.h"

namespace mica::cuda {

/// Sees kernels, copies and fills by CUPTI, in graphs too. Where that is missing or refuses, events
/// are recorded around every op.
DeviceTracer& tracer();

/// What a node of a graph is of.
struct NodeCause {
  uint64_t cause = 0;
  bool is_first = false;  ///< of what that cause sent
};

/// Notes which cause makes which nodes while a graph is recorded on a stream by the calling thread,
/// and keeps that for the work of what is instantiated from it. Does nothing where nobody traces.
class NodeNotes {
 public:
  explicit NodeNotes(cudaStream_t stream);
  ~NodeNotes();
  NodeNotes(const NodeNotes&) = delete;
  NodeNotes& operator=(const NodeNotes&) = delete;

  /// The nodes that the stream has come to since it was asked last have this cause.
  void note(uint64_t cause);
  /// Null where a node is not known.
  const NodeCause* cause_of(cudaGraphNode_t node) const;

 private:
  cudaStream_t stream_;
  std::unordered_map<cudaGraphNode_t, NodeCause> causes_;
};

}  // namespace mica::cuda
