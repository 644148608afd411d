// Kernels from C and C++ source for the CPU, by the system's compiler.
#include <cxxabi.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "mica/core/check.h"
#include "mica/custom/kernel.h"
#include "mica/custom/user_kernel.h"
#include "mica/runtime/disk_cache.h"
#include "mica/runtime/runtime.h"

extern "C" char** environ;  // NOLINT(readability-redundant-declaration)

namespace mica::cpu {
namespace {

namespace fs = std::filesystem;

/// Behind the user's source: tells the types of the parameters, and calls with pointers to them.
constexpr const char* kEntry = R"(
#line 1 "mica_entry"
#include <typeinfo>
#include <utility>
namespace {{
template <class R, class... A, std::size_t... i>
void mica_spread(R (*f)(A...), const void* const* a, std::index_sequence<i...>) {{
  f(*static_cast<const A*>(a[i])...);
}}
template <class R, class... A>
void mica_enter(R (*f)(A...), const void* const* a) {{
  mica_spread(f, a, std::index_sequence_for<A...>());
}}
}}
extern "C" void mica_call(const void* const* a) {{ mica_enter(&{0}, a); }}
extern "C" const char* mica_type() {{ return typeid(decltype({0})).name(); }}
)";

/// The program with its first arguments: CXX may be "ccache g++".
using Command = std::vector<std::string>;

Command words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

Command find_compiler() {
  const char* const cxx = std::getenv("CXX");
  Command command = words_of(cxx ? cxx : "");
  Command names = {"c++", "g++", "clang++"};
  if (command.empty()) {
    command = {""};
  } else {
    names = {command[0]};
  }
  const char* const path = std::getenv("PATH");
  for (const std::string& name : names) {
    if (name.find('/') != std::string::npos && access(name.c_str(), X_OK) == 0) return command;
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
      command[0] = fmt::format("{}/{}", folder, name);
      if (!folder.empty() && access(command[0].c_str(), X_OK) == 0) return command;
    }
  }
  fail<Unsupported>("cpu.kernel: {}; kernels from source for the CPU need a C++ compiler",
                    names.size() > 1 ? "neither c++ nor g++ nor clang++ is on PATH"
                                     : fmt::format("there is no '{}', which CXX names", names[0]));
}

/// A folder that is removed with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((fs::temp_directory_path() / "mica-XXXXXX").string()) {
    check<IoError>(mkdtemp(path_.data()) != nullptr, "cpu.kernel: cannot make a folder in {}",
                   fs::temp_directory_path().string());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string read_all(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Runs a program with its messages in a file; whether it ended well.
bool run(const Command& command, const std::string& messages) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, messages.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int code =
      posix_spawn(&child, command[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  check<IoError>(code == 0, "cpu.kernel: {} cannot be started", command[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// What the compiler says of its version; it may have been replaced since a kernel was kept.
std::string version_of(Command compiler) {
  const TemporaryFolder folder;
  compiler.emplace_back("--version");
  run(compiler, folder / "version");
  return read_all(folder / "version");
}

struct HostCode {
  std::string library;
  bool may_be_kept;
};

HostCode compile(const KernelSource& source, const Command& compiler) {
  const TemporaryFolder folder;
  const std::string file = folder / "kernel.cpp";
  const std::string shown = source.name.substr(0, source.name.find('<')) + ".c";
  std::ofstream(file) << fmt::format("#line 1 \"{}\"\n", shown) << source.source
                      << fmt::format(fmt::runtime(kEntry), source.name);
  Command command = compiler;
  command.insert(command.end(),
                 {"-std=c++17", "-O3", "-shared", "-fPIC", "-w", "-Drestrict=__restrict__"});
  command.insert(command.end(), source.options.begin(), source.options.end());
  command.insert(command.end(), {"-MMD", "-MF", folder / "read", file, "-o", folder / "kernel.so"});
  const bool ended = run(command, folder / "messages");
  check(ended, "cpu.kernel: {} does not take the source:\n{}", compiler[0],
        read_all(folder / "messages"));
  // "kernel.so: kernel.cpp" and the headers but the system's. Those may change, and nothing here
  // would know; nor on which other processors a cache in a shared folder is read.
  const bool alone = words_of(read_all(folder / "read")).size() == 2;
  const bool native = std::ranges::any_of(
      source.options, [](const std::string& option) { return option.ends_with("=native"); });
  return {read_all(folder / "kernel.so"), alone && !native};
}

/// From memory, so that nobody can have put another file in its place. The file stays open: the
/// dynamic linker knows libraries by their names, which no other may have.
void* open_library(const std::string& bytes) {
  const int file = memfd_create("mica_kernel", MFD_CLOEXEC);
  check<IoError>(file >= 0, "cpu.kernel: no memory file can be made");
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = write(file, bytes.data() + at, bytes.size() - at);
    if (n <= 0) break;
    at += static_cast<size_t>(n);
  }
  void* const library =
      dlopen(fmt::format("/proc/self/fd/{}", file).c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string reason = library ? "" : dlerror();
  check<IoError>(library != nullptr, "cpu.kernel: {}", reason);
  return library;
}

/// "float const*, int" of the name of `void (float const*, int)`.
std::string parameters_in(const char* mangled, const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  const std::string type = status == 0 ? text.get() : "";
  constexpr std::string_view kBegin = "void (";
  check(type.starts_with(kBegin) && type.ends_with(')'), "{}: a kernel returns void, got {}", name,
        type);
  return type.substr(kBegin.size(), type.size() - kBegin.size() - 1);
}

class HostProvider : public KernelProvider {
 public:
  explicit HostProvider(const KernelSource& source) {
    const Command compiler = find_compiler();
    std::string key = fmt::format("host {} {} {} {}", source.name, checksum(source.source),
                                  source.source.size(), checksum(version_of(compiler)));
    for (const Command& words : {compiler, source.options})
      for (const std::string& word : words) key += " " + word;
    const std::string file = "kernels/" + checksum(key) + ".host";
    std::string code;
    if (auto kept = read_cached(file, key)) {
      code = std::move(*kept);
    } else {
      HostCode made = compile(source, compiler);
      code = std::move(made.library);
      if (made.may_be_kept) write_cached(file, key, code);
    }
    void* const library = open_library(code);
    call_ = dlsym(library, "mica_call");
    const auto type = reinterpret_cast<const char* (*)()>(dlsym(library, "mica_type"));
    check(call_ && type, "{}: what {} made has no entry", source.name, compiler[0]);
    signature_ = parameters_in(type(), source.name);
  }
  std::string signature() override { return signature_; }
  void* on(int /*device*/) override { return call_; }
  void launch(const Call& /*call*/, void* kernel, const LaunchParams& /*params*/,
              const void* const* arguments, const char* /*name*/) const override {
    reinterpret_cast<void (*)(const void* const*)>(kernel)(arguments);
  }

 private:
  void* call_ = nullptr;
  std::string signature_;
};

}  // namespace

Kernel::Kernel(const std::string& source, const std::string& name,
               const cuda::KernelOptions& options)
    : kernel_(&interned_kernel({source, name, options.options}, DeviceKind::cpu, options.strided,
                               [](const KernelSource& s) -> std::unique_ptr<KernelProvider> {
                                 return std::make_unique<HostProvider>(s);
                               })) {}

const std::string& Kernel::name() const { return kernel_->name(); }
const std::vector<KernelParameter>& Kernel::parameters() const { return kernel_->parameters(); }

void Kernel::launch(std::span<const KernelArgument> arguments) const {
  kernel_->launch({}, arguments);
}

}  // namespace mica::cpu
