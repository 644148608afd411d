#include "mica/ops/anchored/anchored.h"

namespace mica {

#define MICA_CARRYING(name) KernelList name##_carrying_cuda_kernels();
#include "mica/ops/op_list.h"

KernelList anchored_cuda_kernels() {
  KernelList all;
#define MICA_CARRYING(name) \
  for (Kernel & kernel : name##_carrying_cuda_kernels()) all.push_back(kernel);
#include "mica/ops/op_list.h"
  all.push_back(anchored_composed_kernel());
  return all;
}

}  // namespace mica
