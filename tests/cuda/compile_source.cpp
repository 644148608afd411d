// Opened by tests/unit/fused_source_test.cpp.
#include <cstdio>
#include <exception>

#include "mica/ops/fused/generator.h"
#include "mica/runtime/cuda/nvrtc.h"

/// Compiles a generated kernel; false, with the reason, where that fails.
extern "C" bool mica_compile_source(const char* source, const char* architecture, char* reason,
                                    size_t reason_size) {
  try {
    return !mica::cuda::compile_source(source, mica::embedded_headers(), architecture).empty();
  } catch (const std::exception& e) {
    std::snprintf(reason, reason_size, "%s", e.what());
    return false;
  }
}
