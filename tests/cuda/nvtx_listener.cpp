// Opened by tests/unit/named_ranges_test.cpp: what a tool that reads NVTX is, beside the code that
// speaks to it.
#include <nvtx3/nvToolsExt.h>

#include <string>
#include <vector>

#include "mica/runtime/cuda/nvtx.h"

namespace {

std::vector<std::string> g_domains;
std::vector<std::string> g_open;
std::string g_seen;  // a line for each range, with those around it

nvtxDomainHandle_t NVTX_API make_domain(const char* name) {
  g_domains.emplace_back(name);
  return reinterpret_cast<nvtxDomainHandle_t>(g_domains.size());
}

int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  g_open.emplace_back(event->message.ascii);
  g_seen += g_domains.at(reinterpret_cast<size_t>(domain) - 1);
  for (const std::string& range : g_open) g_seen += "/" + range;
  g_seen += "\n";
  return static_cast<int>(g_open.size()) - 1;
}

int NVTX_API pop(nvtxDomainHandle_t) {
  g_open.pop_back();
  return static_cast<int>(g_open.size());
}

}  // namespace

/// NVTX calls it in the library that NVTX_INJECTION64_PATH names.
extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table_of) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size)) return 0;
  *functions[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&make_domain);
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *functions[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  return 1;
}

extern "C" bool mica_wants_nvtx() { return mica::wants_nvtx(); }
extern "C" void mica_push_nvtx(const char* name) { mica::push_nvtx(name); }
extern "C" void mica_pop_nvtx() { mica::pop_nvtx(); }
extern "C" const char* mica_nvtx_seen() { return g_seen.c_str(); }
