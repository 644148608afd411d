#include <cuda_runtime.h>

#include <cstdio>
#include <exception>
#include <string>

#include "mica/runtime/cuda/nvtx.h"
#include "mica/runtime/cuda/runtime.h"
#include "mica/runtime/cuda/tracer.h"
#include "mica/runtime/cuda_library.h"

namespace mica {
namespace {

/// Why there is no device, in one sentence; empty when there is one.
std::string find_devices(int& count) {
  count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return {};
  if (code == cudaSuccess || code == cudaErrorNoDevice) return "the NVIDIA driver finds no GPU";
  if (code == cudaErrorInsufficientDriver) {
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
      return "no NVIDIA driver is installed";
    return "the NVIDIA driver is too old: it supports CUDA " + std::to_string(driver / 1000) + "." +
           std::to_string(driver % 1000 / 10) + ", and mica was built with CUDA " +
           std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
  }
  return std::string("CUDA cannot start: ") + cudaGetErrorString(code);
}

// Never destroyed: tensors that live until the process ends still give their memory back to it.
CudaRuntime* g_runtime = nullptr;

void* current_stream(int index) {
  return static_cast<CudaStream&>(*g_runtime->current_stream(index)).encoder.stream();
}
void order_streams(int index, void* earlier, void* later) {
  g_runtime->order_streams(index, static_cast<cudaStream_t>(earlier),
                           static_cast<cudaStream_t>(later));
}
std::vector<MemoryBlock> memory_blocks(int index) { return g_runtime->memory_blocks(index); }
void record_use(int index, void* data, void* stream) {
  g_runtime->record_use(index, data, static_cast<cudaStream_t>(stream));
}

}  // namespace
}  // namespace mica

extern "C" bool mica_cuda_open(mica::CudaLibrary* out, char* reason, size_t reason_size) {
  try {
    out->compiler = &mica::own_cuda_compiler();
    int count = 0;
    const std::string why = mica::find_devices(count);
    if (!why.empty()) {
      std::snprintf(reason, reason_size, "%s", why.c_str());
      return false;
    }
    if (mica::g_runtime == nullptr) mica::g_runtime = new mica::CudaRuntime(count);
    const bool nvtx = mica::wants_nvtx();
    *out = {.runtime = mica::g_runtime,
            .attach_kernels = &mica::attach_cuda_kernels,
            .architectures = MICA_CUDA_ARCHITECTURES,
            .current_stream = &mica::current_stream,
            .order_streams = &mica::order_streams,
            .record_use = &mica::record_use,
            .tracer = &mica::cuda::tracer(),
            .memory_blocks = &mica::memory_blocks,
            .push_range = nvtx ? &mica::push_nvtx : nullptr,
            .pop_range = nvtx ? &mica::pop_nvtx : nullptr,
            .compiler = &mica::own_cuda_compiler(),
            .make_nccl_engine = &mica::own_nccl_engine};
    return true;
  } catch (const std::exception& e) {
    std::snprintf(reason, reason_size, "%s", e.what());
    return false;
  }
}
