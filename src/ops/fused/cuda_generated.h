#pragma once

#include <cuda_runtime.h>

#include <string>

namespace mica {

/// The kernel of a generated source; raises Unsupported in the name of `op` where it does not
/// compile, and selection goes on to the next kernel.
cudaKernel_t load_generated(const char* op, const std::string& source, int device);

}  // namespace mica
