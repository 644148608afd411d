#pragma once

#include <functional>

namespace mica {

/// Called within a backward pass, as by a hook: runs `f` when the pass has gone through all nodes,
/// before backward() returns. Not where it raises.
void after_backward(std::function<void()> f);

}  // namespace mica
