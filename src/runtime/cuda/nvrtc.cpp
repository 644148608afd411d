#include "mica/runtime/cuda/nvrtc.h"

#include <dlfcn.h>
#include <nvrtc.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>

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
  const std::string reversed(all.rbegin(), all.rend());
  return fmt::format("{} {} {} {} {}{} nvrtc {}", name, checksum(all), checksum(reversed),
                     all.size(), architecture, few_digits ? " few digits" : "", nvrtc_version());
}

}  // namespace

std::string architecture_of(int device) {
  int major = 0;
  int minor = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return fmt::format("sm_{}{}{}", major, minor, major == 9 ? "a" : "");
}

cudaKernel_t load_code(const std::string& code, const char* name) {
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

std::string nvrtc_version() {
  int major = 0;
  int minor = 0;
  check_nvrtc(nvrtcVersion(&major, &minor));
  return fmt::format("{}.{}", major, minor);
}

std::string toolkit_headers() {
  namespace fs = std::filesystem;
  std::vector<fs::path> roots;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = std::getenv(name); root && *root) roots.emplace_back(root);
  Dl_info info{};
  std::error_code error;
  if (dladdr(reinterpret_cast<const void*>(&nvrtcVersion), &info) != 0 && info.dli_fname) {
    const fs::path library = fs::weakly_canonical(info.dli_fname, error);
    if (!error) roots.push_back(library.parent_path().parent_path());
  }
  roots.emplace_back("/usr/local/cuda");
  for (const fs::path& root : roots)
    if (fs::exists(root / "include" / "cuda_fp16.h", error)) return (root / "include").string();
  return {};
}

CompiledProgram compile_program(const ProgramSource& p) {
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const EmbeddedHeader& h : p.headers) {
    names.push_back(h.name);
    texts.push_back(h.text);
  }
  nvrtcProgram raw = nullptr;
  check_nvrtc(nvrtcCreateProgram(&raw, p.source.c_str(), p.file.c_str(),
                                 static_cast<int>(names.size()), texts.data(), names.data()));
  const CompilerProgram program(raw);
  for (const std::string& e : p.expressions) check_nvrtc(nvrtcAddNameExpression(raw, e.c_str()));
  const std::string target = "--gpu-architecture=" + p.architecture;
  std::vector<const char*> options = {target.c_str(), "--std=c++20"};
  for (const std::string& option : p.options) options.push_back(option.c_str());
  const nvrtcResult result =
      nvrtcCompileProgram(raw, static_cast<int>(options.size()), options.data());
  if (result != NVRTC_SUCCESS) {
    size_t size = 0;
    check_nvrtc(nvrtcGetProgramLogSize(raw, &size));
    std::string log(size, '\0');
    check_nvrtc(nvrtcGetProgramLog(raw, log.data()));
    fail<Error>("NVRTC: {} for {}: {}", nvrtcGetErrorString(result), p.architecture, log.c_str());
  }
  CompiledProgram compiled;
  for (const std::string& e : p.expressions) {
    const char* name = nullptr;
    check_nvrtc(nvrtcGetLoweredName(raw, e.c_str(), &name));
    compiled.names.emplace_back(name);
  }
  size_t size = 0;
  check_nvrtc(nvrtcGetCUBINSize(raw, &size));
  compiled.code.resize(size);
  check_nvrtc(nvrtcGetCUBIN(raw, compiled.code.data()));
  return compiled;
}

std::string compile_source(const std::string& source, std::span<const EmbeddedHeader> headers,
                           const std::string& architecture, bool few_digits) {
  // The headers' functions for the host alone are not marked as such.
  std::vector<std::string> options = {"--device-as-default-execution-space"};
  if (few_digits)
    options.insert(options.end(), {"--prec-div=false", "--prec-sqrt=false", "--ftz=true"});
  return compile_program({.source = source,
                          .headers = headers,
                          .architecture = architecture,
                          .options = std::move(options)})
      .code;
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
  if (const auto kept = read_cached(file, key)) kernel = load_code(*kept, name);
  if (!kernel) {
    const std::string code = compile_source(source, headers, architecture, few_digits);
    kernel = load_code(code, name);
    check(kernel != nullptr, "the driver does not take what NVRTC made for {}", architecture);
    write_cached(file, key, code);
  }
  const std::lock_guard lock(mutex);
  return kernels->emplace(key, kernel).first->second;
}

}  // namespace mica::cuda
