#include "mica/ops/conv2d_act/kernels.h"

namespace mica {

KernelList conv2d_act_cuda_kernels() { return {conv2d_act_composed_kernel()}; }

}  // namespace mica
