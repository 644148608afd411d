#pragma once

namespace mica {

/// What a kernel throws that is run while a graph is recorded and has to wait for the device, or
/// calls a library that does: the plan then runs step by step. No Error, since nobody sees it.
struct NotRecordable {};

}  // namespace mica
