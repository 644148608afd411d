#include "mica/custom/load_ops.h"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

#include "mica/core/check.h"
#include "mica/op/added_functions.h"

namespace mica {

const OpDef& OpRegistry::add(OpDef op) {
  const std::string name = op.name;
  return *ops.emplace_back(&register_op(name, std::move(op)));
}

const Function& OpRegistry::add(Function function) {
  return *functions.emplace_back(&register_function(std::move(function)));
}

const OpRegistry& load_ops(const std::filesystem::path& path) {
  static std::mutex mutex;
  static auto* const opened = new std::map<std::string, std::unique_ptr<OpRegistry>>;
  std::error_code error;
  const std::string file = std::filesystem::canonical(path, error).string();
  check<IoError>(!error, "load_ops: {}: {}", path.string(), error.message());
  const std::lock_guard lock(mutex);
  auto& registry = (*opened)[file];
  if (registry) return *registry;
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  check<IoError>(library != nullptr, "load_ops: {}", library ? "" : dlerror());
  const auto abi = reinterpret_cast<const char* (*)()>(dlsym(library, "mica_ops_abi"));
  const auto enter = reinterpret_cast<void (*)(OpRegistry&)>(dlsym(library, "mica_register_ops"));
  check<IoError>(abi && enter, "load_ops: {} registers no operators: it has no MICA_REGISTER_OPS",
                 file);
  check<Unsupported>(abi() == ops_abi(), "load_ops: {} was built for {}; this is {}", file, abi(),
                     ops_abi());
  // What it registers before it fails stays; so the library does too.
  auto made = std::make_unique<OpRegistry>();
  enter(*made);
  registry = std::move(made);
  return *registry;
}

}  // namespace mica
