#pragma once

namespace mica {

/// Raises Error, beginning with `what`, where the calling thread's stack is nearly used up: what
/// calls itself as deep as its user nests things asks before each level.
void check_stack(const char* what);

}  // namespace mica
