#pragma once

#include <functional>
#include <memory>
#include <string>

#include "mica/distributed/watch.h"
#include "mica/ops/collective/communicator.h"

namespace mica::distributed {

/// Whether libnccl.so.2 can be opened; why not.
bool nccl_available();
std::string nccl_unavailable_reason();

/// Gives rank 0's text to all ranks of a group.
using NcclExchange = std::function<std::string(const std::string& own)>;

/// Collectives of CUDA tensors, on the stream of each call, so that a graph that is recorded holds
/// them. One GPU per process, the one of the local rank.
std::shared_ptr<Engine> make_nccl_engine(const Communicator& group, int device,
                                         const NcclExchange& exchange,
                                         std::shared_ptr<Watch> watch);

}  // namespace mica::distributed
