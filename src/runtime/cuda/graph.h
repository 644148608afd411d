#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "mica/runtime/cuda/allocator.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {

/// Records what `launch(i)` sends to the encoder for each step i as one CUDA graph, in which step i
/// runs after the steps `after[i]`. Its replays go to the stream that is current then.
std::unique_ptr<Replay> record_graph(Encoder& encoder, CachingAllocator& allocator,
                                     const std::vector<std::vector<int>>& after,
                                     const std::function<void(int step)>& launch);

}  // namespace mica
