// One function for whoever opens this library; that mica is inside is nobody's business.
#include <mica/core/make_tensor.h>
#include <mica/core/tensor.h>

extern "C" __attribute__((visibility("default"))) double answer() {
  return mica::tensor({40.0, 2.0}).sum().item();
}
