#pragma once

namespace mica {

/// Names each op in a profiler's timeline from now on, when MICA_NVTX=1 says so or a tool that
/// reads the names is attached (and MICA_NVTX=0 does not forbid it).
void name_ops_for_profilers();

}  // namespace mica
