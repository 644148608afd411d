// Opens libmica_cuda when a CUDA device is first asked for, so that a program that stays on the CPU
// loads nothing of CUDA.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "mica/core/check.h"
#include "mica/runtime/cuda_library.h"
#include "mica/runtime/device_trace.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

std::atomic<DeviceTracer*> g_tracer{nullptr};  // null until the library is open

struct Opened {
  CudaLibrary library;
  std::string reason;  ///< why it could not be opened; empty when it was
};

#ifdef MICA_STATIC_CUDA

decltype(&mica_cuda_open) find_entry(std::string& /*reason*/) { return &mica_cuda_open; }

#else

constexpr const char* kLibraryName = "libmica_cuda.so";

/// The library beside the file this code was loaded from; empty when there is none.
std::string library_beside() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&library_beside), &info) == 0 || !info.dli_fname)
    return {};
  std::error_code error;
  const auto file = std::filesystem::weakly_canonical(info.dli_fname, error);
  if (error) return {};
  const auto path = file.parent_path() / kLibraryName;
  return std::filesystem::exists(path, error) ? path.string() : std::string();
}

decltype(&mica_cuda_open) find_entry(std::string& reason) {
  const char* wanted = std::getenv("MICA_CUDA_LIBRARY");
  const std::string path = wanted && *wanted ? wanted : library_beside();
  // The dynamic linker would look for a name without a folder wherever the environment says.
  if (path.empty()) {
    reason = fmt::format("mica was built without CUDA ({} is not beside libmica)", kLibraryName);
    return nullptr;
  }
  if (!path.starts_with('/')) {
    reason = fmt::format("MICA_CUDA_LIBRARY: expected a path from the root, got '{}'", path);
    return nullptr;
  }
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    reason = fmt::format("libmica_cuda could not be loaded: {}", dlerror());
    return nullptr;
  }
  void* entry = dlsym(handle, "mica_cuda_open");
  if (!entry) reason = fmt::format("{} is no CUDA library of mica", path);
  return reinterpret_cast<decltype(&mica_cuda_open)>(entry);
}

#endif

Opened open_library() {
  Opened opened;
  const auto entry = find_entry(opened.reason);
  if (!entry) return opened;
  char reason[512] = "";
  if (!entry(&opened.library, reason, sizeof reason)) {
    opened.reason = reason[0] ? reason : "libmica_cuda gave no reason";
    return opened;
  }
  opened.library.attach_kernels();
  g_tracer = opened.library.tracer;
  if (opened.library.push_range) name_ranges_for(opened.library);
  return opened;
}

const Opened& opened() {
  static const Opened once = open_library();
  return once;
}

}  // namespace

const CudaLibrary& cuda_library() {
  const Opened& o = opened();
  check<DeviceError>(o.reason.empty(), "cuda: {}", o.reason);
  return o.library;
}

const CudaCompiler& cuda_compiler() {
  const Opened& o = opened();
  check<DeviceError>(o.library.compiler != nullptr, "cuda: {}", o.reason);
  return *o.library.compiler;
}

std::string cuda_unavailable_reason() { return opened().reason; }

std::atomic<int64_t> g_device_tracing{0};

DeviceTracer* cuda_tracer() { return g_tracer; }

bool cuda_available() { return opened().reason.empty(); }

}  // namespace mica
