// Opened by tests/unit/cuda_runtime_test.cpp.
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/op_scope.h"
#include "mica/runtime/runtime.h"

namespace {

__global__ void nothing() {}

}  // namespace

/// Launches blocks of so many threads; the driver refuses more than 1024.
extern "C" void mica_failing_launch(unsigned threads) {
  const mica::OpScope scope("failing_launch");
  mica::Encoder* encoder = mica::runtime(mica::DeviceKind::cuda).encoder(0);
  // The encoder has a CUDA runtime of its own, which does not know the kernel by its function.
  cudaKernel_t kernel = nullptr;
  mica::check_cuda(cudaGetKernel(&kernel, nothing));
  encoder->launch(reinterpret_cast<void (*)()>(kernel), 7, threads, 64);
}
