// Opened by tests/unit/cuda_runtime_test.cpp.
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/op_scope.h"
#include "mica/runtime/runtime.h"

namespace {

void no_kernel(int /*unused*/) {}

}  // namespace

/// Launches what is no kernel: an error that does the context no harm.
extern "C" void mica_failing_launch() {
  const mica::OpScope scope("failing_launch");
  mica::runtime(mica::DeviceKind::cuda).encoder(0)->launch(&no_kernel, 7, 32, 64, 0);
}
