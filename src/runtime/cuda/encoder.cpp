#include "mica/runtime/cuda/encoder.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "mica/core/check.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/fault_kinds.h"
#include "mica/runtime/cuda/lost.h"
#include "mica/runtime/cuda/programmatic_launch.h"
#include "mica/runtime/host_waits.h"
#include "mica/runtime/op_scope.h"

namespace mica {
namespace {

/// What a kernel is called in its source.
std::string kernel_name(const void* kernel) {
  const char* mangled = nullptr;
  if (cudaFuncGetName(&mangled, kernel) != cudaSuccess || !mangled) {
    cudaGetLastError();
    return "an unnamed kernel";
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : mangled;
}

/// Shared memory a kernel may use without asking for more.
constexpr size_t kDefaultSharedBytes = 48 * 1024;

/// All encoders, to tell what they ran.
struct Registry {
  std::mutex mutex;
  std::vector<Encoder*> encoders;
};

Registry& registry() {
  static auto* const r = new Registry;  // outlives every encoder
  return *r;
}

/// Whether a device has programmatic dependent launch: it can begin a launch before the one it
/// follows has ended.
bool has_programmatic_launch(int device) {
  thread_local std::pair<int, bool> known{-1, false};
  if (known.first != device) {
    int major = 0;
    check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    const char* v = std::getenv("MICA_PROGRAMMATIC_LAUNCH");
    known = {device, major >= 9 && !(v && std::string_view(v) == "0")};
  }
  return known.second;
}

thread_local int g_programmatic = 0;  // scopes that are open

/// A fault's axis where the fault stays, and `op` is the whole message.
constexpr int64_t kLost = -2;
/// Faults with errors of their own.
struct FaultKinds {
  std::mutex mutex;
  std::vector<void (*)(const Fault&)> raise;
};

FaultKinds& fault_kinds() {
  static auto* const kinds = new FaultKinds;
  return *kinds;
}
constexpr int64_t kFirstKind = -3;  // the next is -4

std::atomic<bool> g_cudnn_used{false};
std::atomic<bool> g_cublas_lt_used{false};

}  // namespace

int64_t add_fault_kind(void (*raise)(const Fault& fault)) {
  FaultKinds& kinds = fault_kinds();
  const std::lock_guard lock(kinds.mutex);
  kinds.raise.push_back(raise);
  return kFirstKind - static_cast<int64_t>(kinds.raise.size() - 1);
}

ProgrammaticLaunch::ProgrammaticLaunch() { ++g_programmatic; }
ProgrammaticLaunch::~ProgrammaticLaunch() { --g_programmatic; }
bool ProgrammaticLaunch::active() { return g_programmatic > 0; }

Encoder::Encoder(int device) : device_(device) {
  check_cuda(cudaSetDevice(device));
  check_cuda(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device));
  void* shared = nullptr;
  check_cuda(cudaHostAlloc(&shared, sizeof(Fault), cudaHostAllocMapped | cudaHostAllocPortable));
  fault_.reset(new (shared) Fault);
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.encoders.push_back(this);
}

Encoder::~Encoder() {
  {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    std::erase(r.encoders, this);
  }
  cudnn_.reset();
  cublas_lt_.reset();
  cudaStreamDestroy(stream_);
}

CudnnHandle Encoder::cudnn() {
  std::unique_lock alone(cudnn_mutex_);
  if (!cudnn_) {
    cudnnHandle_t handle = nullptr;
    check_cudnn(cudnnCreate(&handle));
    cudnn_.reset(handle);
    check_cudnn(cudnnSetStream(handle, stream_));
    g_cudnn_used = true;
  }
  return {std::move(alone), cudnn_.get()};
}

cublasLtHandle_t Encoder::cublas_lt() {
  std::call_once(cublas_lt_once_, [this] {
    cublasLtHandle_t handle = nullptr;
    check_cublas(cublasLtCreate(&handle));
    cublas_lt_.reset(handle);
    g_cublas_lt_used = true;
  });
  return cublas_lt_.get();
}

bool Encoder::launches_block() {
  static const bool on = [] {
    const char* v = std::getenv("MICA_LAUNCH_BLOCKING");
    return v && std::string_view(v) == "1";
  }();
  return on;
}

void Encoder::remember(const char* op, const void* kernel) {
  if (recording()) return;  // it does not run now
  const uint64_t n = launches_.load(std::memory_order_relaxed);
  Launch& launch = recent_[n % kRemembered];
  launch.op.store(op, std::memory_order_relaxed);
  launch.kernel.store(kernel, std::memory_order_relaxed);
  launches_.store(n + 1, std::memory_order_relaxed);
}

void Encoder::launch_packed(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
                            unsigned cluster, const void* const* arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  cudaError_t code = cudaSuccess;
  if (shared_bytes > kDefaultSharedBytes)
    code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(shared_bytes));
  if (code == cudaSuccess) {
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream_;
    std::array<cudaLaunchAttribute, 2> attributes{};
    config.attrs = attributes.data();
    // Blocks that wait with much shared memory keep others out that could run.
    if (ProgrammaticLaunch::active() && shared_bytes <= kDefaultSharedBytes &&
        has_programmatic_launch(device_)) {
      cudaLaunchAttribute& dependent = attributes[config.numAttrs++];
      dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      dependent.val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
      cudaLaunchAttribute& clusters = attributes[config.numAttrs++];
      clusters.id = cudaLaunchAttributeClusterDimension;
      clusters.val.clusterDim.x = cluster;
      clusters.val.clusterDim.y = 1;
      clusters.val.clusterDim.z = 1;
    }
    code = cudaLaunchKernelExC(&config, kernel, const_cast<void**>(arguments));
  }
  if (code != cudaSuccess) [[unlikely]] {
    fail_cuda(
        code, CallSite::current(),
        fmt::format(
            "launching {} with grid ({}, {}, {}), block ({}, {}, {}), {} bytes of shared memory",
            kernel_name(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes));
  }
  remember(current_op(), kernel);
  if (launches_block() && !recording()) [[unlikely]]
    synchronize();
}

void Encoder::op_launched(const char* op) {
  const uint64_t n = launches_.load(std::memory_order_relaxed);
  if (n == 0 || recent_[(n - 1) % kRemembered].op.load(std::memory_order_relaxed) != op)
    remember(op, nullptr);
  if (launches_block() && !recording()) [[unlikely]]
    synchronize();
}

void Encoder::synchronize() {
  count_host_wait(DeviceKind::cuda);
  const cudaError_t code = cudaStreamSynchronize(stream_);
  if (code != cudaSuccess) [[unlikely]]
    fail_cuda(code, CallSite::current(), "waiting for the stream");
  launches_.store(0, std::memory_order_relaxed);
  raise_fault();
}

void Encoder::raise_fault() {
  if (!fault_->op) [[likely]]
    return;
  if (fault_->axis == kLost) throw DeviceError(fault_->op);
  const Fault f = [&] {
    const std::lock_guard lock(fault_mutex_);
    return std::exchange(*fault_, Fault{});
  }();
  if (!f.op) return;  // another thread was told
  if (f.axis <= kFirstKind) {
    const auto raise = [&] {
      FaultKinds& kinds = fault_kinds();
      const std::lock_guard lock(kinds.mutex);
      return kinds.raise.at(static_cast<size_t>(kFirstKind - f.axis));
    }();
    raise(f);
  }
  const std::string_view text = f.op;  // with places for the three numbers it is the message
  if (text.find('{') != text.npos)
    throw IndexError(fmt::format(fmt::runtime(text), f.index, f.axis, f.size));
  if (f.axis < 0) throw Error(f.op);
  fail<IndexError>("{}: index {} is out of range for axis {} of size {}", f.op, f.index, f.axis,
                   f.size);
}

void Encoder::begin_recording(const Encoder& replays_on) {
  if (g_cudnn_used) cudnn();
  if (g_cublas_lt_used) cublas_lt();
  replays_on_ = &replays_on;
}

void note_lost(int device, const std::string& why) {
  static std::mutex mutex;
  static auto* const texts = new std::set<std::string>;  // faults point to them
  const std::lock_guard once(mutex);
  const char* text = texts->insert(why).first->c_str();
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  for (Encoder* encoder : r.encoders) {
    if (encoder->device() != device || encoder->recording()) continue;
    Fault* fault = encoder->fault();
    fault->axis = kLost;
    std::atomic_ref<const char*>(fault->op).store(text, std::memory_order_release);
  }
}

std::string Encoder::recent_work() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  std::string text;
  for (const Encoder* encoder : r.encoders) {
    const uint64_t n = encoder->launches_.load(std::memory_order_relaxed);
    for (uint64_t i = 1; i <= std::min(n, kRemembered); ++i) {
      const Launch& launch = encoder->recent_[(n - i) % kRemembered];
      const char* op = launch.op.load(std::memory_order_relaxed);
      const void* kernel = launch.kernel.load(std::memory_order_relaxed);
      text +=
          text.empty() ? "; ops sent since the device was last waited for, newest first: " : ", ";
      text += op ? op : "no op";
      if (kernel) text += fmt::format(" ({})", kernel_name(kernel));
    }
  }
  if (!text.empty() && !launches_block()) text += "; MICA_LAUNCH_BLOCKING=1 finds the one";
  return text;
}

}  // namespace mica
