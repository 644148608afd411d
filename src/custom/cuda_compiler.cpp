// Kernels from the sources of users: NVRTC, the cache on disk, launches.
#include <cuda_runtime.h>
#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "mica/core/check.h"
#include "mica/custom/compiler.h"
#include "mica/ops/fused/generator.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/nvrtc.h"
#include "mica/runtime/cuda_library.h"
#include "mica/runtime/disk_cache.h"

namespace mica {
namespace {

/// Behind the user's source: instantiated with a kernel's type, its name in the code tells the
/// types of the parameters, whatever aliases and templates they were written with.
constexpr const char* kProbe = "\ntemplate <class F>\n__global__ void mica_signature() {}\n";

/// Headers of the user's may change, and nothing here would know.
bool may_be_kept(const KernelSource& source) {
  for (const std::string& option : source.options)
    if (option.starts_with("-I") || option.starts_with("--include-path") ||
        option.starts_with("-include") || option.starts_with("--pre-include"))
      return false;
  return true;
}

std::string key_of(const KernelSource& source, const std::string& architecture) {
  std::string key = fmt::format("user {} {} {} {} nvrtc {}", source.name, checksum(source.source),
                                source.source.size(), architecture, cuda::nvrtc_version());
  for (const std::string& option : source.options) key += " " + option;
  for (const EmbeddedHeader& header : embedded_headers()) key += checksum(header.text).substr(0, 8);
  return key;
}

/// "float const*, int" of the name of `mica_signature<void (float const*, int)>`.
std::string parameters_in(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  const std::string text = status == 0 ? name.get() : "";
  constexpr std::string_view kBegin = "mica_signature<void (";
  constexpr std::string_view kEnd = ")>()";
  const size_t begin = text.find(kBegin);
  const size_t end = text.rfind(kEnd);
  check(begin != std::string::npos && end != std::string::npos,
        "NVRTC gave the kernel's type the name '{}'", mangled);
  return text.substr(begin + kBegin.size(), end - begin - kBegin.size());
}

std::string text_of(const KernelCode& code) {
  return code.symbol + "\n" + code.signature + "\n" + code.code;
}

KernelCode code_of(const std::string& text) {
  const size_t first = text.find('\n');
  const size_t second = text.find('\n', first + 1);
  return {text.substr(second + 1), text.substr(0, first),
          text.substr(first + 1, second - first - 1)};
}

KernelCode compile(const KernelSource& source, const std::string& architecture) {
  const std::string key = key_of(source, architecture);
  const std::string file = "kernels/" + checksum(key) + ".cubin";
  const bool keeps = may_be_kept(source);
  if (keeps)
    if (const auto kept = read_cached(file, key)) return code_of(*kept);
  // A function of the source without a word of where it runs is one for the GPU.
  std::vector<std::string> options = {"--device-as-default-execution-space"};
  options.insert(options.end(), source.options.begin(), source.options.end());
  if (const std::string headers = cuda::toolkit_headers(); !headers.empty())
    options.push_back("--include-path=" + headers);
  const size_t name_end = source.name.find('<');
  const cuda::ProgramSource wanted = {
      .source = source.source + kProbe,
      .file = source.name.substr(0, name_end) + ".cu",
      .headers = embedded_headers(),
      .architecture = architecture,
      .options = std::move(options),
      .expressions = {source.name, "mica_signature<decltype(" + source.name + ")>"}};
  cuda::CompiledProgram program;
  try {
    program = cuda::compile_program(wanted);
  } catch (const Error& e) {
    // The name is looked up behind the source, which is right then.
    if (std::string_view(e.what()).find(wanted.file + "(") != std::string_view::npos ||
        std::string_view(e.what()).find("__nv_name_map") == std::string_view::npos)
      throw;
    fail<Error>("the source has no kernel {}", source.name);
  }
  KernelCode code{std::move(program.code), program.names[0], parameters_in(program.names[1])};
  if (keeps) write_cached(file, key, text_of(code));
  return code;
}

void* load(const KernelCode& code) {
  const cudaKernel_t kernel = cuda::load_code(code.code, code.symbol.c_str());
  check(kernel != nullptr, "the driver does not take what NVRTC made of {}", code.symbol);
  return reinterpret_cast<void*>(kernel);
}

dim3 to_dim3(GridSize s) { return {s.x, s.y, s.z}; }

void launch(Encoder& encoder, const KernelLaunch& l, const char* name) {
  if (l.grid.x == 0 || l.grid.y == 0 || l.grid.z == 0) return;
  constexpr uint32_t kDefaultSharedBytes = 48 * 1024;
  cudaError_t code = cudaSuccess;
  if (l.shared_bytes > kDefaultSharedBytes)
    code = cudaFuncSetAttribute(l.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(l.shared_bytes));
  if (code == cudaSuccess)
    code = cudaLaunchKernel(l.kernel, to_dim3(l.grid), to_dim3(l.block),
                            const_cast<void**>(l.arguments), l.shared_bytes, encoder.stream());
  if (code != cudaSuccess) [[unlikely]]
    fail_cuda(code, CallSite::current(),
              fmt::format("launching {} with grid ({}, {}, {}), block ({}, {}, {}), {} bytes of "
                          "shared memory",
                          name, l.grid.x, l.grid.y, l.grid.z, l.block.x, l.block.y, l.block.z,
                          l.shared_bytes));
}

}  // namespace

const CudaCompiler& own_cuda_compiler() {
  static constexpr CudaCompiler compiler = {&compile, &cuda::architecture_of, &load, &launch};
  return compiler;
}

}  // namespace mica
