#include "mica/runtime/cuda/nvrtc.h"

#include <nvrtc.h>

#include <map>
#include <mutex>
#include <vector>

#include "mica/core/check.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/disk_cache.h"

namespace mica::cuda {
namespace {

void check_nvrtc(nvrtcResult code) {
  check(code == NVRTC_SUCCESS, "NVRTC: {}", nvrtcGetErrorString(code));
}

struct ProgramDeleter {
  void operator()(nvrtcProgram program) const { nvrtcDestroyProgram(&program); }
};
using CompilerProgram = std::unique_ptr<std::remove_pointer_t<nvrtcProgram>, ProgramDeleter>;

/// Everything the machine code depends on: a longer hash of source and headers than the file's name
/// has, and who compiles it for whom.
std::string key_of(const std::string& source, std::span<const EmbeddedHeader> headers,
                   const char* name, const std::string& architecture, bool few_digits) {
  std::string all = source;
  for (const EmbeddedHeader& h : headers) all += h.text;
  int major = 0;
  int minor = 0;
  check_nvrtc(nvrtcVersion(&major, &minor));
  const std::string reversed(all.rbegin(), all.rend());
  return fmt::format("{} {} {} {} {}{} nvrtc {}.{}", name, checksum(all), checksum(reversed),
                     all.size(), architecture, few_digits ? " few digits" : "", major, minor);
}

std::string architecture_of(int device) {
  int major = 0;
  int minor = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  // "a": with the instructions that this architecture alone has.
  return fmt::format("sm_{}{}{}", major, minor, major == 9 ? "a" : "");
}

/// Null where the driver does not take the code.
cudaKernel_t load(const std::string& code, const char* name) {
  cudaLibrary_t library = nullptr;
  if (cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) ==
      cudaSuccess) {
    cudaKernel_t kernel = nullptr;
    cudaFuncAttributes attributes;  // asked for, so that it is loaded now and not while recording
    if (cudaLibraryGetKernel(&kernel, library, name) == cudaSuccess &&
        cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess)
      return kernel;  // the library stays: plans hold the kernel
    cudaLibraryUnload(library);
  }
  cudaGetLastError();
  return nullptr;
}

}  // namespace

std::string compile_source(const std::string& source, std::span<const EmbeddedHeader> headers,
                           const std::string& architecture, bool few_digits) {
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const EmbeddedHeader& h : headers) {
    names.push_back(h.name);
    texts.push_back(h.text);
  }
  nvrtcProgram raw = nullptr;
  check_nvrtc(nvrtcCreateProgram(&raw, source.c_str(), "generated.cu",
                                 static_cast<int>(names.size()), texts.data(), names.data()));
  const CompilerProgram program(raw);
  const std::string target = "--gpu-architecture=" + architecture;
  // The headers' functions for the host alone are not marked as such.
  std::vector<const char*> options = {target.c_str(), "--std=c++20",
                                      "--device-as-default-execution-space"};
  if (few_digits)
    options.insert(options.end(), {"--prec-div=false", "--prec-sqrt=false", "--ftz=true"});
  const nvrtcResult result =
      nvrtcCompileProgram(raw, static_cast<int>(options.size()), options.data());
  if (result != NVRTC_SUCCESS) {
    size_t size = 0;
    check_nvrtc(nvrtcGetProgramLogSize(raw, &size));
    std::string log(size, '\0');
    check_nvrtc(nvrtcGetProgramLog(raw, log.data()));
    fail<Error>("NVRTC: {} for {}: {}", nvrtcGetErrorString(result), architecture, log.c_str());
  }
  size_t size = 0;
  check_nvrtc(nvrtcGetCUBINSize(raw, &size));
  std::string code(size, '\0');
  check_nvrtc(nvrtcGetCUBIN(raw, code.data()));
  return code;
}

cudaKernel_t load_kernel(const std::string& source, std::span<const EmbeddedHeader> headers,
                         const char* name, int device, bool few_digits) {
  static std::mutex mutex;
  static auto* const kernels = new std::map<std::string, cudaKernel_t>;
  const std::string architecture = architecture_of(device);
  const std::string key = key_of(source, headers, name, architecture, few_digits);
  {
    const std::lock_guard lock(mutex);
    if (const auto known = kernels->find(key); known != kernels->end()) return known->second;
  }
  // Not under the lock: several are compiled at a time.
  const std::string file = "kernels/" + checksum(key) + ".cubin";
  cudaKernel_t kernel = nullptr;
  if (const auto kept = read_cached(file, key)) kernel = load(*kept, name);
  if (!kernel) {
    const std::string code = compile_source(source, headers, architecture, few_digits);
    kernel = load(code, name);
    check(kernel != nullptr, "the driver does not take what NVRTC made for {}", architecture);
    write_cached(file, key, code);
  }
  const std::lock_guard lock(mutex);
  return kernels->emplace(key, kernel).first->second;
}

}  // namespace mica::cuda
