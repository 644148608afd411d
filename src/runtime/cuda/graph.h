#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {

/// Records what `launch(i)` sends to `encoder` for each step i as one CUDA graph, in which step i
/// runs after the steps `after[i]`. Its replays go to the stream that is current then; `replays_on`
/// has the one that is expected to be.
std::unique_ptr<Replay> record_graph(Encoder& encoder, const Encoder& replays_on,
                                     const std::vector<std::vector<int>>& after,
                                     const std::function<void(int step)>& launch);

}  // namespace mica
