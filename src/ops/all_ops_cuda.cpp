// Gives each operator its CUDA kernels; called once, when libmica_cuda has been opened.
#include "mica/op/op_def.h"
#include "mica/op/tuning.h"
#include "mica/runtime/cuda_library.h"

namespace mica {

#define MICA_OP(name) KernelList name##_cuda_kernels();
#include "mica/ops/op_list.h"

void attach_cuda_kernels() {
  set_tuning_environment(DeviceKind::cuda, cuda_tuning_environment);
  constexpr auto kCuda = static_cast<size_t>(DeviceKind::cuda);
#define MICA_OP(name) find_op(#name).kernels[kCuda] = name##_cuda_kernels();
#include "mica/ops/op_list.h"
}

}  // namespace mica
