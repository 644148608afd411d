#include "mica/runtime/cuda/cupti.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "mica/core/check.h"

namespace mica::cuda {
namespace {

constexpr const char* kName = "libcupti.so.13";

/// Toolkits keep it where the linker does not look, or where only their own programs do.
std::vector<std::string> places() {
  std::vector<std::string> all = {kName};
  std::vector<std::string> roots;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = std::getenv(variable); root && *root == '/') roots.emplace_back(root);
  roots.emplace_back("/usr/local/cuda");
  for (const std::string& root : roots)
    for (const char* folder : {"/lib64/", "/extras/CUPTI/lib64/"})
      all.push_back(root + folder + kName);
  return all;
}

}  // namespace

const Cupti& Cupti::get() {
  static const Cupti* const library = new Cupti;  // its threads may run when the program ends
  return *library;
}

Cupti::Cupti() {
  if (const char* wanted = std::getenv("MICA_CUPTI"); wanted && std::string(wanted) == "0") {
    missing = "MICA_CUPTI=0 asks to do without CUPTI";
    return;
  }
  void* handle = nullptr;
  for (const std::string& place : places())
    if (!handle) handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    missing = fmt::format("CUPTI was not found: {} is not where libraries are looked for", kName);
    return;
  }
  const auto find = [&]<class F>(F& f, const char* name) {
    f = reinterpret_cast<F>(dlsym(handle, name));
    if (!f && missing.empty()) missing = fmt::format("this CUPTI has no {}", name);
  };
  find(get_version, "cuptiGetVersion");
  find(get_result_string, "cuptiGetResultString");
  find(subscribe, "cuptiSubscribe");
  find(unsubscribe, "cuptiUnsubscribe");
  find(enable_callback, "cuptiEnableCallback");
  find(register_timestamp_callback, "cuptiActivityRegisterTimestampCallback");
  find(register_callbacks, "cuptiActivityRegisterCallbacks");
  find(enable, "cuptiActivityEnable");
  find(disable, "cuptiActivityDisable");
  find(flush_all, "cuptiActivityFlushAll");
  find(get_next_record, "cuptiActivityGetNextRecord");
  find(get_dropped, "cuptiActivityGetNumDroppedRecords");
  find(push_external, "cuptiActivityPushExternalCorrelationId");
  find(pop_external, "cuptiActivityPopExternalCorrelationId");
  find(get_node_id, "cuptiGetGraphNodeId");
}

std::string Cupti::words(CUptiResult result) const {
  const char* text = nullptr;
  return get_result_string(result, &text) == CUPTI_SUCCESS && text ? text : "an unknown error";
}

}  // namespace mica::cuda
