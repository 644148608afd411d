#pragma once

namespace mica {

/// Whether ranges are wanted in the timelines of other profilers: where MICA_NVTX=1 says so, or a
/// tool that reads them is attached (and MICA_NVTX=0 does not forbid it).
bool wants_nvtx();
/// Opens and closes a range of the calling thread, in mica's domain.
void push_nvtx(const char* name);
void pop_nvtx();

}  // namespace mica
