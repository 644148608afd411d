#include "mica/runtime/cuda/encoder.h"

#include <cxxabi.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "mica/core/check.h"
#include "mica/runtime/cuda/check.h"

namespace mica {
namespace {

/// What a kernel is called in its source.
std::string kernel_name(const void* kernel) {
  const char* mangled = nullptr;
  if (cudaFuncGetName(&mangled, kernel) != cudaSuccess || !mangled) return "an unnamed kernel";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : mangled;
}

/// Names a launch in a profiler's timeline when MICA_NVTX is set.
class LaunchRange {
 public:
  explicit LaunchRange(const void* kernel) {
    if (enabled()) nvtxRangePushA(kernel_name(kernel).c_str());
  }
  ~LaunchRange() {
    if (enabled()) nvtxRangePop();
  }
  LaunchRange(const LaunchRange&) = delete;
  LaunchRange& operator=(const LaunchRange&) = delete;

 private:
  static bool enabled() {
    static const bool on = std::getenv("MICA_NVTX") != nullptr;
    return on;
  }
};

/// Shared memory a kernel may use without asking for more.
constexpr size_t kDefaultSharedBytes = 48 * 1024;

}  // namespace

Encoder::Encoder(int device) : device_(device) {
  check_cuda(cudaSetDevice(device));
  check_cuda(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device));
  void* shared = nullptr;
  check_cuda(cudaHostAlloc(&shared, sizeof(Fault), cudaHostAllocMapped | cudaHostAllocPortable));
  fault_.reset(new (shared) Fault);
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

Encoder::~Encoder() {
  cudnn_.reset();
  cublas_lt_.reset();
  cudaStreamDestroy(stream_);
}

cudnnHandle_t Encoder::cudnn() {
  if (!cudnn_) {
    cudnnHandle_t handle = nullptr;
    check_cudnn(cudnnCreate(&handle));
    cudnn_.reset(handle);
    check_cudnn(cudnnSetStream(handle, stream_));
  }
  return cudnn_.get();
}

cublasLtHandle_t Encoder::cublas_lt() {
  if (!cublas_lt_) {
    cublasLtHandle_t handle = nullptr;
    check_cublas(cublasLtCreate(&handle));
    cublas_lt_.reset(handle);
  }
  return cublas_lt_.get();
}

void Encoder::launch_packed(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
                            const void* const* arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const LaunchRange range(kernel);
  if (shared_bytes > kDefaultSharedBytes) {
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared_bytes)));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream_;
  const cudaError_t code = cudaLaunchKernelExC(&config, kernel, const_cast<void**>(arguments));
  if (code != cudaSuccess) [[unlikely]] {
    fail_cuda(
        code, CallSite::current(),
        fmt::format(
            "launching {} with grid ({}, {}, {}), block ({}, {}, {}), {} bytes of shared memory{}",
            kernel_name(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes,
            launches_since_sync()));
  }
  recent_[launches_++ % kRemembered] = kernel;
}

void Encoder::synchronize() {
  const cudaError_t code = cudaStreamSynchronize(stream_);
  if (code != cudaSuccess) [[unlikely]]
    fail_cuda(code, CallSite::current(), "waiting for the stream" + launches_since_sync());
  launches_ = 0;
  raise_fault();
}

void Encoder::raise_fault() {
  if (!fault_->op) [[likely]]
    return;
  const Fault f = std::exchange(*fault_, Fault{});
  if (f.axis < 0) throw Error(f.op);
  fail<IndexError>("{}: index {} is out of range for axis {} of size {}", f.op, f.index, f.axis,
                   f.size);
}

std::string Encoder::launches_since_sync() const {
  if (launches_ == 0) return {};
  const uint64_t count = std::min<uint64_t>(launches_, kRemembered);
  std::string text = "; the last launches since the stream was waited for, newest first: ";
  for (uint64_t i = 1; i <= count; ++i) {
    if (i > 1) text += ", ";
    text += kernel_name(recent_[(launches_ - i) % kRemembered]);
  }
  return text;
}

}  // namespace mica
