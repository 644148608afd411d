#include "mica/runtime/cuda/nvtx.h"

#include <nvtx3/nvToolsExt.h>

#include <cstdlib>
#include <string_view>

namespace mica {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t mica = nvtxDomainCreateA("mica");
  return mica;
}

}  // namespace

bool wants_nvtx() {
  // The variable by which a tool makes itself known to NVTX.
  const bool attached = std::getenv("NVTX_INJECTION64_PATH") != nullptr;
  const char* asked = std::getenv("MICA_NVTX");
  return asked ? std::string_view(asked) == "1" : attached;
}

void push_nvtx(const char* name) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &event);
}

void pop_nvtx() { nvtxDomainRangePop(domain()); }

}  // namespace mica
