#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mica {

namespace distributed {
class Engine;
struct NcclStart;  // distributed/nccl/engine.h
}  // namespace distributed

class DeviceRuntime;
class DeviceTracer;   // runtime/device_trace.h
struct CudaCompiler;  // custom/compiler.h

/// A block of memory that is in use, or kept to be.
struct MemoryBlock {
  const void* data = nullptr;
  size_t bytes = 0;
  bool begins_segment = false;  ///< what the driver gave in one piece
  bool free = false;
  const char* op = nullptr;  ///< for which it was taken; null: outside of ops
  uint64_t number = 0;       ///< MemoryStats::allocations when it was
};

/// What libmica_cuda brings.
struct CudaLibrary {
  DeviceRuntime* runtime = nullptr;
  void (*attach_kernels)() = nullptr;  ///< gives each op its CUDA kernels
  /// The GPUs its kernels were compiled for: "sm_80, sm_90 and PTX for newer ones".
  const char* architectures = "";

  // For memory that is shared with other libraries; streams are cudaStream_t.
  /// The calling thread's stream on a device.
  void* (*current_stream)(int index) = nullptr;
  /// What is sent to `later` from now on runs after what `earlier` has been sent.
  void (*order_streams)(int index, void* earlier, void* later) = nullptr;
  /// The block at `data` is used on a stream of somebody else, which lives as long as the process.
  void (*record_use)(int index, void* data, void* stream) = nullptr;

  /// Sees what the devices do.
  DeviceTracer* tracer = nullptr;
  /// Every block that a device's allocator has, by address.
  std::vector<MemoryBlock> (*memory_blocks)(int index) = nullptr;
  /// Ranges in the timelines of other profilers; null where nobody wants them.
  void (*push_range)(const char* name) = nullptr;
  void (*pop_range)() = nullptr;

  /// Compiles and launches sources of users. It is there without a GPU too.
  const CudaCompiler* compiler = nullptr;

  /// The engine of a group of processes.
  std::shared_ptr<distributed::Engine> (*make_nccl_engine)(const distributed::NcclStart&) = nullptr;
};

/// The handle of CUDA's default stream, which exists without being made; other libraries work on it
/// unless they are told otherwise.
inline void* cuda_default_stream() { return reinterpret_cast<void*>(1); }

/// Opens libmica_cuda when first called. Raises DeviceError with the reason when CUDA cannot be
/// used. The library is $MICA_CUDA_LIBRARY, a path from the root, else the one beside libmica.
const CudaLibrary& cuda_library();
/// Its compiler, which needs no GPU. Raises DeviceError with the reason when the library cannot be
/// opened.
const CudaCompiler& cuda_compiler();

/// Brings steps, passes, modules, ops and named ranges to other profilers from now on. Implemented
/// in profile/named_ranges.cpp.
void name_ranges_for(const CudaLibrary& library);
/// Implemented in ops/all_ops_cuda.cpp.
void attach_cuda_kernels();
/// Implemented in custom/cuda_compiler.cpp.
const CudaCompiler& own_cuda_compiler();
/// Implemented in distributed/nccl/cuda_engine.cpp.
std::shared_ptr<distributed::Engine> own_nccl_engine(const distributed::NcclStart& start);

}  // namespace mica

/// The one symbol libmica looks up in libmica_cuda. False, with a reason in one sentence, when
/// there is no driver or no device.
extern "C" bool mica_cuda_open(mica::CudaLibrary* out, char* reason, size_t reason_size);
