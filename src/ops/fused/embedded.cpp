#include "mica/ops/fused/generator.h"

namespace mica {

std::span<const EmbeddedHeader> embedded_headers() {
#include "functor_headers.h"
  return kHeaders;
}

}  // namespace mica
