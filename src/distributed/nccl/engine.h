#pragma once

#include <functional>
#include <memory>
#include <string>

#include "mica/distributed/watch.h"
#include "mica/ops/collective/communicator.h"

namespace mica::distributed {

/// Whether libnccl.so.2 can be used; why not.
bool nccl_available();
std::string nccl_unavailable_reason();

/// What a group's engine is made of.
struct NcclStart {
  Communicator group;
  int device = 0;
  /// Gives the text of the group's first rank to all of its ranks.
  std::function<std::string(const std::string& own)> exchange;
  std::shared_ptr<Watch> watch;
};

/// Collectives of CUDA tensors, on the stream of each call, so that a graph that is recorded holds
/// them. All ranks of the group make it at once; one GPU per process.
std::shared_ptr<Engine> make_nccl_engine(const NcclStart& start);
/// One that is made by the group's first collective, for programs that may never call one: they
/// load nothing of CUDA.
std::shared_ptr<Engine> make_nccl_engine_later(NcclStart start);

}  // namespace mica::distributed
